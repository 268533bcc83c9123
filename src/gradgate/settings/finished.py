"""Define the settings of what is asked of finished runs: scores, predictions and exports."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from pydantic import Field, field_validator

from gradgate.settings.base import MOST_IN_BATCH, CheckedSettings
from gradgate.settings.compare import Texts
from gradgate.settings.data import language_codes
from gradgate.settings.fields import OptionalPlaceField, PathField

Form = Literal["transformers", "peft", "adapterhub", "delta"]
FORMS: tuple[Form, ...] = get_args(Form)
Dtype = Literal["float32", "bfloat16", "float16"]


class PlaceSettings(CheckedSettings):
    """Settings of where the files of a finished run's task are, and of whether its code is trusted."""

    section: ClassVar[str] = "data"

    data: PathField = Field(None, description="Folder with the task's files, if they have moved.")
    trust_remote_code: bool = Field(False, description="Run Python code from the models' hub repositories.")


class ColumnSettings(PlaceSettings):
    """The columns of the rows that are texts."""

    section: ClassVar[str] = "data"

    text: str | None = Field(None, description="Text column; by default the run's.")
    text_pair: str | None = Field(None, description="Column of the second text of a pair.")


class OfTaskSettings(ColumnSettings):
    """The model of a run that is asked, if it has several."""

    section: ClassVar[str] = "data"

    of_task: str | None = Field(None, description="Task to use, if the run trained several together.")


class EvaluateSettings(OfTaskSettings):
    """Everything that an evaluation of a finished run is asked for."""

    section: ClassVar[str] = "data"

    task: OptionalPlaceField = Field(None, description="Another task of the same kind; by default the run's own.")
    label: str | None = Field(None, description="Label column; by default the task's.")
    languages: tuple[str, ...] | None = Field(
        None, description="Score in these languages only, such as 'de,fr'.", json_schema_extra={"text": True}
    )
    test_file: PathField = Field(None, description="Test file, instead of the task's own.")

    @field_validator("languages", mode="before")
    @classmethod
    def _codes(cls, languages: object) -> object:
        return language_codes(languages)


class PredictSettings(OfTaskSettings):
    """Everything that predictions of finished runs are asked for."""

    section: ClassVar[str] = "data"

    keep: Texts = Field((), description="Column of the file to copy to each prediction, such as an id; repeatable.")
    language: str | None = Field(
        None,
        description="Language of the rows, for runs that were trained with language adapters.",
    )
    batch_size: int | None = Field(
        None, ge=1, le=MOST_IN_BATCH, description="Rows per batch [default: the run's, or 64 if that is more]."
    )


class ExportSettings(CheckedSettings):
    """Everything that an export of a finished run is asked for."""

    section: ClassVar[str] = "output"

    to: Form | None = Field(
        None,
        description="Format; by default transformers for a whole model, peft for a PEFT adapter, adapterhub for a "
        "bottleneck adapter.",
        json_schema_extra={"flag": "--as"},
    )
    dtype: Dtype | None = Field(None, description="Type of the weights; by default as stored by the run.")
    trust_remote_code: bool = Field(False, description="Run Python code from the model's hub repository.")
