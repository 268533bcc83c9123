"""Say how many seeds each comparison of a study needs, from its own spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gradgate.statistics import Comparison, detectable, deviation_interval, pairs_for_equivalence, pairs_needed
from gradgate.statistics.family import LEVEL
from gradgate.statistics.verdicts import POWER
from gradgate.study.verdicts import ArmVerdict, study_verdicts
from gradgate.tasks.metrics.page_unit import scaled, scaled_interval


@dataclass(frozen=True)
class SeedsNeeded:
    """The seeds that each test needs for 80 % power at one spread; None above a million, or if nothing applies.

    Attributes:
        difference: to detect the observed difference, if it is the true one.
        margin: to find a difference as large as the margin.
        non_inferior: to show that an arm as good as the reference is worse by less than the margin.
        equivalent: to show that it is within the margin on both sides.
    """

    difference: int | None = None
    margin: int | None = None
    non_inferior: int | None = None
    equivalent: int | None = None


@dataclass(frozen=True)
class ArmPower:
    """The number of seeds that one comparison with the reference needs.

    Attributes:
        verdict: the comparison and against the reference of it.
    """

    verdict: ArmVerdict

    @property
    def comparison(self) -> Comparison:
        """The differences of the arm to the reference."""
        return self.verdict.verdict.comparison

    @property
    def is_paired(self) -> bool:
        """Whether seeds pair the runs; otherwise numbers of seeds are runs of each arm."""
        return self.comparison.unit != "run"

    @property
    def pairs(self) -> int:
        """The pairs there are, or the runs of the arm that has fewer."""
        if self.is_paired:
            return self.comparison.n
        return min(self.verdict.collapsed.runs, self.verdict.reference_collapsed.runs)

    @property
    def sd(self) -> float | None:
        """The standard deviation of the differences; None if it is unknown or 0."""
        return self.comparison.sd or None

    @property
    def level(self) -> float:
        """The p that finds a difference: 0.05 over the tests of the family, Holm's first and strictest step."""
        return LEVEL / max(self.verdict.verdict.family, 1)

    @cached_property
    def detectable(self) -> float | None:
        """The smallest difference that the pairs there are find with 80 % power, in the unit of the scores."""
        if self.sd is None or self.pairs < 2:
            return None
        return self.sd * detectable(self.pairs, POWER, self.level)

    @property
    def sd_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the standard deviation; None without one, and for unpaired runs."""
        if self.sd is None or not self.is_paired:
            return None
        low, high = deviation_interval(self.pairs)
        return low * self.sd, high * self.sd

    @cached_property
    def seeds(self) -> SeedsNeeded:
        """The numbers of seeds that follow from all runs."""
        return self._needed(self.comparison)

    @cached_property
    def without_collapsed(self) -> SeedsNeeded | None:
        """The numbers of seeds that follow from the runs that did not collapse; None if none collapsed."""
        other = self.verdict.without_collapsed
        return None if other is None else self._needed(other.comparison)

    @cached_property
    def margin_interval(self) -> tuple[int | None, int | None] | None:
        """``seeds.margin`` at both ends of the interval of the standard deviation."""
        margin, ends = self.verdict.verdict.margin, self.sd_interval
        if not margin or ends is None:
            return None
        low, high = (pairs_needed(margin / sd, POWER, self.level) for sd in ends)
        return low, high

    def _needed(self, comparison: Comparison) -> SeedsNeeded:
        difference, sd, margin = comparison.difference, comparison.sd, self.verdict.verdict.margin
        if not sd or difference is None:
            return SeedsNeeded()
        observed = pairs_needed(difference / sd, POWER, self.level) if difference else None
        if not margin:
            return SeedsNeeded(observed)
        return SeedsNeeded(
            observed,
            pairs_needed(margin / sd, POWER, self.level),
            pairs_needed(margin / sd, POWER, 2 * LEVEL),
            pairs_for_equivalence(margin / sd, 0.0, POWER, LEVEL),
        )

    @property
    def note(self) -> str | None:
        """The reason why there are no numbers, or a caution about them; None if there is neither."""
        return _no_spread(self) or " ".join(filter(None, (_unpaired(self), _collapsed(self), _few(self)))) or None

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts, scores in the unit of the page."""
        judged, factor = self.verdict.verdict, self.verdict.factor
        names = ("model", "task", "metric", "split", "train_size", "arm", "reference")
        without = self.without_collapsed
        return {name: getattr(self.verdict, name) for name in names} | {
            "pairs": self.pairs,
            "paired": self.is_paired,
            "difference": scaled(self.comparison.difference, factor),
            "sd": scaled(self.comparison.sd, factor),
            "sd_interval": scaled_interval(self.sd_interval, factor),
            "family": judged.family,
            "level": self.level,
            "power": POWER,
            "margin": scaled(judged.margin, factor),
            "detectable": scaled(self.detectable, factor),
            "seeds_difference": self.seeds.difference,
            "seeds_margin": self.seeds.margin,
            "seeds_margin_interval": None if self.margin_interval is None else list(self.margin_interval),
            "seeds_non_inferior": self.seeds.non_inferior,
            "seeds_equivalent": self.seeds.equivalent,
            "collapsed": [self.verdict.collapsed.collapsed, self.verdict.reference_collapsed.collapsed],
            "seeds_margin_without_collapsed": None if without is None else without.margin,
            "note": self.note,
        }


def study_power(folder: Path, margin: float | None = None) -> list[ArmPower]:
    """Return what each comparison of a study with its reference needs.

    Args:
        folder: of the study.
        margin: a difference that matters, in the unit of the page; as for
            :func:`gradgate.study.verdicts.study_verdicts`.

    Raises:
        RunError: if the folder holds no study.
    """
    return [ArmPower(verdict) for verdict in study_verdicts(folder, margin)]


def _no_spread(power: ArmPower) -> str | None:
    """Say why no number can be computed; None if one can."""
    found = power.pairs
    if power.sd is not None:
        return None
    if not found:
        return "No common seed, so no spread is known. Run the same seeds for both."
    if found == 1:
        runs = "1 common seed" if power.is_paired else "1 run of one arm"
        return f"{runs}: too few to know the spread, and so the number of seeds. Run 3 or more for both."
    if power.is_paired and not power.comparison.difference:
        return f"The scores equal the reference's for all {found} seeds, so there is no spread to plan with."
    what = f"The same difference for all {found} seeds" if power.is_paired else "The same score in all runs of an arm"
    return f"{what}: the spread is 0, so no number of seeds follows. A finer metric or more rows may help."


def _unpaired(power: ArmPower) -> str | None:
    if power.is_paired:
        return None
    return "These runs are not paired: the numbers are runs per arm, with the degrees of freedom of as many pairs."


def _collapsed(power: ArmPower) -> str | None:
    own, theirs, without = power.verdict.collapsed, power.verdict.reference_collapsed, power.without_collapsed
    if without is None:
        return None
    lost = f"{own.collapsed} of {own.runs} runs and {theirs.collapsed} of {theirs.runs} of the reference collapsed"
    alone = "no number" if without.margin is None else f"{without.margin:,} for the margin"
    return f"{lost}: t-tests on such scores have less power than these numbers promise. Without these runs: {alone}."


def _few(power: ArmPower) -> str | None:
    if power.sd_interval is None or power.pairs > 5 or power.sd is None:
        return None
    low, high = (end / power.sd for end in power.sd_interval)
    return (
        f"The spread of {power.pairs} pairs is uncertain: its 95 % interval is {low:.1f} to {high:.1f} times the "
        "estimate."
    )
