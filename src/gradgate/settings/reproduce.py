"""Define the settings that a reproduction of a paper's table or figure takes in place of the paper's."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from gradgate.settings.data import SubjectSettings
from gradgate.settings.shared import SharedSettings


class ReproduceSettings(SharedSettings):
    """The settings of runs that replace those of a preset."""

    section: ClassVar[str] = "data"

    train_size: int | None = Field(None, ge=1, description=SubjectSettings.model_fields["train_size"].description)
