"""Define the settings of a drawn plan: those of a run, with a length in steps."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from gradgate.settings.base import LEAST_EPOCHS, MOST_EPOCHS, MOST_STEPS
from gradgate.settings.data import SubjectSettings
from gradgate.settings.method import MethodChoice
from gradgate.settings.optimization import SeedSettings
from gradgate.settings.shared import SharedSettings


class PlanSettings(SharedSettings, SeedSettings, MethodChoice, SubjectSettings):
    """Everything that a plan is asked for."""

    section: ClassVar[str] = "optimization"

    steps: int = Field(ge=1, le=MOST_STEPS, description="optimizer steps of the training")
    epochs: float = Field(
        1.0, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="passes over the data, for methods that count them"
    )

    @model_validator(mode="after")
    def _one_length(self) -> PlanSettings:
        """Take both lengths: a plan without data needs ``epochs`` to know how long one is."""
        return self
