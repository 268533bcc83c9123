"""Compare two methods over pairs: the same seeds, languages or tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import numpy as np

from gradgate.errors import DataError
from gradgate.statistics.power import cohens_d, hedges_g
from gradgate.statistics.ranks import rank_biserial, signed_rank_p, signed_ranks
from gradgate.statistics.summary import ROUNDING, caution, finite, level, t_interval

K = TypeVar("K", int, str)


@dataclass(frozen=True)
class Comparison:
    """The paired differences of a method minus the reference.

    Attributes:
        n: number of pairs: units (seeds, languages, tasks) that both have.
        difference: mean of the paired differences; None without pairs.
        sd: their sample standard deviation; None for fewer than two pairs.
        interval: t confidence interval of the mean difference; None if ``p`` is None.
        p: two-sided paired t-test; None if no test is possible, and ``note`` says why.
        note: a caution that the reader needs to interpret the numbers, or None.
        t: the statistic of that test, with n - 1 degrees of freedom.
        wilcoxon_p: two-sided Wilcoxon signed-rank test; None with fewer than two differences that are not 0.
        cohens_d: mean difference over its standard deviation (d_z); None if that is 0.
        hedges_g: the same, corrected for few pairs; None for fewer than 3.
        rank_biserial: effect size from ranks, -1 to 1; None without a difference that is not 0.
        ranked: number of differences that are not 0, which Wilcoxon's test uses.
        differences: one per pair, in the order of the units.
        unit: what is paired.
        error: standard error of the mean difference; None if ``p`` is None.
        freedom: degrees of freedom of the t-test; None if ``p`` is None.
    """

    n: int
    difference: float | None = None
    sd: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    note: str | None = None
    t: float | None = None
    wilcoxon_p: float | None = None
    cohens_d: float | None = None
    hedges_g: float | None = None
    rank_biserial: float | None = None
    ranked: int = 0
    differences: tuple[float, ...] = ()
    unit: str = "seed"
    error: float | None = None
    freedom: float | None = None


def compare_unpaired(scores: Sequence[float], reference: Sequence[float], confidence: float = 0.95) -> Comparison:
    """Compare a method to the reference over unpaired runs, by Welch's t-test.

    Args:
        scores: of the method's runs.
        reference: of the reference's.

    Returns:
        A comparison of 0 pairs. ``sd`` is the root of the two variances' sum; rank statistics of pairs are None.

    Raises:
        DataError: if a score is not finite.
    Source:
        Welch 1947, The generalization of Student's problem when several different population variances are involved.
    """
    from scipy import special  # takes half a second, which listing claims need not wait for

    ours, theirs = finite(scores), finite(reference)
    if not len(ours) or not len(theirs):
        return Comparison(0, note="no run of one of them: no comparison", unit="run")
    mean = float(ours.mean() - theirs.mean())
    if min(len(ours), len(theirs)) < 2:
        return Comparison(0, mean, note="one run of one of them: no interval or test", unit="run")
    parts = [float(side.var(ddof=1)) / len(side) for side in (ours, theirs)]
    if (level(ours) and level(theirs)) or not sum(parts):  # the squares of the smallest numbers are 0
        return Comparison(0, mean, 0.0, note="no spread to test against", unit="run")
    error = sum(parts) ** 0.5
    freedom = sum(parts) ** 2 / sum(v * v / (len(s) - 1) for v, s in zip(parts, (ours, theirs), strict=True))
    half = float(special.stdtrit(freedom, (1 + confidence) / 2)) * error
    sd = float((ours.var(ddof=1) + theirs.var(ddof=1)) ** 0.5)
    return Comparison(
        0,
        mean,
        sd,
        interval=(mean - half, mean + half),
        p=float(2 * special.stdtr(freedom, -abs(mean / error))),
        t=mean / error,
        note="not paired: Welch's t-test",
        unit="run",
        error=error,
        freedom=freedom,
    )


def compare_paired(
    scores: Mapping[K, float], reference: Mapping[K, float], confidence: float = 0.95, unit: str = "seed"
) -> Comparison:
    """Compare a method to the reference over the seeds (or other units) that both have.

    Pairing by seed removes the effects that a seed has on both (order of the data, initial head). If all differences
    are the same, there is no spread and t is infinite or 0/0: no t-test, interval or standardised effect is returned.

    Args:
        scores: seed to score.
        reference: the same for the method to compare to.
        unit: what the keys are, for the notes.

    Raises:
        DataError: if a score is not finite.
    """
    common = sorted(scores.keys() & reference.keys())
    names = [f"{unit} {key}" for key in common]
    ours, theirs = (finite([side[key] for key in common], names) for side in (scores, reference))
    if not (n := len(common)):
        return Comparison(0, note=_none_common(unit), unit=unit)
    differences = ours - theirs
    values = tuple(differences.tolist())
    mean = float(differences.mean())
    if n == 1:
        return Comparison(1, mean, note=f"1 common {unit}: no interval or test", differences=values, unit=unit)
    size = float(max(np.abs(ours).max(), np.abs(theirs).max()))
    if np.abs(differences).max() <= ROUNDING * size:
        note = f"the same score as the reference for all {n} {unit}s: no test"
        return Comparison(n, 0.0, 0.0, note=note, differences=(0.0,) * n, unit=unit)
    ranks = signed_ranks(values, size)
    sd = float(differences.std(ddof=1))  # 0 also for the smallest numbers, whose squares are 0
    same = sd == 0 or bool(np.ptp(differences) <= ROUNDING * size)
    ranked = Comparison(
        n,
        mean,
        0.0,
        note=f"the same difference for all {n} {unit}s: no spread to test against",
        wilcoxon_p=signed_rank_p(ranks),
        rank_biserial=rank_biserial(ranks),
        ranked=len(ranks),
        differences=(mean,) * n if same else values,
        unit=unit,
    )
    return ranked if same else _t_tested(ranked, mean, sd, confidence)


def compare_over(
    unit: str,
    scores: Mapping[str, Mapping[int, float]],
    reference: Mapping[str, Mapping[int, float]],
    confidence: float = 0.95,
) -> Comparison:
    """Compare a method to the reference with languages or tasks as pairs, each with the mean over its common seeds.

    The paper's t statistic of one task has its languages as pairs. They share their models, so they are not independent
    draws: the test shows whether a difference holds across these languages, not across other seeds.

    Args:
        unit: ``"language"`` or ``"task"``.
        scores: language (or task) to seed to score.
        reference: the same for the method to compare to.

    Raises:
        DataError: if a score is not finite.
    Source:
        GradDrop, Fig. 3: t = mean(d) / (sd(d) / sqrt(n)), n - 1 degrees of freedom.
    """
    ours, theirs = {}, {}
    for name in scores.keys() & reference.keys():
        seeds = sorted(scores[name].keys() & reference[name].keys())
        if seeds:
            ours[name] = fmean(scores[name][seed] for seed in seeds)
            theirs[name] = fmean(reference[name][seed] for seed in seeds)
    return compare_paired(ours, theirs, confidence, unit)


def relative_quality(
    scores: Sequence[float], reference: Sequence[float], higher_is_better: bool = True
) -> float | None:
    """Return the share of the reference's quality that a method keeps: the unweighted mean of one ratio per task.

    A ratio is the method's score over the reference's, or the inverse if a lower score is better, so that less than 1
    is always worse. A mean of ratios weights tasks equally; the ratio of two mean scores would give tasks with high
    scores more weight.

    Args:
        scores: one per task (or language), each the mean over the seeds that both have.
        reference: the reference's, in the same order.

    Returns:
        None without a task, and if the reference's score or a divisor is not above 0, as the share is then undefined.

    Raises:
        DataError: if a score is not finite, or the two differ in length.
    Source:
        Lee et al. 2019, What would Elsa do?, Sec. 3; the values of its Tables A3, B1 and B2 are means of ratios.
    """
    if len(scores) != len(reference):
        raise DataError(
            f"Relative quality pairs each score with one of the reference; got {len(scores)} and {len(reference)}. "
            f"Pass only tasks that both have."
        )
    ours, theirs = finite(scores), finite(reference)
    above, below = (ours, theirs) if higher_is_better else (theirs, ours)
    if not len(ours) or (theirs <= 0).any() or (below <= 0).any():
        return None
    return fmean((above / below).tolist())


def _t_tested(comparison: Comparison, mean: float, sd: float, confidence: float) -> Comparison:
    """Return the comparison with its t-test, interval and standardised effects."""
    from scipy import special  # takes half a second, which listing claims need not wait for

    n, d = comparison.n, cohens_d(mean, sd)
    t = mean / (sd / n**0.5)
    return replace(
        comparison,
        sd=sd,
        interval=t_interval(mean, sd, n, confidence),
        t=t,
        p=float(2 * special.stdtr(n - 1, -abs(t))),
        cohens_d=d,
        hedges_g=hedges_g(d, n),
        note=caution(n, comparison.unit),
        error=sd / n**0.5,
        freedom=float(n - 1),
    )


def _none_common(unit: str) -> str:
    have = "finished" if unit == "seed" else "have"
    return f"no {unit} that both {have}: no comparison"
