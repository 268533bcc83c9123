"""The dev scores of a study with a budget where its runs are compared, as a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradgate.errors import DataError
from gradgate.report.formats import NONE
from gradgate.report.study_summary import StudySummary
from gradgate.report.table import Column, Entry, Table, records_of, spread_fields, text_column
from gradgate.runs.state import Progress
from gradgate.statistics import Summary, summarize
from gradgate.study.budget import FullGrid, Observed
from gradgate.study.budget.file import BudgetRecord
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.budget.observe import observe
from gradgate.study.budget.verdict import Departure

NAME, TITLE = "race", "Stages of the budget"


@dataclass(frozen=True)
class StageScores:
    """The dev scores of a study with a budget where its runs are compared."""

    study: StudySummary
    record: BudgetRecord

    @cached_property
    def grid(self) -> FullGrid:
        """The full grid, of which the budget is a part."""
        record, task = self.record, self.study.record.task
        return FullGrid(
            arms=record.arms,
            seeds=record.seeds,
            steps=record.steps,
            higher_is_better=task.metric_higher_is_better,
            factor=self.study.format.factor,
        )

    @cached_property
    def observed(self) -> Observed:
        """The progress of each run, as far as it is known."""
        results = self.study.results
        known = observe([part for _, part in results.parts] or [results])
        return {key: progress for key, progress in known.items() if key.task in self.record.steps}

    @cached_property
    def at(self) -> dict[tuple[str, int], Summary]:
        """Arm and eighths of the schedule to the best dev scores of its runs up to there."""
        found: dict[tuple[str, int], list[float]] = {}
        for key, progress in self.observed.items():
            for eighths in EIGHTHS:
                try:
                    score = progress.best(self.grid.until(key.task, eighths), self.grid.higher_is_better)
                except DataError:  # trained without a budget, and not scored so early
                    continue
                if score is not None and not progress.has_failed:
                    found.setdefault((key.arm, eighths), []).append(score)
        return {place: summarize(scores) for place, scores in found.items()}

    @property
    def lengths(self) -> list[int]:
        """The eighths of the schedule at which a run was scored."""
        return [eighths for eighths in EIGHTHS if any(reached == eighths for _, reached in self.at)]

    @cached_property
    def departures(self) -> dict[str, Departure]:
        """Arm to how it left."""
        return {departure.arm: departure for departure in self.record.verdict.departures}

    @property
    def ranked(self) -> list[str]:
        """The arms, those that left last first."""
        left = sorted(self.departures.values(), key=lambda each: (-each.step_share, each.place or len(self.grid.arms)))
        return [*self.record.remaining, *(departure.arm for departure in left)]

    def outcome(self, arm: str) -> str:
        """Return what became of an arm, in a few words."""
        verdict, left = self.record.verdict, self.departures.get(arm)
        if left is not None and left.place is None:
            return "a run failed"
        if left is not None:
            return f"dropped at {percent(left.step_share)}: place {left.place} of {left.of}"
        if not self.record.final:
            return "still training"
        if arm not in verdict.winners:
            return "beaten"
        if verdict.decided:
            return "wins"
        if not verdict.tested:
            rank = "best mean on dev" if verdict.step_share >= 1 else "first by scores and losses on dev"
            return f"{rank}, not tested" if arm == verdict.winners[0] else "not tested"
        return "leads" if arm == verdict.winners[0] else "not significantly worse"


def budget_table(stages: StageScores) -> Table:
    """Return one row per arm: how far its runs got, its mean on dev there, and what became of it."""
    metric = stages.study.format
    runs = {arm: [progress for key, progress in stages.observed.items() if key.arm == arm] for arm in stages.ranked}
    columns = (
        text_column("method", "Method", "longest in the study first", of=lambda arm: arm),
        Column("runs", "Runs", "that were started", show=lambda arm: Entry(str(len(runs[arm])), len(runs[arm]))),
        Column("steps", "Steps", "optimizer steps of all runs", show=lambda arm: _steps(runs[arm])),
        *(_length_column(stages, eighths) for eighths in stages.lengths),
        Column(
            "outcome",
            "Outcome",
            "when it was dropped, and its place among the arms of that stage",
            numeric=False,
            show=lambda arm: Entry(stages.outcome(arm), stages.outcome(arm)),
        ),
    )
    scored = [(arm, eighths) for arm in stages.ranked for eighths in stages.lengths if (arm, eighths) in stages.at]
    is_decided = stages.record.final and stages.record.verdict.decided
    return Table.of(
        NAME,
        f"{TITLE}: {metric.label}, dev",
        stages.ranked,
        columns,
        records=records_of(scored, _fields(stages)),
        best={0} if is_decided else (),
        notes=[departure.reason for departure in stages.departures.values()],
    )


def percent(share: float) -> str:
    """Return ``12.5 %``."""
    return f"{100 * share:g} %"


def _steps(runs: list[Progress]) -> Entry:
    steps = sum(progress.step for progress in runs)
    return Entry(f"{steps:,}", steps)


def _length_column(stages: StageScores, eighths: int) -> Column[str]:
    def show(arm: str) -> Entry:
        scores = stages.at.get((arm, eighths))
        return Entry(stages.study.format.value(scores.mean), scores.mean, f"({scores.n})") if scores else Entry(NONE)

    about = "of a full run: mean on dev, and the number of runs"
    return Column(f"at{eighths}", f"At {percent(eighths / 8)}", about, show=show)


def _fields(stages: StageScores) -> tuple[Column[tuple[str, int]], ...]:
    def left(row: tuple[str, int]) -> Departure | None:
        return stages.departures.get(row[0])

    return (
        Column("method", raw=lambda row: row[0]),
        Column("step_share", raw=lambda row: row[1] / 8),
        Column("metric", raw=lambda row: stages.study.format.metric),
        *spread_fields(lambda row: stages.at[row]),
        Column("outcome", raw=lambda row: stages.outcome(row[0])),
        Column("left_at", raw=lambda row: departure.step_share if (departure := left(row)) else None),
        Column("place", raw=lambda row: departure.place if (departure := left(row)) else None),
    )
