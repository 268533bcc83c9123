"""The t statistics of each method on each test split."""

from __future__ import annotations

from gradgate.report import formats
from gradgate.report.figures.style import MUTED, PAPER, Drawing, finish, legend_below, look, styled
from gradgate.report.findings import Findings
from gradgate.report.t_statistics import SplitTests


def draw_t(findings: Findings, lines: list[SplitTests]) -> Drawing:
    """One row a line of tests, the t statistic to the right, a grey zone where |t| is too small for p < 0.05.

    Args:
        lines: at least one with a test that could be made; others are left out.
    """
    methods = findings.methods[1:]
    lines = [line for line in lines if line.limit is not None]
    low, high = _limits(lines)
    with styled(1.0 + 0.27 * len(lines) + 0.19 * len(methods)) as figure:
        axes = figure.add_subplot()
        for row, line in enumerate(lines):
            limit = line.limit or 0.0
            left, right = max(-limit, low), min(limit, high)
            axes.barh(-row, right - left, left=left, height=0.86, color=MUTED, alpha=0.16, lw=0, zorder=0)
        for place, method in enumerate(methods):
            style = look(place + 1)
            found = [(line.tests[place].t, -row) for row, line in enumerate(lines)]
            dots = [(t, y) for t, y in found if t is not None]
            if dots:
                label = formats.shortened(method.name, 34)
                xs, ys = zip(*dots, strict=True)
                axes.plot(xs, ys, style.marker, color=style.colour, mec=PAPER, ms=6, label=label, zorder=3)
        axes.axvline(0, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=1)
        axes.set_yticks([-row for row in range(len(lines))], [formats.shortened(line.name, 22) for line in lines])
        axes.set(xlim=(low, high), xlabel=f"t, against {formats.shortened(findings.reference.name, 30)}")
        legend_below(figure)
        caption = (
            "Paired t statistics; the table says what is paired. Inside of the grey zone p is 0.05 or more, before "
            "correction."
        )
        return finish(figure, "t-statistics", "t statistics", caption, _text(findings, lines), "t-statistics")


def _limits(lines: list[SplitTests]) -> tuple[float, float]:
    """Of the axis: all statistics, and at least a fifth of it on either side of 0."""
    values = [test.t for line in lines for test in line.tests if test.t is not None]
    low, high = min(*values, 0.0), max(*values, 0.0)
    room = 0.25 * max(high, -low, 1.0)
    return min(1.1 * low, -room), max(1.1 * high, room)


def _text(findings: Findings, lines: list[SplitTests]) -> str:
    parts = []
    for place, method in enumerate(findings.methods[1:]):
        found = [
            f"{line.name} {formats.decimal(line.tests[place].t)}" for line in lines if line.tests[place].t is not None
        ]
        if found:
            parts.append(f"{method.name} {', '.join(found)}")
    return f"t against {findings.reference.name}: {'; '.join(parts)}."
