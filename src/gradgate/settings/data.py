"""Define the settings of what is trained on: the task, its files and columns, and how much of it."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from gradgate.settings.base import MOST_IN_BATCH, CheckedSettings
from gradgate.settings.fields import PathField, PlaceField, SplitField
from gradgate.tasks.types import KindName


def language_codes(given: object) -> object:
    """Return codes between commas, or a sequence of them, as a list without repeats; anything else as it is.

    Raises:
        ValueError: for a code that is empty or not a text, or none.
    """
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list | tuple):
        return given
    codes = list(dict.fromkeys(word.strip() if isinstance(word, str) else "" for word in words))
    if not codes or not all(codes):
        raise ValueError("expected codes of languages with commas between them, as in de,fr")
    return codes


def _joined_codes(given: object) -> object:
    codes = language_codes(given)
    return ",".join(codes) if isinstance(codes, list) else codes


CodesField = Annotated[str | None, BeforeValidator(_joined_codes)]


class SubjectSettings(CheckedSettings):
    """One model, one task, and how many of its rows are trained on."""

    section: ClassVar[str] = "data"

    model: PlaceField = Field(
        "sample",
        description="hub name or folder of a pretrained model; 'sample' (an encoder) and 'sample-decoder' are built in",
    )
    task: PlaceField = Field(
        "sample",
        description="name from 'gradgate tasks', several joined as 'cola+sst2', a YAML task file, a folder of data "
        "files, or one data file, which split= divides",
    )
    train_size: int | None = Field(
        None, ge=1, description="train on a random sample of this many examples (per task), drawn with the seed"
    )

    @model_validator(mode="before")
    @classmethod
    def _train_file_is_the_task(cls, values: Any) -> Any:
        """Take ``train_file`` alone for the task, not for other training data of the default task."""
        if not isinstance(values, dict) or values.get("task") is not None or values.get("train_file") is None:
            return values
        return {**values, "task": str(values["train_file"]), "train_file": None}


class DataSettings(CheckedSettings):
    """The files, columns and languages of a task, and how its rows become examples."""

    section: ClassVar[str] = "data"

    data: PathField = Field(None, description="folder with the files of a named task, or with one folder per task")
    mix: str | None = Field(
        None,
        description="how to mix several tasks: size (the default) samples each in proportion to its size n, "
        "temperature:T in proportion to n^(1/T)",
    )
    text: str | None = Field(None, description="column of the (first) text")
    text_pair: str | None = Field(None, description="column of the second text")
    label: str | None = Field(None, description="column of the label or score")
    kind: KindName | None = Field(None, description="kind of task")
    train_file: PathField = Field(
        None, description="training file, instead of the task's own; without task=, this file is the task"
    )
    dev_file: PathField = Field(None, description="dev file, instead of the task's own")
    test_file: PathField = Field(None, description="test file, instead of the task's own")
    split: SplitField = Field(
        None,
        description="percentages of train, dev and test; splits without a file are taken from the training file, "
        "stratified by label, with a fixed data seed; 80/10/10 for a single file",
    )
    languages: CodesField = Field(None, description="score in these languages only, such as 'de,fr'; by default in all")
    source: str | None = Field(None, description="language to train and select in; by default the task's, usually en")
    dev_size: int | None = Field(
        None,
        ge=1,
        description="select on this many random rows of train that train_size= leaves out, drawn with the seed, and "
        "score the task's own dev split as a test split",
    )
    max_length: int = Field(
        128,
        ge=4,
        le=MOST_IN_BATCH,
        description="maximum number of tokens; longer inputs are truncated, or read in windows by tasks of tagging and "
        "question answering",
    )
    packing: bool | None = Field(
        None,
        description="generation: pack several examples into each training row of max_length= tokens; they do not "
        "attend to each other",
    )

    @field_validator("mix")
    @classmethod
    def _known_mix(cls, text: str | None) -> str | None:
        from gradgate.tasks.multitask import read_mix  # with the catalogue, which few commands look at

        return None if text is None else read_mix(text).text

    @model_validator(mode="after")
    def _one_dev(self) -> DataSettings:
        if self.dev_size is not None and self.dev_file is not None:
            raise ValueError("dev_size= takes dev from train and dev_file= is another dev; pass one of them")
        return self


def names_a_task(settings: CheckedSettings) -> bool:
    """Return whether a task was passed, by name or by its files, rather than left at its default."""
    return any(name in settings.model_fields_set for name in ("task", "kind", "data", "train_file"))
