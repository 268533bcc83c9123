"""Build a finished grid with the learning curves of its runs from the rows of one or several studies.

Several studies can make one grid, such as one study per rate: an arm is a method on an adapter at a rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gradgate.errors import DataError
from gradgate.runs.state import Progress, RunState
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.study.budget import FullGrid, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.curve_rows import WHOLE, CurveRow


@dataclass(frozen=True)
class Curves:
    """A finished grid with the learning curves of its runs.

    Attributes:
        runs: each run of the grid, to its end.
        notes: what was left out, and which scores are used in place of missing ones.
    """

    grid: FullGrid
    runs: dict[RunKey, Progress]
    notes: tuple[str, ...] = ()


def as_curves(rows: Sequence[CurveRow]) -> Curves:
    """Build the grid of some rows. Seeds that an arm has not run on every task are left out, with a note.

    Rows of other schedules than the whole one are left out. So are arms with a run that has another length than most
    runs of its task, such as imported runs that were stopped early; a note names them.

    Raises:
        DataError: if no run has a score on dev, no seed is left, a run occurs twice, no length is that of more than
            half of a task's runs, or runs differ in metric.
    """
    whole_schedules = [row for row in rows if row.schedule == WHOLE]
    of_other_length = _arms_of_other_length(rows_by_run(whole_schedules))
    chosen = [row for row in whole_schedules if row.arm not in of_other_length]
    if not any(row.dev is not None for row in chosen):
        raise DataError(
            f"None of the {len(rows_by_run(chosen))} runs has a score on dev, which a budget needs to compare "
            "them, so there is nothing to replay. Expected runs that were evaluated on dev during training."
        )
    found = rows_by_run(chosen)
    arms = tuple(dict.fromkeys(key.arm for key in found))
    tasks = tuple(dict.fromkeys(key.task for key in found))
    seeds = tuple(dict.fromkeys(key.seed for key in found))
    whole = tuple(seed for seed in seeds if all(RunKey(arm, task, seed) in found for arm in arms for task in tasks))
    if not whole:
        raise DataError(
            f"No seed was run with every one of the {len(arms)} arms on every one of the {len(tasks)} tasks, so "
            "there is no grid to replay. Finish the study first, or pass all of its studies."
        )
    steps = {task: _one(task, "of_steps", found) for task in tasks}
    higher = {_one(task, "better", found) for task in tasks}
    if len(higher) > 1:
        raise DataError("Higher scores are better on some tasks and lower ones on others. Replay them separately.")
    metrics = sorted({row.metric for row in chosen} - {""})
    if len(metrics) > 1:
        raise DataError(
            f"Runs have {len(metrics)} metrics: {', '.join(metrics)}. Expected one. Replay them separately."
        )
    of_arm = {row.arm: row for row in chosen}
    methods = {arm: arm_of_texts(row.method, row.adapter).name for arm, row in of_arm.items()}
    grid = FullGrid(arms=arms, seeds=whole, steps=steps, methods=methods, higher_is_better=higher == {"higher"})
    runs = {key: _progress(key, found[key]) for key in found if key.seed in whole}
    lengths = [f"left out: {arm}; {reason}" for arm, reason in of_other_length.items()]
    left_out = [f"seed {seed} is left out, because not every arm has it" for seed in seeds if seed not in whole]
    notes = [*lengths, *left_out, *_stand_ins(grid, runs)]
    return Curves(grid, runs, tuple(notes))


def rows_by_run(rows: Sequence[CurveRow]) -> dict[RunKey, list[CurveRow]]:
    """Group the rows by run; the name of a task includes its model and its training examples if there are several."""
    models, sizes = ({getattr(row, name) for row in rows} for name in ("model", "train_size"))
    found: dict[RunKey, list[CurveRow]] = {}
    for row in rows:
        task = f"{row.task} with {row.model}" if len(models) > 1 else row.task
        if len(sizes) > 1:
            task += f", {'all' if row.train_size is None else row.train_size} rows"
        found.setdefault(RunKey(row.arm, task, row.seed), []).append(row)
    return found


def _arms_of_other_length(found: dict[RunKey, list[CurveRow]]) -> dict[str, str]:
    """Return the arms with a run of another length than more than half of its task's runs, each with the reason."""
    lengths: dict[str, Counter[int]] = {}
    for key, rows in found.items():
        lengths.setdefault(key.task, Counter())[rows[0].of_steps] += 1
    reasons = {}
    for key, rows in found.items():
        (usual, runs), of_steps = lengths[key.task].most_common(1)[0], rows[0].of_steps
        if of_steps != usual and 2 * runs > lengths[key.task].total():
            reasons[key.arm] = f"a run on {key.task} has {of_steps} steps, and most runs have {usual}"
    return reasons


def _one(task: str, name: str, found: dict[RunKey, list[CurveRow]]) -> Any:
    values = {getattr(row, name) for key, rows in found.items() if key.task == task for row in rows}
    if len(values) > 1:
        raise DataError(
            f"Runs of {task} differ in {name}: {', '.join(map(str, sorted(values)))}. A grid has one for all its "
            "runs; pass studies with the same settings."
        )
    return values.pop()


def _progress(key: RunKey, rows: Sequence[CurveRow]) -> Progress:
    steps = [row.step for row in rows]
    if len(set(steps)) < len(steps):
        raise DataError(
            f"{key.arm} on {key.task} with seed {key.seed} has two rows at one step. Pass each study once, and "
            "studies with different settings separately."
        )
    last = max(rows, key=lambda row: row.step)
    dev = {row.step: row.dev for row in rows if row.dev is not None}
    lost = {row.step: row.dev_loss for row in rows if row.dev_loss is not None}
    state = RunState.FAILED if last.step < last.of_steps or not dev else RunState.FINISHED
    return Progress(last.step, dev, last.seconds, state, lost, last.of_steps, last.metric)


def _stand_ins(grid: FullGrid, runs: dict[RunKey, Progress]) -> Iterator[str]:
    for task in grid.steps:
        for until in sorted({grid.until(task, eighths) for eighths in EIGHTHS}):
            lacking = sum(until not in run.dev for key, run in runs.items() if key.task == task and not run.has_failed)
            if lacking:
                yield f"{lacking} runs of {task} have no score at step {until}; the best earlier one is used"
