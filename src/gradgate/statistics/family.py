"""Compare several methods to one reference: p-values corrected over all of them, and the limits of each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradgate.errors import DataError
from gradgate.statistics.paired import Comparison
from gradgate.statistics.power import pairs_needed
from gradgate.statistics.ranks import least_p, pairs_to_reach
from gradgate.statistics.summary import BootstrapInterval, bootstrap_interval

LEVEL = 0.05


@dataclass(frozen=True)
class Evidence:
    """The evidence of one comparison in a family of comparisons.

    Attributes:
        bootstrap: interval of the mean difference; None without spread.
        p_holm: the t-test's p after Holm's correction over the family.
        wilcoxon_holm: the same for Wilcoxon's test, corrected over the Wilcoxon tests.
        needed: pairs to find a true effect as large as the observed one with 80% power at p < 0.05, uncorrected;
            None without an effect, or if a million pairs are not enough.
        needed_holm: the same at 0.05 over the number of tests, Holm's first and strictest step.
        remarks: sentences on what the tests cannot show because of few pairs or missing spread.
    """

    comparison: Comparison
    bootstrap: BootstrapInterval | None
    p_holm: float | None
    wilcoxon_holm: float | None
    needed: int | None
    needed_holm: int | None
    remarks: tuple[str, ...]


def weigh(comparisons: Sequence[Comparison], level: float = LEVEL, power: float = 0.8) -> list[Evidence]:
    """Correct several comparisons to one reference for multiple testing, and report the power of each.

    Args:
        comparisons: all that were made, one per method.
        level: the p below which a difference is significant.
        power: the desired probability of finding a true effect.
    """
    t_tests = holm([comparison.p for comparison in comparisons])
    rank_tests = holm([comparison.wilcoxon_p for comparison in comparisons])
    # Holm's p increases with each p that goes in, so the smallest possible values give lower bounds.
    least = holm([None if c.wilcoxon_p is None else least_p(c.ranked) for c in comparisons])
    done, ranked = (sum(p is not None for p in tests) for tests in (t_tests, rank_tests))
    return [
        Evidence(
            comparison,
            bootstrap_interval(comparison.differences),
            t_tests[i],
            rank_tests[i],
            _needed(comparison, power, level),
            _needed(comparison, power, level / max(done, 1)),
            _remarks(comparison, least[i], ranked, level),
        )
        for i, comparison in enumerate(comparisons)
    ]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Apply Holm's step-down correction over the tests that were done; None stays None.

    Raises:
        DataError: if a value is not between 0 and 1.
    Source:
        Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    wrong = [p for p in p_values if p is not None and not 0 <= p <= 1]
    if wrong:
        raise DataError(f"p-values lie between 0 and 1; got {wrong}. Pass None for a test that was not done.")
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    corrected: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, index) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        corrected[index] = highest
    return corrected


def _needed(comparison: Comparison, power: float, level: float) -> int | None:
    return None if comparison.cohens_d is None else pairs_needed(comparison.cohens_d, power, level)


def _remarks(comparison: Comparison, least: float | None, tests: int, level: float) -> tuple[str, ...]:
    notes = [comparison.note] if comparison.note else []
    unit, ties = comparison.unit, comparison.n - comparison.ranked
    if comparison.n > 1 and comparison.ranked == 1:
        notes.append(f"only 1 of {comparison.n} {unit}s shows a difference: too few for Wilcoxon's test")
    if least is not None and least >= level:
        pairs = f"{comparison.n} {unit}s" + (f", {ties} of them tied" if ties else "")
        correction = f" after Holm's correction for {tests} tests" if tests > 1 else ""
        notes.append(
            f"with {pairs}, Wilcoxon's p cannot fall below {least:.3g}{correction}: p < {level:g} takes "
            f"{pairs_to_reach(level, tests)} {unit}s with a difference"
        )
    return tuple(f"{note[0].upper()}{note[1:]}." for note in notes)
