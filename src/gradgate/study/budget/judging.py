"""Judge the arms of the last stage: the leader against the others, at a look that was planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradgate.statistics import pairs_needed
from gradgate.study.budget.evidence import LEVEL, Deficit, Look, Noise, Table, deficits, pooled_noise
from gradgate.study.budget.ladder import Stage


@dataclass(frozen=True)
class Finding:
    """What a look says.

    Attributes:
        winners: the winner, or the leader and all that could not be told from it, the best first.
        decided: whether one arm won.
        beaten: the arms that the test told from the leader.
        p: the largest of the leader against the others; None without a test.
        pairs: that the arms have in common.
        how: a sentence on the test, or on why there is none.
        behind: by how much the nearest arm is behind the leader; None for an arm alone.
    """

    winners: tuple[str, ...]
    decided: bool
    p: float | None
    pairs: int
    how: str
    behind: float | None = None
    beaten: tuple[str, ...] = ()


def judge(table: Table, stage: Stage, look: Look | None, noisy: Table) -> Finding:
    """The arms of a stage at a look.

    Args:
        table: arm to its scores on common pairs, higher being better, the best first.
        look: None while the budget is being spent, when nothing is tested.
        noisy: the same with further arms of the same length, which tell about the noise.
    """
    arms = tuple(table)
    if len(arms) < 2:
        return Finding(arms, bool(arms), None, len(table[arms[0]]) if arms else 0, "No other arm is left to compare.")
    pairs = len(table[arms[0]])
    found = deficits({**noisy, **table}, arms)
    behind = found[0].behind
    untested = _why_untested(found, pairs, stage, look)
    if untested is not None or look is None:
        return Finding(arms, False, None, pairs, untested or "The budget is not spent yet.", behind)
    tied = [each.arm for each in found if each.p is None or each.p >= look.level]
    beaten = tuple(arm for arm in arms[1:] if arm not in tied)
    p = max(each.p for each in found if each.p is not None)
    return Finding((arms[0], *tied), not tied, p, pairs, _how(found, pairs, look, p), behind, beaten)


def _why_untested(found: Sequence[Deficit], pairs: int, stage: Stage, look: Look | None) -> str | None:
    if look is not None and stage.eighths < 8:
        return f"The budget ends at {stage.eighths / 8:g} of the schedule, where nothing is tested: the end may differ."
    if look is not None and any(each.p is None for each in found):
        runs = f"{pairs} pair{'s' * (pairs != 1)} of whole runs"
        return f"{runs} {'show' if pairs != 1 else 'shows'} no spread that a test could be made with."
    return None


def _how(found: Sequence[Deficit], pairs: int, look: Look, p: float) -> str:
    arms = f"{len(found)} other arms" if len(found) > 1 else "the other arm left"
    return (
        f"Two-sided paired t-test of the leader against {arms} on {pairs} pairs of whole runs, noise pooled over arms, "
        f"Holm-corrected: p = {p:.3g} at level {look.level:.3g}, this look's share of {LEVEL:g}."
    )


def pairs_for(finding: Finding, tables: Mapping[int, Table], level: float) -> int | None:
    """The pairs of whole runs with which a lead as large as the one seen is found with 80 % power.

    Args:
        tables: eighths to the scores seen at that length; the noise is that of the longest that shows any.
    """
    noise: Noise | None = None
    for eighths in sorted(tables, reverse=True):
        noise = noise or pooled_noise(tables[eighths])
    if finding.behind is None or finding.behind <= 0 or noise is None or noise.sd <= 0:
        return None
    return pairs_needed(finding.behind / (noise.sd * 2**0.5), level=level)
