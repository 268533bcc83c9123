"""Test the leader of a budget at a planned look: against the arms of the last stage, and those that left before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradgate.statistics import Word, pairs_needed
from gradgate.statistics import judge as judge_all
from gradgate.study.budget.evidence import LEVEL, Deficit, Look, Noise, Table, deficits, pooled_noise
from gradgate.study.budget.stages import Stage

FEWEST_TESTED = 2
"""The fewest pairs of whole runs that are tested."""


@dataclass(frozen=True)
class LookResult:
    """The result of a look.

    Attributes:
        winners: the winner, or the leader and the arms of the last stage that are not significantly worse, the best
            first.
        decided: whether one arm is significantly better than every other, also than those that left.
        beaten: the arms that are significantly worse than the leader.
        unsettled: arms that left on scores that are not significantly worse than the leader's, or that were not tested.
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
    nearest: Deficit | None = None
    tested: bool = True


@dataclass(frozen=True)
class Compared:
    """The scores that one stage compared: arm to scores on common pairs, higher ones better, the best arm first."""

    stage: Stage
    table: Table


def judge(compared: Sequence[Compared], look: Look | None) -> LookResult:
    """Test the leader at a look.

    A winner is significantly better than every arm of the last stage on whole runs, and than every arm that left on
    the runs of its last stage. These are shorter: an arm that is behind there is assumed to stay behind.

    Args:
        compared: every stage so far, in order; an arm that left is in none of the later ones.
        look: None while the budget is being spent; nothing is tested then.
    """
    last = compared[-1]
    arms = tuple(last.table)
    pairs = len(last.table[arms[0]]) if arms else 0
    tests = _against_all(compared)
    if not tests:
        return LookResult(arms, bool(arms), None, pairs, "No other arm is left to compare.")
    remaining = [each for each in tests if each.arm in arms]
    why = "The budget is not spent yet." if look is None else _why_untested(last, pairs)
    if why is not None or look is None:
        out = tuple(each.arm for each in tests if each.arm not in arms)
        return LookResult(arms, False, None, pairs, why or "", (), out, _nearest(remaining), tested=False)
    verdicts = judge_all([each.comparison for each in tests], higher_is_better=True, level=look.level)
    corrected = [verdict.p_corrected for verdict in verdicts]
    significant = [verdict.word is Word.BETTER for verdict in verdicts]
    beaten = tuple(each.arm for each, is_worse in zip(tests, significant, strict=True) if is_worse)
    winners = tuple(arm for arm in arms if arm not in beaten)
    known = [p for p in corrected if p is not None]
    return LookResult(
        winners=winners,
        decided=all(significant),
        p=max(known) if len(known) == len(tests) else None,
        pairs=pairs,
        how=_how(tests, arms, pairs, look, max(known, default=None)),
        beaten=beaten,
        unsettled=tuple(each.arm for each in tests if each.arm not in arms and each.arm not in beaten),
        nearest=_nearest([each for each in remaining if each.arm not in beaten] or tests),
    )


def _nearest(tests: Sequence[Deficit]) -> Deficit | None:
    """Return the least significant deficit, the smallest one of equal p."""
    return max(tests, key=lambda each: (1.0 if each.p is None else each.p, -each.behind), default=None)


def _against_all(compared: Sequence[Compared]) -> list[Deficit]:
    """Test the leader of the last stage against every other arm, each at that arm's last stage."""
    if not compared[-1].table:
        return []
    leader = next(iter(compared[-1].table))
    tests: list[Deficit] = []
    noisy = seen_by_length(compared)
    for place, each in enumerate(compared):
        later = compared[place + 1].table if place + 1 < len(compared) else {leader: ()}
        gone = [arm for arm in each.table if arm not in later]
        tests += deficits(each.table, leader, gone, noisy[each.stage.eighths])
    return tests


def seen_by_length(compared: Sequence[Compared]) -> dict[int, dict[str, Sequence[float]]]:
    """Return eighths of the schedule to the scores that stages of this length compared, the most of each arm."""
    seen: dict[int, dict[str, Sequence[float]]] = {}
    for each in compared:
        seen.setdefault(each.stage.eighths, {}).update(each.table)
    return seen


def _why_untested(last: Compared, pairs: int) -> str | None:
    if last.stage.eighths < 8:
        share = f"{last.stage.eighths / 8:g} of the schedule"
        return f"The budget ends at {share}; nothing is tested there, as the order may still change."
    if pairs < FEWEST_TESTED:
        return f"{pairs} pair{'s' * (pairs != 1)} of whole runs: too few for a test."
    return None


def _how(tests: Sequence[Deficit], arms: Sequence[str], pairs: int, look: Look, p: float | None) -> str:
    out = len(tests) - len(arms) + 1
    left = f", and against the {out} that left at the step where they left" if out else ""
    found = "the scores have no spread to test" if p is None else f"p = {p:.3g} at most"
    others = f"{len(arms) - 1} other arm{'s' * (len(arms) != 2)}"
    return (
        f"Two-sided paired t-tests of the leader against {others} on {pairs} pairs of whole runs{left}; noise pooled "
        f"over arms, Holm-corrected over {len(tests)} tests: {found}, level {look.level:.3g} of {LEVEL:g} at this look."
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
