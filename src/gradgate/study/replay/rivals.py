"""Other ways to spend a budget, for a replay: equal shares, halving without pairs, and optuna's Hyperband."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np

from gradgate.study.budget import Allocator, FullGrid, Progress, RunKey

Replayed = Mapping[RunKey, Progress]
"""Every run of a grid to its end, in the order of seeds of one repeat."""


class Pick(NamedTuple):
    """The arm that a rival calls the best, None if it cannot say, and the optimizer steps it took."""

    arm: str | None
    steps: int


Rival = Callable[[FullGrid, Replayed, int, int], Pick]
"""Grid, runs, steps allowed and seed to what it picks."""


def play(allocator: Allocator, runs: Replayed) -> dict[RunKey, Progress]:
    """What a budget knows at its end, if the runs go as those that were recorded."""
    observed: dict[RunKey, Progress] = {}
    while batch := allocator.next(observed):
        observed |= {request.key: until(runs[request.key], request.until_step) for request in batch}
    return observed


def until(run: Progress, step: int) -> Progress:
    """What a run that has finished looked like at an earlier step."""
    if run.failed:
        return Progress(min(run.step, step), failed=True)
    seconds = None if run.seconds is None else run.seconds * step / run.step
    dev, lost = ({at: value for at, value in values.items() if at <= step} for values in (run.dev, run.losses))
    return replace(run, step=step, dev=dev, seconds=seconds, losses=lost)


def uniform(grid: FullGrid, runs: Replayed, allowed: int, seed: int) -> Pick:
    """Every arm the same steps: whole runs on as many seeds as are paid for, else one seed to the eighth that is."""
    arms, whole = len(grid.arms), grid.seed_steps(8)
    seeds, eighths = min(allowed // (arms * whole), len(grid.seeds)), 8
    if not seeds:
        seeds, eighths = 1, max((e for e in range(1, 8) if arms * grid.seed_steps(e) <= allowed), default=0)
    if not eighths:
        return Pick(None, 0)
    sign = 1 if grid.higher_is_better else -1
    means = {}
    for arm in grid.arms:
        scores = [
            _score(runs[RunKey(arm, task, each)], grid.until(task, eighths), grid)
            for each, task in product(grid.seeds[:seeds], grid.steps)
        ]
        if all(score is not None for score in scores):
            means[arm] = sign * fmean(score for score in scores if score is not None)
    best = max(means, key=lambda arm: means[arm], default=None)
    return Pick(best, arms * seeds * grid.seed_steps(eighths))


def unpaired_halving(grid: FullGrid, runs: Replayed, allowed: int, seed: int) -> Pick:
    """The budget's stages and its order of arms, but each arm draws the order of its seeds: nothing is paired."""
    draw = np.random.default_rng(seed)
    mixed = {}
    for arm in grid.arms:
        order = draw.permutation(len(grid.seeds))
        for task, (slot, place) in product(grid.steps, enumerate(order)):
            mixed[RunKey(arm, task, grid.seeds[slot])] = runs[RunKey(arm, task, grid.seeds[place])]
    allocator = Allocator(grid, allowed)
    observed = play(allocator, mixed)
    winners = allocator.finding(observed).winners
    return Pick(winners[0] if winners else None, allocator.spent(observed))


def hyperband(grid: FullGrid, runs: Replayed, allowed: int, seed: int) -> Pick:
    """optuna with its HyperbandPruner: a trial is a run, in random order; the arm of the best whole run is picked.

    Trials report at each eighth of the schedule. Trials are begun until the next part of one is not paid for; the
    best of those that were pruned counts where no trial was completed.

    Source:
        Li et al. 2018, Hyperband: https://jmlr.org/papers/v18/16-558.html, as optuna has it.
    """
    import optuna  # takes a second, which listing commands need not wait for

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    places = list(product(grid.arms, grid.seeds))
    study = optuna.create_study(
        study_name=f"replay-{seed}",  # brackets are drawn by its hash
        direction="maximize" if grid.higher_is_better else "minimize",
        sampler=optuna.samplers.GridSampler({"run": list(range(len(places)))}, seed=seed),
        pruner=optuna.pruners.HyperbandPruner(min_resource=1, max_resource=8, reduction_factor=2),
    )
    spent, completed, pruned = 0, dict[str, float](), dict[str, tuple[int, float]]()
    better = max if grid.higher_is_better else min
    for _ in places:
        trial = study.ask()
        arm, each = places[trial.suggest_categorical("run", list(range(len(places))))]
        for eighths in range(1, 9):
            cost = grid.seed_steps(eighths) - (grid.seed_steps(eighths - 1) if eighths > 1 else 0)
            if spent + cost > allowed:
                return Pick(_of_hyperband(grid, completed, pruned), spent)
            spent += cost
            found = [_score(runs[RunKey(arm, task, each)], grid.until(task, eighths), grid) for task in grid.steps]
            scores = [score for score in found if score is not None]
            if len(scores) < len(found):
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                break
            score = fmean(scores)
            pruned[arm] = max(pruned.get(arm, (0, score)), (eighths, score))
            trial.report(score, eighths)
            if eighths == 8:
                study.tell(trial, score)
                completed[arm] = better(completed.get(arm, score), score)
            elif trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
    return Pick(_of_hyperband(grid, completed, pruned), spent)


def _of_hyperband(
    grid: FullGrid, completed: Mapping[str, float], pruned: Mapping[str, tuple[int, float]]
) -> str | None:
    sign = 1 if grid.higher_is_better else -1
    if completed:
        return max(completed, key=lambda arm: sign * completed[arm])
    return max(pruned, key=lambda arm: (pruned[arm][0], sign * pruned[arm][1]), default=None)


def _score(run: Progress, step: int, grid: FullGrid) -> float | None:
    return None if run.failed else run.best(step, grid.higher_is_better)


RIVALS: Mapping[str, Rival] = {"uniform": uniform, "halving": unpaired_halving, "hyperband": hyperband}
