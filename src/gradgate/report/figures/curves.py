"""Learning curves on dev."""

from __future__ import annotations

from collections import defaultdict
from math import isfinite

import numpy as np
from matplotlib.ticker import MaxNLocator

from gradgate.report.figures.style import MUTED, Drawing, finish, legend_below, look, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import shortened

_CAPTION = "Lines are means over the seeds, bands ± one standard deviation."


def draw_curves(findings: Findings) -> Drawing | None:
    """The dev score over the steps, mean over the seeds with a band of one standard deviation; None without any."""
    curves = [(m, points) for m in findings.scored if (points := _points(m, findings.format.metric))]
    if not curves:
        return None
    metric = findings.format
    with styled(2.9 + 0.19 * len(curves)) as figure:
        axes = figure.add_subplot()
        for method, points in curves:
            style = look(findings.methods.index(method))
            steps, means, sds = (np.array(column) for column in zip(*points, strict=True))
            means, sds = means * metric.factor, sds * metric.factor
            mark = style.marker if len(points) <= 25 else ""
            label = shortened(method.name, 40)
            axes.plot(steps, means, color=style.colour, ls=style.dash, lw=1.6, marker=mark, ms=3.5, label=label)
            axes.fill_between(steps, means - sds, means + sds, color=style.colour, alpha=0.14, lw=0)
        axes.set(xlabel="optimizer steps", ylabel=f"{metric.label}, dev")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        legend_below(figure)
        return finish(figure, "curves", "Learning curves on dev", _CAPTION, _text(findings, curves))


def _points(method: MethodFindings, metric: str) -> list[tuple[int, float, float]]:
    """Step, mean and standard deviation over the seeds that were evaluated at that step; 0 for a single one."""
    scores: dict[int, list[float]] = defaultdict(list)
    for cell in method.finished:
        for record in cell.history:
            value = record.metrics.get(metric)
            if value is not None and isfinite(value):
                scores[record.step].append(value)
    return [
        (step, float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
        for step, values in sorted(scores.items())
    ]


def _text(findings: Findings, curves: list[tuple[MethodFindings, list[tuple[int, float, float]]]]) -> str:
    parts = []
    higher = findings.results.study.task.metric_higher_is_better
    for method, points in curves:
        first, last = points[0], points[-1]
        peak = max(points, key=lambda point: point[1] if higher else -point[1])
        value = findings.format.value
        parts.append(
            f"{method.name} goes from {value(first[1])} at step {first[0]} to {value(last[1])} at step {last[0]}, "
            f"best {value(peak[1])} at step {peak[0]}"
        )
    return f"{'; '.join(parts)}."
