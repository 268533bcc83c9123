"""The t statistic of each method on each test split, as GradDrop's Fig. 3 has one for each task.

A split's pairs are the seeds. The line for all splits has the splits themselves as pairs, as the paper's statistic of
a task has its languages: they share their models, so that it speaks of these splits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_below, legend_label, look, styled
from gradgate.report.findings import Findings, MethodFindings
from gradgate.report.formats import NONE
from gradgate.report.sections.base import Section
from gradgate.report.sections.gains import gain, name
from gradgate.report.table import Column, Entry, Raw, Table, significance, star_note
from gradgate.statistics import Comparison, compare_over, holm


@dataclass(frozen=True)
class SplitTests:
    """One line: a split, or all of them.

    Attributes:
        unit: what is paired.
        tests: one for each method but the first.
        p: their p-values after Holm's correction over all lines of the same unit.
    """

    name: str
    unit: str
    tests: tuple[Comparison, ...]
    p: tuple[float | None, ...] = ()

    @property
    def limit(self) -> float | None:
        """|t| from which p < 0.05 before correction, for the fewest pairs of the line; None without a test."""
        pairs = [test.n for test in self.tests if test.t is not None]
        return float(stats.t.ppf(0.975, min(pairs) - 1)) if pairs else None


@dataclass(frozen=True)
class TStatisticsSection(Section):
    """The t statistics of a study with several test splits."""

    lines: list[SplitTests]

    @classmethod
    def find(cls, findings: Findings) -> TStatisticsSection:
        """Without a line, it may still have a remark on the tasks of the study."""
        return cls(findings, find_t(findings))

    def tables(self) -> list[Table]:
        """One row a line."""
        return [t_table(self.findings, self.lines)] if self.lines else []

    def drawings(self) -> list[Drawing]:
        """The statistics, and how large they must be."""
        return [draw_t(self.findings, self.lines)] if self.lines else []

    def remarks(self) -> list[str]:
        """How the best method fares over tasks or models."""
        remark = over_parts(self.findings)
        return [remark] if remark else []


def find_t(findings: Findings) -> list[SplitTests]:
    """One line for all test splits, then one for each; none where no test could be made or there is one split."""
    splits, others = findings.results.test_splits, findings.methods[1:]
    if len(splits) < 2 or not others or not findings.scored:
        return []
    lines = [
        SplitTests(name(findings, split), "seed", tuple(gain(findings, method, split).versus for method in others))
        for split in splits
    ]
    found = [over_splits(findings), *_corrected(lines)]
    return found if any(line.limit for line in found) else []


def over_splits(findings: Findings) -> SplitTests:
    """The line for all test splits, each of which is a pair."""
    splits, unit = findings.results.test_splits, findings.results.split_unit
    reference = scores_by_split(findings.reference, splits)
    tests = tuple(compare_over(unit, scores_by_split(method, splits), reference) for method in findings.methods[1:])
    return _corrected([SplitTests(f"over {unit}s", unit, tests)])[0]


def over_parts(findings: Findings) -> str | None:
    """What the tasks or models of a study say of its best method, each as one pair; None without one."""
    results, reference = findings.results, findings.reference
    if not results.parts or not findings.others or not reference.finished:
        return None
    unit, line = results.split_unit, over_splits(findings)
    method = findings.others[0]
    place = findings.methods.index(method) - 1
    test, p = line.tests[place], line.p[place]
    if not test.n:
        return None
    sign = 1 if results.study.task.metric_higher_is_better else -1
    ahead = sum(sign * difference > 0 for difference in test.differences)
    counted_units = f"{method.name} is ahead of {reference.name} on {ahead} of {formats.counted(test.n, unit)}"
    if test.p is None or p is None:
        return f"{counted_units}."
    after = (
        f", {formats.p_value(p)} after Holm's correction" if sum(test.p is not None for test in line.tests) > 1 else ""
    )
    return f"{counted_units}; with {unit}s as pairs, {formats.p_equation(test.p)}{after}."


def scores_by_split(method: MethodFindings, splits: Sequence[str]) -> dict[str, dict[int, float]]:
    """Split to seed to score."""
    scores = {split: {cell.seed: cell.score(split) for cell in method.finished} for split in splits}
    return {split: {seed: s for seed, s in found.items() if s is not None} for split, found in scores.items()}


def _corrected(lines: list[SplitTests]) -> list[SplitTests]:
    corrected = iter(holm([test.p for line in lines for test in line.tests]))
    return [SplitTests(line.name, line.unit, line.tests, tuple(next(corrected) for _ in line.tests)) for line in lines]


def t_table(findings: Findings, lines: list[SplitTests]) -> Table:
    """One row a line, one column a method."""
    names = [method.name for method in findings.methods[1:]]
    return Table(
        "t-statistics",
        f"Paired t statistics against {findings.reference.name}",
        (
            Column("split", findings.results.split_unit.capitalize(), numeric=False),
            Column("unit", "Paired by", numeric=False),
            *(Column(title, title, "t (p of the two-sided test, not corrected)") for title in names),
        ),
        tuple(
            (
                Entry(line.name, line.name),
                Entry(line.unit, line.unit),
                *(_entry(test, p) for test, p in zip(line.tests, line.p, strict=True)),
            )
            for line in lines
        ),
        tuple(
            _record(findings, line, title, test, p)
            for line in lines
            for title, test, p in zip(names, line.tests, line.p, strict=True)
        ),
        notes=star_note(
            [p for line in lines for p in line.p],
            "two-sided paired t-test, Holm-corrected over the methods, and by seed over the splits too",
        ),
    )


def _entry(test: Comparison, p: float | None) -> Entry:
    if test.t is None or test.p is None:
        return Entry(NONE)
    return Entry(f"{formats.decimal(test.t)}{significance(p)}", test.t, f"({formats.p_equation(test.p)})")


def _record(findings: Findings, line: SplitTests, method: str, test: Comparison, p: float | None) -> dict[str, Raw]:
    return {
        "method": method,
        "reference": findings.reference.name,
        "split": line.name,
        "paired_by": line.unit,
        "pairs": test.n,
        "difference": test.difference,
        "t": test.t,
        "p": test.p,
        "p_holm": p,
    }


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
                label = legend_label(method.name, 34)
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
