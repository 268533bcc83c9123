"""Test the leader of a budget at a planned look, and bound how far each arm is behind the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from gradgate.statistics import Word, pairs_needed
from gradgate.statistics import judge as judge_all
from gradgate.study.budget.evidence import LEVEL, Deficit, Look, Noise, Table, deficits, pooled_noise
from gradgate.study.budget.stages import FEWEST_TESTED, WHOLE, Stage
from gradgate.study.budget.verdict import Within


@dataclass(frozen=True)
class LookResult:
    """The result of a look.

    Attributes:
        winners: the winner, or the leader and the arms of the last stage that are not significantly worse, the best
            first.
        decided: whether one arm is significantly better than every other. An arm that left before its end is not
            compared, and leaves this open.
        beaten: the arms that are significantly worse than the leader.
        unsettled: arms that left after whole runs and are not significantly worse than the leader, or not tested.
        uncompared: arms that left before their end; early scores say nothing certain of them.
        within: how far each arm with full runs may be behind the best of these; empty without a test.
        p: the largest of the leader against the others; None if one of them could not be tested.
        pairs: that the arms of the last stage have in common.
        how: a sentence on the test, or on why there was none.
        nearest: the arm with the least significant deficit; None for an arm alone.
        tested: whether there was a test.
    """

    winners: tuple[str, ...]
    decided: bool
    p: float | None
    pairs: int
    how: str
    beaten: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    uncompared: tuple[str, ...] = ()
    within: tuple[Within, ...] = ()
    nearest: Deficit | None = None
    tested: bool = True


@dataclass(frozen=True)
class Compared:
    """The scores that one stage compared: arm to scores on common pairs, higher ones better, the best arm first."""

    stage: Stage
    table: Table


def judge(compared: Sequence[Compared], look: Look | None) -> LookResult:
    """Test the leader at a look; an arm that alone is left has won no test.

    A winner is significantly better than every other arm, each on the whole runs that both have. An arm that left
    before its end is not compared: arms that start slowly are behind early and may end first. While there is one, no
    arm wins.

    Args:
        compared: every stage so far, in order; an arm that left is in none of the later ones.
        look: None while the budget is being spent; nothing is tested then.
    """
    last = compared[-1]
    arms = tuple(last.table)
    pairs = len(last.table[arms[0]]) if arms else 0
    tests = _against_all(compared)
    early = _left_early(compared)
    if not tests:
        how = "No other arm is left to compare."
        return LookResult(arms, False, None, pairs, how, uncompared=early, tested=False)
    remaining = [each for each in tests if each.arm in arms]
    why = "The budget is not spent yet." if look is None else _why_untested(last, pairs)
    if why is not None or look is None:
        out = tuple(each.arm for each in tests if each.arm not in arms)
        return LookResult(
            arms, False, None, pairs, why or "", (), out, early, nearest=_nearest(remaining), tested=False
        )
    verdicts = judge_all([each.comparison for each in tests], higher_is_better=True, level=look.level)
    corrected = [verdict.p_corrected for verdict in verdicts]
    significant = [verdict.word is Word.BETTER for verdict in verdicts]
    beaten = tuple(each.arm for each, is_worse in zip(tests, significant, strict=True) if is_worse)
    winners = tuple(arm for arm in arms if arm not in beaten)
    known = [p for p in corrected if p is not None]
    return LookResult(
        winners=winners,
        decided=all(significant) and not early,
        p=max(known) if len(known) == len(tests) else None,
        pairs=pairs,
        how=_how(tests, arms, pairs, look, max(known, default=None), early),
        beaten=beaten,
        unsettled=tuple(each.arm for each in tests if each.arm not in arms and each.arm not in beaten),
        uncompared=early,
        within=_within(compared),
        nearest=_nearest([each for each in remaining if each.arm not in beaten] or tests),
    )


def _nearest(tests: Sequence[Deficit]) -> Deficit | None:
    """Return the least significant deficit, the smallest one of equal p."""
    return max(tests, key=lambda each: (1.0 if each.p is None else each.p, -each.behind), default=None)


def _against_all(compared: Sequence[Compared]) -> list[Deficit]:
    """Test the leader against the arms of the last stage and those that left after whole runs, each on its pairs."""
    if not compared[-1].table:
        return []
    leader = next(iter(compared[-1].table))
    tests: list[Deficit] = []
    noisy = seen_by_length(compared)
    for place, each in enumerate(compared):
        later = compared[place + 1].table if place + 1 < len(compared) else {leader: ()}
        gone = [arm for arm in each.table if arm not in later]
        if each.stage.eighths == WHOLE or place + 1 == len(compared):
            tests += deficits(each.table, leader, gone, noisy[each.stage.eighths])
    return tests


def _left_early(compared: Sequence[Compared]) -> tuple[str, ...]:
    """Return the arms that left before their end, in the order in which they left."""
    found: list[str] = []
    for each, later in pairwise(compared):
        if each.stage.eighths < WHOLE:
            found += [arm for arm in each.table if arm not in later.table]
    return tuple(found)


def _within(compared: Sequence[Compared]) -> tuple[Within, ...]:
    """Return how far each arm with full runs is behind the best of them at most, at :data:`LEVEL` for all together.

    The bound of an arm is the largest, over the others, of the upper limit of the other's lead: a one-sided t interval
    on the pairs that both have, with the noise of :func:`deficits`, at the level over the number of other arms.

    Source:
        Hsu 1996, Multiple Comparisons, ch. 4: constrained comparisons with the best. Differs: Bonferroni in place of
        Dunnett's quantile, which holds for arms with different numbers of pairs.
    """
    from scipy.special import stdtrit  # takes a moment, which listing commands need not wait for

    tables = seen_by_length(compared).get(WHOLE, {})
    pooled = pooled_noise(tables)
    if len(tables) < 2 or pooled is None:
        return ()
    quantile = float(stdtrit(pooled.freedom, 1 - LEVEL / (len(tables) - 1)))
    found = []
    for arm, scores in tables.items():
        leads = []
        for other, theirs in tables.items():
            pairs = min(len(scores), len(theirs))
            if other != arm:
                gaps = [b - a for a, b in zip(scores[:pairs], theirs[:pairs], strict=True)]
                sd = max(pooled.sd, stdev(gaps) / 2**0.5 if pairs > 1 else 0.0)
                leads.append(fmean(gaps) + quantile * sd * (2 / pairs) ** 0.5)
        found.append(Within(arm, max(0.0, *leads)))
    return tuple(sorted(found, key=lambda each: each.behind))


def seen_by_length(compared: Sequence[Compared]) -> dict[int, dict[str, Sequence[float]]]:
    """Return eighths of the schedule to the scores that stages of this length compared, the most of each arm."""
    seen: dict[int, dict[str, Sequence[float]]] = {}
    for each in compared:
        seen.setdefault(each.stage.eighths, {}).update(each.table)
    return seen


def _why_untested(last: Compared, pairs: int) -> str | None:
    if last.stage.eighths < 8:
        share = f"{last.stage.eighths / 8:g} of the schedule"
        return f"The budget ends at {share}; nothing is tested there, because the ranking may still change."
    if pairs < FEWEST_TESTED:
        return f"{pairs} pair{'s' * (pairs != 1)} of full runs: too few for a test."
    return None


def _how(
    tests: Sequence[Deficit], arms: Sequence[str], pairs: int, look: Look, p: float | None, early: Sequence[str]
) -> str:
    out = len(tests) - len(arms) + 1
    left = f", and against the {out} that were dropped with fewer full runs, on these" if out else ""
    are = "s were dropped early and are" if len(early) != 1 else " was dropped early and is"
    lost = f" {len(early)} arm{are} not compared." if early else ""
    found = "the scores have no spread to test" if p is None else f"p = {p:.3g} at most"
    others = f"{len(arms) - 1} other arm{'s' * (len(arms) != 2)}"
    return (
        f"Two-sided paired t-tests of the leader against {others} on {pairs} pairs of full runs{left}; noise "
        f"pooled over arms, Holm-corrected over {len(tests)} tests: {found}, level {look.level:.3g} of {LEVEL:g} "
        f"at this look.{lost}"
    )


def pairs_for(nearest: Deficit, seen: Mapping[int, Table], level: float) -> int | None:
    """Return the pairs of whole runs that find a lead as large as the one over an arm with 80 % power.

    Args:
        nearest: the deficit of that arm.
        seen: eighths to scores. If the arm's own stage shows no noise, that of the longest runs is used.
        level: of the test.

    Returns:
        None if there is no lead, or no noise.
    """
    noise: Noise | None = nearest.noise
    for eighths in sorted(seen, reverse=True):
        noise = noise or pooled_noise(seen[eighths])
    if nearest.behind <= 0 or noise is None or noise.sd <= 0:
        return None
    return pairs_needed(nearest.behind / (noise.sd * 2**0.5), level=level)
