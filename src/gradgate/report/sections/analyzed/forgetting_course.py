"""Show how runs forgot other text while they trained, if ``gradgate analyze forgetting`` measured it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.analysis.forgetting import NAME, ForgettingRow, caption, curves, texts_of
from gradgate.errors import listed
from gradgate.report.drawing import MUTED, Drawing, finish, styled, wrapped
from gradgate.report.formats import ScoreFormat
from gradgate.report.names_in_figures import name_marks
from gradgate.report.sections.base import AnalyzedSection
from gradgate.report.sections.forgetting_figure import KL_IN_WORDS
from gradgate.report.sections.from_papers.losses import draw_means, steps_to_the_right
from gradgate.report.table import Column, Table, records_of, spread_entry, spread_fields, step_column
from gradgate.statistics import Summary, summarize
from gradgate.tasks.metrics import KL


@dataclass(frozen=True)
class ForgettingCourseSection(AnalyzedSection[ForgettingRow]):
    """The values that ``gradgate analyze forgetting`` has measured."""

    analysis = NAME
    row = ForgettingRow

    def tables(self) -> list[Table]:
        """Return one for each text."""
        return course_tables(self.rows)

    def drawings(self) -> list[Drawing]:
        """Draw one for each text with a value."""
        return draw_courses(self.rows, self.study.record.arm_names)

    def notes(self) -> list[str]:
        """Say what a divergence is."""
        texts = [text for text in texts_of(self.rows) if _format(self.rows, text).metric == KL]
        return [f"KL divergence on {listed(texts)}: {KL_IN_WORDS}; 0 for the pretrained model."] if texts else []


def course_tables(rows: Sequence[ForgettingRow]) -> list[Table]:
    """Return one for each text: one row per step, one column per arm."""
    return [_table(rows, text, number) for number, text in enumerate(texts_of(rows), 1)]


def _table(rows: Sequence[ForgettingRow], text: str, number: int) -> Table:
    form = _format(rows, text)
    found = {
        arm: {step: summarize(values) for step, values in of_arm.items()} for arm, of_arm in curves(rows, text).items()
    }
    fields: tuple[Column[tuple[str, int]], ...] = (
        Column("method", raw=lambda row: row[0]),
        Column("text", raw=lambda row: text),
        Column("metric", raw=lambda row: form.metric),
        Column("step", raw=lambda row: row[1]),
        *spread_fields(lambda row: found[row[0]][row[1]]),
    )
    arms = dict.fromkeys(row.arm for row in rows if row.text == text)
    columns = (
        step_column("optimizer steps; 0 is the pretrained model"),
        *(_arm_column(arm, found.get(arm, {}), form) for arm in arms),
    )
    steps = sorted({step for of_arm in found.values() for step in of_arm})
    measured = [(arm, step) for arm, of_arm in found.items() for step in of_arm]
    title = f"{form.label} on {text} during training"
    return Table.of(_name(number), title, steps, columns, records=records_of(measured, fields))


def _arm_column(arm: str, found: dict[int, Summary], form: ScoreFormat) -> Column[int]:
    about = "mean ± standard deviation over seeds"
    return Column(arm, arm, about, show=lambda step: spread_entry(found.get(step), form))


def _format(rows: Sequence[ForgettingRow], text: str) -> ScoreFormat:
    own = [row for row in rows if row.text == text]
    metric = own[0].metric
    return ScoreFormat.fitting(metric, [row.value for row in own] if metric == KL else ())  # it begins near 0


def draw_courses(rows: Sequence[ForgettingRow], order: Sequence[str]) -> list[Drawing]:
    """Draw a figure for each text: steps to the right, one line per arm.

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
        name_marks(figure)
        said = caption(rows, text)
        whole = (
            f"{said} Lines are means over the seeds, bands ± one standard deviation; the dashed line is "
            f"the pretrained model."
        )
        title = f"{form.name[0].upper()}{form.name[1:]} on other text during training: {text}"
        return finish(figure, name, title, whole, said, name)


def _name(number: int) -> str:
    return f"{NAME}-course" if number == 1 else f"{NAME}-course-{number}"
