"""Read the labels of rows that have any number of them: lists, joined text, or a column for each label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import MISSING, SourceTable, as_text
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import SEPARATORS, TRAIN, MultiLabelOptions
from gradgate.tasks.vectors import refuse_vector_texts, refuse_vectors
from gradgate.tasks.written import parsed

_MARKS = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}
_UNKNOWN = ("", "-1", "-1.0")


def label_columns(spec: TaskSpec, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the column of a task's labels, or one column per label: names with commas between them."""
    if spec.label_column in columns or "," not in spec.label_column:
        return (spec.label_column,)
    return tuple(name for part in spec.label_column.split(",") if (name := part.strip()))


def with_label_lists(spec: TaskSpec, tables: Mapping[str, SourceTable]) -> tuple[dict[str, SourceTable], list[str]]:
    """Return tables whose label column has a list of labels per row, and notes on how labels were separated.

    A split without the columns, or whose cells are all empty or -1, stays as it is: it is unlabelled.

    Raises:
        DataError: a cell that is none of the three forms.
    """
    separator = find_separator(spec, tables)
    listed = {split: _with_lists(spec, table, separator) for split, table in tables.items()}
    if TRAIN in tables:
        _refuse_vectors(tables[TRAIN], listed[TRAIN], spec.label_column)
    return listed, [] if separator is None else [f"labels are separated by {separator!r}"]


def _refuse_vectors(table: SourceTable, listed: SourceTable, column: str) -> None:
    """Refuse numbers in place of labels; lists that were made of objects or several columns have names."""
    cells = table.columns.get(column, ())
    if cells and all(isinstance(cell, str) for cell in cells):
        refuse_vector_texts(table, column, cells)
    if cells and not any(isinstance(cell, Mapping) for cell in cells):
        refuse_vectors(listed, column, listed.columns[column])


def label_sets(spec: TaskSpec, table: SourceTable) -> list[frozenset[str]]:
    """Return the labels of each row, as the data spell them; raise DataError as :func:`with_label_lists`."""
    listed = _with_lists(spec, table, find_separator(spec, {TRAIN: table}))
    return [frozenset(map(as_text, cell)) for cell in listed.column(spec.label_column, "label=")]


def find_separator(spec: TaskSpec, tables: Mapping[str, SourceTable]) -> str | None:
    """Return what separates labels in one text: the task's, or the first of ``SEPARATORS`` that occurs; None without.

    Train decides; without it, a separator between known labels does.
    """
    assert isinstance(spec.options, MultiLabelOptions)
    looked_at = [tables[TRAIN]] if TRAIN in tables else list(tables.values())
    names = [label_columns(spec, table.columns) for table in looked_at]
    cells = [
        cell
        for table, own in zip(looked_at, names, strict=True)
        for cell in (table.columns.get(own[0], ()) if len(own) == 1 else ())
        if isinstance(cell, str) and not _is_list(cell)
    ]
    known = {*(spec.label_map or {}), *(spec.label_map or {}).values()}
    if spec.options.label_separator is not None or not cells:
        return spec.options.label_separator if cells else None
    found = [separator for separator in SEPARATORS if any(separator in cell for cell in cells if cell not in known)]
    return found[0] if found else None


def _with_lists(spec: TaskSpec, table: SourceTable, separator: str | None) -> SourceTable:
    names = label_columns(spec, table.columns)
    if not set(names) & set(table.columns):
        return table
    columns = [table.column(name, "label=") for name in names]
    if all(isinstance(c, (str, int, float)) and as_text(c) in _UNKNOWN for cells in columns for c in cells):
        return replace(table, columns={**table.columns, spec.label_column: [""] * len(table)})
    if len(names) == 1:
        cells = [_of_cell(cell, table.place(row), separator) for row, cell in enumerate(columns[0])]
    else:
        cells = [
            [name for name, cell in zip(names, row_cells, strict=True) if _is_marked(cell, name, table.place(row))]
            for row, row_cells in enumerate(zip(*columns, strict=True))
        ]
    return replace(table, columns={**table.columns, spec.label_column: cells})


def _of_cell(cell: Any, place: str, separator: str | None) -> list[Any]:
    """Return the labels in a cell: a list, a text that is one or joins some, an object with 0 or 1 per label."""
    if isinstance(cell, str):
        whole = parsed(cell) if _is_list(cell) else None
        if isinstance(whole, list) and all(isinstance(item, (str, int, float)) for item in whole):
            return whole
        if _is_list(cell) and " ... " in cell:
            raise DataError(
                f"{place}: NumPy has left out items of the list of labels ({cell!r:.60}). Write the file again from "
                "lists, as with .tolist()"
            )
        if _is_list(cell):  # without quotes, as Spark and R write one
            return [part for each in cell[1:-1].split(",") if (part := each.strip())]
        parts = cell.split(separator) if separator is not None else [cell]
        return [part for each in parts if (part := each.strip())]
    if isinstance(cell, Mapping):
        return [str(name) for name, mark in cell.items() if _is_marked(mark, str(name), place)]
    if isinstance(cell, Sequence):
        for item in cell:
            if isinstance(item, (Mapping, list, tuple)) or item is None or item is MISSING:
                raise DataError(
                    f"{place}: an item of the list of labels is {type(item).__name__} ({item!r:.80}); expected text or "
                    "a number for each label. Spans of a text are tags: kind='token-classification'"
                )
        return list(cell)
    return [cell]


def _is_marked(cell: Any, name: str, place: str) -> bool:
    """Return True if a row has the label of a column; raise DataError for a cell other than 0 or 1."""
    mark = _MARKS.get(as_text(cell).lower()) if isinstance(cell, (str, bool, int, float)) else None
    if mark is None:
        more = " Unlabelled rows cannot be trained on: remove them." if as_text(cell) in _UNKNOWN else ""
        raise DataError(
            f"{place}: {name!r} is {cell!r:.80}; expected 1 for a row with the label {name!r} and 0 for one without, "
            f"in each row.{more} Correct it, or name other columns with label="
        )
    return mark


def _is_list(cell: str) -> bool:
    return cell.startswith("[") and cell.endswith("]")
