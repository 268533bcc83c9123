"""Read the settings that an arm of a comparison may have of its own, such as its learning rate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from gradgate.errors import SpecError, expectation, nearest, nearest_of_quoted
from gradgate.settings.base import (
    LEAST_EPOCHS,
    MOST_EPOCHS,
    MOST_IN_BATCH,
    MOST_STEPS,
    CheckedSettings,
)
from gradgate.settings.trainer_names import gradgate_name
from gradgate.specs import shown


class OwnSettings(CheckedSettings):
    """The settings that an arm may have of its own, in place of those that all arms share."""

    lr: float | None = Field(None, gt=0)
    batch_size: int | None = Field(None, ge=1, le=MOST_IN_BATCH)
    accumulate: int | None = Field(None, ge=1, le=MOST_IN_BATCH)
    schedule: Literal["linear", "constant", "cosine"] | None = None
    warmup: float | None = Field(None, ge=0, lt=1)
    weight_decay: float | None = Field(None, ge=0)
    clip: float | None = Field(None, ge=0)
    dropout: float | None = Field(None, ge=0, lt=1)
    max_length: int | None = Field(None, ge=4, le=MOST_IN_BATCH)
    tapt_steps: int | None = Field(None, ge=1, le=MOST_STEPS)
    tapt_epochs: float | None = Field(None, ge=LEAST_EPOCHS, le=MOST_EPOCHS)
    tapt_batch: int | None = Field(None, ge=1, le=MOST_IN_BATCH)


OWN_SETTINGS = tuple(OwnSettings.model_fields)
TAPT_LENGTHS = ("tapt_steps", "tapt_epochs")


def format_settings(settings: Mapping[str, Any]) -> str:
    """Return settings as people read them: ``lr=0.001, clip=1.0``."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def read_setting(name: str, text: str) -> Any:
    """Read the value of a setting that an arm may have of its own.

    Raises:
        ValueError: for a value that is out of range, with what was expected.
    """
    try:
        return getattr(OwnSettings.model_validate({name: text}), name)
    except ValidationError as error:
        reason = expectation(error.errors()[0])
    raise ValueError(f"{reason[0].lower()}{reason[1:]}.{nearest_of_quoted(text, reason)}")


def check_spelling(head: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse an unknown option that reads like a setting of an arm, or any if the method or adapter has no options.

    Args:
        head: the method or the kind of adapter.
        names: of the options that it is given.
        known: names of the options that it has.

    Raises:
        SpecError: that names the settings an arm may have.
    """
    choices = (*known, *OWN_SETTINGS)
    for name in names:
        meant = (gradgate_name(name) or "").removesuffix("=")
        near = f" Did you mean {meant!r}?" if meant in OWN_SETTINGS else nearest(name, choices)
        if name not in choices and (not known or any(repr(setting) in near for setting in OWN_SETTINGS)):
            raise SpecError(
                f"{head!r} has no option {shown(name)}, and an arm has no setting of this name.{near} Settings that an "
                f"arm may have: {', '.join(OWN_SETTINGS)}."
            )


class OwnTexts:
    """Collect the settings of its own that a text gives an arm, as texts."""

    def __init__(self, arm: str) -> None:
        self.texts: dict[str, str] = {}
        self._arm = arm

    def add(self, options: Iterable[str]) -> None:
        """Add ``name=value`` texts; UsageError for a name that is given before."""
        for option in options:
            name, _, value = (word.strip() for word in option.partition("="))
            if name in self.texts:
                raise self.twice(name)
            self.texts[name] = value

    def twice(self, name: str) -> SpecError:
        """Return the error for a setting that is given twice."""
        return SpecError(f"{shown(self._arm)} gives {name} twice. Give it once.")

    def values(self) -> dict[str, Any]:
        """Return the settings as values, in the order of the text; UsageError for one that is out of range."""
        return {name: self._value(name, text) for name, text in self.texts.items()}

    def _value(self, name: str, text: str) -> Any:
        try:
            return read_setting(name, text)
        except ValueError as error:
            raise SpecError(f"{shown(self._arm)} cannot have {shown(f'{name}={text}')}: {error}") from None
