"""Describe a task (kind, columns, files or place on the hub), read from YAML without touching data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import ErrorDetails

from gradgate.errors import DataError, UsageError, nearest
from gradgate.files import read_bytes
from gradgate.plain_yaml import parse_yaml
from gradgate.tasks.faults import in_words, unknown_entry
from gradgate.tasks.forms import FORMS
from gradgate.tasks.types import (
    KIND_INFO,
    LANGUAGE,
    TRAIN_AND_DEV,
    FileFormat,
    FileName,
    HubSource,
    KindName,
    KindOptions,
    LanguageCode,
    Name,
    Shares,
    base_of,
    read_shares,
)

_LONGEST_NAME = 100
_NOT_WRITTEN = ("options", "folder", "notes")  # to task files


def _label_names(value: object) -> object:
    """Accept ``{0: negative}`` for ``{"0": "negative"}``, but not ``yes`` and ``no``, which YAML reads as booleans."""
    if not isinstance(value, Mapping):
        return value
    for word in (*value.keys(), *value.values()):
        if isinstance(word, bool):
            raise ValueError(f"YAML reads the unquoted label as {word}; put it in quotes")
    return {str(raw): str(name) for raw, name in value.items()}


def _text_of_shares(shares: Shares | None) -> str | None:
    return None if shares is None else str(shares)


def _shares(value: object) -> object:
    try:
        return read_shares(value) if isinstance(value, str) else value
    except UsageError as error:
        raise ValueError(str(error)) from None


def plain_name(words: str) -> str:
    """Make a task name from that of a file or folder: other characters become ``_``."""
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in words).lstrip(".-")
    return name[:_LONGEST_NAME] or "data"


class TaskSpec(BaseModel):
    """A task, before any of its data is read.

    Args:
        name: letters, digits, ``.``, ``_`` and ``-``; it names folders of runs.
        kind: one of ``gradgate.tasks.types.KIND_INFO``.
        text: the text column, or two columns for a pair of texts, or three of which the last two make one text. Of
            tagged tokens, the column of a sentence's tokens; of question answering, those of question and context; of
            multiple choice, the premise's; of ranking, the query's and then the document's. Default: the
            kind's.
        label: the column of the label, score, tags, answers or grade; of several labels per row, one column with all
            of them, or a column per label, as a list or with commas between them; default: the kind's.
        form: the form of the rows, one of ``gradgate.tasks.forms.FORMS``, whose columns become those of the kind; None
            reads the columns as they are.
        language_column: the column with the code of each row's language, which makes a task in several languages.
        options: entries of tasks of this kind only, a ``KIND_INFO[kind].options``. A task file and a dumped spec have
            these entries next to ``kind``: ``{kind: ranking, query: id}``.
        metric: selects checkpoints; default: the kind's.
        languages: codes of the languages that the task is scored in, if there are several.
        source: code of the language of train and dev.
        files: split -> path, relative to ``folder`` or absolute. Splits are ``train``, ``dev`` and any others, all of
        which are test splits. A path with ``{language}`` stands for one file per language: see
        :func:`gradgate.tasks.languages.expand`.
        split: percentages of the train file's rows for train, dev and test, of which those are taken that have no file
            of their own; ``80/10/10``.
        folder: where the task was read from; None reads from the hub.
        hub: the same data on the hub; used if ``folder`` is None.
        format: how the files are written; ``formats`` changes it for single splits.
        label_map: label in the data -> its name, in the order of the model's outputs. Names themselves are also
            accepted in the data. None sorts the labels of train.
        description, paper: for people.
        notes: what was noticed when its files were found; no entry of task files.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    name: Name
    kind: KindName = "classification"
    text: str | tuple[str, str] | tuple[str, str, str] = "text"
    label: str = "label"
    form: str | None = None
    language_column: str | None = None
    options: SerializeAsAny[KindOptions] = KindOptions()
    metric: str = ""
    languages: tuple[LanguageCode, ...] = ()
    source: LanguageCode = "en"
    files: dict[Name, FileName] | None = None
    split: Annotated[Shares | None, BeforeValidator(_shares), PlainSerializer(_text_of_shares)] = None
    folder: Path | None = None
    hub: HubSource | None = None
    format: FileFormat = FileFormat()
    formats: dict[str, dict[str, Any]] = {}
    label_map: Annotated[dict[str, str] | None, BeforeValidator(_label_names)] = None
    description: str | None = None
    paper: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def text_columns(self) -> tuple[str, ...]:
        """One to three column names in the source that is read."""
        text = self.hub.text if self.folder is None and self.hub and self.hub.text else self.text
        return (text,) if isinstance(text, str) else text

    @property
    def label_column(self) -> str:
        """The label's or score's column name in the source that is read."""
        return self.hub.label if self.folder is None and self.hub and self.hub.label else self.label

    def format_of(self, split: str) -> FileFormat:
        """Return ``format`` with the changes of ``formats`` for this split; those of ``test`` apply to ``test.de``."""
        change = self.formats.get(split, self.formats.get(base_of(split), {}))
        return FileFormat.model_validate({**self.format.model_dump(), **change})

    def reading(self) -> dict[str, Any]:
        """Return how its rows are read, as entries of a task file, without the place of the data."""
        entries = self.model_dump(mode="json", include={"format", "formats", "options", "label_map"})
        entries |= {} if self.form is None else {"form": self.form}
        texts = self.text_columns[0] if len(self.text_columns) == 1 else list(self.text_columns)
        names = {split: Path(file).name for split, file in (self.files or {}).items()}
        return {**entries, "text": texts, "label": self.label_column, "files": names}

    @property
    def places(self) -> dict[str, str]:
        """Split -> file or split on the hub, whichever the task is read from."""
        if self.folder is not None:
            return self.files or {}
        if self.hub is None:
            return {}
        training = {split: self.hub.training.splits[split] for split in TRAIN_AND_DEV} if self.hub.training else {}
        return {**training, **self.hub.splits}

    def language_of(self, split: str) -> str:
        """Return ``de`` for ``test.de`` if the task has that language, else the source language."""
        _, dot, language = split.rpartition(".")
        return language if dot and language in self.languages else self.source

    @model_validator(mode="before")
    @classmethod
    def _of_the_kind(cls, values: Any) -> Any:
        """Check kind and metric, fill in the kind's columns, and collect the entries that only this kind has."""
        if not isinstance(values, Mapping):
            return values
        kind = values.get("kind", "classification")
        if not isinstance(kind, str) or kind not in KIND_INFO:
            near = nearest(str(kind), KIND_INFO)
            raise ValueError(f"unknown kind {kind!r}; expected one of {', '.join(KIND_INFO)}.{near}")
        info = KIND_INFO[kind]
        metric = values.get("metric") or info.default_metric
        if metric not in info.metrics:
            near = nearest(str(metric), info.metrics)
            raise ValueError(f"unknown metric {metric!r} for {kind}; expected one of {', '.join(info.metrics)}.{near}")
        own = info.options.model_fields
        if "options" not in values:
            options = {entry: value for entry, value in values.items() if entry in own}
            values = {**{entry: value for entry, value in values.items() if entry not in own}, "options": options}
        elif not isinstance(values["options"], KindOptions):
            entries = f"write {', '.join(own)} next to `kind`" if own else f"{kind} has none of its own, remove it"
            raise ValueError(f"`options` is not a valid entry; {entries}")
        return {"text": info.text, "label": info.label, **values, "metric": metric}

    @field_validator("label", mode="before")
    @classmethod
    def _several_columns(cls, label: Any, info: ValidationInfo) -> Any:
        """Accept a list of columns, one per label, for their names with commas between them."""
        if isinstance(label, list | tuple) and label and info.data.get("kind") == "multi-label":
            return ",".join(map(str, label))
        return label

    @field_validator("options", mode="before")
    @classmethod
    def _options_of_the_kind(cls, options: Any, info: ValidationInfo) -> KindOptions:
        kind = KIND_INFO[info.data["kind"]]
        if isinstance(options, KindOptions) and type(options) is not kind.options:
            raise ValueError(f"{type(options).__name__} is not for {kind.name}; expected {kind.options.__name__}")
        return kind.options.model_validate(options)

    @field_validator("form")
    @classmethod
    def _known_form(cls, name: str | None, info: ValidationInfo) -> str | None:
        forms = {known: form for known, form in FORMS.items() if form.kind is not None}
        if name is not None and name not in forms:
            raise ValueError(f"unknown form {name!r}; expected one of {', '.join(forms)}.{nearest(name, forms)}")
        kind = info.data.get("kind")
        if name is not None and kind is not None and forms[name].kind != kind:
            raise ValueError(f"the form {name!r} is for {forms[name].kind}, but the kind of this task is {kind}")
        return name

    @model_serializer(mode="wrap")
    def _with_flat_options(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dump(self)
        options = values.pop("options", {})
        if not values.get("notes"):
            values.pop("notes", None)
        return {**values, **options}

    @model_validator(mode="after")
    def _formats_can_be_read(self) -> TaskSpec:
        for split in self.formats:
            try:
                self.format_of(split)
            except ValidationError as error:
                faults = [in_words(fault, FileFormat, below=f"formats.{split}") for fault in error.errors()]
                raise ValueError("; ".join(faults)) from None
        return self

    @model_validator(mode="after")
    def _texts_are_not_the_label(self) -> TaskSpec:
        if self.label_column in self.text_columns:
            raise ValueError(
                f"{self.label_column!r} is the label and a text, so the model would read the answer; name two columns"
            )
        return self

    @model_validator(mode="after")
    def _templates_have_languages(self) -> TaskSpec:
        if not self.languages and any(LANGUAGE in file for file in (self.files or {}).values()):
            raise ValueError(f"{LANGUAGE} in `files` stands for each of `languages`; add `languages: [en, de]`")
        return self


def build_spec(values: Mapping[str, Any], source: str) -> TaskSpec:
    """Build a checked spec; ``source`` names the file or task in the DataError that lists every fault."""
    try:
        return TaskSpec.model_validate(values)
    except ValidationError as error:
        kind = values.get("kind", "classification")
        faults = "; ".join(_of_task(fault, kind) for fault in error.errors())
        raise DataError(f"{source} is not a valid task: {faults}") from error


def _of_task(fault: ErrorDetails, kind: str) -> str:
    """Explain where the fault is in a task file, whose options are flat, and what was expected there."""
    place = [str(part) for part in fault["loc"]]
    if place[:1] == ["options"] and len(place) > 1:
        place = place[1:]
    elif len(place) == 1 and fault["type"] == "extra_forbidden":
        return f"{place[0]}: {_unknown_entry(place[0], kind)}"
    return in_words({**fault, "loc": tuple(place)}, TaskSpec)


def _unknown_entry(entry: str, kind: str) -> str:
    known = [
        *(name for name in TaskSpec.model_fields if name not in _NOT_WRITTEN),
        *KIND_INFO[kind].options.model_fields,
    ]
    owner = next((info.name for info in KIND_INFO.values() if entry in info.options.model_fields), None)
    if owner is None:
        return unknown_entry(entry, known)
    return f"an entry of {owner}, but the kind of this task is {kind}. Remove it, or set `kind: {owner}`."


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file; raise a DataError that says what is wrong and where."""
    try:
        values = parse_yaml(read_bytes(path))
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}. Expected a YAML file; check its path and permissions"
        ) from error
    except ValueError as error:
        raise DataError(
            f"{path}{_line_in(str(error))} cannot be read as YAML: {error}. Expected `name: value` lines"
        ) from None
    if not isinstance(values, dict):
        raise DataError(f"{path} is not a valid task: expected `name: value` lines, found {type(values).__name__}")
    return values


def _line_in(message: str) -> str:
    """Return ``:7`` if the message names line 7; of several lines, the one in which reading ended."""
    lines = re.findall(r"line (\d+)", message)
    return f":{lines[0] if message.startswith('line') else lines[-1]}" if lines else ""


def read_spec(path: Path, folder: Path | None = None) -> TaskSpec:
    """Read the task that a YAML file describes, its data files in ``folder`` (default: the YAML's own).

    Raises:
        DataError: a file that cannot be read, unknown or malformed entries, or data files outside the folder.
    """
    values = read_yaml(path)
    if "folder" in values:
        raise DataError(f"{path}: `folder` is not an entry; paths in `files` are relative to this file's folder")
    if "notes" in values:
        raise DataError(f"{path}: `notes` is not an entry; write what people should know as `description`")
    files = values.get("files")
    if isinstance(files, dict):
        for split, file in files.items():
            _stay_inside(str(file), f"{path}: files.{split}")
    values.setdefault("name", plain_name(path.resolve().parent.name))
    if files is not None:
        values["folder"] = (folder or path.parent).resolve()
    elif folder is not None:
        raise DataError(f"{path} names no files to look for in {folder}; add `files: {{train: ..., dev: ...}}` to it")
    spec = build_spec(values, str(path))
    if spec.languages and spec.language_column is None and not _is_in_languages(spec):
        raise DataError(
            f"{path}: `languages` has {', '.join(spec.languages)}, but no path in `files` contains {LANGUAGE}. Put "
            f"it where the file names differ, as in `test: test.{{language}}.tsv`, or remove `languages`"
        )
    return spec


def _is_in_languages(spec: TaskSpec) -> bool:
    """Return True if there are splits in single languages."""
    if spec.folder is not None:
        return any(LANGUAGE in f or s.rpartition(".")[2] in spec.languages for s, f in (spec.files or {}).items())
    return spec.hub is None or any(map(spec.hub.is_by_language, spec.hub.splits))


def _stay_inside(file: str, where: str) -> None:
    """Refuse a path that a task file must not name; symbolic links that the user created are followed."""
    absolute = PurePosixPath(file).is_absolute() or PureWindowsPath(file).is_absolute() or PureWindowsPath(file).drive
    if absolute or file.startswith("~") or ".." in PureWindowsPath(file).parts:
        raise DataError(
            f"{where}: {file!r} is outside the task's folder. Expected a relative path without '..'; "
            "put the file into the folder, or pass it as train_file=, dev_file= or test_file="
        )
