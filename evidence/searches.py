"""Record which learning rates a study searched: what each reached on dev, and how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from statistics import fmean, median
from typing import Literal

from evidence.studies import Study
from gradgate.csv_rows import CsvRows
from gradgate.runs.history import read_history
from gradgate.runs.records import read_record
from gradgate.runs.scores import Scores
from gradgate.settings.arms.arm import Arm
from gradgate.study.conditions import condition_folders
from gradgate.study.grid import Grid
from gradgate.study.search import search_runs


@dataclass(frozen=True)
class SearchedRun:
    """One run of a search.

    Attributes:
        size: training examples; None for all.
        steps: that were trained.
        dev: the study's metric on dev at the end; None for a run that was stopped early.
        seconds: of the run by the clock; those of a run that was stopped follow from its steps and the arm's others.
        chosen: whether the arm is compared at this rate.
    """

    size: int | None
    arm: str
    lr: float
    seed: int
    steps: int
    dev: float | None
    seconds: float
    chosen: bool


ROWS = CsvRows(SearchedRun, "python -m evidence run")


def searched(folder: Path) -> list[SearchedRun]:
    """Return the runs of a study's search, rate by rate for each arm; none if it has no search."""
    grids = [Grid.read(part) for part in condition_folders(folder)]
    return [run for grid in grids if grid.search for arm in grid.arms for run in _of_arm(grid, arm)]


def _of_arm(grid: Grid, arm: Arm) -> Iterator[SearchedRun]:
    assert grid.search is not None
    runs = sorted(search_runs(grid, [arm]), key=lambda run: (run.config.lr, run.config.seed))
    scores = [read_record(run.folder.scores_file, Scores) if run.folder.finished else None for run in runs]
    pace = median((own.cost.seconds_total or 0.0) / (own.cost.steps or 1) for own in scores if own)
    for run, own in zip(runs, scores, strict=True):
        steps = (own.cost.steps or 0) if own else read_history(run.folder.history_file).losses[-1][0]
        yield SearchedRun(
            size=grid.base.train_size,
            arm=arm.name,
            lr=run.config.lr,
            seed=run.config.seed,
            steps=steps,
            dev=own.dev[own.metric] if own else None,
            seconds=(own.cost.seconds_total or 0.0) if own else steps * pace,
            chosen=grid.search.chosen[arm.name]["lr"] == run.config.lr,
        )


def at_an_end(runs: Sequence[SearchedRun]) -> dict[str, Literal["lowest", "highest"]]:
    """Return the arms whose chosen rate is the lowest or the highest that was searched: a better one may lie beyond."""
    rates: dict[int | None, list[float]] = {}
    for run in runs:
        rates.setdefault(run.size, []).append(run.lr)
    ends: dict[str, Literal["lowest", "highest"]] = {}
    for run in runs:
        if run.chosen and run.lr == min(rates[run.size]):
            ends[run.arm] = "lowest"
        elif run.chosen and run.lr == max(rates[run.size]):
            ends[run.arm] = "highest"
    return ends


def tied(runs: Sequence[SearchedRun]) -> list[str]:
    """Return the arms of which another rate reached the same dev score as the chosen one: dev did not pick it."""
    dev: dict[tuple[str, int | None], dict[float, list[float]]] = {}
    for run in runs:
        if run.dev is not None:
            dev.setdefault((run.arm, run.size), {}).setdefault(run.lr, []).append(run.dev)
    means = {key: {lr: fmean(scores) for lr, scores in own.items()} for key, own in dev.items()}
    scored = [run for run in runs if run.chosen and run.dev is not None]
    chosen = {(run.arm, run.size): means[run.arm, run.size][run.lr] for run in scored}
    alike = (arm for (arm, size), best in chosen.items() if _count_near(means[arm, size].values(), best) > 1)
    return list(dict.fromkeys(alike))


def _count_near(scores: Iterable[float], best: float) -> int:
    return sum(isclose(score, best, abs_tol=1e-9) for score in scores)


def stopped_early(study: Study) -> str:
    """Say how many runs of a search were stopped, and after which part of their steps; nothing without any."""
    runs = ROWS.read(study.search) if study.search.exists() else []
    whole = {run.size: run.steps for run in runs if run.dev is not None}
    parts = sorted(run.steps / whole[run.size] for run in runs if run.dev is None)
    if not parts:
        return ""
    between = dict.fromkeys(f"{100 * part:.0f} %" for part in (parts[0], parts[-1]))
    return f"; {len(parts)} of {len(runs)} runs were stopped after {' to '.join(between)} of their steps"


def search_hours(study: Study) -> float | None:
    """Return how long the search of a study took, in hours of one CPU thread by the clock; None if not recorded."""
    if not study.search.exists():
        return None
    seconds = sum(run.seconds for run in ROWS.read(study.search))
    return seconds * float(study.compare["threads"]) / 3600
