"""Join tables that describe runs to tables that have their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradgate.errors import UsageError
from gradgate.settings.imports import ImportSettings
from gradgate.study.importing.columns import ColumnMapping, find_columns
from gradgate.study.importing.raw import RawTable, columns_of, text_of

_KEYS = ("run", "arm", "run_id", "id", "name")


def map_tables(tables: Sequence[RawTable], asked: ImportSettings) -> list[tuple[RawTable, ColumnMapping]]:
    """Find the columns of all tables.

    A table without scores of its own describes runs: its columns join the rows of tables with the same run. One that
    can be neither read nor joined is left out if others have scores, and its rows are counted.

    Raises:
        UsageError: if no table has scores; what the first one lacks.
    """
    described = [table for table in tables if not _has_scores(table, asked)]
    scored = [_with_columns(table, described) for table in tables if table not in described]
    mapped: list[tuple[RawTable, ColumnMapping]] = []
    problems: list[UsageError] = []
    for table in scored or tables:
        try:
            mapped.append((table, find_columns(table, asked)))
        except UsageError as error:
            problems.append(error)
            empty = replace(table, rows=(), left_out={str(error).rstrip("."): len(table.rows)})
            mapped.append((empty, ColumnMapping((), ())))
    if len(problems) == len(mapped):
        raise problems[0]
    return mapped


def _has_scores(table: RawTable, asked: ImportSettings) -> bool:
    if table.known or not table.rows:
        return True
    try:
        find_columns(table, ImportSettings(arm=(table.columns[0],), score=asked.score))
    except UsageError:
        return False
    return True


def _with_columns(table: RawTable, described: Sequence[RawTable]) -> RawTable:
    """Return a table of scores with the columns of those that describe its runs."""
    for other in described:
        key = next((name for name in _KEYS if name in table.columns and name in other.columns), None)
        names = [text_of(cell) for cell in other.values(key)] if key is not None else []
        if key is None or not names or len(set(names)) < len(names):
            continue
        by_name = {text_of(row[key]): row for row in other.rows}
        rows = [{**by_name.get(text_of(row.get(key)), {}), **row} for row in table.rows]
        table = replace(table, columns=columns_of(rows), rows=rows)
    return table
