"""Summarize the results of a study as numbers: tables, figures and sentences all read them from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from gradgate.report import pairing
from gradgate.report.cost_summary import CostSummary, summarize_cost
from gradgate.report.formats import ScoreFormat
from gradgate.report.pairing import Pairing
from gradgate.runs.records import DEV
from gradgate.runs.scores import comparable
from gradgate.statistics import Comparison, Summary, compare_paired, compare_unpaired, summarize
from gradgate.study.budget.file import BUDGET_FILE
from gradgate.study.conditions import find_whole
from gradgate.study.frontier import forgetting_of, frontier_of
from gradgate.study.results import StudyResults
from gradgate.study.row_noise import with_row_noise
from gradgate.study.run_result import RunResult
from gradgate.study.study_file import StudyRecord
from gradgate.study.verdicts import ArmVerdict, pair_of, verdicts_of
from gradgate.tasks.languages import average_label, averaged_splits


@dataclass(frozen=True, eq=False)
class ArmSummary:
    """One arm of a study.

    Attributes:
        name: of the arm in tables and figures.
        cells: one per seed of the study.
        split: the split that arms are compared on.
        metric: the study's.
        judged: the verdict against the reference on ``split``; None for the reference itself, and without a score.
        cost: of its finished seeds.
        forgetting: how much worse the metric of forgetting has become; of no seeds if it was not measured.
    """

    name: str
    cells: tuple[RunResult, ...]
    split: str
    metric: str
    judged: ArmVerdict | None
    cost: CostSummary
    forgetting: Summary

    @property
    def versus(self) -> Comparison | None:
        """The difference to the reference, and its test."""
        return None if self.judged is None else self.judged.verdict.comparison

    @property
    def p(self) -> float | None:
        """The p of that difference, corrected over the arms."""
        return None if self.judged is None else self.judged.verdict.p_corrected

    @cached_property
    def finished(self) -> tuple[RunResult, ...]:
        """The runs that have scores."""
        return tuple(cell for cell in self.cells if cell.scores)

    @property
    def failed(self) -> int:
        """The number of runs that have failed."""
        return self.count("failed")

    @property
    def score(self) -> Summary:
        """The scores on the split that arms are compared on."""
        return self.on(self.split)

    @property
    def dev(self) -> Summary:
        """The scores on dev."""
        return self.on(DEV)

    def on(self, split: str, metric: str | None = None) -> Summary:
        """Return the summary over the finished seeds on a split, which is computed once.

        Args:
            metric: the study's own by default; values of others that are not finite are left out.
        """
        key = split, metric or self.metric
        if key not in self._summaries:
            self._summaries[key] = summarize(list(self.scores(*key).values()))
        return self._summaries[key]

    def scores(self, split: str, metric: str | None = None) -> dict[int, float]:
        """Return seed to value; arguments as for :meth:`on`."""
        if metric in (None, self.metric):
            found = {cell.seed: cell.score(split) for cell in self.finished}
            return {seed: score for seed, score in found.items() if score is not None}
        values = {cell.seed: cell.metrics(split).get(metric) for cell in self.finished}
        return {seed: value for seed, value in values.items() if comparable(value)}

    def count(self, state: str) -> int:
        """Return the number of runs in this state."""
        return sum(cell.state == state for cell in self.cells)

    @cached_property
    def _summaries(self) -> dict[tuple[str, str], Summary]:
        return {}


@dataclass(frozen=True)
class Gain:
    """The scores of an arm on one split, and its difference to the reference's.

    Attributes:
        score: over the seeds.
        versus: the comparison.
        relative: the mean difference over the mean score of the reference; None if that is 0 or nothing is compared.
    """

    score: Summary
    versus: Comparison
    relative: float | None

    @property
    def difference(self) -> float | None:
        """The mean difference; None if nothing is compared."""
        return self.versus.difference


@dataclass(frozen=True)
class StudySummary:
    """The results of a study and what follows from them. ``arms[0]`` is the reference."""

    results: StudyResults
    arms: tuple[ArmSummary, ...]
    format: ScoreFormat

    @property
    def record(self) -> StudyRecord:
        """The task, model, arms and settings of the study."""
        return self.results.study

    @cached_property
    def parts(self) -> tuple[tuple[str, StudySummary], ...]:
        """Name and summary of each part of a study of several tasks, models or training sizes."""
        return tuple((name, summarize_study(part)) for name, part in self.results.parts)

    @cached_property
    def is_race(self) -> bool:
        """Whether the study, or the one that it is a part of, has a budget, so that most arms have no whole run."""
        return ((self.whole or self.results.folder) / BUDGET_FILE).is_file()

    @cached_property
    def whole(self) -> Path | None:
        """The folder of the study that this one is a part of; None for a whole one."""
        return find_whole(self.results.folder)

    @cached_property
    def pairing(self) -> Pairing:
        """The pairing by which runs of two arms are compared."""
        return pairing.pairing_of(pair_of(self.results))

    @cached_property
    def judged_by_rows(self) -> list[ArmVerdict]:
        """The verdicts on the arms, with the noise of seeds and test rows together where it is known."""
        judged = (arm.judged for arm in self.arms)
        return with_row_noise(self.results, [each for each in judged if each is not None and each.collapsed.runs])

    @property
    def reference(self) -> ArmSummary:
        """The arm that the others are compared to."""
        return self.arms[0]

    @property
    def split(self) -> str:
        """The split that arms are compared on."""
        return self.results.main_split

    @property
    def split_label(self) -> str:
        """The name of that split for people."""
        return average_label(self.split)

    @property
    def units(self) -> tuple[str, ...]:
        """The languages, tasks or models that the main score is a mean over; the main split if it is not a mean."""
        results = self.results
        if self.split not in results.averages:
            return (self.split,)
        if results.parts:
            return results.test_splits
        task = self.record.task
        return averaged_splits((DEV, *results.test_splits), task.languages, task.source).get(self.split, (self.split,))

    @cached_property
    def scored(self) -> tuple[ArmSummary, ...]:
        """The arms with at least one finished seed, in the study's order."""
        return tuple(arm for arm in self.arms if arm.finished)

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher score is better."""
        return self.record.task.metric_higher_is_better

    @property
    def tests_done(self) -> int:
        """The number of p-values that the correction is over."""
        return sum(arm.p is not None for arm in self.arms)

    @cached_property
    def best(self) -> tuple[ArmSummary, ...]:
        """The arms with the best mean: one, or several that are level; none before anything has finished."""
        ranked = [(standing, arm) for arm in self.arms if (standing := self._standing(arm)) is not None]
        top = max((mean for mean, _ in ranked), default=0.0)
        return tuple(arm for mean, arm in ranked if mean >= top - 1e-12 * abs(top))

    @cached_property
    def by_score(self) -> tuple[ArmSummary, ...]:
        """All arms, the best first; those without a score are last."""
        last = float("inf")
        standings = {arm.name: self._standing(arm) for arm in self.arms}
        return tuple(sorted(self.arms, key=lambda arm: last if (found := standings[arm.name]) is None else -found))

    def _standing(self, arm: ArmSummary) -> float | None:
        """Return what arms are ranked by, the larger the better; None for one that cannot be ranked.

        It is the mean if all arms have the same seeds, else the mean difference to the reference over common seeds:
        means over different seeds do not compare. Without a score of the reference it is the mean over the seeds that
        all others share.
        """
        if self.has_same_seeds:
            return None if arm.score.mean is None else self._sign * arm.score.mean
        if self.reference.score.mean is None:
            own = arm.scores(self.split)
            shared = [own[seed] for seed in self.shared_seeds if seed in own]
            return self._sign * fmean(shared) if shared else None
        if arm is self.reference:
            return 0.0
        difference = None if arm.versus is None else arm.versus.difference
        return None if difference is None else self._sign * difference

    @cached_property
    def shared_seeds(self) -> frozenset[int]:
        """The seeds that all scored arms have."""
        return frozenset.intersection(*(frozenset(arm.scores(self.split)) for arm in self.scored))

    @cached_property
    def has_same_seeds(self) -> bool:
        """Whether means compare: all scored arms have the same seeds, or seeds have nothing in common."""
        return self.pairing is pairing.UNPAIRED or len({frozenset(arm.scores(self.split)) for arm in self.scored}) <= 1

    @property
    def others(self) -> tuple[ArmSummary, ...]:
        """The scored arms other than the reference, the best first."""
        return tuple(arm for arm in self.by_score if arm.finished and arm is not self.reference)

    @property
    def unranked(self) -> tuple[ArmSummary, ...]:
        """The scored arms without a common seed to rank them by, if arms have different seeds."""
        return tuple(arm for arm in self.scored if self._standing(arm) is None)

    def place(self, arm: ArmSummary) -> int:
        """Return the place of an arm in the study, which decides its colour."""
        return self.arms.index(arm)

    def gain(self, arm: ArmSummary, split: str) -> Gain:
        """Return the scores of an arm on a split against the reference's, which are compared once."""
        key = arm.name, split
        if key not in self._gains:
            self._gains[key] = _compare(arm, self.reference, split, self.pairing)
        return self._gains[key]

    @cached_property
    def _gains(self) -> dict[tuple[str, str], Gain]:
        return {}

    @cached_property
    def forgetting(self) -> ScoreFormat | None:
        """The form in which forgetting is shown; None if it was not measured."""
        metrics = [record.metric for arm in self.arms for record in forgetting_of(arm.finished)]
        spreads = [spread for arm in self.arms for spread in (arm.forgetting.mean, arm.forgetting.sd)]
        return ScoreFormat.fitting(metrics[0], spreads) if metrics else None

    @cached_property
    def frontier(self) -> frozenset[str]:
        """The names of the arms that none beats in score, forgetting and training time."""
        return frontier_of(self.results)

    @property
    def _sign(self) -> int:
        return 1 if self.higher_is_better else -1


def summarize_study(results: StudyResults) -> StudySummary:
    """Summarize each arm and compare it to the first over their common seeds."""
    judged = {verdict.arm: verdict for verdict in verdicts_of(results)}
    arms = [_summarize_arm(results, name, judged.get(name)) for name in results.study.arm_names]
    spreads = [arm.score.sd for arm in arms]
    spreads += [arm.versus.difference for arm in arms if arm.versus]
    return StudySummary(results, tuple(arms), ScoreFormat.fitting(results.study.task.metric, spreads))


def _summarize_arm(results: StudyResults, name: str, judged: ArmVerdict | None) -> ArmSummary:
    cells = results.of(name)
    return ArmSummary(
        name,
        cells,
        results.main_split,
        results.study.task.metric,
        judged=judged,
        cost=summarize_cost([cell.scores.cost for cell in cells if cell.scores]),
        forgetting=summarize([record.forgotten for record in forgetting_of(cells)]),
    )


def _compare(arm: ArmSummary, reference: ArmSummary, split: str, how: Pairing) -> Gain:
    ours, theirs = arm.scores(split), reference.scores(split)
    if how is pairing.UNPAIRED:
        versus = compare_unpaired(list(ours.values()), list(theirs.values()))
        base = list(theirs.values())
    else:
        versus = compare_paired(ours, theirs, unit=how.unit)
        base = [theirs[seed] for seed in ours.keys() & theirs.keys()]
    known = versus.difference is not None and sum(base) > 0  # a share of a score has a meaning only above 0
    relative = versus.difference * len(base) / sum(base) if known and versus.difference is not None else None
    return Gain(arm.on(split), versus, relative)
