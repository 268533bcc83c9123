"""How a budget was spent: what ran how far, what left when and why, and what the verdict is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradgate.errors import DataError, RunError
from gradgate.report.drawing import MUTED, Drawing, finish, legend_below, legend_label, look, styled, wrapped
from gradgate.report.findings import Findings
from gradgate.report.formats import NONE, counted
from gradgate.report.sections.base import Section
from gradgate.report.table import Column, Entry, Raw, Table, spread_record
from gradgate.settings.arm import format_settings
from gradgate.statistics import summarize
from gradgate.study.budget import FullGrid, Observed
from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.budget.observe import observe
from gradgate.study.budget.verdict import Departure

NAME, TITLE = "race", "The race"


@dataclass(frozen=True)
class RaceSection(Section):
    """The race of a study with a budget, or why its file cannot be read."""

    record: BudgetRecord | None
    problem: str = ""

    @classmethod
    def find(cls, findings: Findings) -> RaceSection | None:
        """None for a study without a budget."""
        try:
            record = read_budget(findings.results.folder)
        except RunError as error:
            return cls(findings, None, str(error))
        return None if record is None else cls(findings, record)

    def tables(self) -> list[Table]:
        """One row an arm, those that ran furthest first."""
        return [] if self.record is None else [race_table(Laps(self.findings, self.record))]

    def drawings(self) -> list[Drawing]:
        """The dev score over the schedule, a line an arm; none before the first scores."""
        laps = None if self.record is None else Laps(self.findings, self.record)
        return [draw_race(laps)] if laps is not None and any(laps.at.values()) else []

    def answer(self) -> str | None:
        """The verdict."""
        return None if self.record is None else self.record.headline

    def remarks(self) -> list[str]:
        """How the verdict was found, and what was spent."""
        return [] if self.record is None else list(filter(None, (self.record.details, self.record.spending)))

    def notes(self) -> list[str]:
        """How a budget is spent."""
        if self.record is None:
            return []
        variants = [format_settings(variant) for variant in self.findings.results.study.variants]
        tried = f"Each method is compared with {' and with '.join(variants)}; each of these is an arm of its own."
        return [
            *([tried] if variants else []),
            "Within the budget, all arms train with the same seeds and the same order of the data. Short runs come "
            "first; after each stage the arms that are worst on dev leave, and the others go on from where they are, "
            "with more seeds. The mean score and the mean loss of short runs count alike, and the score of whole runs "
            "alone. Only dev decides; test splits are scored for whole runs only.",
        ]

    def cautions(self) -> list[str]:
        """What is wrong with the file of the budget, or that the race has not ended."""
        if self.problem:
            return [self.problem]
        if self.record is not None and not self.record.final:
            return ["The budget is not spent yet: run the same command again to go on."]
        return []


@dataclass(frozen=True)
class Laps:
    """The dev scores of a race where its runs are compared."""

    findings: Findings
    record: BudgetRecord

    @cached_property
    def grid(self) -> FullGrid:
        """What the budget is a part of."""
        record, task = self.record, self.findings.results.study.task
        return FullGrid(
            arms=record.arms, seeds=record.seeds, steps=record.steps, higher_is_better=task.metric_higher_is_better
        )

    @cached_property
    def observed(self) -> Observed:
        """What is known of each run."""
        results = self.findings.results
        known = observe([part for _, part in results.parts] or [results])
        return {key: progress for key, progress in known.items() if key.task in self.record.steps}

    @cached_property
    def at(self) -> dict[tuple[str, int], list[float]]:
        """Arm and eighths of the schedule to the best dev score of each run up to there."""
        found: dict[tuple[str, int], list[float]] = {}
        for key, progress in self.observed.items():
            for eighths in EIGHTHS:
                try:
                    score = progress.best(self.grid.until(key.task, eighths), self.grid.higher_is_better)
                except DataError:  # trained without a budget, and not scored so early
                    continue
                if score is not None and not progress.has_failed:
                    found.setdefault((key.arm, eighths), []).append(score)
        return found

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
        """What became of an arm, in a few words."""
        verdict, left = self.record.verdict, self.departures.get(arm)
        if left is not None and left.place is None:
            return "a run failed"
        if left is not None:
            return f"left at {_percent(left.step_share)}: place {left.place} of {left.of}"
        if not self.record.final:
            return "in the race"
        if arm not in verdict.winners:
            return "beaten"
        return "wins" if verdict.decided else "leads" if arm == verdict.winners[0] else "not told from the leader"


def race_table(laps: Laps) -> Table:
    """One row an arm: how far its runs got, its mean on dev there, and what became of it."""
    metric, ranked, lengths = laps.findings.format, laps.ranked, laps.lengths
    return Table(
        NAME,
        f"{TITLE}: {metric.label}, dev",
        (
            Column("method", "Method", "those that stayed longest first", numeric=False),
            Column("runs", "Runs", "that were begun"),
            Column("steps", "Steps", "optimizer steps of all its runs"),
            *(
                Column(
                    f"at{eighths}",
                    f"At {_percent(eighths / 8)}",
                    "of the schedule: mean on dev, and the number of runs",
                )
                for eighths in lengths
            ),
            Column("outcome", "Outcome", "when it left, and its place among the arms of that stage", numeric=False),
        ),
        tuple(_row(laps, arm, lengths) for arm in ranked),
        tuple(_record(laps, arm, eighths) for arm in ranked for eighths in lengths if (arm, eighths) in laps.at),
        best=frozenset({0}) if laps.record.final and laps.record.verdict.decided else frozenset(),
        notes=tuple(departure.reason for departure in laps.departures.values()),
    )


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _row(laps: Laps, arm: str, lengths: list[int]) -> tuple[Entry, ...]:
    runs = [progress for key, progress in laps.observed.items() if key.arm == arm]
    steps = sum(progress.step for progress in runs)
    return (
        Entry(arm, arm),
        Entry(str(len(runs)), len(runs)),
        Entry(f"{steps:,}", steps),
        *(_score(laps, arm, eighths) for eighths in lengths),
        Entry(laps.outcome(arm), laps.outcome(arm)),
    )


def _score(laps: Laps, arm: str, eighths: int) -> Entry:
    scores = laps.at.get((arm, eighths), [])
    mean = summarize(scores).mean
    return Entry(NONE) if mean is None else Entry(laps.findings.format.value(mean), mean, f"({len(scores)})")


def _record(laps: Laps, arm: str, eighths: int) -> dict[str, Raw]:
    left = laps.departures.get(arm)
    return {
        "method": arm,
        "step_share": eighths / 8,
        "metric": laps.findings.format.metric,
        **spread_record(laps.at[arm, eighths]),
        "outcome": laps.outcome(arm),
        "left_at": None if left is None else left.step_share,
        "place": None if left is None else left.place,
    }


def draw_race(laps: Laps) -> Drawing:
    """The mean dev score where runs are compared, a line an arm, which ends where the arm left."""
    findings, order = laps.findings, laps.findings.results.study.arm_names
    metric, arms = findings.format, [arm for arm in laps.ranked if any(of == arm for of, _ in laps.at)]
    with styled(2.9 + 0.19 * len(arms)) as figure:
        axes = figure.add_subplot()
        for arm in arms:
            style = look(order.index(arm) if arm in order else len(order))
            lengths = [eighths for eighths in laps.lengths if (arm, eighths) in laps.at]
            means = [metric.factor * (summarize(laps.at[arm, eighths]).mean or 0.0) for eighths in lengths]
            places = [EIGHTHS.index(eighths) for eighths in lengths]
            label = legend_label(arm, 40)
            axes.plot(places, means, color=style.colour, ls=style.dash, marker=style.marker, lw=1.6, ms=4, label=label)
        axes.set(xlabel="share of the schedule", ylabel=wrapped(f"{metric.label}, dev"))
        axes.set_xticks(range(len(EIGHTHS)), [_percent(eighths / 8) for eighths in EIGHTHS])
        axes.grid(color=MUTED, alpha=0.2, lw=0.6)
        legend_below(figure)
        caption = (
            "Each line ends where its arm left the race. Points are means over the runs that came so far, more of them "
            "for arms that stayed: a later point is not of the same runs as an earlier one."
        )
        return finish(figure, NAME, TITLE, caption, _text(laps, arms), NAME)


def _text(laps: Laps, arms: list[str]) -> str:
    value = laps.findings.format.value
    parts = []
    for arm in arms:
        last = max(eighths for of, eighths in laps.at if of == arm)
        scores = laps.at[arm, last]
        mean = value(summarize(scores).mean or 0.0)
        parts.append(f"{arm} has {mean} at {_percent(last / 8)} ({counted(len(scores), 'run')}), {laps.outcome(arm)}")
    return f"{'; '.join(parts)}. {laps.record.verdict.summary}"
