"""Define the settings of an import: which columns of somebody's results say what."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from gradgate.settings.base import CheckedSettings
from gradgate.settings.values import several

Columns = Annotated[tuple[str, ...], BeforeValidator(lambda given: tuple(str(each) for each in several(given)))]


class ImportSettings(CheckedSettings):
    """The columns of a table of results. Those that are not named are found if there is one sensible reading."""

    section: ClassVar[str] = "data"

    arm: Columns = Field(
        (), description="Column with the arm, which is what to compare; repeat to join several columns to one name."
    )
    score: Columns = Field(
        (), description="Column with the scores; repeat for a table with one column per metric or seed."
    )
    seed: Columns = Field(
        (), description="Column with the seed of a run, a number or a name; repeat to join several columns."
    )
    task: Columns = Field(
        (), description="Column with the task or data set; repeat to join several columns to one name."
    )
    model: Columns = Field(
        (), description="Column with the pretrained model; repeat to join several columns to one name."
    )
    split: str | None = Field(
        None, description="Column with the split of a score, or dev or test if all scores have the same."
    )
    step: str | None = Field(None, description="Column with the optimizer step or epoch of a score.")
    metric: str | None = Field(
        None, description="Column with the metric of a score, or the name of the metric to compare on."
    )
    rows: str | None = Field(
        None,
        description="Column with a number of rows: the training set's size, each a condition of its own, or the rows "
        "that a split was scored on, if each split has one number.",
    )
    cost: Columns = Field((), description="Column with a cost, such as seconds or bytes; repeatable.")
    lower_is_better: bool = Field(False, description="Lower scores are better, whatever the metric's name suggests.")
    reference: str | None = Field(None, description="Arm to compare the others with; by default full, or the first.")
    pair: str | None = Field(
        None,
        description="Column that pairs scores, such as the fold; by default the seed. 'none' if scores are not paired.",
    )
