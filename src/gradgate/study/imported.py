"""Read and write the scores of an imported study: ``scores.csv`` and ``runs.csv`` next to ``study.json``.

Nothing was trained in such a study, and nothing can be: it has scores, and what their source says of costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gradgate.csv_rows import CsvRows
from gradgate.errors import UsageError
from gradgate.runs.history import DevRecord
from gradgate.runs.pauses import progress_of
from gradgate.runs.records import DEV
from gradgate.runs.scores import Cost, Scores
from gradgate.runs.state import RunState
from gradgate.settings.arms.arm import Arm
from gradgate.study.run_result import RunResult
from gradgate.tasks.languages import AVERAGES

SCORES_FILE = "scores.csv"
RUNS_FILE = "runs.csv"
IMPORT_FILE = "import.json"
_MADE_BY = "gradgate study import"
UNSTATED_TASK, UNSTATED_MODEL = "results", "unstated model"
"""The task and model of scores whose source names none."""


def subject(task: str, model: str) -> str:
    """Return what was compared on, without a task or model that the source of the scores does not name."""
    task = "imported results" if task == UNSTATED_TASK and model == UNSTATED_MODEL else task
    return task if model == UNSTATED_MODEL else f"{task} with {model}"


@dataclass(frozen=True, kw_only=True)
class ImportRecord:
    """The entry ``imported`` of ``study.json``.

    Attributes:
        pair: the column that makes two scores a pair, ``seed`` by default, or ``none``.
        pairs: the seeds of this study by what their source calls them, if these are not numbers.
    """

    pair: str = "seed"
    pairs: dict[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedScore:
    """One score: a row of ``scores.csv``.

    Attributes:
        step: when the run had the score; None for one of its end.
    """

    arm: str
    seed: int
    split: str
    metric: str
    score: float
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class ImportedCosts:
    """The costs of one run: a row of ``runs.csv``. None marks what the source does not state."""

    arm: str
    seed: int
    steps: float | None = None
    seconds_total: float | None = None
    peak_memory_bytes: float | None = None
    parameters: float | None = None
    parameters_trained: float | None = None
    bytes_stored: float | None = None


COSTS = tuple(each.name for each in fields(ImportedCosts) if each.name not in ("arm", "seed"))
_SCORES = CsvRows(ImportedScore, _MADE_BY, may_lack=("step",))
_RUNS = CsvRows(ImportedCosts, _MADE_BY)


def write_imported(folder: Path, scores: Iterable[ImportedScore], runs: Iterable[ImportedCosts]) -> None:
    """Write both files; RunError if they cannot be written."""
    _RUNS.write(folder / RUNS_FILE, runs)
    _SCORES.write(folder / SCORES_FILE, scores)


def is_imported(folder: Path) -> bool:
    """Return True for the folder of a study, or of a part of one, that was imported."""
    return (folder / SCORES_FILE).is_file()


def refuse_training(folder: Path) -> None:
    """Raise UsageError for an imported study, in which nothing can be trained."""
    if is_imported(folder) or (folder / IMPORT_FILE).is_file():
        raise UsageError(
            f"{folder} holds imported results, and nothing can be trained in it. Use another folder "
            f"for runs of your own; 'gradgate report {folder}' compares these."
        )


def refuse_without_models(folder: Path) -> None:
    """Raise UsageError for an imported study, or a part of one, where a trained model is needed."""
    if is_imported(folder):
        raise UsageError(
            f"{folder} holds imported results, which have scores and no models. Expected runs that gradgate trained: "
            f"name one, or a study of them; 'gradgate report {folder}' compares the scores."
        )


def read_imported(folder: Path) -> tuple[list[ImportedScore], list[ImportedCosts]]:
    """Read both files of an imported study.

    Raises:
        DataError: for a damaged file; the line is named.
    """
    return list(_SCORES.read(folder / SCORES_FILE)), list(_RUNS.read(folder / RUNS_FILE))


def imported_runs(
    scores: Iterable[ImportedScore], costs: Iterable[ImportedCosts], arms: Mapping[str, Arm], metric: str
) -> list[RunResult]:
    """Return the runs of an imported study, arm by arm, in the order of their seeds.

    Args:
        scores: of all runs.
        costs: of the runs whose source states some.
        arms: name to arm.
        metric: the study's.
    """
    found: dict[tuple[str, int], dict[str, list[ImportedScore]]] = {}
    for row in scores:
        found.setdefault((row.arm, row.seed), {}).setdefault(row.split, []).append(row)
    runs = {(run.arm, run.seed): run for run in costs}
    order = {name: place for place, name in enumerate(arms)}
    return [
        _result(arms[arm], seed, _scores(splits, metric, _cost(runs.get((arm, seed)))), splits.get(DEV, []))
        for (arm, seed), splits in sorted(found.items(), key=lambda item: (order.get(item[0][0], 0), item[0][1]))
        if arm in arms
    ]


def _result(arm: Arm, seed: int, scores: Scores, dev: Iterable[ImportedScore]) -> RunResult:
    history = _history(dev)
    progress = progress_of(None, scores, history)
    return RunResult(arm, seed, RunState.FINISHED, scores=scores, progress=progress, history=history)


def _scores(splits: Mapping[str, list[ImportedScore]], metric: str, cost: Cost) -> Scores:
    steps = [row.step for rows in splits.values() for row in rows if row.step is not None]
    cost = cost if cost.steps is not None else replace(cost, steps=max(steps, default=None))
    last = {split: _last(rows) for split, rows in splits.items()}
    dev = last.pop(DEV, {})
    averages = {name: last.pop(name) for name in AVERAGES if name in last} if _in_languages(last) else {}
    return Scores(metric=metric, best_step=None, dev=dev, tests=last, averages=averages, cost=cost)


def _in_languages(splits: Iterable[str]) -> bool:
    """Return True for the splits of an export in several languages, whose averages are over them."""
    return sum(split.startswith("test.") for split in splits) > 1


def _last(rows: Iterable[ImportedScore]) -> dict[str, float]:
    """Return each metric at the last step that has it; a score without a step counts as the last."""
    ordered = sorted(rows, key=lambda row: float("inf") if row.step is None else row.step)
    return {row.metric: row.score for row in ordered}


def _history(rows: Iterable[ImportedScore]) -> tuple[DevRecord, ...]:
    steps: dict[int, dict[str, float]] = {}
    for row in rows:
        if row.step is not None:
            steps.setdefault(row.step, {})[row.metric] = row.score
    return tuple(DevRecord(step, steps[step]) for step in sorted(steps))


def _cost(run: ImportedCosts | None) -> Cost:
    known = {name: None if run is None else getattr(run, name) for name in COSTS}
    whole: dict[str, Any] = {name: None if value is None else round(value) for name, value in known.items()}
    return Cost(
        **{**whole, "seconds_total": known["seconds_total"]}, seconds_per_step=None, trainable_share=None, device=""
    )
