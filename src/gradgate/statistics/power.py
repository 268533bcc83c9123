"""Compute the effect size of a paired difference, and the number of pairs needed to detect one of that size.

Effects and margins are in standard deviations of the paired differences.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import exp, inf, isfinite, log, sqrt
from typing import Any

from gradgate.errors import UsageError

MOST = 1_000_000
"""The largest number of pairs that is searched."""
_NODES = 128


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
    from scipy import special, stats  # takes a second, which listing claims need not wait for

    if n < 2 or not isfinite(d) or not 0 < level < 1:
        raise UsageError(
            "Power needs 2 or more pairs, a finite effect and a level between 0 and 1; "
            f"got n={n}, d={d}, level={level}."
        )
    shift, freedom = abs(d) * sqrt(n), n - 1
    bound = -float(special.stdtrit(freedom, level / 2))
    # The lower tail is computed by symmetry because scipy's cdf returns NaN far from the centre.
    return float(stats.nct.sf(bound, freedom, shift) + stats.nct.sf(bound, freedom, -shift))


@lru_cache(maxsize=4096)  # a claim is checked with and without some of its parts, which are often the same
def pairs_needed(d: float, power: float = 0.8, level: float = 0.05) -> int | None:
    """Return the fewest pairs (2 or more) that find a true effect ``d`` with this power; None above a million.

    An effect that was measured with few pairs is uncertain, and so is the number computed from it.

    Raises:
        UsageError: as :func:`paired_power`, and if ``power`` is not between 0 and 1.
    """
    _check_power(power)
    return _fewest(lambda n: paired_power(d, n, level) >= power, _normal_pairs(d, power, level / 2))


@cache
def detectable(n: int, power: float = 0.8, level: float = 0.05) -> float:
    """Return the smallest true effect that a two-sided paired t-test with ``n`` pairs finds with this power.

    Raises:
        UsageError: as :func:`pairs_needed`.
    """
    from scipy import optimize  # takes a second, which listing claims need not wait for

    _check_power(power)
    if power <= level:
        return 0.0
    high = 1.0
    while paired_power(high, n, level) < power:
        high *= 2
    return float(optimize.brentq(lambda d: paired_power(d, n, level) - power, 0.0, high))


def equivalence_power(d: float, margin: float, n: int, level: float = 0.05) -> float:
    """Return the probability that two one-sided paired t-tests show a difference within ± ``margin``.

    Integrates the normal distribution of the mean over the chi distribution of the standard deviation, by
    Gauss-Legendre quadrature at 128 quantiles.

    Args:
        d: the true effect.
        margin: above 0, in the same unit.
        n: pairs, 2 or more.
        level: of each one-sided test.

    Raises:
        UsageError: as :func:`paired_power`, and for a margin that is not above 0.
    Source:
        Schuirmann 1987, A comparison of the two one-sided tests procedure; Phillips 1990, Power of the two one-sided
        tests procedure in bioequivalence.
    """
    import numpy as np
    from scipy import special  # takes a second, which listing claims need not wait for

    if n < 2 or not isfinite(d) or not margin > 0 or not 0 < level < 1:
        raise UsageError(
            "Power needs 2 or more pairs, a finite effect, a margin above 0 and a level between 0 and 1; "
            f"got n={n}, d={d}, margin={margin}, level={level}."
        )
    half, root = (n - 1) / 2, sqrt(n)
    bound = -float(special.stdtrit(n - 1, level))
    # The mean must lie within margin - bound * sd / root, so no larger deviation can show anything.
    most = float(special.gammainc(half, half * (margin * root / bound) ** 2))
    nodes, weights = _quadrature()
    deviations = np.sqrt(special.gammaincinv(half, most * (nodes + 1) / 2) / half)
    room = margin * root - bound * deviations
    shown = special.ndtr(room - d * root) - special.ndtr(-room - d * root)
    return float(most / 2 * (weights @ shown))


@cache
def _quadrature() -> tuple[Any, Any]:
    """Return the nodes and weights on -1 to 1, which take longer than what they are for."""
    import numpy as np

    return np.polynomial.legendre.leggauss(_NODES)


def pairs_for_equivalence(margin: float, d: float = 0.0, power: float = 0.8, level: float = 0.05) -> int | None:
    """Return the fewest pairs that show equivalence with this power if the true effect is ``d``.

    Returns:
        None above a million, and if ``d`` is not within the margin.

    Raises:
        UsageError: as :func:`equivalence_power` and :func:`pairs_needed`.
    """
    if abs(d) >= margin > 0:
        return None
    _check_power(power)
    guess = _normal_pairs(margin - abs(d), (1 + power) / 2 if d == 0 else power, level)
    return _fewest(lambda n: equivalence_power(d, margin, n, level) >= power, guess)


def _tails(confidence: float) -> tuple[float, float]:
    return (1 + confidence) / 2, (1 - confidence) / 2


@cache
def deviation_interval(n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a true standard deviation over the observed one of ``n`` normal values, 2 or more.

    With five values it is 0.60 to 2.87 times the observed one.
    """
    from scipy import stats  # takes a second, which listing claims need not wait for

    low, high = (((n - 1) / float(stats.chi2.ppf(share, n - 1))) ** 0.5 for share in _tails(confidence))
    return low, high


def _normal_pairs(d: float, power: float, level: float) -> float:
    """Return the pairs that a one-sided test with a known standard deviation needs; infinite without an effect."""
    from scipy import special  # takes a second, which listing claims need not wait for

    if not d:
        return inf
    return float(((special.ndtri(power) - special.ndtri(level)) / d) ** 2)


def _fewest(suffice: Callable[[int], bool], guess: float) -> int | None:
    """Return the fewest pairs, 2 or more, that suffice, as all larger numbers do; None above a million.

    Args:
        suffice: whether a number of pairs does.
        guess: where the search begins.
    """
    if not guess < MOST:
        return None if not suffice(MOST) else _between(suffice, 1, MOST)
    high, step = max(2, round(guess)), 1
    if suffice(high):
        while high > 2 and suffice(max(2, high - step)):
            high, step = max(2, high - step), 2 * step
        return _between(suffice, max(1, high - step), high)
    low = high
    while not suffice(low + step):
        low, step = low + step, 2 * step
        if low >= MOST:
            return None
    found = _between(suffice, low, low + step)
    return found if found <= MOST else None


def _between(suffice: Callable[[int], bool], low: int, high: int) -> int:
    """Return the fewest that suffice, of which ``low`` does not and ``high`` does."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffice(middle) else (middle, high)
    return high


def _check_power(power: float) -> None:
    if not 0 < power < 1:
        raise UsageError(f"power is {power}; expected a number between 0 and 1, such as 0.8.")
