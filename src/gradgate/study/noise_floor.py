"""Say how much the results of a study differ for no reason but the seed, and what difference is more than that."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import fmean, median, stdev
from typing import Any

from gradgate.statistics import detectable, deviation_interval
from gradgate.statistics.family import LEVEL
from gradgate.statistics.verdicts import POWER
from gradgate.study.power import ArmPower
from gradgate.study.results import StudyResults
from gradgate.study.verdicts import arm_scores, collapsed_seeds, verdicts_of
from gradgate.tasks.metrics.page_unit import page_factor, scaled, scaled_interval

_OF_NOISE = (
    "arm",
    "reference",
    "pairs",
    "difference",
    "sd",
    "sd_interval",
    "detectable",
    "margin",
    "seeds_margin",
    "note",
)


@dataclass(frozen=True)
class ArmNoise:
    """The spread of one arm over its seeds.

    Attributes:
        arm: its name.
        scores: by seed, those of collapsed runs included.
        collapsed: the seeds of collapsed runs.
    """

    arm: str
    scores: dict[int, float]
    collapsed: frozenset[int]

    @property
    def sd(self) -> float | None:
        """The standard deviation over seeds; None for fewer than two runs."""
        return _deviation(list(self.scores.values()))

    @property
    def sd_without_collapsed(self) -> float | None:
        """The same over the runs that did not collapse."""
        return _deviation([score for seed, score in self.scores.items() if seed not in self.collapsed])

    @property
    def sd_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the standard deviation of normal scores."""
        if not self.sd:
            return None
        low, high = deviation_interval(len(self.scores))
        return low * self.sd, high * self.sd

    @property
    def detectable(self) -> float | None:
        """The smallest difference to another arm of this spread and number of seeds that is found with 80 % power.

        Its differences have sqrt(2) times the arm's standard deviation, as pairing by seed mostly removes nothing.
        """
        return detectable(len(self.scores), POWER, LEVEL) * sqrt(2) * self.sd if self.sd else None

    def record(self, factor: int) -> dict[str, Any]:
        """Return plain values for scripts, in the unit of the page."""
        return {
            "arm": self.arm,
            "runs": len(self.scores),
            "mean": fmean(self.scores.values()) * factor if self.scores else None,
            "sd": scaled(self.sd, factor),
            "sd_interval": scaled_interval(self.sd_interval, factor),
            "detectable": scaled(self.detectable, factor),
            "collapsed": len(self.collapsed),
            "sd_without_collapsed": scaled(self.sd_without_collapsed, factor) if self.collapsed else None,
        }


@dataclass(frozen=True)
class NoiseFloor:
    """The noise of seeds in one condition.

    Attributes:
        results: of the condition.
        arms: the spread of each arm that has runs.
        comparisons: what each comparison with the reference finds.
    """

    results: StudyResults
    arms: tuple[ArmNoise, ...]
    comparisons: tuple[ArmPower, ...]

    @classmethod
    def of(cls, results: StudyResults, margin: float | None = None) -> NoiseFloor:
        """Return the noise floor of one condition.

        Args:
            results: of the condition.
            margin: a difference that matters, in the unit of the page; as for
                :func:`gradgate.study.verdicts.study_verdicts`.
        """
        split = results.main_split
        scores = {name: arm_scores(results, name, split) for name in results.study.arm_names}
        lost = collapsed_seeds(results, scores, split)
        arms = tuple(ArmNoise(name, own, lost[name]) for name, own in scores.items() if own)
        judged = [each for each in verdicts_of(results, margin) if each.collapsed.runs]
        return cls(results, arms, tuple(map(ArmPower, judged)))

    @property
    def factor(self) -> int:
        """The factor by which pages multiply scores: 100 for shares."""
        return page_factor(self.results.study.task.metric)

    @property
    def differences(self) -> list[float]:
        """The standard deviation of the differences of each comparison that has one."""
        return [each.sd for each in self.comparisons if each.sd is not None]

    @property
    def smallest(self) -> float | None:
        """The smallest difference that the seeds there are find: the median over comparisons, or of a lone arm."""
        own = self.comparisons if self.differences else self.arms
        found = [each.detectable for each in own if each.detectable is not None]
        return median(found) if found else None

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts, scores in the unit of the page."""
        study, factor = self.results.study, self.factor
        spread = median(self.differences) if self.differences else None
        return {
            "model": study.model.label,
            "task": study.task.name,
            "metric": study.task.metric,
            "split": self.results.main_split,
            "power": POWER,
            "smallest_difference": scaled(self.smallest, factor),
            "sd_of_differences": scaled(spread, factor),
            "arms": [each.record(factor) for each in self.arms],
            "comparisons": [{name: each.record()[name] for name in _OF_NOISE} for each in self.comparisons],
        }


def _deviation(scores: list[float]) -> float | None:
    return stdev(scores) if len(scores) > 1 else None
