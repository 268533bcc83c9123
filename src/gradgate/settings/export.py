"""Define the settings of an export: its form and its precision."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from pydantic import Field

from gradgate.settings.base import CheckedSettings

Form = Literal["transformers", "peft", "adapterhub", "delta"]
FORMS: tuple[Form, ...] = get_args(Form)
Dtype = Literal["float32", "bfloat16", "float16"]


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
