"""Crossed tables: the fast tests run each row and each column, ``make test-slow`` the other pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import Any

import pytest


def each_once(first: str, rows: Sequence[Any], second: str, columns: Sequence[Any]) -> pytest.MarkDecorator:
    """Every pair of two parameters. Those on the diagonal, which goes on until each value was met, are fast."""
    length = max(len(rows), len(columns))
    diagonal = {(number % len(rows), number % len(columns)) for number in range(length)}
    cases = [
        pytest.param(
            rows[row],
            columns[column],
            marks=() if (row, column) in diagonal else pytest.mark.slow,
            id=f"{_name(rows[row])}-{_name(columns[column])}",
        )
        for row, column in product(range(len(rows)), range(len(columns)))
    ]
    return pytest.mark.parametrize((first, second), cases)


def some_fast(name: str, cases: Sequence[Any], fast: Collection[Any]) -> pytest.MarkDecorator:
    """Every value of a parameter; those that are not among the fast ones are slow."""
    marked = [pytest.param(case, marks=() if case in fast else pytest.mark.slow, id=_name(case)) for case in cases]
    return pytest.mark.parametrize(name, marked)


def _name(value: Any) -> str:
    return str(getattr(value, "name", getattr(value, "__name__", value)))
