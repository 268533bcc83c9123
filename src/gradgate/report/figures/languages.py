"""Scores and gains by language."""

from __future__ import annotations

from matplotlib.axes import Axes

from gradgate.report import formats
from gradgate.report.figures.style import MUTED, PAPER, Drawing, finish, legend_below, look, styled
from gradgate.report.findings import Findings
from gradgate.report.languages import gain, language_splits, name


def draw_languages(findings: Findings) -> Drawing:
    """One row a language: how far each method is from the reference, or its score where there is only one method."""
    splits = [split for split in language_splits(findings) if split not in findings.results.averages]
    methods = findings.scored
    metric, first = findings.format, findings.reference
    compared = len(methods) > 1 and first in methods
    gains = {(split, m.name): gain(findings, m, split) for split in splits for m in methods}
    # Of the mean scores, so that languages stand in one order in every study of equal scores.
    splits.sort(key=lambda split: -(gains[split, methods[0].name].mean or 0.0))
    with styled(1.0 + 0.24 * len(splits) + 0.19 * len(methods)) as figure:
        axes = figure.add_subplot()
        for method in methods:
            if compared and method is first:
                continue
            values = [
                (gains[split, method.name].difference if compared else gains[split, method.name].mean)
                for split in splits
            ]
            _draw_dots(axes, findings, method.name, [None if v is None else v * metric.factor for v in values])
        if compared:
            axes.axvline(0, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set_yticks([-row for row in range(len(splits))], [name(findings, split) for split in splits])
        what = f"difference to {formats.shortened(first.name, 32)}" if compared else metric.label
        axes.set_xlabel(f"{metric.label}, {what}" if compared else what)
        axes.grid(axis="y", color=MUTED, alpha=0.2, lw=0.6)
        if compared:
            legend_below(figure)
        caption = (
            f"Mean over seeds of the difference to {first.name}, paired by seed; languages from its best to its worst."
            if compared
            else "Mean over seeds, from the best language to the worst."
        )
        return finish(figure, "languages", "Languages", caption, _text(findings, splits))


def _draw_dots(axes: Axes, findings: Findings, method: str, values: list[float | None]) -> None:
    place = next(index for index, known in enumerate(findings.methods) if known.name == method)
    style = look(place)
    points = [(value, -row) for row, value in enumerate(values) if value is not None]
    axes.plot(
        [x for x, _ in points],
        [y for _, y in points],
        style.marker,
        color=style.colour,
        mec=PAPER,
        ms=6,
        label=formats.shortened(method, 34),
        zorder=3,
    )


def _text(findings: Findings, splits: list[str]) -> str:
    metric = findings.format
    parts = [
        f"{method.name} "
        + ", ".join(f"{name(findings, split)} {metric.value(gain(findings, method, split).mean)}" for split in splits)
        for method in findings.scored
    ]
    return f"{metric.label} by language: {'; '.join(parts)}."
