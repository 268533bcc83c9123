"""Forms of annotations as Prodigy stores them: options per row, and the ids of those that were accepted."""

from __future__ import annotations

from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.forms.base import LOOKED_AT, Form, are_lists, cells_of, first_cells, found_name, with_columns
from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.written import parsed

_OPTIONS, _ACCEPTED, _STYLE = "options", "accept", "config"


def _has_options(table: SourceTable) -> bool:
    options = first_cells(table, _OPTIONS)
    named = all(isinstance(item, dict) and "id" in item for cell in options if isinstance(cell, list) for item in cell)
    accepted = first_cells(table, _ACCEPTED)
    return are_lists(options) and named and (not accepted or are_lists(accepted, (str, int)))


def _has_one_each(table: SourceTable) -> bool:
    styles = (parsed(cell) for cell in cells_of(table, _STYLE)[:LOOKED_AT])
    if any(isinstance(cell, dict) and cell.get("choice_style") == "multiple" for cell in styles):
        return False
    return _has_options(table) and all(len(cell) < 2 for cell in first_cells(table, _ACCEPTED))


def _read_one(table: SourceTable) -> SourceTable:
    if found_name(table, _ACCEPTED) is None:
        return table
    labels: list[Any] = []
    for row, cell in enumerate(map(parsed, cells_of(table, _ACCEPTED))):
        if isinstance(cell, list) and len(cell) > 1:
            raise DataError(
                f"{table.place(row)} has {len(cell)} accepted options, where other rows have one. Correct the row, or "
                "pass kind='multi-label'"
            )
        labels.append((cell or [MISSING])[0] if isinstance(cell, list) else cell)
    return with_columns(table, {"label": labels}, [_OPTIONS, _ACCEPTED])


def _read_several(table: SourceTable) -> SourceTable:
    if found_name(table, _ACCEPTED) is None:
        return table
    return with_columns(table, {"label": [parsed(cell) for cell in cells_of(table, _ACCEPTED)]}, [_OPTIONS, _ACCEPTED])


_ROW = {"text": "Where is my parcel?", "options": [{"id": "late"}, {"id": "other"}], "answer": "accept"}
ACCEPTED = (
    Form(
        "an accepted option", "classification", ("text", _OPTIONS), (_ACCEPTED,),
        "a text, and its label: the id of the option that Prodigy's annotators accepted",
        {**_ROW, "accept": ["late"]}, _read_one, _has_one_each,
    ),
    Form(
        "accepted options", "multi-label", ("text", _OPTIONS), (_ACCEPTED,),
        "a text, and its labels: the ids of the options that Prodigy's annotators accepted, if some rows have several",
        {**_ROW, "accept": ["late", "other"]}, _read_several, _has_options,
    ),
)  # fmt: skip
