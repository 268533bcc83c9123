"""Rows of invented tickets, and how they are written as text."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

ROWS = 24
THINGS = ("printer", "invoice", "login", "refund", "parcel", "server", "contract", "battery")
MOODS = ("is broken again", "came too late", "works very well", "was never ordered", "pleases my sister")
QUEUES = ("billing", "technical", "sales")


def texts(count: int = ROWS) -> list[str]:
    return [f"the {THINGS[n % 8]} {MOODS[n % 5]}, ticket {n}" for n in range(count)]


def queues(count: int = ROWS) -> list[str]:
    return [QUEUES[n % 3] for n in range(count)]


def rows(**columns: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def table(header: list[str], cells: list[list[Any]], delimiter: str = ",", **options: Any) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\n", **options).writerows([header, *cells])
    return out.getvalue()


def lines(items: list[Any]) -> str:
    return "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items)


def at(items: list[Any], place: int, item: Any) -> list[Any]:
    return [*items[:place], item, *items[place + 1 :]]
