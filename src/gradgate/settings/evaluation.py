"""Define the settings of what is scored and measured while a run trains."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from gradgate.settings.base import MOST_IN_BATCH, MOST_STEPS, CheckedSettings
from gradgate.settings.fields import ForgettingField, TrackField


class EvaluationSettings(CheckedSettings):
    """When and by what a run is scored, and what else is measured."""

    section: ClassVar[str] = "evaluation"

    metric: str | None = Field(None, description="metric that selects the best checkpoint on dev")
    eval_every: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="optimizer steps between scores on dev; default each epoch"
    )
    skip_test: bool | None = Field(None, description="leave the test splits alone, as in a search of settings")
    test_each_epoch: bool | None = Field(
        None, description="score the test splits after each epoch too, for curves; nothing is selected by it"
    )
    max_new_tokens: int | None = Field(
        None,
        ge=1,
        le=MOST_IN_BATCH,
        description="generation: tokens of a generated response at most; default 128, or half of the model's positions",
    )
    audit: bool | None = Field(None, description="prove at each change of plan that closed weights are bit-identical")
    track: TrackField = Field(
        None,
        description="measure tr(F), the Fisher information of each layer, while training, which changes no bit of it: "
        "fisher:every=50,batches=8, in optimizer steps and in training batches for one measurement",
    )
    forgetting: ForgettingField = Field(
        None,
        description="generation: measure what training forgets of other text, before and after: a text file with one "
        "text per line ('sample-opinions' is built in), a table or hub data set with a column of texts, or prompts and "
        "responses of another task; with options as FILE:column=body,tokens=50000, or subset, split, metric and rows",
    )

    @model_validator(mode="after")
    def _scored_or_not(self) -> EvaluationSettings:
        if self.test_each_epoch and self.skip_test:
            raise ValueError("test_each_epoch scores the test splits and skip_test leaves them alone; give one of them")
        return self
