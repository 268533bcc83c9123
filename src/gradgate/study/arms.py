"""An arm of a study: a method on an adapter, or on the model itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from gradgate.errors import GradgateError, UsageError
from gradgate.methods import method as read_method
from gradgate.training.adapter_setting import NONE, read_adapter, titled
from gradgate.training.config import RunConfig

_LONGEST = 60  # characters of a folder's name


@dataclass(frozen=True)
class Arm:
    """A method on an adapter, as both were typed; without an adapter, on the model itself."""

    method: str
    adapter: str | None = None

    @classmethod
    def of(cls, config: RunConfig) -> Arm:
        """The arm of a run."""
        return cls(config.method.text, None if config.adapter is None else config.adapter.text)

    @property
    def label(self) -> str:
        """Its name in tables, figures and messages."""
        return titled(self.method, self.adapter)

    @cached_property
    def identity(self) -> tuple[str, str]:
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
            return str(self.adapter), method
        return (repr(adapter) if adapter else NONE), method

    @property
    def folder(self) -> str:
        """The name of the folder of its runs."""
        return folder_name(self.method if self.adapter is None else f"{self.adapter}__{self.method}")


def distinct(arms: Iterable[Arm]) -> tuple[Arm, ...]:
    """Each arm once, as it was typed first."""
    found: dict[tuple[str, str], Arm] = {}
    for arm in arms:
        found.setdefault(arm.identity, arm)
    return tuple(found.values())


def folder_name(text: str) -> str:
    """A name that every file system takes; different for different texts."""
    name = re.sub(r"[:,]", "-", text)
    if re.fullmatch(rf"[\w.=-]{{1,{_LONGEST}}}", name):
        return name
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.=-]', '-', name)[: _LONGEST - 10]}-{digest}"
