"""Define the settings of what is asked of finished runs: scores, predictions and exports."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from pydantic import Field, field_validator

from gradgate.settings.base import MOST_IN_BATCH, CheckedSettings
from gradgate.settings.compare import Texts
from gradgate.settings.fields import OptionalPlaceField, PathField

Form = Literal["transformers", "peft", "adapterhub", "delta"]
FORMS: tuple[Form, ...] = get_args(Form)
Dtype = Literal["float32", "bfloat16", "float16"]


class PlaceSettings(CheckedSettings):
    """Where the files of a finished run's task are, and whether its code is trusted."""

    section: ClassVar[str] = "data"

    data: PathField = Field(None, description="Folder with the files of the task, where they have moved.")
    trust_remote_code: bool = Field(False, description="Run code that comes with the models.")


class ColumnSettings(PlaceSettings):
    """Which columns of the rows are texts."""

    section: ClassVar[str] = "data"

    text: str | None = Field(None, description="Text column; by default that of the run's task.")
    text_pair: str | None = Field(None, description="Column of the second text, of pairs.")


class OfTaskSettings(ColumnSettings):
    """Which model of a run is asked, if it has several."""

    section: ClassVar[str] = "data"

    of_task: str | None = Field(None, description="One of the tasks that the run trained together.")


class EvaluateSettings(OfTaskSettings):
    """Everything that an evaluation of a finished run is asked for."""

    section: ClassVar[str] = "data"

    task: OptionalPlaceField = Field(None, description="A task of the same kind; by default the run's own.")
    label: str | None = Field(None, description="Label column; by default that of the task.")
    languages: tuple[str, ...] | None = Field(
        None, description="Score in these languages only, as 'de,fr'.", json_schema_extra={"text": True}
    )
    test_file: PathField = Field(None, description="Test file, instead of the task's own.")

    @field_validator("languages", mode="before")
    @classmethod
    def _codes(cls, languages: object) -> object:
        return [code.strip() for code in languages.split(",")] if isinstance(languages, str) else languages


class PredictSettings(OfTaskSettings):
    """Everything that predictions of finished runs are asked for."""

    section: ClassVar[str] = "data"

    keep: Texts = Field(
        (), description="Column of the file to give back with each prediction, such as an id; repeatable."
    )
    language: str | None = Field(
        None,
        description="Language of the rows, whose adapter runs, for runs that were made with language_adapters.",
    )
    batch_size: int | None = Field(None, ge=1, le=MOST_IN_BATCH, description="Rows of a batch [default: the run's].")


class ExportSettings(CheckedSettings):
    """Everything that an export of a finished run is asked for."""

    section: ClassVar[str] = "output"

    to: Form | None = Field(
        None,
        description="Form of what is written; by default transformers for a whole model, peft for an adapter of PEFT, "
        "adapterhub for a bottleneck adapter.",
        json_schema_extra={"flag": "--as"},
    )
    dtype: Dtype | None = Field(None, description="Type of the weights; by default as the run stored them.")
    trust_remote_code: bool = Field(False, description="Run code that comes with the model.")
