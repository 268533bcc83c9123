"""Read the papers and the numbers that they print from the tables next to this module."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradgate.errors import UsageError, nearest
from gradgate.plain_yaml import parse_yaml

FOLDER: Path = Path(__file__).parent / "data"
TABLES: Path = FOLDER / "tables"


@dataclass(frozen=True)
class Paper:
    """A paper: ``key`` names it in presets, ``name`` in its tables."""

    key: str
    name: str
    title: str
    authors: str
    link: str


@dataclass(frozen=True)
class Published:
    """One printed number.

    Attributes:
        paper: its short name.
        table: as numbered in the paper.
        language: a code, or the average that the table has: ``avg``, ``all``, ``target``, ``distant``.
        size: of the training set as the table has it: ``full``, a number of examples, or a share.
        std: over the paper's repeats, if it is printed.
        note: what a reader must know of this number, such as that it was taken from another paper.
    """

    paper: str
    table: str
    model: str
    method: str
    task: str
    metric: str
    language: str
    size: str
    value: float
    std: float | None
    note: str


@dataclass(frozen=True)
class Setting:
    """One setting of an experiment as a paper states it.

    Attributes:
        paper: its short name.
        setting: its table or experiment.
        name, value: as in the paper; a value can be several, or words if the paper leaves it open.
    """

    paper: str
    setting: str
    name: str
    value: str


@cache
def papers() -> dict[str, Paper]:
    """Return the papers whose tables are included, by key."""
    entries = parse_yaml((FOLDER / "papers.yaml").read_bytes())
    return {key: Paper(key, **entry) for key, entry in entries.items()}


def paper_key(name: str) -> str:
    """Return the key of a paper from its key or its name, in any case.

    Raises:
        UsageError: naming the nearest.
    """
    known = {paper.name.lower(): key for key, paper in papers().items()}
    if name.lower() not in known:
        raise UsageError(f"There is no paper {name!r}.{nearest(name, known)} Known: {', '.join(known)}.")
    return known[name.lower()]


@cache
def read_table(name: str) -> tuple[Published, ...]:
    """Read every number of a table, such as ``elsa_table04``, in its order."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(_number(row) for row in csv.DictReader(file))


@cache
def stated_settings(paper: str) -> tuple[Setting, ...]:
    """Return every setting that a paper states, by its key; presets follow them if they can."""
    name = papers()[paper].name
    with (FOLDER / "hyperparameters.csv").open(encoding="utf-8", newline="") as file:
        return tuple(Setting(**row) for row in csv.DictReader(file) if row["paper"] == name)


def _number(row: dict[str, str]) -> Published:
    return Published(
        row["paper"],
        row["table"],
        row["model"],
        row["method"],
        row["task"],
        row["metric"],
        row["language"],
        row["train_size"],
        float(row["value"]),
        float(row["std"]) if row["std"] else None,
        row["note"],
    )
