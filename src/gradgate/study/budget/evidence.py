"""What scores in pairs say: the noise that pairs do not share, pooled over arms, and tests of the leader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gradgate.statistics import holm
from gradgate.study.budget.ladder import Stage

LEVEL = 0.05
"""The error that all looks of a study share."""
_FIRST_SHARE, _EARLY_SHARE = 0.8, 0.1
_FEWEST_PAIRS = 3
_ROUNDING = 1e-12

Table = Mapping[str, Sequence[float]]
"""Arm to its scores, one for each pair in the order of pairs; an arm that left earlier has the first ones only."""


@dataclass(frozen=True)
class Look:
    """A planned test: after so many seeds of the last stage, or at the end of the budget (None), at this level."""

    seeds: int | None
    level: float


@dataclass(frozen=True)
class Noise:
    """The standard deviation of one arm's score that its pair does not explain, and its degrees of freedom."""

    sd: float
    freedom: int


@dataclass(frozen=True)
class Deficit:
    """How far an arm is behind the leader on their common pairs; ``p`` is corrected over the arms of its look."""

    arm: str
    behind: float
    p: float | None


def plan_looks(last: Stage, tasks: int, earlier: int) -> tuple[Look, ...]:
    """When the arms of the last stage are tested, and how the level is shared.

    The end of the budget is a look, and half of the last stage is one if it has three pairs or more. The early look
    has a tenth of the level, which costs the last one little. The first budget of a study has 0.8 of the level, and
    each later one, with more steps or seeds, 0.8 of what is left: added up they never pass :data:`LEVEL`, so that the
    error holds whatever the looks have in common.

    Args:
        earlier: verdicts that the study gave before its budget or seeds were raised.
    Source:
        Jennison and Turnbull 2000, Group sequential methods, ch. 7 (spending the error).
        Differs: levels are added (Bonferroni), which holds for t-tests of any size and for unplanned extensions.
    """
    level = LEVEL * _FIRST_SHARE * (1 - _FIRST_SHARE) ** earlier
    half = last.seeds // 2
    if half * tasks < _FEWEST_PAIRS:
        return (Look(None, level),)
    return Look(half, level * _EARLY_SHARE), Look(None, level * (1 - _EARLY_SHARE))


def pooled_noise(table: Table) -> Noise | None:
    """The noise left after each arm's and each pair's mean, from all arms at once; None without a degree of freedom.

    With two arms it is the sd of their differences over the square root of 2, and a t-test with it is the paired one.
    Every further arm adds degrees of freedom, of which a few pairs alone have too few.

    Source:
        The residual of the two-way layout without interaction: Hsu 1996, Multiple comparisons, ch. 7.
    """
    rows = [(arm, pair, score) for arm, scores in enumerate(table.values()) for pair, score in enumerate(scores)]
    if not rows:
        return None
    arms, pairs, scores = (np.array(column) for column in zip(*rows, strict=True))
    design = np.hstack([arms[:, None] == np.unique(arms), pairs[:, None] == np.unique(pairs)[1:]]).astype(float)
    solution, _, rank, _ = np.linalg.lstsq(design, scores - scores.mean(), rcond=None)
    freedom = len(scores) - int(rank)
    if freedom < 1:
        return None
    squares = float(np.sum((scores - scores.mean() - design @ solution) ** 2))
    return Noise((squares / freedom) ** 0.5, freedom)


def deficits(table: Table, ranked: Sequence[str]) -> tuple[Deficit, ...]:
    """The first of the ranked arms against each other: two-sided t-tests with the pooled noise, after Holm.

    Testing the leader that the same scores chose keeps its level, because the tests are two-sided.

    Source:
        Hung and Fithian 2019, Rank verification for exponential families (the winner against the runner-up).
    """
    leader, others = ranked[0], ranked[1:]
    noise = pooled_noise(table)
    pairs = min(len(table[arm]) for arm in ranked)
    means = {arm: float(np.mean(table[arm][:pairs])) for arm in ranked} if pairs else dict.fromkeys(ranked, 0.0)
    behind = [means[leader] - means[arm] for arm in others]
    size = max((abs(mean) for mean in means.values()), default=0.0)
    if noise is None or noise.sd <= _ROUNDING * size:
        return tuple(Deficit(arm, gap, None) for arm, gap in zip(others, behind, strict=True))
    from scipy.special import stdtr  # takes a moment, which listing commands need not wait for

    error = noise.sd * (2 / pairs) ** 0.5
    p = holm([float(2 * stdtr(noise.freedom, -abs(gap) / error)) for gap in behind])
    return tuple(Deficit(*each) for each in zip(others, behind, p, strict=True))
