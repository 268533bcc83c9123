"""Test the leader on scores in pairs, with the noise that pairs do not share pooled over arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gradgate.statistics import Comparison
from gradgate.study.budget.stages import FEWEST_PAIRS, Stage

LEVEL = 0.05
"""The error that all looks of a study share."""
_FIRST_SHARE, _EARLY_SHARE = 0.8, 0.1
_ROUNDING = 1e-12

Array = npt.NDArray[np.float64]
Table = Mapping[str, Sequence[float]]
"""Arm to its scores, one for each pair in the order of pairs; an arm that left earlier has the first ones only."""


@dataclass(frozen=True)
class Look:
    """A planned test: after n seeds of the last stage, or at the end of the budget (None), at this level."""

    seeds: int | None
    level: float


@dataclass(frozen=True)
class Noise:
    """The standard deviation of one arm's score that its pair does not explain, and its degrees of freedom."""

    sd: float
    freedom: int


@dataclass(frozen=True)
class Deficit:
    """The deficit of an arm behind the leader on their common pairs.

    Attributes:
        p: of its test, before any correction; None if the scores have no spread to test.
        noise: that the test uses.
        pairs: that both have.
    """

    arm: str
    behind: float
    p: float | None
    noise: Noise | None
    pairs: int = 0

    @property
    def comparison(self) -> Comparison:
        """The leader minus this arm, as verdicts are made of it."""
        if self.p is None or self.noise is None:
            return Comparison(self.pairs, self.behind, unit="pair")
        error, freedom = self.noise.sd * (2 / self.pairs) ** 0.5, float(self.noise.freedom)
        return Comparison(self.pairs, self.behind, p=self.p, unit="pair", error=error, freedom=freedom)


def plan_looks(last: Stage, tasks: int, earlier: int, *, early: bool = True) -> tuple[Look, ...]:
    """Return when the arms of the last stage are tested, and how these looks share the level.

    The end of the budget is a look, and half of the last stage is one if it has three pairs or more. The early look
    has a tenth of the level, which costs the last one little. The first budget of a study has 0.8 of the level, and
    each later one, with more steps or seeds, 0.8 of what is left: added up they never pass :data:`LEVEL`, so that the
    error holds whatever the looks have in common.

    Args:
        earlier: verdicts that the study gave before its budget or seeds were raised.
        early: whether there may be an early look. A plan that was raised before its verdict may have spent the level
            of its own.
    Source:
        Jennison and Turnbull 2000, Group sequential methods, ch. 7, on spending the error.
        Differs: levels are added (Bonferroni), which holds for t-tests of any size and for unplanned extensions.
    """
    level = LEVEL * _FIRST_SHARE * (1 - _FIRST_SHARE) ** earlier
    half, at_the_end = last.seeds // 2, Look(None, level * (1 - _EARLY_SHARE))
    if not early:
        return (at_the_end,)
    return (Look(half, level * _EARLY_SHARE), at_the_end) if half * tasks >= FEWEST_PAIRS else (Look(None, level),)


def pooled_noise(table: Table) -> Noise | None:
    """Return the noise after each arm's and each pair's mean, from all arms; None without a degree of freedom.

    With two arms it is the sd of their differences over the square root of 2, and a t-test with it is the paired one.
    Every further arm adds degrees of freedom, of which a few pairs alone have too few. It is the residual of a two-way
    layout, arms by pairs, without interaction.
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


def deficits(table: Table, leader: str, arms: Sequence[str], noisy: Table) -> tuple[Deficit, ...]:
    """Test arms against the leader: two-sided t-tests on the pairs of ``table``, with the noise of ``noisy``.

    Each test takes the larger of the pooled noise and that of its own differences, with the pooled degrees of freedom,
    so that two noisy arms do not gain from quiet ones. Of 20,000 draws of two level arms among others that are far
    behind, with 3 to 18 arms and 3 to 10 pairs, at most 3.7 % then have p < 0.04, also where the noise of arms is
    lognormal (0.5 in its logarithm); the pooled noise alone has up to 5.6 % there. A lead of twice the noise is
    found on 3 pairs of 3 arms with 34 % of draws, by the differences alone with 24 %.

    An arm that has the better mean, as one may that left because of its loss, has p = 1.

    Testing a leader that the same scores chose keeps the level of its lead over the runner-up, because the tests are
    two-sided.

    Source:
        Hung and Fithian 2019, Rank verification for exponential families: https://arxiv.org/abs/1610.03944. An
        unadjusted two-sided test of the first against the second is valid.
    """
    pooled = pooled_noise(noisy)
    best = np.asarray(table[leader], dtype=float)
    return tuple(_deficit(arm, best, np.asarray(table[arm], dtype=float), pooled) for arm in arms)


def _deficit(arm: str, best: Array, scores: Array, pooled: Noise | None) -> Deficit:
    from scipy.special import stdtr  # takes a moment, which listing commands need not wait for

    gaps = best - scores
    behind = float(gaps.mean()) if len(gaps) else 0.0
    if pooled is None or not len(gaps):
        return Deficit(arm, behind, None, pooled, len(gaps))
    own = float(gaps.std(ddof=1)) / 2**0.5 if len(gaps) > 1 else 0.0
    noise = Noise(max(pooled.sd, own), pooled.freedom)
    if noise.sd <= _ROUNDING * float(np.abs(best).max()):
        return Deficit(arm, behind, None, noise, len(gaps))
    t = behind / (noise.sd * (2 / len(gaps)) ** 0.5)
    return Deficit(arm, behind, float(2 * stdtr(noise.freedom, -max(t, 0.0))), noise, len(gaps))
