"""Store the numbers of studies in a CSV file, so that claims can be checked without the runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from gradgate.csv_rows import CsvRows
from gradgate.papers.claims.numbers import Key, Numbers, Place, together
from gradgate.settings.arms.recorded import arm_name
from gradgate.study.conditions import is_study

SUFFIX = ".csv"
MaybeEmpty = Annotated[str, BeforeValidator(lambda cell: cell or "")]
"""Text in a column whose cells may be empty."""


def _list(text: str) -> str:
    if not isinstance(json.loads(text), list):
        raise ValueError("expected a JSON list")
    return text


@dataclass(frozen=True, kw_only=True)
class RecordedNumber:
    """One number of one arm with one seed; a label that several arms fit has a row for each of them.

    Attributes:
        paper: the key of the paper whose labels these are.
        study: the name of the study's folder.
        model, task, size: where methods are compared, by the labels of the paper; ``size`` is that of the training set.
        label: what the paper calls the method.
        arm: what was run.
        on: a language, an average over languages, or what else was measured, such as ``seconds`` of a step.
        value: in points (0 to 100) if it is a share of what is possible.
        stand_in: whether the task is not one of the paper's and stands in for them.
        notes: what a reader of the study must know, as a JSON list.
    """

    paper: str
    study: str
    model: str
    task: str
    size: str
    label: MaybeEmpty
    arm: Annotated[MaybeEmpty, AfterValidator(arm_name)]
    on: str
    seed: int
    value: float
    stand_in: bool
    notes: Annotated[str, AfterValidator(_list)]


_FILE = CsvRows(RecordedNumber, "gradgate papers STUDY --record FILE")


def write_numbers(studies: Mapping[str, Mapping[str, Numbers]], file: Path) -> None:
    """Write the numbers of studies: the name of each to the key of each paper to its numbers."""
    rows = [
        row
        for study, papers in studies.items()
        for paper, found in papers.items()
        for row in _rows(study, paper, found)
    ]
    _FILE.write(file, rows)


def _rows(study: str, paper: str, numbers: Numbers) -> Iterator[RecordedNumber]:
    for key, by_seed in numbers.scores.items():
        for arm in numbers.arms.get(key, ("",)):
            for seed, value in by_seed.items():
                yield RecordedNumber(
                    paper=paper,
                    study=study,
                    model=key.place.model,
                    task=key.place.task,
                    size=key.place.size,
                    label=key.method,
                    arm=arm,
                    on=key.on,
                    seed=seed,
                    value=value,
                    stand_in=numbers.stand_in,
                    notes=json.dumps(numbers.notes, ensure_ascii=False),
                )


def read_numbers(file: Path) -> dict[str, Numbers]:
    """Read the numbers in a file of :func:`write_numbers`, by the key of the paper; several studies are merged.

    Raises:
        DataError: if it is not such a file, or a line is damaged; the line is named.
    """
    rows = sorted(_FILE.read(file), key=lambda row: (row.paper, row.study))
    return {
        paper: together([_numbers(list(own), file) for _, own in groupby(group, key=lambda row: row.study)])
        for paper, group in groupby(rows, key=lambda row: row.paper)
    }


def _numbers(rows: Sequence[RecordedNumber], file: Path) -> Numbers:
    """Build the numbers of one study."""
    scores: dict[Key, dict[int, float]] = {}
    arms: dict[Key, dict[str, None]] = {}
    for row in rows:
        key = Key(Place(row.model, row.task, row.size), row.label, row.on)
        scores.setdefault(key, {})[row.seed] = row.value
        if row.arm:
            arms.setdefault(key, {})[row.arm] = None
    first = rows[0]
    named = {key: tuple(names) for key, names in arms.items()}
    notes = tuple(map(str, json.loads(first.notes)))
    return Numbers(scores, False, first.stand_in, notes, named, source=f"{first.study} in {file}")


def recorded_files(path: Path) -> list[Path]:
    """Return the CSV files of a folder that has such files and is not a study; otherwise an empty list."""
    return sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() and not is_study(path) else []


def record_folders(path: Path) -> list[Path]:
    """Return the folder if it has recorded numbers, else those below it unless it is a study; or an empty list."""
    if recorded_files(path):
        return [path]
    if not path.is_dir() or is_study(path):
        return []
    return sorted({file.parent for file in path.rglob(f"*{SUFFIX}") if _FILE.has_columns(file)})
