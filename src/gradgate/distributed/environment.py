"""Check the environment variables by which torchrun and accelerate decide how a process trains.

accelerate reads them when the model is built: an odd one then ends in an error without its name, and one of another
program, such as a number format, would silently replace a setting of gradgate.
"""

from __future__ import annotations

import os
import sys

from gradgate.errors import UsageError

_LARGEST = 10**9  # of a number of processes
_LAST_PORT = 65535
_TRUE, _FALSE = ("1", "true", "t", "yes", "y", "on"), ("0", "false", "f", "no", "n", "off")
_FLAGS = ("ACCELERATE_USE_CPU", "ACCELERATE_DEBUG_MODE", "ACCELERATE_CPU_AFFINITY", "FORK_LAUNCHED")
_ENGINES = {
    "ACCELERATE_USE_FSDP": "FSDP",
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "a parallelism of its own",
}
_OF_MPI = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_LAUNCHED = "torchrun and accelerate launch set all of these; for one process, unset WORLD_SIZE, RANK and LOCAL_RANK."


def whole_number(name: str, default: str, *, least: int = 0, most: int | None = None) -> int:
    """Return the number in an environment variable.

    Args:
        name: of the variable.
        default: its text if it is not set.
        least: the smallest number that is expected.
        most: the largest one.

    Raises:
        UsageError: if it is another text or number.
    """
    text = os.environ.get(name, default)
    largest = _LARGEST if most is None else most
    if text.isascii() and text.isdigit() and len(text) <= len(str(_LARGEST)) and least <= int(text) <= largest:
        return int(text)
    expected = f"from {least} to {most}" if most is not None else f"of at least {least}"
    raise UsageError(f"{name}={text[:20]!r} in the environment: expected a whole number {expected}. {_LAUNCHED}")


def check_environment(precision: str | None = None, accumulate: int | None = None) -> None:
    """Refuse variables that accelerate cannot read, or that would replace a setting.

    Args:
        precision: of the run; None for several runs, which each check their own.
        accumulate: micro-batches of the run for one step, as ``precision``.

    Raises:
        UsageError: naming the variable, what is expected, and the setting that it would replace.
    """
    _check_group()
    for name in (*_FLAGS, *_ENGINES):
        _check_flag(name)
    for name, engine in _ENGINES.items():
        if os.environ.get(name, "no").lower() in _TRUE:
            raise UsageError(
                f"accelerate is set up for {engine} ({name}={os.environ[name]!r} in the environment), and gradgate "
                f"train does not use that setup. Launch plain processes (accelerate launch --num_processes N, or "
                f"torchrun); fsdp=True shards the model over them."
            )
    formats = {"no", "fp32", "bf16", "fp16"} if precision is None else {"no", precision}
    _check_word("ACCELERATE_MIXED_PRECISION", formats, "precision=", precision)
    steps = {str(count) for count in range(1, 1025)} if accumulate is None else {"1", str(accumulate)}
    _check_word("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", steps, "accumulate=", accumulate)
    _check_word("ACCELERATE_DYNAMO_BACKEND", {"no"}, "none: it compiles no model", None)
    _check_word("ACCELERATE_TORCH_DEVICE", set(), "device=", None)


def _check_group() -> None:
    """Refuse numbers of processes that make no group, or a group that the processes cannot find."""
    count = whole_number("WORLD_SIZE", "1", least=1)
    if count == 1:
        for name in _OF_MPI:
            if name in os.environ and whole_number(name, "1", least=1) > 1:
                raise UsageError(
                    f"{name}={os.environ[name]!r} in the environment: this process is one of several that mpirun "
                    f"started, which do not train together here. Start one, or several with torchrun."
                )
    if os.environ.get("LOCAL_RANK", "-1") == "-1" and count == 1:
        whole_number("RANK", "0")
        return
    whole_number("LOCAL_RANK", "0", most=count - 1)
    whole_number("RANK", "", most=count - 1)
    if _has_joined():
        return
    if not os.environ.get("MASTER_ADDR"):
        raise UsageError(
            f"LOCAL_RANK={os.environ.get('LOCAL_RANK', '0')!r} in the environment, without MASTER_ADDR, by which "
            f"processes find each other. {_LAUNCHED}"
        )
    whole_number("MASTER_PORT", "", least=1, most=_LAST_PORT)


def _has_joined() -> bool:
    """Return whether the process is in a group already."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _check_flag(name: str) -> None:
    text = os.environ.get(name, "no")
    if text.lower() not in (*_TRUE, *_FALSE):
        raise UsageError(
            f"{name}={text[:20]!r} in the environment: expected {_TRUE[1]} or {_FALSE[1]}. Correct it, or unset it."
        )


def _check_word(name: str, known: set[str], setting: str, own: object) -> None:
    """Refuse a word that is not among the known ones, which replace no setting."""
    text = os.environ.get(name)
    if text is not None and text.lower() not in known:
        here = "" if own is None else f", here {own}"
        raise UsageError(
            f"{name}={text[:20]!r} in the environment would replace a setting of the run. Unset it; gradgate's own "
            f"setting is {setting}{here}."
        )
