"""Read arms from records: study files, tables and run folders, which another version may have written.

A method or an adapter that this version does not know keeps its text: its results are shown, and nothing is trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NoReturn

from pydantic import AfterValidator

from gradgate.adapters.kinds import AdapterKind
from gradgate.clock import Clock
from gradgate.errors import GradgateError, MethodError, UsageError
from gradgate.layers import LayerMap
from gradgate.methods import Full, Method, MethodState, Plan, method
from gradgate.settings.arms.adapter import AdapterSetting, read_adapter
from gradgate.settings.arms.arm import Arm, read_arm, split_arm


@dataclass(frozen=True, kw_only=True)
class UnknownMethod(Method):
    """A method that this version cannot read.

    Attributes:
        words: its text.
        reason: why it cannot be read.
    """

    name: ClassVar[str] = "unknown"
    summary: ClassVar[str] = "a method of another version"
    source: ClassVar[str] = "unknown"

    words: str
    reason: str = field(compare=False)

    @property
    def spec(self) -> str:
        return self.words

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        raise MethodError(self.reason)

    def check(self, layers: LayerMap) -> None:
        raise MethodError(self.reason)


@dataclass(frozen=True)
class UnknownKind(AdapterKind):
    """A kind of adapter that this version cannot read.

    Attributes:
        words: its text.
        reason: why it cannot be read.
    """

    words: str
    reason: str = field(compare=False)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise UsageError(self.reason)

    check = put = remove = save = load = restore = parameters = bytes_stored = _refuse


def recorded_arm(text: str) -> Arm:
    """Read an arm's name in a record, in the form of this version or of earlier ones, ``houlsby:size=64 + full``."""
    try:
        return read_arm(text)
    except (GradgateError, OSError):
        parts = split_arm(text)
        if "" in (parts.method, parts.adapter):  # it ends or begins with a plus, as no name of gradgate's does
            return Arm(UnknownMethod(words=text, reason=f"{text!r} is not an arm of this version."))
        arm = arm_of_texts(Full.name if parts.method is None else parts.method, parts.adapter)
    own = dict(option.partition("=")[::2] for option in map(str.strip, parts.own))
    return replace(arm, overrides={name: _number(value) for name, value in own.items()})


def imported_arm(text: str) -> Arm:
    """Return the arm of somebody's results under the name that it has there.

    It is an arm of gradgate's if its name is exactly one, such as ``freeze:layers=9``, so that claims and tables find
    it. A name never opens a file.
    """
    arm = None if text.startswith("plan:") else recorded_arm(text)
    if arm is not None and arm.name == text:
        return arm
    return Arm(UnknownMethod(words=text, reason=f"{text!r} is an imported arm, which cannot be trained."))


def arm_of_texts(method_text: str, adapter_text: str | None, overrides: Mapping[str, Any] | None = None) -> Arm:
    """Return the arm of a method and an adapter that a record has apart."""
    return Arm(recorded_method(method_text), recorded_adapter(adapter_text), overrides or {})


def recorded_method(text: str) -> Method:
    """Read a method in a record."""
    try:
        return method(text)
    except (GradgateError, OSError) as error:
        return UnknownMethod(words=text, reason=str(error))


def recorded_adapter(text: str | None) -> AdapterSetting | None:
    """Read an adapter in a record."""
    try:
        return read_adapter(text)
    except UsageError as error:
        words = "".join(str(text).split())
        return AdapterSetting(words, UnknownKind(words, words, str(error)))


@lru_cache(maxsize=4096)
def arm_name(text: str) -> str:
    """Return the name of an arm that a record may call by an earlier name; an empty text stays empty."""
    return recorded_arm(text).name if text else text


ArmName = Annotated[str, AfterValidator(arm_name)]
"""The name of an arm in a record, in the form of this version."""


def _number(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
