"""How runs forgot other text while they trained, where ``gradgate analyze forgetting`` measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.analysis.forgetting import NAME, ForgettingRow, curves, seen, texts_of
from gradgate.report.drawing import MUTED, Drawing, finish, legend_below, styled, wrapped
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import AnalyzedSection
from gradgate.report.sections.losses import draw_means, steps_to_the_right
from gradgate.report.table import Column, Entry, Table, spread_record
from gradgate.statistics import summarize

_TITLE = "Other text while training"


@dataclass(frozen=True)
class ForgettingCourseSection(AnalyzedSection[ForgettingRow]):
    """The values that ``gradgate analyze forgetting`` has measured."""

    analysis = NAME
    row = ForgettingRow

    def tables(self) -> list[Table]:
        """One for each text."""
        return course_tables(self.rows)

    def drawings(self) -> list[Drawing]:
        """One for each text with a value."""
        return draw_courses(self.rows, self.findings.results.study.arm_names)


def course_tables(rows: Sequence[ForgettingRow]) -> list[Table]:
    """One for each text: one row a step, one column an arm."""
    return [_table(rows, text, number) for number, text in enumerate(texts_of(rows), 1)]


def _table(rows: Sequence[ForgettingRow], text: str, number: int) -> Table:
    found, form = curves(rows, text), _format(rows, text)
    arms = list(dict.fromkeys(row.arm for row in rows if row.text == text))
    steps = sorted({step for of_arm in found.values() for step in of_arm})
    return Table(
        _name(number),
        f"{form.label} on {text} while training",
        (
            Column("step", "Step", "optimizer steps done; 0 is the pretrained model", numeric=False),
            *(Column(arm, arm, "mean ± standard deviation over seeds") for arm in arms),
        ),
        tuple(
            (Entry(str(step), step), *(_entry(found.get(arm, {}).get(step, []), form) for arm in arms))
            for step in steps
        ),
        tuple(
            {"method": arm, "text": text, "metric": form.metric, "step": step, **spread_record(values)}
            for arm, of_arm in found.items()
            for step, values in of_arm.items()
        ),
    )


def _entry(values: list[float], form: ScoreFormat) -> Entry:
    summary = summarize(values)
    return Entry(NONE) if summary.mean is None else Entry(form.with_spread(summary.mean, summary.sd), summary.mean)


def _format(rows: Sequence[ForgettingRow], text: str) -> ScoreFormat:
    return ScoreFormat.fitting(next(row.metric for row in rows if row.text == text))


def draw_courses(rows: Sequence[ForgettingRow], order: Sequence[str]) -> list[Drawing]:
    """A figure for each text: steps to the right, a line an arm.

    Args:
        rows: at least one.
        order: of the arms; their places decide the colours.
    """
    texts = enumerate(texts_of(rows), 1)
    return [_draw(rows, text, number, order) for number, text in texts if curves(rows, text)]


def _draw(rows: Sequence[ForgettingRow], text: str, number: int, order: Sequence[str]) -> Drawing:
    found, form, name = curves(rows, text), _format(rows, text), _name(number)
    with styled(2.9 + 0.19 * len(found)) as figure:
        axes = figure.add_subplot()
        for arm in sorted(found, key=order.index):
            draw_means(axes, found[arm], order.index(arm), arm, form.factor)
        before = [values for of_arm in found.values() for step, values in of_arm.items() if step == 0]
        if before:
            axes.axhline(form.factor * before[0][0], color=MUTED, lw=0.8, ls=(0, (4, 3)), zorder=0)
        axes.set_ylabel(wrapped(f"{form.label} on {text}"))
        steps_to_the_right(axes)
        legend_below(figure)
        caption = (
            f"{seen(rows, text)} Lines are means over the seeds, bands ± one standard deviation; the dashed line is "
            f"the pretrained model."
        )
        return finish(figure, name, f"{_TITLE}: {text}", caption, seen(rows, text), name)


def _name(number: int) -> str:
    return f"{NAME}-course" if number == 1 else f"{NAME}-course-{number}"
