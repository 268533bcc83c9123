"""Define the settings of what is scored and measured while a run trains."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, model_validator

from gradgate.settings.base import MOST_IN_BATCH, MOST_STEPS, CheckedSettings
from gradgate.settings.fields import ForgettingField, TrackField


class EvaluationSettings(CheckedSettings):
    """Settings of when and by what a run is scored, and of what else is measured."""

    section: ClassVar[str] = "evaluation"

    metric: str | None = Field(
        None, description="metric on dev that selects the best checkpoint; by default the task's"
    )
    eval_every: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="optimizer steps between evaluations on dev; by default once per epoch"
    )
    skip_test: bool | None = Field(None, description="do not score the test splits, as in a search for settings")
    test_each_epoch: bool | None = Field(
        None, description="also score the test splits after each epoch, for curves; nothing is selected by these scores"
    )
    max_new_tokens: int | None = Field(
        None,
        ge=1,
        le=MOST_IN_BATCH,
        description="generation: maximum number of tokens in a response; by default 128, or half of the model's "
        "positions if that is less",
    )
    audit: bool | None = Field(
        None, description="check at each change of plan that frozen weights are still bit-identical"
    )
    track: TrackField = Field(
        None,
        description="measure the Fisher information tr(F) of each layer during training: fisher:every=50,batches=8 "
        "measures every 50 optimizer steps on 8 training batches; the trained weights stay bit-identical",
    )
    forgetting: ForgettingField = Field(
        None,
        description="generation: measure how much other text the model forgets, before and after training: a text "
        "file with one text per line ('sample-opinions' is built in), a table or hub data set with a "
        "column of texts, or prompts and responses of another task; options follow a colon, as in "
        "FILE:column=body,tokens=50000 (column, tokens, subset, split, metric, rows); metric=kl measures the KL "
        "divergence from the pretrained model",
    )

    @model_validator(mode="after")
    def _scored_or_not(self) -> EvaluationSettings:
        if self.test_each_epoch and self.skip_test:
            raise ValueError(
                "test_each_epoch= scores the test splits and skip_test= leaves them alone; pass one of them"
            )
        return self
