"""Read the adapter of a run: a kind with its options, and the settings of the training that are its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from gradgate.adapters.config import KINDS
from gradgate.adapters.kinds import AdapterKind, BottleneckKind
from gradgate.adapters.peft import kind as peft_kind
from gradgate.adapters.peft.kind import PeftKind
from gradgate.errors import AdapterError, SpecError, UsageError, nearest
from gradgate.settings.arms.own_settings import TAPT_LENGTHS, read_setting
from gradgate.specs import Spec, Syntax, shown

NONE = "none"
NAMES = (*KINDS, *peft_kind.NAMED, peft_kind.ANY)
"""Every word that an adapter's text may begin with."""
_SYNTAX = Syntax("adapter", error=AdapterError)
Pooler = Literal["trained", "frozen"]
POOLER = "pooler"
_STACK = "language_adapters="
OF_TRAINING = ("lr", *TAPT_LENGTHS, "tapt_batch")
"""Settings of the training that an adapter may have of its own, as one of its options."""


@dataclass(frozen=True)
class AdapterSetting:
    """One adapter of a run. Texts that describe one adapter give equal settings: ``houlsby`` is ``houlsby:size=64``.

    Attributes:
        text: the text that it was read from, without blanks.
        kind: what is put into the model.
        lr: peak learning rate, instead of the run's; None for the run's own.
        tapt_steps: length of its task-adaptive pretraining in optimizer steps, instead of the run's.
        tapt_epochs: length of the task-adaptive pretraining in epochs, instead of ``tapt_steps``.
        tapt_batch: texts in one forward pass of the pretraining, instead of the run's batch size.
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

    @property
    def overrides(self) -> dict[str, float]:
        """The adapter's own settings of the training, by name, in place of the run's."""
        return {name: value for name in OF_TRAINING if (value := getattr(self, name)) is not None}

    def without(self, *names: str) -> AdapterSetting:
        """Return the same adapter without these settings of the training; other names are ignored."""
        left = {name: value for name, value in self.overrides.items() if name not in names}
        if left == self.overrides:
            return self
        own = [f"{name}={value}" for name, value in left.items()]
        own += [f"{POOLER}={self.pooler}"] if self.pooler != "trained" else []
        removed: dict[str, Any] = dict.fromkeys(name for name in names if name in self.overrides)
        return replace(self, text=with_options(str(self.kind), own), **removed)

    def without_rate(self) -> AdapterSetting:
        """Return the same adapter with no learning rate of its own."""
        return self.without("lr")


def with_options(text: str, options: Sequence[str]) -> str:
    """Return the text of a method or an adapter with further ``name=value`` options at its end."""
    return f"{text}{',' if ':' in text else ':'}{','.join(options)}" if options else text


def read_adapter(given: object) -> AdapterSetting | None:
    """Read an adapter from a text such as ``"houlsby:size=64,lr=1e-3"``. None and ``"none"`` stand for no adapter.

    In Python, a ``peft.PeftConfig`` such as ``peft.LoraConfig(r=8)`` is an adapter as well.

    The options of PEFT's adapters are checked by the kind's own ``check``, because PEFT takes long to import.

    Raises:
        UsageError: for an unknown kind or option, or a value that is out of range.
    """
    if given is None or isinstance(given, AdapterSetting):
        return given
    if is_peft_config(given):
        from gradgate.adapters.peft.config_text import text_of

        given = text_of(given)
    if not isinstance(given, str):
        raise UsageError(f"{given!r} is not an adapter. Expected a text such as 'lora:r=8', or a PeftConfig.")
    text = "".join(given.split())
    if text.lower() == NONE:
        return None
    try:
        return _read(text)
    except AdapterError as error:
        raise SpecError(str(error)) from None


def is_peft_config(given: object) -> bool:
    """Return whether an object is a ``peft.PeftConfig``; PEFT is not imported for that."""
    peft = sys.modules.get("peft")
    return peft is not None and isinstance(given, peft.PeftConfig)


@lru_cache(maxsize=1024)
def _read(text: str) -> AdapterSetting:
    spec = _SYNTAX.parse(peft_kind.split_type(text))
    name = spec.name
    given: dict[str, Any] = {}
    for option, value in spec.pairs:
        if option == POOLER:
            given[option] = _pooler(name, value)
        elif option in OF_TRAINING:
            given[option] = _setting(name, option, value)
    if {"tapt_steps", "tapt_epochs"} <= given.keys():
        raise AdapterError(
            f"{name!r} has both tapt_steps and tapt_epochs ({given['tapt_steps']} and {given['tapt_epochs']}); each "
            f"sets the length. Leave one of them out."
        )
    return AdapterSetting(text, _read_kind(text, spec.without(*given)), **given)


def _read_kind(text: str, spec: Spec) -> AdapterKind:
    """Return the kind of adapter that a name with its options stands for, those of the training aside."""
    if text.startswith(f"{peft_kind.ANY}:"):
        options = (f"{option}={value}" for option, value in spec.pairs)
        return PeftKind.of(",".join((f"{peft_kind.ANY}:{spec.name}", *options)), spec)
    if spec.name in peft_kind.NAMED:
        return PeftKind.of(str(spec), spec)
    if spec.name in KINDS:
        return BottleneckKind.read(str(spec))
    raise AdapterError(
        f"There is no kind of adapter {shown(spec.name)}.{nearest(spec.name, NAMES)} Known: {', '.join(KINDS)}; and "
        f"with PEFT {', '.join(peft_kind.NAMED)}, and others as peft:TYPE."
    )


def check_stack(place: str, adapter: AdapterSetting | None, *, has_tapt: bool) -> None:
    """Refuse an adapter that cannot be trained on a language adapter, before a model is loaded.

    Args:
        place: the setting ``language_adapters``.
        adapter: of the run.
        has_tapt: whether the adapter is first trained on the task's texts.

    Raises:
        UsageError: if there is no adapter, or it is not one that a stack can hold.
    """
    if adapter is None:
        raise UsageError(
            f"{_STACK}{place} stacks a task adapter on a language adapter, but there is no adapter=. Expected a "
            f"bottleneck adapter, as adapter='pfeiffer:reduction=16'; pass one, or leave {_STACK} out."
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
            f"{_STACK}{place} cannot be combined with adapter={adapter}: it is {reason}. Expected a bottleneck adapter "
            f"such as pfeiffer:reduction=16 or houlsby:size=64."
        )
    if has_tapt:
        raise UsageError(
            f"{_STACK}{place} and tapt_steps or tapt_epochs cannot be combined: the pretraining on the task's texts "
            f"runs the task adapter alone, not in its stack. Leave out one of them."
        )


def _pooler(name: str, text: str) -> str:
    if text not in get_args(Pooler):
        raise AdapterError(f"{name!r} cannot have pooler={text!r} (expected {' or '.join(get_args(Pooler))}).")
    return text


def _setting(name: str, option: str, text: str) -> Any:
    try:
        return read_setting(option, text)
    except ValueError as error:
        raise AdapterError(f"{name!r} cannot have {option}={text!r}: {error}") from None
