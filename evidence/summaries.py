"""Summarize the effects of each situation: runs to arms, arms to tasks, tasks to a mean, and the arm to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy import stats

from evidence.effects import FULL, Effect, Where
from evidence.pooling import LEVEL, Pooled, random_effects

NOT_SHOWN = "no arm is shown to be better, or as good and cheaper"
MARGIN = 1.0
"""Points by which a cheaper arm may be worse."""
_CHEAPER = ("freeze", "head", "probe", "houlsby", "pfeiffer", "lora", "dora", "rslora")
"""How the names of arms begin that train a small share of the weights or need no backward pass below."""


@dataclass(frozen=True)
class ArmSummary:
    """One arm in one situation.

    Attributes:
        pooled: its difference to full fine-tuning in points; all arms of a situation have 95 % intervals together.
        effects: that it is of.
    """

    arm: str
    pooled: Pooled
    effects: tuple[Effect, ...]

    @property
    def is_cheaper(self) -> bool:
        """Whether it saves memory or time by what it leaves closed."""
        return self.arm.startswith(_CHEAPER)

    @property
    def runs(self) -> int:
        """The fewest runs of an arm in it."""
        return min(effect.runs for effect in self.effects)

    @property
    def is_short(self) -> bool:
        """Whether more steps may change its scores."""
        return any(effect.short_training for effect in self.effects)

    def relative(self, name: str) -> float | None:
        """Return the mean of a cost relative to full fine-tuning; None if not recorded."""
        values = [value for effect in self.effects if (value := getattr(effect, name)) is not None]
        return fmean(values) if values else None


@dataclass(frozen=True)
class Advice:
    """What to use in a situation.

    Attributes:
        arms: all that were compared with full fine-tuning, the best mean first.
        use: the arm; None for full fine-tuning.
        why: the rule that chose it.
    """

    where: Where
    arms: tuple[ArmSummary, ...]
    use: ArmSummary | None
    why: str

    @property
    def next(self) -> ArmSummary | None:
        """The cheaper arm with the best mean, if full fine-tuning is to be used."""
        return next((arm for arm in self.arms if arm.is_cheaper), None) if self.use is None else None

    @property
    def is_undecided(self) -> bool:
        """Whether the best cheaper arm may be as good as full fine-tuning."""
        high = None if self.next is None else self.next.pooled.interval
        return self.use is None and high is not None and high[1] >= 0

    @property
    def confidence(self) -> str:
        """How far the numbers carry, in words."""
        shown = self.use or self.next or self.arms[0]
        tasks, free = shown.pooled.tasks, not any(effect.limits for effect in shown.effects)
        generated = "embedded" in self.where.model
        level = "low" if tasks < 3 or generated or shown.runs < 3 else "high" if tasks >= 5 and free else "medium"
        reasons = [f"{tasks} task{'s' * (tasks > 1)}", f"{shown.runs} or more runs per arm"]
        reasons += ["short training"] * shown.is_short
        reasons += ["generated data"] * generated
        return f"{level}: {', '.join(reasons)}"


def summarize(where: Where, effects: Sequence[Effect]) -> Advice | None:
    """Summarize a situation; None if nothing is known of it."""
    by_arm: dict[str, list[Effect]] = {}
    for effect in effects:
        if effect.where == where and effect.variance is not None:
            by_arm.setdefault(effect.arm, []).append(effect)
    if not by_arm:
        return None
    level = LEVEL / max(len(by_arm), *(effect.compared for own in by_arm.values() for effect in own))
    found = [ArmSummary(arm, pool(own, level), tuple(own)) for arm, own in by_arm.items()]
    arms = tuple(sorted(found, key=lambda summary: -summary.pooled.mean))
    return Advice(where, arms, *_choose(arms))


def pool(effects: Sequence[Effect], level: float = LEVEL) -> Pooled:
    """Pool the effects of one arm: the mean of its options, then of the models of a task, then over tasks.

    Options of a study share its full fine-tuning, so the mean of their variances counts; other runs are independent.
    """
    tasks: dict[str, dict[str, list[Effect]]] = {}
    for effect in effects:
        tasks.setdefault(effect.task, {}).setdefault(effect.source, []).append(effect)
    means, variances = [], []
    for by_source in tasks.values():
        own = [
            (fmean(e.difference for e in same), fmean(e.variance or 0.0 for e in same)) for same in by_source.values()
        ]
        means.append(fmean(mean for mean, _ in own))
        variances.append(sum(variance for _, variance in own) / len(own) ** 2)
    if len(means) > 1:
        return random_effects(means, variances, level)
    freedom = max(1, min(effect.runs for effect in effects) - 1)
    half = float(stats.t.isf(level / 2, freedom)) * variances[0] ** 0.5
    return Pooled(means[0], (means[0] - half, means[0] + half), None, 1)


def _choose(arms: Sequence[ArmSummary]) -> tuple[ArmSummary | None, str]:
    """Choose the arm that is better than full, else the cheapest that is no worse by the margin, else full."""
    lows = {arm.arm: arm.pooled.interval[0] for arm in arms if arm.pooled.interval is not None}
    better = [arm for arm in arms if lows.get(arm.arm, -1.0) > 0]
    if better:
        best = max(better, key=lambda arm: lows[arm.arm])
        return best, f"better than `{FULL}`{_after(best)}"
    kept = [arm for arm in arms if arm.is_cheaper and lows.get(arm.arm, -MARGIN) > -MARGIN]
    if kept:
        cheapest = min(kept, key=lambda arm: arm.relative("memory") or 1.0)
        return cheapest, f"no worse than `{FULL}` by more than {MARGIN:g} point, and cheaper{_after(cheapest)}"
    if not any(arm.is_cheaper for arm in arms):
        return None, "no arm is shown to be better, and no cheaper one was compared"
    return None, NOT_SHOWN


def _after(arm: ArmSummary) -> str:
    """Return words that keep what short training shows from being read as a result of any training."""
    return ", in short training" if arm.is_short else ""
