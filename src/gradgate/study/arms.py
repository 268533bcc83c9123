"""An arm of a study: a method on an adapter, or on the model itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import product
from typing import Any

from gradgate.errors import GradgateError, UsageError
from gradgate.methods import Full
from gradgate.methods import method as read_method
from gradgate.settings.adapter import NONE, parted, read_adapter, titled
from gradgate.settings.run import RunConfig

_LONGEST = 60  # characters of a folder's name

Setting = tuple[tuple[str, Any], ...]
"""Names and values that one arm has in place of what the runs of a study share."""


@dataclass(frozen=True)
class Arm:
    """A method on an adapter, as both were typed; without an adapter, on the model itself.

    ``setting`` tells arms apart that are one method at several rates.
    """

    method: str
    adapter: str | None = None
    setting: Setting = ()

    @classmethod
    def of(cls, config: RunConfig) -> Arm:
        """The arm of a run."""
        return cls(config.method.text, None if config.adapter is None else config.adapter.text)

    @classmethod
    def typed(cls, text: str) -> Arm:
        """The arm that a text of ``--method`` stands for; see :func:`read_arm`, which checks it as well."""
        adapter, method = parted(text)
        return cls(text) if adapter is None else cls(method or Full.name, adapter)

    @property
    def label(self) -> str:
        """Its name in tables, figures and messages."""
        title = titled(self.method, self.adapter)
        return f"{title} {written(dict(self.setting))}" if self.setting else title

    @cached_property
    def identity(self) -> tuple[str, str, Setting]:
        """Equal for arms that train the same: ``gradual`` is ``gradual:every=50``.

        A method or an adapter that this version does not know is equal to its own text alone.
        """
        try:
            method = read_method(self.method).spec
        except (GradgateError, OSError):
            method = self.method
        try:
            adapter = read_adapter(self.adapter)
        except UsageError:
            return str(self.adapter), method, self.setting
        return (repr(adapter) if adapter else NONE), method, self.setting

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        name = self.method if self.adapter is None else f"{self.adapter}__{self.method}"
        return folder_name(f"{name}__{written(dict(self.setting))}" if self.setting else name)


def read_arm(text: str) -> Arm:
    """An arm as ``--method`` takes it: a method, an adapter, or both as tables print them, ``"lora:r=8 + graddrop"``.

    An adapter alone is trained whole, by ``full``.

    Raises:
        UsageError: for an adapter that cannot be.
        MethodError: for a method that cannot be.
    """
    arm = Arm.typed(text)
    setting = read_adapter(arm.adapter)
    return Arm(read_method(arm.method).text, None if setting is None else setting.text)


def crossed(
    methods: Iterable[str], adapters: Sequence[str | None], variants: Sequence[Mapping[str, Any]] = ()
) -> tuple[Arm, ...]:
    """The arms of a study: every adapter with every method, then what was given with an adapter of its own.

    Args:
        methods: texts that :func:`read_arm` takes.
        adapters: of the methods that have none of their own; None is the model itself.
        variants: settings that make an arm of each of these; without any, all have what the study shares.
    """
    typed = [Arm.typed(text) for text in methods]
    plain = [arm.method for arm in typed if arm.adapter is None]
    crossing = (Arm(method, adapter) for adapter, method in product(adapters, plain))
    whole = distinct([*crossing, *(arm for arm in typed if arm.adapter is not None)])
    settings: list[Setting] = [tuple(variant.items()) for variant in variants] or [()]
    return distinct(Arm(arm.method, arm.adapter, setting) for arm, setting in product(whole, settings))


def model_alone(arms: Iterable[Arm]) -> bool:
    """Whether arms are of the model itself, with no adapter among them.

    Then settings of pre-training on the task's texts are its own; else they are of the adapters.
    """
    return all(arm.adapter is None for arm in arms)


def distinct(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Each arm once, as it was typed first."""
    found: dict[tuple[str, str, Setting], Arm] = {}
    for arm in arms:
        found.setdefault(arm.identity, arm)
    return tuple(found.values())


def written(setting: Mapping[str, Any]) -> str:
    """A setting of a search or of an arm, for people."""
    return ", ".join(f"{name}={value}" for name, value in setting.items())


def folder_name(text: str) -> str:
    """A name that every file system takes; different for different texts."""
    name = re.sub(r"[:,]", "-", text)
    if re.fullmatch(rf"[\w.=-]{{1,{_LONGEST}}}", name):
        return name
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.=-]', '-', name)[: _LONGEST - 10]}-{digest}"
