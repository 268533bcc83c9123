"""What all settings have in common: they are checked once, when they are made, and say what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from gradgate.errors import GradgateError, UsageError, nearest, nearest_of_quoted

Settings = TypeVar("Settings", bound=BaseModel)
_WORDS = {"gpu": "cuda"}  # words for a value that are not like it
MOST_SEED = 2**32 - 1  # of numpy's generators
MOST_STEPS = 10**8
MOST_EPOCHS = 1e5
LEAST_EPOCHS = 1e-6
MOST_IN_BATCH = 10**6
# torch ends the process where it is asked for far more threads than there are cores.
MOST_THREADS = 1024


class CheckedSettings(BaseModel):
    """Settings that are complete once they are made: no name is unknown, no value empty, no number infinite."""

    # Its validator is built with the first settings: help needs the fields alone.
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _nothing_empty(cls, given: Any) -> Any:
        empty = [name for name, value in given.items() if value == ""] if isinstance(given, Mapping) else []
        if empty:
            raise ValueError(f"{', '.join(empty)} has an empty value; give one, or leave it out for its default")
        return given

    def model_copy(self: Settings, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Settings:
        """The same settings with others in place of some, checked as new ones are.

        Raises:
            UsageError: as :func:`checked_settings`.
        """
        return checked_settings(type(self), {**dict(self), **(update or {})})


def checked_settings(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Settings of one kind from plain values; None means not given.

    Raises:
        UsageError: naming every unknown name and every value out of range.
    """
    given = {name: value for name, value in values.items() if value is not None}
    unknown = [name for name in given if name not in kind.model_fields]
    if unknown:
        raise UsageError(
            "; ".join(f"There is no setting {name!r}.{nearest(name, kind.model_fields)}" for name in unknown)
            + f" Expected fields of {kind.__name__}, which are the command's flags."
        )
    try:
        return kind(**given)
    except ValidationError as error:
        faults = "; ".join(_explain(item).rstrip(".") for item in error.errors())
        raise UsageError(faults if faults.endswith("?") else f"{faults}.") from None


def _explain(item: Any) -> str:
    cause = item.get("ctx", {}).get("error")
    if isinstance(cause, GradgateError):
        return str(cause)
    where = ".".join(str(part) for part in item["loc"])
    wrong = str(cause or item["msg"])
    if item["type"] == "literal_error":
        near = nearest_of_quoted(_WORDS.get(str(item["input"]), item["input"]), wrong)
        wrong += f".{near}" if near else ""
    return f"{where}={item['input']!r}: {wrong[0].lower()}{wrong[1:]}" if where else wrong
