"""Judge a race at a planned look: the leader against the arms of the last stage, and against those that left before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradgate.statistics import holm, pairs_needed
from gradgate.study.budget.evidence import LEVEL, Deficit, Look, Noise, Table, deficits, pooled_noise
from gradgate.study.budget.stages import Stage


@dataclass(frozen=True)
class Finding:
    """What a look says.

    Attributes:
        winners: the winner, or the leader and all of the last stage that could not be told from it, the best first.
        decided: whether one arm won: it was told from every other, also from those that left.
        beaten: the arms that were told from the leader.
        unsettled: arms that left on scores that do not tell them from the leader.
        p: the largest of the leader against the others; None where one of them could not be tested.
        pairs: that the arms of the last stage have in common.
        how: a sentence on the test, or on why there is none.
        nearest: the arm that is hardest to tell from the leader; None for an arm alone.
    """

    winners: tuple[str, ...]
    decided: bool
    p: float | None
    pairs: int
    how: str
    beaten: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()
    nearest: Deficit | None = None


@dataclass(frozen=True)
class Compared:
    """The scores that one stage compared: arm to scores on common pairs, higher being better, the best first."""

    stage: Stage
    table: Table


def judge(compared: Sequence[Compared], look: Look | None) -> Finding:
    """The arms of a race at a look.

    A winner is told from every arm of the last stage by whole runs, and from every arm that left by the runs of the
    stage that it left after. These are shorter: that an arm which is behind there stays behind is taken for granted.

    Args:
        compared: every stage so far, in order; an arm that left is in none of the later ones.
        look: None while the budget is being spent, when nothing is tested.
    """
    last = compared[-1]
    arms = tuple(last.table)
    pairs = len(last.table[arms[0]]) if arms else 0
    tests = _against_all(compared)
    if not tests:
        return Finding(arms, bool(arms), None, pairs, "No other arm is left to compare.")
    rivals = [each for each in tests if each.arm in arms]
    why = "The budget is not spent yet." if look is None else _why_untested(last, pairs)
    if why is not None or look is None:
        out = tuple(each.arm for each in tests if each.arm not in arms)
        return Finding(arms, False, None, pairs, why or "", (), out, _hardest(rivals))
    corrected = holm([each.p for each in tests])
    told = [p is not None and p < look.level for p in corrected]
    beaten = tuple(each.arm for each, is_told in zip(tests, told, strict=True) if is_told)
    winners = tuple(arm for arm in arms if arm not in beaten)
    known = [p for p in corrected if p is not None]
    return Finding(
        winners=winners,
        decided=all(told),
        p=max(known) if len(known) == len(tests) else None,
        pairs=pairs,
        how=_how(tests, arms, pairs, look, max(known, default=None)),
        beaten=beaten,
        unsettled=tuple(each.arm for each in tests if each.arm not in arms and each.arm not in beaten),
        nearest=_hardest([each for each in rivals if each.arm not in beaten] or tests),
    )


def _hardest(tests: Sequence[Deficit]) -> Deficit | None:
    """The arm that is hardest to tell from the leader."""
    return max(tests, key=lambda each: (1.0 if each.p is None else each.p, -each.behind), default=None)


def _against_all(compared: Sequence[Compared]) -> list[Deficit]:
    """The leader of the last stage against every other arm, each at the stage that it saw last."""
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
    """Eighths of the schedule to all scores that stages of this length compared, the longest of each arm."""
    seen: dict[int, dict[str, Sequence[float]]] = {}
    for each in compared:
        seen.setdefault(each.stage.eighths, {}).update(each.table)
    return seen


def _why_untested(last: Compared, pairs: int) -> str | None:
    if last.stage.eighths < 8:
        share = f"{last.stage.eighths / 8:g} of the schedule"
        return f"The budget ends at {share}, where nothing is tested, as the end may differ."
    if pairs < 2:
        return f"{pairs} pair{'s' * (pairs != 1)} of whole runs: no spread that a test could be made with."
    return None


def _how(tests: Sequence[Deficit], arms: Sequence[str], pairs: int, look: Look, p: float | None) -> str:
    out = len(tests) - len(arms) + 1
    left = f", and against the {out} that left at the step where they left" if out else ""
    found = "the scores have no spread to test with" if p is None else f"p = {p:.3g} at most"
    others = f"{len(arms) - 1} other arm{'s' * (len(arms) != 2)}"
    return (
        f"Two-sided paired t-tests of the leader against {others} on {pairs} pairs of whole runs{left}; noise pooled "
        f"over arms, Holm-corrected over {len(tests)} tests: {found}, level {look.level:.3g} of {LEVEL:g} at this look."
    )


def pairs_for(nearest: Deficit, seen: Mapping[int, Table], level: float) -> int | None:
    """The pairs of whole runs with which a lead as large as the one over an arm is found with 80 % power.

    Args:
        seen: eighths to scores; where the arm's own stage shows no noise, that of the longest runs stands for it.
    """
    noise: Noise | None = nearest.noise
    for eighths in sorted(seen, reverse=True):
        noise = noise or pooled_noise(seen[eighths])
    if nearest.behind <= 0 or noise is None or noise.sd <= 0:
        return None
    return pairs_needed(nearest.behind / (noise.sd * 2**0.5), level=level)
