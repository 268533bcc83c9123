"""Read the arms of the committed runs: their scores by seed, and what they cost."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median_high

from evidence.grids import ReplayedGrid
from evidence.studies import Study
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.study.replay.curve_rows import WHOLE, CurveRow, read_rows

FULL = "full"
_FEW_STEPS = 100
"""Grids on real data with fewer are left out: they end long before their arms are trained.

Those whose full fine-tuning took an end of the rates are left out too: an arm may be better than it at this rate only.
"""
_SETTING = "setting."


@dataclass(frozen=True)
class MeasuredArm:
    """One way to train, with what it reached on test.

    Attributes:
        scores: seed to score.
        memory: peak of the process, in bytes; None if not recorded.
        seconds: of a step, the median over seeds of the runs' medians; None if not recorded.
        at_an_end: whether its rate is known to be the lowest or the highest of those that were tried.
        rate: the learning rate that was best on dev; None if it has none, or it is not known here.
    """

    name: str
    scores: dict[int, float]
    memory: float | None = None
    seconds: float | None = None
    at_an_end: bool = False
    rate: float | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return fmean(self.scores.values())


def read_runs(file: Path) -> list[dict[str, str]]:
    """Read the rows of committed runs.

    Raises:
        ValueError: if one did not finish; a study is recorded when all have.
    """
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        if row["status"] != "finished" or not row["score"]:
            raise ValueError(f"{file.name}: {_name(row)}, seed {row['seed']}, is {row['status']} and has no score")
    return rows


def runs_by_arm(file: Path) -> dict[str, dict[str, list[dict[str, str]]]]:
    """Read the rows of committed runs, by the size of the training set, ``""`` for all of it, and by arm."""
    runs: dict[str, dict[str, list[dict[str, str]]]] = {}
    for row in read_runs(file):
        runs.setdefault(row["train_size"], {}).setdefault(_name(row), []).append(row)
    return runs


def _name(row: dict[str, str]) -> str:
    """Return the name of the arm of a run, with the settings that are its own."""
    own = {name.removeprefix(_SETTING): value for name, value in row.items() if name.startswith(_SETTING) and value}
    return arm_of_texts(row["method"], row["adapter"] or None).with_settings(own).name


def study_arms(study: Study) -> dict[str, list[MeasuredArm]]:
    """Read the arms of a study from its committed runs, by the size of the training set; ``""`` is all of it."""
    return {size: [_arm(*each) for each in by_arm.items()] for size, by_arm in runs_by_arm(study.runs).items()}


def scored_languages(study: Study) -> set[str]:
    """Return the languages that the committed runs of a study were scored in, by code; empty if its task has one."""
    with study.runs.open(newline="", encoding="utf-8") as stream:
        columns = [column.split(".") for column in next(csv.reader(stream))]
    return {parts[1] for parts in columns if len(parts) == 3 and parts[0] in ("dev", "test")}


def thread_hours(study: Study) -> float:
    """Return how long the committed runs of a study took, in hours of one CPU thread by the clock."""
    seconds = sum(float(row["cost.seconds_total"]) for row in read_runs(study.runs))
    return seconds * float(study.compare["threads"]) / 3600


def _arm(name: str, rows: Sequence[dict[str, str]]) -> MeasuredArm:
    return MeasuredArm(
        name,
        {int(row["seed"]): float(row["score"]) for row in rows},
        fmean(float(row["cost.peak_memory_bytes"]) for row in rows),
        median_high(float(row["cost.seconds_per_step"]) for row in rows),
    )


def method_of(row: CurveRow) -> str:
    """Return the name of a row's method with its adapter, without the rate."""
    return arm_of_texts(row.method, row.adapter).name


def grid_arms(grid: ReplayedGrid) -> list[MeasuredArm]:
    """Return the methods of a grid, each at the rate that is best on dev, with their scores on test."""
    by_method: dict[str, dict[float | None, list[CurveRow]]] = {}
    for row in read_rows(grid.curves):
        if row.step == row.of_steps and row.schedule == WHOLE:
            by_method.setdefault(method_of(row), {}).setdefault(row.lr, []).append(row)
    arms = []
    for name, rates in by_method.items():
        rate = max(rates, key=lambda lr: fmean(row.dev for row in rates[lr] if row.dev is not None))
        scores = {row.seed: row.test for row in rates[rate] if row.test is not None}
        tried = [lr for lr in rates if lr is not None]
        arms.append(MeasuredArm(name, scores, at_an_end=bool(tried) and rate in (min(tried), max(tried)), rate=rate))
    return arms


def is_too_short(grid: ReplayedGrid) -> bool:
    """Return True if a grid on real data has too few steps, or rates, for full fine-tuning to learn."""
    full = next(arm for arm in grid_arms(grid) if arm.name == FULL)
    return bool(grid.data) and (grid.compare["steps"] < _FEW_STEPS or full.at_an_end)


def is_on_dev(rows: Sequence[CurveRow]) -> bool:
    """Return True if the final score of each run is one of its scores on dev: the task has no test rows."""
    devs: dict[tuple[str, int], set[float | None]] = {}
    for row in rows:
        devs.setdefault((row.arm, row.seed), set()).add(row.dev)
    return all(row.test in devs[row.arm, row.seed] for row in rows if row.test is not None)
