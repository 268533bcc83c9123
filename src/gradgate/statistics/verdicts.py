"""Say what a comparison allows to say: better, worse, non-inferior, equivalent, or inconclusive.

A word needs a test. Better and worse need a p below 0.05 after Holm's correction over the arms that are compared to one
reference; the corrected interval then excludes 0. Non-inferior and equivalent need a margin, and are tests of their
own. What no test shows is inconclusive, with the number of pairs that would decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from gradgate.statistics.family import LEVEL, holm
from gradgate.statistics.paired import Comparison
from gradgate.statistics.power import pairs_for_equivalence, pairs_needed

POWER = 0.8


class Word(str, Enum):
    """The word of a verdict in files, tables and JSON."""

    BETTER = "better"
    WORSE = "worse"
    NON_INFERIOR = "non-inferior"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"

    __str__ = str.__str__


@dataclass(frozen=True)
class Verdict:
    """The verdict on one arm against the reference.

    Attributes:
        word: what may be said.
        comparison: the paired differences, arm minus reference, with their 95 % interval and p.
        p_corrected: p after Holm's correction; None without a test.
        interval_corrected: the interval that excludes 0 exactly if ``p_corrected`` is below 0.05; None without a test.
        family: the number of tests that p was corrected over.
        margin: what counts as no difference, in the unit of the scores; None if none applies.
        non_inferior: whether the arm is worse by less than the margin, one-sided at 95 %; None without margin or test.
        equivalent: whether the difference is within the margin on both sides, two one-sided tests at 5 %; None as
            above.
        pairs_needed: the pairs that would decide an inconclusive verdict with 80 % power if the observed difference
            and spread are the true ones; None if it is decided, if no spread is known, or above a million.
        level: of each test.
    """

    word: Word
    comparison: Comparison
    p_corrected: float | None
    interval_corrected: tuple[float, float] | None
    family: int
    margin: float | None = None
    non_inferior: bool | None = None
    equivalent: bool | None = None
    pairs_needed: int | None = None
    level: float = LEVEL

    @property
    def pairs_to_choose(self) -> int | None:
        """The pairs that would find the arms different, or equivalent, with 80 % power; None as for ``pairs_needed``.

        Non-inferiority says nothing of which arm is better, so it does not choose between two.
        """
        difference, sd = self.comparison.difference, self.comparison.sd
        if difference is None or not sd:
            return None
        d = abs(difference) / sd
        found = [pairs_needed(d, POWER, self.level / max(self.family, 1))] if d else []
        if self.margin is not None and abs(difference) < self.margin:
            found.append(pairs_for_equivalence(self.margin / sd, d, POWER, self.level))
        return min((pairs for pairs in found if pairs is not None), default=None)


def judge(
    comparisons: Sequence[Comparison], higher_is_better: bool, margin: float | None = None, level: float = LEVEL
) -> list[Verdict]:
    """Judge all arms that are compared to one reference.

    Args:
        comparisons: one per arm, arm minus reference; all of them are one family of tests.
        higher_is_better: whether a positive difference is an improvement.
        margin: a difference that does not matter, above 0, in the unit of the scores; None for no statement about it.
        level: of each test, and of the family for better and worse.

    Source:
        Holm 1979 for p. An interval has its arm's share of the level at its step, so it excludes 0 exactly if the
        corrected p is below the level; all together, they contain the true differences a little less often than that.
        Schuirmann 1987 for the two one-sided tests.
    """
    corrected = holm([comparison.p for comparison in comparisons])
    shares = _shares([comparison.p for comparison in comparisons], level)
    family = sum(p is not None for p in corrected)
    return [
        _judge(comparison, p, share, family, higher_is_better, margin, level)
        for comparison, p, share in zip(comparisons, corrected, shares, strict=True)
    ]


@lru_cache(maxsize=4096)
def _judge(
    comparison: Comparison,
    p: float | None,
    share: float,
    family: int,
    higher: bool,
    margin: float | None,
    level: float,
) -> Verdict:
    if p is None or comparison.difference is None:
        return Verdict(Word.INCONCLUSIVE, comparison, None, None, family, margin, level=level)
    gain = comparison.difference if higher else -comparison.difference
    within = _within(comparison, 1 - 2 * level)
    low, high = within if higher else (-within[1], -within[0])
    non_inferior = None if margin is None else low > -margin
    equivalent = None if margin is None else low > -margin and high < margin
    if p < level:
        word = Word.BETTER if gain > 0 else Word.WORSE
    elif equivalent:
        word = Word.EQUIVALENT
    elif non_inferior:
        word = Word.NON_INFERIOR
    else:
        word = Word.INCONCLUSIVE
    return Verdict(
        word,
        comparison,
        p,
        _within(comparison, 1 - share),
        family,
        margin,
        non_inferior,
        equivalent,
        _needed(comparison, gain, family, margin, level) if word is Word.INCONCLUSIVE else None,
        level,
    )


def _shares(p_values: Sequence[float | None], level: float) -> list[float]:
    """Return the share of the level that Holm's correction gives each test: once one fails, all later ones have its."""
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    shares = [level] * len(p_values)
    failed = None
    for rank, (p, index) in enumerate(order):
        share = failed if failed is not None else level / (len(order) - rank)
        if failed is None and p >= share:
            failed = share
        shares[index] = share
    return shares


def _within(comparison: Comparison, confidence: float) -> tuple[float, float]:
    """Return the t interval of the difference at another confidence."""
    from scipy import special  # takes half a second, which listing claims need not wait for

    assert comparison.error is not None, "a comparison with a p has an error"
    assert comparison.difference is not None
    assert comparison.freedom is not None
    half = float(special.stdtrit(comparison.freedom, (1 + confidence) / 2)) * comparison.error
    return comparison.difference - half, comparison.difference + half


def _needed(comparison: Comparison, gain: float, family: int, margin: float | None, level: float) -> int | None:
    """Return the fewest pairs that would show a difference, or, if it is within the margin, non-inferiority."""
    if not comparison.sd:
        return None
    found = [pairs_needed(gain / comparison.sd, POWER, level / max(family, 1))] if gain else []
    if margin is not None and gain > -margin:
        found.append(pairs_needed((gain + margin) / comparison.sd, POWER, 2 * level))
    return min((pairs for pairs in found if pairs is not None), default=None)
