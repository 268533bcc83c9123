"""Scores and gains by language."""

from __future__ import annotations

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.figures.style import MUTED, PAPER, Drawing, finish, legend_below, look, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.languages import gain, language_splits, name


def draw_languages(findings: Findings) -> Drawing:
    """Bars by language: how far each method is from the reference, or its score where there is only one method."""
    splits = [split for split in language_splits(findings) if split not in findings.results.averages]
    methods = findings.scored
    metric, first = findings.format, findings.reference
    compared = len(methods) > 1 and first in methods
    gains = {(split, m.name): gain(findings, m, split) for split in splits for m in methods}
    # Of the mean scores, so that languages stand in one order in every study of equal scores.
    splits.sort(key=lambda split: -(gains[split, methods[0].name].mean or 0.0))
    drawn = [method for method in methods if not (compared and method is first)]
    with styled(1.0 + (0.1 + 0.15 * len(drawn)) * len(splits) + 0.19 * len(drawn)) as figure:
        axes = figure.add_subplot()
        for place, method in enumerate(drawn):
            found = [gains[split, method.name] for split in splits]
            values = [each.difference if compared else each.mean for each in found]
            _draw_bars(axes, findings, method, [metric.factor * (value or 0.0) for value in values], place, len(drawn))
        if compared:
            axes.axvline(0, color=MUTED, lw=0.8)
        axes.set_yticks([-row for row in range(len(splits))], [name(findings, split) for split in splits])
        what = f"difference to {formats.shortened(first.name, 32)}" if compared else metric.label
        axes.set_xlabel(f"{metric.label}, {what}" if compared else what)
        axes.set_ylim(-len(splits) + 0.4, 0.6)
        axes.grid(axis="x", color=MUTED, alpha=0.2, lw=0.6)
        if compared:
            legend_below(figure)
        caption = (
            f"Mean over seeds of the difference to {first.name}, paired by seed; languages from its best to its worst."
            if compared
            else "Mean over seeds, from the best language to the worst."
        )
        return finish(figure, "languages", "Languages", caption, _text(findings, splits))


def _draw_bars(
    axes: Axes, findings: Findings, method: MethodFindings, values: list[float], place: int, count: int
) -> None:
    """One method's bars, the one at ``place`` of ``count`` in each language."""
    width = 0.8 / count
    heights = [-row + 0.4 - width * (place + 0.5) for row in range(len(values))]
    colour = look(findings.methods.index(method)).colour
    label = formats.shortened(method.name, 34)
    axes.barh(heights, values, height=0.9 * width, color=colour, edgecolor=PAPER, lw=0.4, label=label, zorder=2)


def _text(findings: Findings, splits: list[str]) -> str:
    metric = findings.format
    parts = [
        f"{method.name} "
        + ", ".join(f"{name(findings, split)} {metric.value(gain(findings, method, split).mean)}" for split in splits)
        for method in findings.scored
    ]
    return f"{metric.label} by language: {'; '.join(parts)}."
