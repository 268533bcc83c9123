"""Find the files with results, and read each with the reader that knows its form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.files import digest
from gradgate.study.conditions import is_study
from gradgate.study.importing import own, suites, tables, trackers
from gradgate.study.importing.raw import RawTable

_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz", ".json.gz")
_DOCUMENTS: tuple[tuple[Callable[[Any], bool], Callable[[Path, Any], RawTable]], ...] = (
    (suites.is_peft_suite, suites.peft_suite),
    (suites.is_trainer_state, suites.trainer_state),
    (suites.is_harness, suites.harness),
)
FORMS = (
    "CSV or TSV, a row per score (long), or a column per seed or metric (wide)",
    "JSON Lines, a list of objects in JSON, Parquet",
    "PEFT's method_comparison JSON",
    "Trainer's trainer_state.json",
    "lm-evaluation-harness JSON",
    "Weights & Biases: the CSV of runs or of a chart",
    "Trackio: CSV or Parquet of a project",
    "gradgate study export, as JSON, CSV or curves",
)
NOT_READ = "JSON of an unknown form, not read"


class UnknownFormError(DataError):
    """A JSON document without results, such as the configuration of a model."""


@dataclass(frozen=True)
class SourceFile:
    """A file that results were read from.

    Attributes:
        name: relative to the folder that was named.
        sha256: of its content.
        form: what it was read as; NOT_READ for JSON without results in a folder, such as a model's configuration.
        rows: that it has.
    """

    name: str
    sha256: str
    form: str
    rows: int

    @property
    def is_read(self) -> bool:
        """Whether results were read from it."""
        return self.form != NOT_READ


def find_files(paths: Iterable[Path]) -> list[tuple[str, Path]]:
    """Return the files with results, each with its name relative to the folder that was named.

    Raises:
        DataError: for a path that does not exist, and for a folder without such a file, or of a study.
    """
    found: list[tuple[str, Path]] = []
    for path in paths:
        if path.is_dir():
            if is_study(path):
                raise DataError(
                    f"{path} is a study of gradgate and needs no import: 'gradgate study verdicts {path}' compares its "
                    f"arms. To join it with other results, import what 'gradgate study export {path} --csv' prints."
                )
            inside = sorted(file for file in path.rglob("*") if file.is_file() and _is_table(file))
            inside = [file for file in inside if not any(part.startswith(".") for part in file.relative_to(path).parts)]
            if not inside:
                raise DataError(f"{path} holds no results; expected files that end with {', '.join(_TABLES[:6])}.")
            found += [(file.relative_to(path).as_posix(), file) for file in inside]
        elif path.is_file():
            found.append((path.name, path))
        else:
            raise DataError(f"There is no file or folder {path}. Expected results: {'; '.join(FORMS)}.")
    return found


def read_files(paths: Iterable[Path]) -> tuple[list[RawTable], list[SourceFile]]:
    """Read every file with results below some paths.

    JSON of an unknown form is not read if a folder has it, as one of Trainer has the files of its model, too.

    Raises:
        DataError: for a file that cannot be read; it is named.
    """
    named, read, files = list(paths), [], []
    unknown: list[UnknownFormError] = []
    for name, path in suites.without_earlier_states(find_files(named)):
        try:
            table = read_file(path)
        except UnknownFormError as error:
            if path in named:
                raise
            unknown.append(error)
            files.append(SourceFile(name, digest(path), NOT_READ, 0))
            continue
        rows = len(table.rows) + sum(table.left_out.values())
        read.append(table)
        files.append(SourceFile(name, digest(path), table.form, rows))
    if unknown and not read:
        raise unknown[0]
    return read, files


def read_file(path: Path) -> RawTable:
    """Read one file with results; DataError if it cannot be read."""
    ending = "".join(path.suffixes[-2:]).removesuffix(".gz") if path.suffix == ".gz" else path.suffix
    if ending.lower() == ".parquet":
        return recognised(tables.read_parquet(path))
    text = tables.read_text(path)
    if ending.lower() in (".jsonl", ".ndjson"):
        return recognised(tables.read_json_lines(path, text))
    if ending.lower() == ".json":
        return _document(path, text)
    return recognised(tables.read_delimited(path, text))


def recognised(table: RawTable) -> RawTable:
    """Return the scores of a table that a known program wrote, and any other table as it is."""
    return own.read_own(table) or trackers.read_tracker(table) or table


def _document(path: Path, text: str) -> RawTable:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}. Expected one of: {'; '.join(FORMS)}.") from None
    for is_form, read in _DOCUMENTS:
        if is_form(content):
            return read(path, content)
    if isinstance(content, Mapping) and isinstance(content.get("runs"), list):
        content = content["runs"]  # gradgate's export of a study with a budget
    if isinstance(content, list) and content and all(isinstance(each, Mapping) for each in content):
        return recognised(tables.of_objects(path.name, content))
    raise UnknownFormError(f"{path} is JSON of an unknown form. Expected one of: {'; '.join(FORMS)}.")


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith(_TABLES)
