"""Compare a repetition of studies with their committed numbers and verdicts, and keep what was found."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Literal

from evidence.studies import FOLDER, RESULTS, Study
from evidence.verdicts import KINDS, Checked, check_all
from gradgate.csv_rows import CsvRows
from gradgate.papers.claims.numbers import SECONDS
from gradgate.papers.recorded import read_numbers
from gradgate.tasks.metrics.page_unit import page_factor

FILE = FOLDER / "repetitions.csv"
_OF_A_RUN = ("task", "train_size", "method", "adapter", "seed")


Machine = Literal["same", "another"]


@dataclass(frozen=True)
class Repetition:
    """One study that was run again in a folder of its own.

    Attributes:
        equal: numbers that are the same as the committed ones to the last digit, without times.
        numbers: those that are committed.
        verdicts: claims whose verdicts on this study alone are different.
        machine: ``same`` as that of the committed numbers, or ``another``, which rounds sums in another order.
        moved: the largest difference of an arm's mean score, in points for shares.
    """

    study: str
    equal: int
    numbers: int
    verdicts: int
    machine: Machine = "same"
    moved: float = 0.0


ROWS = CsvRows(Repetition, "python -m evidence run --keep-repetitions")


def repeated(file: Path = FILE) -> dict[str, Repetition]:
    """Return the last repetition of each study that is kept."""
    return {each.study: each for each in ROWS.read(file)} if file.exists() else {}


def keep_repetition(study: Study, again: Path, file: Path = FILE, machine: Machine = "same") -> None:
    """Compare a study with its committed numbers, and keep what was found in the place of its last repetition."""
    equal, numbers = equal_numbers(study, again)
    verdicts = len(list(changed([study], again / "results")))
    found = Repetition(study.name, equal, numbers, verdicts, machine, round(moved(study, again), 2))
    _write(file, repeated(file) | {study.name: found})


def forget_repetition(study: Study, file: Path = FILE) -> None:
    """Leave out a study whose committed numbers are new, as nothing has repeated them."""
    found = repeated(file)
    if found.pop(study.name, None) is not None:
        _write(file, found)


def _write(file: Path, found: Mapping[str, Repetition]) -> None:
    ROWS.write(file, sorted(found.values(), key=lambda each: each.study))


def changed(studies: Sequence[Study], results: Path, committed: Path = RESULTS) -> Iterator[str]:
    """Describe each claim whose verdict on these studies alone differs from that on their committed numbers."""
    then = {each.claim.id: each for each in _check_alone(studies, committed)}
    for each in _check_alone(studies, results):
        for kind in KINDS:
            here, was = (found.states(kind) for found in (each, then[each.claim.id]))
            for tasks in dict.fromkeys((*here, *was)):
                now, before = (states.get(tasks, "not compared") for states in (here, was))
                if now != before:
                    yield f"{each.claim.id} on {kind} data, {tasks}: {now} here, {before} in the committed numbers"


def equal_numbers(study: Study, again: Path, committed: Path = FOLDER) -> tuple[int, int]:
    """Count a study's committed numbers that are equal to the last digit, and all of them; without times.

    The scores of the runs are counted if the study is for no paper's claims.

    Args:
        again, committed: folders with ``results`` and ``runs``.
    """
    then, now = (
        _scores(folder / "runs" / study.runs.name)
        if study.paper is None
        else _numbers(folder / "results" / study.file, study.paper)
        for folder in (committed, again)
    )
    return sum(value == now.get(key) for key, value in then.items()), len(then)


def moved(study: Study, again: Path, committed: Path = FOLDER) -> float:
    """Return the largest difference of an arm's mean score to the committed one, in points for shares.

    Args:
        again, committed: folders with ``runs``.
    """
    then, now = (_means(folder / "runs" / study.runs.name) for folder in (committed, again))
    return max((abs(now[arm] - mean) for arm, mean in then.items() if arm in now), default=0.0)


def _means(file: Path) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], list[float]] = {}
    with file.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            arm = tuple(row[name] for name in _OF_A_RUN if name != "seed")
            found.setdefault(arm, []).append(page_factor(row["metric"]) * float(row["score"]))
    return {arm: fmean(scores) for arm, scores in found.items()}


def _scores(file: Path) -> Mapping[Hashable, object]:
    with file.open(newline="", encoding="utf-8") as stream:
        rows = csv.DictReader(stream)
        return {tuple(row[name] for name in _OF_A_RUN): row["score"] for row in rows}


def _numbers(file: Path, paper: str) -> Mapping[Hashable, object]:
    scores = read_numbers(file)[paper].scores
    return {(key, seed): value for key, own in scores.items() if key.on != SECONDS for seed, value in own.items()}


def _check_alone(studies: Sequence[Study], results: Path) -> list[Checked]:
    with TemporaryDirectory() as folder:
        for study in (study for study in studies if study.paper):
            file = Path(folder) / study.file
            file.parent.mkdir(exist_ok=True)
            shutil.copyfile(results / study.file, file)
        return check_all(Path(folder))
