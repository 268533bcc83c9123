"""Define the settings of what is shown of a model without training it: its layers, and a method's plan on it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from gradgate.errors import UsageError
from gradgate.settings.base import LEAST_EPOCHS, MOST_EPOCHS, MOST_STEPS, CheckedSettings, checked_settings, passed
from gradgate.settings.data import SubjectSettings
from gradgate.settings.fields import OptionalPlaceField, PathField
from gradgate.settings.method import MethodChoice
from gradgate.settings.optimization import SeedSettings
from gradgate.settings.run import RunConfig, SharedSettings
from gradgate.tasks.types import KindName


class PlanSettings(SharedSettings, SeedSettings, MethodChoice, SubjectSettings):
    """Everything that a plan is asked for."""

    section: ClassVar[str] = "optimization"

    steps: int = Field(ge=1, le=MOST_STEPS, description="number of optimizer steps of the training")
    epochs: float = Field(
        1.0, ge=LEAST_EPOCHS, le=MOST_EPOCHS, description="number of epochs, for methods that count in epochs"
    )

    @model_validator(mode="after")
    def _one_length(self) -> PlanSettings:
        """Take both lengths: a plan without data needs ``epochs`` to know how long one is."""
        return self

    @cached_property
    def run(self) -> RunConfig:
        """The settings of the training whose plan is drawn."""
        return checked_settings(RunConfig, {**passed(self), "epochs": None})


class LayersSettings(CheckedSettings):
    """Everything that a printed layer map is asked for, except the model."""

    section: ClassVar[str] = "data"

    task: OptionalPlaceField = Field(None, description="Task whose kind decides the head; by default classification.")
    kind: KindName | None = Field(None, description="Kind of task that decides the head.")
    data: PathField = Field(None, description="Folder with the files of the task.")
    layers: str | None = Field(None, description="Path of the layer stack, such as 'encoder.block'.")
    unit: Literal["layer", "part", "module"] | None = Field(
        None, description="Size of the groups within the stack; by default layer, or module with snr=."
    )
    select: str | None = Field(
        None, description="Print the parameters that a selector matches, such as 'layers.top4/@norm/head'."
    )
    snr: bool = Field(False, description="Print the signal-to-noise ratio of each module's weights, by kind.")
    share: float | None = Field(
        None, description="With snr=, mark the modules that spectrum would train at this share; by default 0.25."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="With snr=, where to compute; auto takes a GPU if there is one."
    )
    trust_remote_code: bool = Field(False, description="Run Python code from the model's hub repository.")

    @model_validator(mode="after")
    def _one_question(self) -> LayersSettings:
        if self.share is not None and not self.snr:
            raise UsageError("share= sets what snr= marks. Add snr=True.")
        if self.device != "auto" and not self.snr:
            raise UsageError("device= sets where snr= measures; a layer map needs no device. Add snr=True.")
        if self.snr and self.select is not None:
            raise UsageError("select= and snr= cannot be combined. Leave one of them out.")
        return self

    def run(self, model: str) -> RunConfig:
        """Return the settings of a training of a model, as far as they decide its layers."""
        own: dict[str, Any] = {name: getattr(self, name) for name in ("task", "kind", "data", "trust_remote_code")}
        return checked_settings(RunConfig, {**own, "model": model})
