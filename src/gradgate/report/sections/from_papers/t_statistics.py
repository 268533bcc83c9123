"""The t statistic of each method on each test split, as GradDrop's Fig. 3 has one for each task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.report import formats
from gradgate.report.drawing import MUTED, PAPER, Drawing, finish, legend_label, style_of, styled
from gradgate.report.formats import NONE
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import Section
from gradgate.report.split_tests import SplitTests, find_split_tests
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, significance, star_note, text_column
from gradgate.statistics import Comparison

NAME = "t-statistics"
_TEST = "two-sided t-test, Holm-corrected over the methods, and, unless it has splits as pairs, over the splits"


@dataclass(frozen=True)
class TStatisticsSection(Section):
    """The t statistics of a study with several test splits."""

    lines: list[SplitTests]

    @classmethod
    def find(cls, study: StudySummary) -> TStatisticsSection | None:
        """Return None if no test is possible or there is one split."""
        lines = find_split_tests(study)
        return cls(study, lines) if lines else None

    @property
    def on_page(self) -> bool:
        """Whether the section is shown by default: never, as the tests are in the tables of evidence and of gains."""
        return False

    def tables(self) -> list[Table]:
        """Return one row per split."""
        return [t_table(self.study, self.lines)]

    def drawings(self) -> list[Drawing]:
        """Draw the statistics, and how large they must be."""
        return [draw_t(self.study, self.lines)]


@dataclass(frozen=True)
class _Test:
    """One arm on one split."""

    line: SplitTests
    arm: str
    test: Comparison
    p: float | None


def t_table(study: StudySummary, lines: Sequence[SplitTests]) -> Table:
    """Return one row per split, one column per method."""
    names = [arm.name for arm in study.arms[1:]]
    tests = [
        _Test(line, name, test, p) for line in lines for name, test, p in zip(names, line.tests, line.p, strict=True)
    ]
    fields: tuple[Column[_Test], ...] = (
        Column("method", raw=lambda row: row.arm),
        Column("reference", raw=lambda row: study.reference.name),
        Column("split", raw=lambda row: row.line.name),
        Column("paired_by", raw=lambda row: row.line.unit),
        Column("pairs", raw=lambda row: row.test.n),
        Column("difference", raw=lambda row: row.test.difference),
        Column("t", raw=lambda row: row.test.t),
        Column("p", raw=lambda row: row.test.p),
        Column("p_holm", raw=lambda row: row.p),
    )
    columns = (
        text_column("split", study.results.split_unit.capitalize(), of=lambda line: line.name),
        text_column("unit", "Test over", of=lambda line: f"{line.unit}s"),
        *(_arm_column(name, place) for place, name in enumerate(names)),
    )
    notes = star_note([test.p for test in tests], _TEST)
    title = f"t statistics against {study.reference.name}"
    return Table.of(NAME, title, lines, columns, records=records_of(tests, fields), notes=notes)


def _arm_column(name: str, place: int) -> Column[SplitTests]:
    about = "t (p of the two-sided test, not corrected)"
    return Column(name, name, about, show=lambda line: _entry(line.tests[place], line.p[place]))


def _entry(test: Comparison, p: float | None) -> Entry:
    if test.t is None or test.p is None:
        return Entry(NONE)
    return Entry(f"{formats.decimal(test.t)}{significance(p)}", test.t, f"({formats.p_equation(test.p)})")


def draw_t(study: StudySummary, lines: Sequence[SplitTests]) -> Drawing:
    """Draw one row per split, the t statistic to the right, and a grey zone in which |t| is too small for p < 0.05.

    Args:
        lines: at least one with a possible test; others are left out.
    """
    arms = study.arms[1:]
    lines = [line for line in lines if line.limit is not None]
    low, high = _limits(lines)
    with styled(1.0 + 0.27 * len(lines) + 0.19 * len(arms)) as figure:
        axes = figure.add_subplot()
        for row, line in enumerate(lines):
            limit = line.limit or 0.0
            left, right = max(-limit, low), min(limit, high)
            axes.barh(-row, right - left, left=left, height=0.86, color=MUTED, alpha=0.16, lw=0, zorder=0)
        for place, arm in enumerate(arms):
            style = style_of(place + 1)
            found = [(line.tests[place].t, -row) for row, line in enumerate(lines)]
            dots = [(t, y) for t, y in found if t is not None]
            if dots:
                label = legend_label(arm.name, 34)
                xs, ys = zip(*dots, strict=True)
                axes.plot(xs, ys, style.marker, color=style.colour, mec=PAPER, ms=6, label=label, zorder=3)
        axes.axvline(0, color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=1)
        axes.set_yticks([-row for row in range(len(lines))], [formats.shortened(line.name, 22) for line in lines])
        axes.set(xlim=(low, high), xlabel=f"t, against {formats.shortened(study.reference.name, 30)}")
        name_marks(figure)
        caption = (
            "t statistics; the table says what each test is over. Within the grey zone, p is 0.05 or more before "
            "correction."
        )
        return finish(figure, NAME, "t statistics", caption, _text(study, lines), NAME)


def _limits(lines: Sequence[SplitTests]) -> tuple[float, float]:
    """Return the ends of the axis: all statistics, and at least a fifth of it on either side of 0."""
    values = [test.t for line in lines for test in line.tests if test.t is not None]
    low, high = min(*values, 0.0), max(*values, 0.0)
    room = 0.25 * max(high, -low, 1.0)
    return min(1.1 * low, -room), max(1.1 * high, room)


def _text(study: StudySummary, lines: Sequence[SplitTests]) -> str:
    parts = []
    for place, arm in enumerate(study.arms[1:]):
        found = [
            f"{line.name} {formats.decimal(line.tests[place].t)}" for line in lines if line.tests[place].t is not None
        ]
        if found:
            parts.append(f"{arm.name} {', '.join(found)}")
    return f"t against {study.reference.name}: {'; '.join(parts)}."
