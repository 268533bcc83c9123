"""Turn a table as it was read into the table that a task reads: form, nested columns, numbers and tags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.forms import in_form
from gradgate.tasks.local_numbers import in_points
from gradgate.tasks.readers.rows import SourceTable, noted, with_paths
from gradgate.tasks.spec import TaskSpec

MISSING_WORDS = frozenset({"nan", "<na>", "#n/a", "#na", "#null!", "#ref!", "#value!", "#div/0!", "#name?", r"\n"})
r"""What pandas, spreadsheets and MySQL (``\N``) write for a cell that has nothing, in lower case."""
_DASHES = frozenset({"-", "--", "–", "—"})
"""SNLI and MultiNLI have these where annotators disagreed, tables in empty cells. With ``+`` they are labels."""
_NO_CLASS = "-1"
"""The index of rows without a label in data sets of the hub, where the other labels are words."""
_SINGLE = {"S": "B", "U": "B", "E": "I", "L": "I"}


def laid_out(spec: TaskSpec, table: SourceTable) -> SourceTable:
    """Return a table with the columns of a task, and cells as its kind reads them.

    The rows become those of the task's form. A column such as ``input.text`` that the table does not have is a path
    into its objects. Decimal commas of scores become points, and tags of BIOES become those of IOB2; notes say so.

    Raises:
        DataError: rows that do not have the task's form, or a cell that stands for a missing value or label.
    """
    columns = (*spec.text_columns, spec.label_column, *([spec.language_column] if spec.language_column else []))
    table = with_paths(table, columns)
    table = in_form(table, spec.form, spec.kind, spec.text_columns, spec.label_column)
    if spec.kind == "regression":
        return in_points(table, spec.label_column)
    if spec.kind == "token-classification" and spec.label_map is None:
        return _in_iob2(table, spec.label_column)
    if spec.kind == "classification" and spec.label_map is None:
        _refuse_missing_words(table, spec.label_column)
    return table


def _refuse_missing_words(table: SourceTable, column: str) -> None:
    """Raise DataError for words among labels that stand for no label."""
    cells = table.columns.get(column, ())
    known = {cell.strip().lower() for cell in {cell if isinstance(cell, str) else "" for cell in cells}}
    absent = MISSING_WORDS if "+" in known else MISSING_WORDS | _DASHES
    if not any(word.lstrip("-").isdecimal() for word in known - {_NO_CLASS}):
        absent = absent | {_NO_CLASS}
    if not known & absent or known <= absent:  # unlabelled: the kind says what to do
        return
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and cell.strip().lower() in absent:
            raise DataError(
                f"{table.place(row)}: {column!r} is {cell.strip()!r}, which usually means a missing cell. Add the "
                f"label or remove the row; if it names a class, list it in `label_map` in a task.yaml"
            )


def _in_iob2(table: SourceTable, column: str) -> SourceTable:
    """Return the table with tags of BIOES or BILOU as those of IOB2, which mark the same entities."""
    cells = table.columns.get(column, ())
    known = {tag for cell in cells if isinstance(cell, list) for tag in cell if isinstance(tag, str)}
    marks = {tag[:2] for tag in known if tag != "O"}
    if not marks <= {"B-", "I-", "E-", "S-", "L-", "U-"} or not marks & {"E-", "S-", "L-", "U-"}:
        return table
    if not marks & {"B-", "I-"} and len(marks) == 1 and marks != {"S-"} and marks != {"U-"}:
        return table
    changed = [[_iob2(tag) for tag in cell] if isinstance(cell, list) else cell for cell in cells]
    found = replace(table, columns={**table.columns, column: changed})
    return noted(found, "tags of BIOES are read as IOB2, with the same entities")


def _iob2(tag: Any) -> Any:
    return f"{_SINGLE[tag[0]]}{tag[1:]}" if isinstance(tag, str) and tag[:1] in _SINGLE and tag[1:2] == "-" else tag
