"""What runs say besides their scores: how the dev loss went on, in which order layers opened, what a search found."""

from __future__ import annotations

import json
from math import isfinite
from statistics import fmean, stdev

from scipy import stats

from gradgate.errors import RunError
from gradgate.report.findings import find
from gradgate.report.plans import WrittenPlan, read_plan
from gradgate.report.rates import searched_runs
from gradgate.study.results import Cell, StudyResults
from gradgate.study.search import SEARCHED
from gradgate.training.folder import RunFolder

_LAYER = "layers."


def rate_spreads(results: StudyResults) -> dict[str, dict[int, float]]:
    """Of each label of a study that searched learning rates: search seed to the deviation of dev over the rates.

    Only seeds with a score at every rate that any label was tried with count, so that a run that failed narrows
    nothing. Where other settings were searched too, it is the mean over them. In points where the metric is a share.
    """
    shown = find(results).format
    scores: dict[str, dict[tuple[int, str], dict[float, float]]] = {}
    for run in searched_runs(results, shown.metric):
        others = {name: run.config.get(name) for name in SEARCHED if name != "lr"}
        key = run.config["seed"], json.dumps(others, sort_keys=True)
        scores.setdefault(run.label, {}).setdefault(key, {})[float(run.config["lr"])] = run.score
    rates = {rate for tried in scores.values() for by_rate in tried.values() for rate in by_rate}
    spreads: dict[str, dict[int, float]] = {}
    if len(rates) < 2:
        return spreads
    for label, tried in scores.items():
        whole = {key: stdev(by_rate.values()) for key, by_rate in tried.items() if by_rate.keys() == rates}
        seeds = {seed for seed, _ in tried if all(key in whole for key in tried if key[0] == seed)}
        if label in results.study.labels and seeds:
            means = {seed: fmean(whole[key] for key in tried if key[0] == seed) for seed in sorted(seeds)}
            spreads[label] = {seed: shown.factor * mean for seed, mean in means.items()}
    return spreads


def loss_rise(cell: Cell) -> float | None:
    """How far the last loss on dev is above the lowest; None with fewer than two, or one that is not finite."""
    losses = [record.metrics["loss"] for record in cell.history if "loss" in record.metrics]
    return losses[-1] - min(losses) if len(losses) > 1 and all(map(isfinite, losses)) else None


def opening_order(cell: Cell) -> float | None:
    """:func:`closeness_to_top_down` of a run; None where its plan cannot be read."""
    if cell.folder is None:
        return None
    try:
        return closeness_to_top_down(read_plan(RunFolder(cell.folder).plan_file))
    except RunError:
        return None


def closeness_to_top_down(plan: WrittenPlan) -> float | None:
    """Kendall's rank correlation of the steps at which layers first learned with their depths from the top.

    Returns:
        1 for top-down, -1 for bottom-up; None where all layers opened at the same step. A layer that
        never opened comes last.
    """
    layers = [name for name in plan.groups if name.startswith(_LAYER)]
    first = dict.fromkeys(layers, plan.steps)
    for phase in reversed(plan.phases):
        first |= dict.fromkeys([name for name in (*phase.open, *phase.sparse) if name in first], phase.step)
    if len(set(first.values())) < 2:
        return None
    depths = [-int(name.removeprefix(_LAYER)) for name in layers]
    return float(stats.kendalltau([first[name] for name in layers], depths).statistic)
