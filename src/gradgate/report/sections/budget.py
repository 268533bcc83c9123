"""Show how a budget was spent: what ran how far, what left when and why, and what the verdict is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradgate.errors import RunError, counted
from gradgate.report.drawing import MUTED, Drawing, finish, legend_label, style_of, styled, wrapped
from gradgate.report.names_in_figures import name_marks
from gradgate.report.next_steps import Lines, commented_places, lines_of_training
from gradgate.report.sections.base import Section
from gradgate.report.sections.budget_table import NAME, TITLE, StageScores, budget_table, percent
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Table
from gradgate.settings.arms.own_settings import format_settings
from gradgate.settings.command_line import (
    RECOMMENDED,
    load_lines,
    predict_command,
    train_command,
    without_places,
)
from gradgate.study.best_run import recommended_arm
from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.grid import Grid
from gradgate.study.recommend.final_model import find_final


@dataclass(frozen=True)
class BudgetSection(Section):
    """The stages of a study with a budget, or why its file cannot be read."""

    record: BudgetRecord | None
    problem: str = ""

    @classmethod
    def find(cls, study: StudySummary) -> BudgetSection | None:
        """Return None for a study without a budget."""
        try:
            record = read_budget(study.results.folder)
        except RunError as error:
            return cls(study, None, str(error))
        return None if record is None else cls(study, record)

    @property
    def leads(self) -> bool:
        """Return True: the verdict of the budget is the study's answer."""
        return self.record is not None

    def commands(self) -> list[Lines]:
        """Return how to use the recommended arm's model, if it was trained, and how to train it again."""
        study = self.study.results.folder
        if self.record is None or not self.record.final or self.study.parts:
            return []
        grid, name = Grid.read(study), recommended_arm(study, self.record.verdict)
        arm = next((arm for arm in grid.arms if arm.name == name), None)
        if arm is None:
            return []
        model = find_final(study, arm.name)
        config = grid.config_of(arm, 0, {})
        if model is None or not model.is_kept:
            return lines_of_training(config, RECOMMENDED)
        # Reports name no place of the machine that made them.
        place = Path(study.name) / model.folder.relative_to(study)
        return [
            Lines(
                "Predict, or retrain",
                [predict_command(place), *commented_places(config), train_command(without_places(config), RECOMMENDED)],
            ),
            Lines("In Python", load_lines(place)),
        ]

    def printed(self) -> list[tuple[Table, tuple[str, ...]]]:
        """Return the table of stages."""
        return [(table, tuple(column.key for column in table.columns)) for table in self.tables()]

    def tables(self) -> list[Table]:
        """Return one row per arm, those that ran furthest first."""
        return [] if self.record is None else [budget_table(StageScores(self.study, self.record))]

    def drawings(self) -> list[Drawing]:
        """Draw the dev score over the schedule, one line per arm; nothing before the first scores."""
        stages = None if self.record is None else StageScores(self.study, self.record)
        return [draw_budget(stages)] if stages is not None and any(stages.at.values()) else []

    def answer(self) -> str | None:
        """Return the verdict."""
        return None if self.record is None else self.record.headline

    def remarks(self) -> list[str]:
        """Say how the verdict was reached, and what was spent."""
        return [] if self.record is None else list(filter(None, (self.record.details, self.record.spending)))

    def notes(self) -> list[str]:
        """Say how a budget is spent."""
        if self.record is None:
            return []
        variants = [format_settings(variant) for variant in self.study.record.variants]
        tried = f"Each method is compared with {' and with '.join(variants)}, each as an arm of its own."
        return [
            *([tried] if variants else []),
            "All arms train with the same seeds and the same order of the data. If the budget does not allow "
            "full runs of all arms, it starts with shorter ones. After each stage, the arms that are worst on "
            "dev are dropped, and the others continue with more seeds. Short runs are ranked by the mean score "
            "and the mean loss in equal parts, full runs by the score alone. Only dev decides; test splits are "
            "scored for full runs only.",
        ]

    def cautions(self) -> list[str]:
        """Say what is wrong with the file of the budget, or that the budget is not spent."""
        if self.problem:
            return [self.problem]
        if self.record is not None and not self.record.final:
            return ["The budget is not spent yet: run the same command again to continue."]
        return []


def draw_budget(stages: StageScores) -> Drawing:
    """Draw the mean dev score at each comparison, one line per arm, which ends where the arm left."""
    study, order = stages.study, stages.study.record.arm_names
    metric, arms = study.format, [arm for arm in stages.ranked if any(of == arm for of, _ in stages.at)]
    with styled(2.9 + 0.19 * len(arms)) as figure:
        axes = figure.add_subplot()
        for arm in arms:
            style = style_of(order.index(arm) if arm in order else len(order))
            lengths = [eighths for eighths in stages.lengths if (arm, eighths) in stages.at]
            means = [metric.factor * (stages.at[arm, eighths].mean or 0.0) for eighths in lengths]
            places = [EIGHTHS.index(eighths) for eighths in lengths]
            label = legend_label(arm, 40)
            axes.plot(places, means, color=style.colour, ls=style.dash, marker=style.marker, lw=1.6, ms=4, label=label)
        axes.set(xlabel="share of a full run", ylabel=wrapped(f"{metric.label}, dev"))
        axes.set_xticks(range(len(EIGHTHS)), [percent(eighths / 8) for eighths in EIGHTHS])
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        name_marks(figure)
        caption = (
            "Each line ends where its arm was dropped. Points are means over the runs that reached this point; "
            "arms that stayed have more runs, so later points are not means over the same runs as earlier ones."
        )
        return finish(figure, NAME, TITLE, caption, _text(stages, arms), NAME)


def _text(stages: StageScores, arms: list[str]) -> str:
    value = stages.study.format.value
    parts = []
    for arm in arms:
        last = max(eighths for of, eighths in stages.at if of == arm)
        scores = stages.at[arm, last]
        at = percent(last / 8)
        parts.append(f"{arm} has {value(scores.mean)} at {at} ({counted(scores.n, 'run')}), {stages.outcome(arm)}")
    return f"{'; '.join(parts)}. {stages.record.verdict.summary}"
