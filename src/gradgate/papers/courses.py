"""What runs say besides their scores: how the dev loss went on, in which order layers opened, what a search found."""

from __future__ import annotations

from contextlib import suppress
from statistics import stdev

from scipy import stats

from gradgate.errors import RunError
from gradgate.papers.numbers import LOSS_RISE, TOP_DOWN
from gradgate.report.findings import find
from gradgate.report.plans import WrittenPlan, read_plan
from gradgate.report.rates import find_rates
from gradgate.study.results import Cell, StudyResults
from gradgate.training.folder import RunFolder

_LAYER = "layers."


def rate_spreads(results: StudyResults) -> dict[str, dict[int, float]]:
    """Of each label of a study that searched learning rates: search seed to the deviation of dev over the rates.

    In points where the metric is a share; seeds are counted from 0.
    """
    findings = find(results)
    rates = find_rates(findings)
    if rates is None or not rates.searched:
        return {}
    spreads = {}
    for method in rates.methods:
        if len({len(scores) for scores in method.scores.values()}) == 1:  # else it is not known which seed is lacking
            by_seed = enumerate(zip(*method.scores.values(), strict=True))
            spreads[method.label] = {seed: findings.format.factor * stdev(scores) for seed, scores in by_seed}
    return spreads


def course_numbers(cell: Cell) -> dict[str, float]:
    """What is known of a finished run: its rise of the dev loss, and the order of its layers."""
    losses = [record.metrics["loss"] for record in cell.history if "loss" in record.metrics]
    found = {LOSS_RISE: losses[-1] - min(losses)} if len(losses) > 1 else {}
    if cell.folder is not None:
        with suppress(RunError):
            order = closeness_to_top_down(read_plan(RunFolder(cell.folder).plan_file))
            found |= {} if order is None else {TOP_DOWN: order}
    return found


def closeness_to_top_down(plan: WrittenPlan) -> float | None:
    """Kendall's rank correlation of the steps at which layers first learned with their depths from the top.

    Returns:
        1 for top-down, -1 for bottom-up; None where fewer than two layers opened, or all at the same step. A layer that
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
