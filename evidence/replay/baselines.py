"""Replay other ways to spend the steps of a budget: equal shares, halving without pairs, and optuna's Hyperband."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import fmean

import numpy as np

from gradgate.errors import UsageError, nearest
from gradgate.runs.state import Progress, RunState
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.replay.curves import Curves
from gradgate.study.replay.replay import (
    Outcome,
    Replay,
    Runs,
    allocator_of,
    play,
    reordered,
    replay,
    score_of,
    seed_orders,
)

Baseline = Callable[[FullGrid, Runs, int, int], Outcome]
"""Grid, runs, steps allowed and seed to what it puts first."""


def replay_all(curves: Curves, share: float, repeats: int, names: Sequence[str], seed: int = 0) -> Replay:
    """Replay a budget, and some of :data:`BASELINES` with the same steps and the same orders of seeds.

    Raises:
        UsageError: for an unknown name, and as :func:`gradgate.study.replay.replay.replay`.
        DataError: as :func:`gradgate.study.replay.replay.replay`.
    """
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise UsageError(
            f"There is no baseline {unknown[0]!r}.{nearest(unknown[0], BASELINES)} Expected some of "
            f"{', '.join(BASELINES)}."
        )
    found = replay(curves, share, repeats, seed)
    allowed, scores = allocator_of(curves, share, repeats).steps_allowed, list(found.scores)
    for name in names:
        outcomes = [
            BASELINES[name](curves.grid, reordered(curves, order), allowed, repeat)
            for repeat, order in enumerate(seed_orders(curves, repeats, seed))
        ]
        scores.append(score_of(name, outcomes, curves.grid, found.truth))
    return replace(found, scores=tuple(scores))


def uniform(grid: FullGrid, runs: Runs, allowed: int, seed: int) -> Outcome:
    """Give every arm the same steps: whole runs on as many seeds as are paid for, else one seed to a paid eighth."""
    arms, whole = len(grid.arms), grid.seed_steps(8)
    seeds, eighths = min(allowed // (arms * whole), len(grid.seeds)), 8
    if not seeds:
        seeds, eighths = 1, max((e for e in range(1, 8) if arms * grid.seed_steps(e) <= allowed), default=0)
    if not eighths:
        return Outcome(None, None, 0)
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
    return Outcome(best, None, arms * seeds * grid.seed_steps(eighths))


def unpaired_halving(grid: FullGrid, runs: Runs, allowed: int, seed: int) -> Outcome:
    """Use the budget's stages and order of arms, but draw an order of seeds per arm: nothing is paired."""
    draw = np.random.default_rng(seed)
    mixed = {}
    for arm in grid.arms:
        order = draw.permutation(len(grid.seeds))
        for task, (slot, place) in product(grid.steps, enumerate(order)):
            mixed[RunKey(arm, task, grid.seeds[slot])] = runs[RunKey(arm, task, grid.seeds[place])]
    allocator = Allocator(grid, allowed)
    observed = play(allocator, mixed)
    winners = allocator.finding(observed).winners
    return Outcome(winners[0] if winners else None, None, allocator.spent(observed))


def hyperband(grid: FullGrid, runs: Runs, allowed: int, seed: int) -> Outcome:
    """Use optuna with its HyperbandPruner: a trial is a run, in random order; the arm of the best whole run leads.

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
                return Outcome(_of_hyperband(grid, completed, pruned), None, spent)
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
    return Outcome(_of_hyperband(grid, completed, pruned), None, spent)


def _of_hyperband(
    grid: FullGrid, completed: Mapping[str, float], pruned: Mapping[str, tuple[int, float]]
) -> str | None:
    sign = 1 if grid.higher_is_better else -1
    if completed:
        return max(completed, key=lambda arm: sign * completed[arm])
    return max(pruned, key=lambda arm: (pruned[arm][0], sign * pruned[arm][1]), default=None)


def _score(run: Progress, step: int, grid: FullGrid) -> float | None:
    return None if run.state is RunState.FAILED else run.best(step, grid.higher_is_better)


BASELINES: Mapping[str, Baseline] = {"uniform": uniform, "halving": unpaired_halving, "hyperband": hyperband}
