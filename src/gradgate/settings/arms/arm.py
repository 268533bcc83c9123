"""Read and name arms: what a study compares, and what one run trains.

An arm is a method, an adapter, or an adapter with a method. Every command, YAML file and Python call takes the same
texts, which :func:`read_arm` turns into an :class:`Arm` where they enter::

    gradual:every=50                            a method
    lora:r=8,lr=1e-3                            an adapter, trained whole
    houlsby:size=64 + gradual:every=50          an adapter with a method
    gradual:every=50,lr=1e-3                    a method with a learning rate of its own
    full:tapt_steps=500                         the model itself, first pretrained on the task's texts
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gradgate.adapters.config import ALIASES, KINDS, AdapterConfig
from gradgate.errors import MethodError, SpecError, UsageError, nearest
from gradgate.files import portable_name
from gradgate.methods import Full, Method
from gradgate.methods.catalog import build, is_known, known_names, option_names, parse, takes_option
from gradgate.methods.fixed import Probe
from gradgate.settings.arms.adapter import (
    NAMES,
    OF_TRAINING,
    POOLER,
    AdapterSetting,
    is_peft_config,
    read_adapter,
    with_options,
)
from gradgate.settings.arms.own_settings import OWN_SETTINGS, TAPT_LENGTHS, OwnTexts, check_spelling, format_settings
from gradgate.specs import Spec, shown, split_joined

_RATE = "lr"
_OF_BOTTLENECKS = (*ALIASES, POOLER, *AdapterConfig.__dataclass_fields__)
OF_A_PROBE = ("batch_size", "max_length")
_WORDS = "|".join(OWN_SETTINGS)
# The longest names first: "pfeiffer" begins "pfeiffer+inv".
_ADAPTER = re.compile(rf"\s*(?:{'|'.join(map(re.escape, sorted(NAMES, key=len, reverse=True)))})\s*(?=[:+]|$)")
_PLUS = re.compile(r"(?<!\d[eE])\+|\+(?!\d)")  # not the one of 1e+3
_SETTINGS = rf"(?:{_WORDS})=[^\s,=]+(?:, *(?:{_WORDS})=[^\s,=]+)*"
_AFTER_FILE = re.compile(rf"(?P<file>.+?),\s*(?P<own>{_SETTINGS})", re.DOTALL)
# As arms were named in earlier studies, "houlsby:size=64 + full lr=0.001".
_AFTER_BLANK = re.compile(rf"(?P<arm>.*[^\s,:+=])\s+(?P<own>{_SETTINGS})", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Arm:
    """A method on an adapter, or on the model itself. Arms that train the same are equal.

    ``gradual`` equals ``gradual:every=50``, the default spelled out.

    Attributes:
        method: what learns when.
        adapter: what learns in place of the model's weights; None for the model itself.
        overrides: the arm's own settings, by name, in place of those that all arms share.
    """

    method: Method
    adapter: AdapterSetting | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_trained(self) -> bool:
        """Whether it takes training steps, which a probe does not."""
        return not isinstance(self.method, Probe)

    @cached_property
    def name(self) -> str:
        """The arm as people read it, and as :func:`read_arm` takes it.

        An adapter that is trained whole, by ``full``, goes by the adapter alone.
        """
        rate_first = sorted(self.overrides.items(), key=lambda item: item[0] != _RATE)
        own = [f"{name}={value}" for name, value in rate_first]
        adapter = None if self.adapter is None else self.adapter.text
        if adapter is not None and self.method == Full() and not any(_is_of(adapter, name) for name in self.overrides):
            return with_options(adapter, own)
        before = "" if adapter is None else f"{adapter} + "
        *earlier, last = split_joined(self.method.text)
        if any(takes_option(last.partition(":")[0], name) for name in self.overrides):
            return f"{before}{self.method} {', '.join(own)}"
        return before + "+".join([*earlier, with_options(last, own)])

    @cached_property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        name = self.method.text if self.adapter is None else f"{self.adapter}__{self.method}"
        return portable_name(f"{name}__{format_settings(self.overrides)}" if self.overrides else name)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of a run of the arm, by name."""
        return {**self.overrides, "method": self.method, "adapter": self.adapter}

    @property
    def lr(self) -> float | None:
        """The learning rate of its own; None if it trains with the one that all arms share."""
        own = None if self.adapter is None else self.adapter.lr
        rate: float | None = self.overrides.get(_RATE) if own is None else own
        return rate

    def sets(self, name: str) -> bool:
        """Return whether it has a setting of its own."""
        return name in self.overrides or (self.adapter is not None and name in self.adapter.overrides)

    def with_settings(self, settings: Mapping[str, Any]) -> Arm:
        """Return the arm with further settings of its own."""
        return Arm(self.method, self.adapter, {**self.overrides, **settings})

    def without_settings(self) -> Arm:
        """Return the arm without settings of its own: what arms that differ in their rates have in common."""
        return Arm(self.method, None if self.adapter is None else self.adapter.without_rate())

    def without_rate(self) -> Arm:
        """Return the arm without a learning rate of its own: what arms that differ in it alone have in common."""
        own = {name: value for name, value in self.overrides.items() if name != _RATE}
        return Arm(self.method, None if self.adapter is None else self.adapter.without_rate(), own)

    def apart_from(self, shared: Mapping[str, Any]) -> Arm:
        """Return the arm without overrides that say what ``shared`` settings say already."""
        own = {name: value for name, value in self.overrides.items() if shared.get(name) != value}
        return self if len(own) == len(self.overrides) else Arm(self.method, self.adapter, own)

    def check_settings(self) -> None:
        """Raise UsageError if the method and the adapter both set something that a run has once."""
        for name in () if self.adapter is None else self.adapter.overrides:
            alike = TAPT_LENGTHS if name in TAPT_LENGTHS else (name,)
            for other in alike:
                if other in self.overrides:
                    raise UsageError(
                        f"The method {self.method.text!r} has {other} of its own, and so has the adapter "
                        f"{str(self.adapter)!r} ({name}). A run has one of them: leave one out."
                    )

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Arm) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values)

    def complete(self) -> Hashable:
        """Return what decides how it trains, with the defaults of its adapter's package."""
        spec, adapter, own = self._values
        kind = None if adapter is None else adapter.kind.complete()
        return spec, kind, adapter and adapter.pooler, own

    @cached_property
    def _values(self) -> tuple[str, AdapterSetting | None, frozenset[tuple[str, Any]]]:
        """The values that decide how it trains: a setting counts once, be it the adapter's or an override."""
        if self.adapter is None:
            return self.method.spec, None, frozenset(self.overrides.items())
        own = {**self.overrides, **self.adapter.overrides}
        return self.method.spec, self.adapter.without(*OF_TRAINING), frozenset(own.items())


def check_adapters(arms: Iterable[Arm]) -> None:
    """Check the adapters of the arms of a study, which imports what they need.

    Raises:
        UsageError: for a wrong option of an adapter, a setting that the method and the adapter of an arm both have, or
            two arms that train the same with a package's defaults.
    """
    found: dict[Hashable, Arm] = {}
    for arm in arms:
        if arm.adapter is None:
            continue
        arm.check_settings()
        arm.adapter.kind.check()
        other = found.setdefault(arm.complete(), arm)
        if other != arm:
            raise UsageError(f"{other.name} and {arm.name} train the same. Leave one out, or give one other options.")


def read_arm(given: object) -> Arm:
    """Read an arm from a text, or take what Python has for one: a method, or an adapter, which is trained whole.

    Args:
        given: a text; an :class:`Arm`, a method, an :class:`AdapterSetting`, or a ``peft.PeftConfig``.

    Raises:
        MethodError: for a method that is unknown or has a wrong option.
        UsageError: for an adapter or a setting of its own that is unknown or out of range.
    """
    if isinstance(given, Arm):
        return given
    if isinstance(given, Method):
        return Arm(given)
    if isinstance(given, AdapterSetting) or is_peft_config(given):
        return Arm(Full(), read_adapter(given))
    if not isinstance(given, str):
        raise SpecError(
            f"{given!r} is neither a method nor an adapter. Expected one such as 'gradual:every=50' or 'lora:r=8', as "
            f"text or as an object."
        )
    parts = split_arm(given)
    own = OwnTexts(given)
    method = Full() if parts.method is None else _read_method(parts.method, own)
    adapter = None if parts.adapter is None else _read_adapter(parts.adapter, own)
    own.add(parts.own)
    for name in () if adapter is None else adapter.overrides:
        if name in own.texts:
            raise own.twice(name)
    arm = Arm(method, adapter, own.values())
    _check_effects(arm)
    if all(map(arm.sets, TAPT_LENGTHS)):
        raise SpecError(f"{shown(given)} has both {' and '.join(TAPT_LENGTHS)}; each sets the length. Leave one out.")
    return arm


def _check_effects(arm: Arm) -> None:
    """Raise SpecError for an adapter or settings that have no effect on a probe."""
    unused = [f"{name}={value}" for name, value in arm.overrides.items() if name not in OF_A_PROBE]
    if not arm.is_trained and (arm.adapter is not None or unused):
        what = unused[0] if arm.adapter is None else f"the adapter {str(arm.adapter)!r}"
        raise SpecError(
            f"{arm.method.spec!r} takes no training steps: it fits the head on the pretrained model, so that {what} "
            f"would have no effect. Leave it out."
        )


@dataclass(frozen=True)
class ArmText:
    """The parts of an arm's text, unread: any of them may be wrong.

    Attributes:
        adapter: None if the text begins with a method.
        method: None if the text has an adapter alone.
        own: settings of its own behind a blank, as names of earlier studies have them.
    """

    adapter: str | None
    method: str | None
    own: tuple[str, ...] = ()


def split_arm(text: str) -> ArmText:
    """Split a text into its adapter and its method, without reading either."""
    behind = _AFTER_BLANK.fullmatch(text)
    own = tuple(behind["own"].split(",")) if behind else ()
    text = behind["arm"] if behind else text
    begun = _ADAPTER.match(text)
    if begun is None:
        return ArmText(None, text, own)
    plus = _PLUS.search(text, begun.end())
    if plus is None:
        return ArmText(text, None, own)
    return ArmText(text[: plus.start()], text[plus.end() :].strip(), own)


def _read_method(text: str, own: OwnTexts) -> Method:
    try:
        return build(tuple(_without_own(spec, own) for spec in parse(text)))
    except MethodError as error:
        first, *others = split_joined(text)
        if any(_ADAPTER.match(part) for part in others):
            raise MethodError(
                f"{shown(text)} has an adapter behind a method. Expected the adapter first, as in 'lora:r=8 + gradual'."
            ) from None
        name = first.partition(":")[0].strip()
        if is_known(name):
            raise
        if name in NAMES:
            raise MethodError(
                f"{shown(text)} is an adapter, behind another one. Leave one out: a run has one."
            ) from None
        if not nearest(name, NAMES):
            raise MethodError(f"{error} Adapters: {', '.join(NAMES)}.") from None
        raise MethodError(
            f"There is no method {shown(name)}, and no adapter.{nearest(name, (*NAMES, *known_names()))} Methods are "
            f"listed by 'gradgate methods'; adapters are {', '.join(NAMES)}."
        ) from None


def _without_own(spec: Spec, own: OwnTexts) -> Spec:
    """Return what is the method's own of one spec, and add the arm's own settings to ``own``."""
    if spec.argument:
        behind = _AFTER_FILE.fullmatch(spec.argument)
        if behind is None:
            return spec
        own.add(tuple(behind["own"].split(",")))
        return Spec(spec.name, argument=behind["file"], syntax=spec.syntax)
    found = [name for name in spec.options if name in OWN_SETTINGS and not takes_option(spec.name, name)]
    if (known := option_names(spec.name)) is not None:
        check_spelling(spec.name, spec.options, known)
    own.add(tuple(f"{name}={spec.options[name]}" for name in found))
    return spec.without(*found) if found else spec


def _read_adapter(text: str, own: OwnTexts) -> AdapterSetting | None:
    """Read an adapter, with what it may have of its own, and add what else is the arm's own to ``own``."""
    head, colon, rest = text.partition(":")
    options = [option.strip() for option in rest.split(",")]
    names = {option: option.partition("=")[0].strip() for option in options}
    others = [each for each in options if names[each] in OWN_SETTINGS and not _is_of(head, names[each], *OF_TRAINING)]
    if head in KINDS:
        check_spelling(head, names.values(), _OF_BOTTLENECKS)
    if not others:
        return read_adapter(text)
    own.add(others)
    kept = [each for each in options if each not in others]
    return read_adapter(f"{head}{colon if kept else ''}{','.join(kept)}")


def _is_of(adapter: str, name: str, *also: str) -> bool:
    """Return whether an adapter has an option of this name. None of PEFT's types has one that an arm may have."""
    kind = adapter.partition(":")[0].strip()
    return name in also or (kind in KINDS and name in AdapterConfig.__dataclass_fields__)
