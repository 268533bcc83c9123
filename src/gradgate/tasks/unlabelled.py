"""Read unlabelled rows for a trained model, with placeholders for labels."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.data import tests_of
from gradgate.tasks.forms import FORMS
from gradgate.tasks.kinds import TaskData
from gradgate.tasks.layout import laid_out
from gradgate.tasks.readers.decoding import decode, lines_of
from gradgate.tasks.readers.files import ENDINGS, files_of, missing, read_table
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import FileFormat, KindName

SPLIT = "test"
"""The name of the rows among the splits of their task."""
STANDARD_INPUT = "standard input"
IN_MEMORY = "The rows"


def read_file(path: Path, spec: TaskSpec) -> SourceTable:
    """Read rows from a file like those of the task, from another table, or else from text as :func:`read_text` does.

    A file that is named like one of the task's has its format, as GLUE's files differ in theirs; others of the same
    ending have that of the test file.

    Raises:
        DataError: a file that is missing, empty or malformed.
    """
    places = {split: Path(place) for split, place in (spec.files or {}).items()}
    if any(place.suffix == path.suffix for place in places.values()) and not path.is_dir():
        namesake = next((split for split, place in places.items() if place.name == path.name), None)
        fmt = spec.format_of(namesake or SPLIT)
        return read_table(path, fmt.model_copy(update={"rows": {}} if namesake else {"part": None, "rows": {}}))
    if path.suffix.lower() in ENDINGS or (path.is_dir() and files_of(path)):
        return read_table(path, FileFormat())
    if not path.is_file():
        raise DataError(f"{missing(path)}. Put the file there, or name another one")
    return read_text(decode(path)[0], spec, str(path))


def read_text(text: str, spec: TaskSpec, source: str = STANDARD_INPUT) -> SourceTable:
    """Read rows from text: JSON objects, one per line, or one example per line.

    Raises:
        DataError: no row, or lines that are not examples of this task.
    """
    if not text.lstrip().startswith("{"):
        return _lines(text, source, spec)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        file.write_text(text, encoding="utf-8", errors="backslashreplace")  # JSON has half a surrogate pair escaped
        try:
            return replace(read_table(file, FileFormat()), source=source)
        except DataError as error:
            raise DataError(str(error).replace(str(file), source)) from None


def read_texts(texts: Sequence[Any], spec: TaskSpec) -> SourceTable:
    """Return the table of texts in memory: one per row, or a sequence of the texts of each row.

    Raises:
        DataError: no row, or rows that do not have as many texts as the task.
    """
    columns = spec.text_columns
    if not texts:
        raise DataError(f"{IN_MEMORY} are empty; expected one or more")
    tokens = spec.kind == "token-classification"  # a list has the words of one text there
    cells: list[Any] = [[row] if tokens or isinstance(row, str) else list(row) for row in texts]
    for number, row in enumerate(cells):
        if len(row) != len(columns):
            raise DataError(
                f"{IN_MEMORY}, row {number + 1} has {len(row)} texts; expected {len(columns)} "
                f"({', '.join(columns)}). Pass that many, or dicts with these names"
            )
    if tokens:
        cells = [[words.split() if isinstance(words, str) else words] for (words,) in cells]
    by_column = zip(*cells, strict=True)
    return SourceTable(IN_MEMORY, dict(zip(columns, map(list, by_column), strict=True)))


def _lines(text: str, source: str, spec: TaskSpec) -> SourceTable:
    """Read one example per line; a tab separates texts of a pair, spaces separate tokens; empty lines are skipped."""
    columns = spec.text_columns
    numbered = [(number, line) for number, line in enumerate(lines_of(text), 1) if line.strip()]
    if not numbered:
        raise DataError(f"{source} is empty: it has no rows; expected one example per line")
    if spec.kind == "multiple-choice":
        raise DataError(f"{source}: the choices of {spec.name} do not fit into a line. Pass JSON objects, or a table")
    cells: list[list[Any]] = []
    for number, line in numbered:
        parts: list[Any] = line.split("\t") if len(columns) > 1 else [line]
        if len(parts) != len(columns):
            raise DataError(
                f"{source}:{number} has {len(parts)} texts; expected {len(columns)} with tabs between them "
                f"({', '.join(columns)}). Correct the line, or pass JSON objects with these names"
            )
        cells.append([parts[0].split()] if spec.kind == "token-classification" else parts)
    by_column = zip(*cells, strict=True)
    return SourceTable(
        source, dict(zip(columns, map(list, by_column), strict=True)), [number for number, _ in numbered]
    )


def examples_of(spec: TaskSpec, table: SourceTable) -> SourceTable:
    """Return the table with a row per example, and the columns of the task but for the label.

    Raises:
        DataError: rows that do not have the task's form.
    """
    if spec.form is not None and not FORMS[spec.form].fits(table, labelled=False):
        spec = spec.model_copy(update={"form": None})  # as prompts for a model of conversations
    return laid_out(spec, table)


def load_unlabelled(spec: TaskSpec, labels: Sequence[str] | None, table: SourceTable) -> TaskData:
    """Load examples as a test split whose labels stand for unknown ones and mean nothing.

    Args:
        labels: the names of the model's outputs, in their order; None if they are not classes.
        table: of :func:`examples_of`.

    Raises:
        DataError: a missing column, or a cell that does not fit the task.
    """
    for name, parameter in zip(spec.text_columns, ("text=", "text_pair=", "text_pair="), strict=False):
        table.column(name, parameter)
    columns = {**table.columns, spec.label_column: _STAND_INS[spec.kind](spec, table, labels or ())}
    return tests_of(spec, labels, {SPLIT: replace(table, columns=columns)})


StandIns = Callable[[TaskSpec, SourceTable, Sequence[str]], list[Any]]


def _a_label(spec: TaskSpec, table: SourceTable, labels: Sequence[str]) -> list[Any]:
    return [labels[-1]] * len(table)  # the first may be -1, which marks unlabelled rows


def _a_label_in_a_list(spec: TaskSpec, table: SourceTable, labels: Sequence[str]) -> list[Any]:
    return [[labels[-1]]] * len(table)


def _a_number(spec: TaskSpec, table: SourceTable, labels: Sequence[str]) -> list[Any]:
    return [0] * len(table)


def _a_tag_each(spec: TaskSpec, table: SourceTable, labels: Sequence[str]) -> list[Any]:
    words = table.column(spec.text_columns[0], "text=")
    return [[labels[0]] * (0 if isinstance(cell, str) else len(cell)) for cell in words]


def _an_answer(spec: TaskSpec, table: SourceTable, labels: Sequence[str]) -> list[Any]:
    contexts = table.column(spec.text_columns[1], "text_pair=")
    return [[{"text": text[:1], "answer_start": 0}] if isinstance(text, str) else [] for text in contexts]


def _a_response(spec: TaskSpec, table: SourceTable, labels: Sequence[str]) -> list[Any]:
    return ["?"] * len(table)


_STAND_INS: dict[KindName, StandIns] = {
    "classification": _a_label,
    "multi-label": _a_label_in_a_list,
    "regression": _a_number,
    "token-classification": _a_tag_each,
    "question-answering": _an_answer,
    "multiple-choice": _a_number,
    "ranking": _a_label,
    "generation": _a_response,
}
