"""The adapter of a run: a kind with its options, and what this adapter wants of the training."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

from gradgate.adapters.config import KINDS
from gradgate.adapters.kinds import AdapterKind, BottleneckKind
from gradgate.adapters.peft import kind as peft_kind
from gradgate.adapters.peft.kind import PeftKind
from gradgate.errors import AdapterError, MethodError, SpecError, UsageError, nearest
from gradgate.methods import Method, method
from gradgate.specs import Spec, Syntax, shown

NONE = "none"
# The longest names first, as one kind has a plus in its name.
_NAMES = sorted((*KINDS, *peft_kind.NAMED, peft_kind.ANY), key=len, reverse=True)
_ADAPTER_FIRST = re.compile(rf"\s*((?:{'|'.join(map(re.escape, _NAMES))})\s*(?::[^+]*)?)(?:\+(.*))?", re.DOTALL)
_SYNTAX = Syntax("adapter", error=AdapterError)
Pooler = Literal["trained", "frozen"]
_POOLER = "pooler"
_STACK = "--language-adapters"
_OF_TRAINING = {
    "lr": (float, "a learning rate above 0, such as 1e-3"),
    "tapt_steps": (int, "a number of steps, 1 or more"),
    "tapt_epochs": (float, "a number of epochs above 0"),
    "tapt_batch": (int, "a number of texts, 1 or more"),
}


@dataclass(frozen=True)
class AdapterSetting:
    """One adapter of a run; equal for texts that describe one adapter: ``houlsby`` is ``houlsby:size=64``.

    Attributes:
        text: the text that it was read from, without blanks.
        kind: what is put into the model.
        lr: peak learning rate, instead of the run's; None for the run's own.
        tapt_steps: length of its task-adaptive pre-training in optimizer steps, instead of the run's.
        tapt_epochs: the same, in passes over the training texts.
        tapt_batch: texts in one forward pass of the pre-training, instead of the run's batch size.
        pooler: ``trained`` trains the pretrained pooler with the head, which AdapterEff's and AdapterHub's heads begin
            with; ``frozen`` keeps it as it is, as FUN's released code does. A pooler that the pretrained weights lack
            is always trained: it begins at random.
    """

    text: str = field(compare=False, repr=False)
    kind: AdapterKind
    lr: float | None = None
    tapt_steps: int | None = None
    tapt_epochs: float | None = None
    tapt_batch: int | None = None
    pooler: Pooler = "trained"

    def __str__(self) -> str:
        return self.text


def read_adapter(given: str | AdapterSetting | None) -> AdapterSetting | None:
    """The adapter that a text such as ``"houlsby:size=64,lr=1e-3"`` describes; None for None and ``"none"``.

    The options of PEFT's adapters are checked by the kind's own ``check``, as PEFT is large.

    Raises:
        UsageError: for an unknown kind or option, or a value that is out of range.
    """
    if given is None or isinstance(given, AdapterSetting):
        return given
    text = "".join(given.split())
    if text.lower() == NONE:
        return None
    try:
        return _read(text)
    except AdapterError as error:
        raise SpecError(str(error)) from None


@lru_cache(maxsize=1024)
def _read(text: str) -> AdapterSetting:
    spec = _SYNTAX.parse(peft_kind.split_type(text))
    name = spec.name
    given: dict[str, Any] = {}
    for option, value in spec.pairs:
        if option == _POOLER:
            given[option] = _pooler(name, value)
        elif option in _OF_TRAINING:
            given[option] = _number(name, option, value)
    if {"tapt_steps", "tapt_epochs"} <= given.keys():
        raise AdapterError(
            f"{name!r} has both tapt_steps and tapt_epochs ({given['tapt_steps']} and {given['tapt_epochs']}); each "
            f"sets the length. Leave one of them out."
        )
    return AdapterSetting(text, _read_kind(text, spec.without(*given)), **given)


def _read_kind(text: str, spec: Spec) -> AdapterKind:
    """What a name with its options, those of the training aside, puts into a model."""
    if text.startswith(f"{peft_kind.ANY}:"):
        options = (f"{option}={value}" for option, value in spec.pairs)
        return PeftKind.of(",".join((f"{peft_kind.ANY}:{spec.name}", *options)), spec)
    if spec.name in peft_kind.NAMED:
        return PeftKind.of(str(spec), spec)
    if spec.name in KINDS:
        return BottleneckKind.read(str(spec))
    known = (*KINDS, *peft_kind.NAMED, peft_kind.ANY)
    raise AdapterError(
        f"There is no kind of adapter {shown(spec.name)}.{nearest(spec.name, known)} Known: {', '.join(KINDS)}; and "
        f"with PEFT {', '.join(peft_kind.NAMED)}, and others as peft:TYPE."
    )


def parted(text: str) -> tuple[str | None, str]:
    """The adapter and the method of a text as tables print them, ``"lora:r=8 + graddrop"``; either may be wrong.

    Returns:
        The adapter without blanks, or None; and the method, or ``""``.
    """
    found = _ADAPTER_FIRST.fullmatch(text)
    return (None, text) if found is None else ("".join(found[1].split()), (found[2] or "").strip())


def read_method_alone(text: str) -> Method:
    """The method that a text names, where an adapter has a setting of its own.

    Raises:
        MethodError: for a text that names none; for an adapter it says where that goes.
    """
    adapter, rest = parted(text)
    if adapter is not None and rest:
        raise MethodError(
            f"{shown(text)} is an adapter and a method, as tables print them: give --adapter {shown(adapter)} and "
            f"--method {shown(rest)}, or adapter= and method= in Python."
        )
    if adapter is not None:
        raise MethodError(
            f"{shown(text)} is an adapter, not a method: give it as --adapter, or adapter= in Python. "
            f"'gradgate compare' also takes it as --method."
        )
    return method(text)


def titled(method: str, adapter: str | None) -> str:
    """What learns, for people: the method, behind the adapter if there is one."""
    return method if adapter is None else f"{adapter} + {method}"


def check_stack(place: str, adapter: AdapterSetting | None, *, has_tapt: bool) -> None:
    """Refuse what cannot be trained on top of a language adapter, before anything is loaded.

    Args:
        place: the setting.
        adapter: that of the run.
        has_tapt: whether the adapter is first trained on the task's texts.

    Raises:
        UsageError: if so.
    """
    if adapter is None:
        raise UsageError(
            f"{_STACK} {place} stacks a task adapter on a language adapter, and there is no --adapter. Expected a "
            f"bottleneck adapter, as --adapter pfeiffer:reduction=16; give one, or leave {_STACK} out."
        )
    config = adapter.kind.bottleneck
    if config is None:
        reason = "one of PEFT's adapters, which has no place in a stack"
    elif config.is_parallel:
        reason = "a parallel adapter, which would drop what the language adapter gives"
    elif config.inv_adapter:
        reason = "an adapter with an invertible part, which would not run: that of the lowest adapter does"
    else:
        reason = ""
    if reason:
        raise UsageError(
            f"{_STACK} {place} does not go with --adapter {adapter}: it is {reason}. Expected a bottleneck adapter "
            f"such as pfeiffer:reduction=16 or houlsby:size=64."
        )
    if has_tapt:
        raise UsageError(
            f"{_STACK} {place} and tapt_steps or tapt_epochs do not go together: the pre-training on the task's texts "
            f"runs the task adapter alone, and not in its stack. Leave out one of them."
        )


def _pooler(name: str, text: str) -> str:
    if text not in get_args(Pooler):
        raise AdapterError(f"{name!r} cannot have pooler={text!r} (expected {' or '.join(get_args(Pooler))}).")
    return text


def _number(name: str, option: str, text: str) -> float:
    kind, expected = _OF_TRAINING[option]
    try:
        number: float = kind(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise AdapterError(f"{name!r} cannot have {option}={text!r} (expected {expected}).")
    return number
