"""Compute the effect size of a paired difference, and the number of pairs needed to detect one of that size."""

from __future__ import annotations

from math import exp, isfinite, log, sqrt

from gradgate.errors import UsageError

MOST = 1_000_000
"""The largest number of pairs that is searched."""


def cohens_d(mean: float, sd: float) -> float:
    """Return Cohen's d_z: the mean paired difference over the differences' standard deviation, which is above 0.

    Source:
        Cohen 1988, Statistical power analysis, sec. 2.3.5.
    """
    return mean / sd


def hedges_g(d: float, n: int) -> float | None:
    """Correct ``d`` for its upward bias with few pairs; return None for fewer than 3, where no correction exists.

    The factor is the exact one, Gamma(m/2) / (sqrt(m/2) Gamma((m-1)/2)) with m = n - 1: 0.56 for 3 pairs, 0.80 for 5.

    Source:
        Hedges 1981, Distribution theory for Glass's estimator, eq. 6e.
    """
    from scipy.special import gammaln  # takes a second, which listing claims need not wait for

    if n < 3:
        return None
    m = n - 1
    return d * exp(gammaln(m / 2) - gammaln((m - 1) / 2) - 0.5 * log(m / 2))


def paired_power(d: float, n: int, level: float = 0.05) -> float:
    """Return the probability that a two-sided paired t-test with ``n`` pairs gives p < ``level`` at true effect ``d``.

    Sums both tails of the noncentral t distribution with n - 1 degrees of freedom and noncentrality d * sqrt(n).

    Raises:
        UsageError: if ``n`` is below 2, ``d`` is not finite, or ``level`` is not between 0 and 1.
    """
    from scipy import stats  # takes a second, which listing claims need not wait for

    if n < 2 or not isfinite(d) or not 0 < level < 1:
        raise UsageError(
            "Power needs 2 or more pairs, a finite effect and a level between 0 and 1; "
            f"got n={n}, d={d}, level={level}."
        )
    shift, freedom = abs(d) * sqrt(n), n - 1
    bound = float(stats.t.isf(level / 2, freedom))
    # The lower tail is computed by symmetry because scipy's cdf returns NaN far from the centre.
    return float(stats.nct.sf(bound, freedom, shift) + stats.nct.sf(bound, freedom, -shift))


def pairs_needed(d: float, power: float = 0.8, level: float = 0.05) -> int | None:
    """Return the fewest pairs (2 or more) that find a true effect ``d`` with this power; None above a million.

    An effect that was measured with few pairs is uncertain, and so is the number computed from it.

    Raises:
        UsageError: as :func:`paired_power`, and if ``power`` is not between 0 and 1.
    """
    if not 0 < power < 1:
        raise UsageError(f"power is {power}; expected a number between 0 and 1, such as 0.8.")
    low, high = 1, 2  # low is always too few; double high until it suffices, then bisect
    while paired_power(d, high, level) < power:
        low, high = high, 2 * high
        if low >= MOST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if paired_power(d, middle, level) >= power else (middle, high)
    return high if high <= MOST else None
