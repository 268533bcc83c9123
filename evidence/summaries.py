"""Summarize the effects of each situation: runs to arms, arms to tasks, tasks to a mean, and the arm to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from evidence.arms import FULL
from evidence.effects import AFTER_TAPT, ON_LANGUAGES, OTHER_MODEL, ArmEffect, Where
from evidence.pooling import LEVEL, Pooled, alone, both, random_effects

NOT_SHOWN = "no arm is shown to be better, or as good and cheaper"
MARGIN = 1.0
"""Points by which a cheaper arm may be worse."""
_CHEAPER = ("freeze", "head", "probe", "groups", "lisa", "houlsby", "pfeiffer", "lora", "dora", "rslora")
"""How the names of arms begin that train a small share of the weights or need no backward pass below."""


@dataclass(frozen=True)
class ArmInSituation:
    """One arm in one situation.

    Attributes:
        pooled: its difference to full fine-tuning in points; all arms of a situation have 95 % intervals together.
        effects: that it is of.
        without_collapsed: ``pooled`` without collapsed runs; None if none collapsed.
    """

    arm: str
    pooled: Pooled
    effects: tuple[ArmEffect, ...]
    without_collapsed: Pooled | None = None

    @property
    def is_cheaper(self) -> bool:
        """Whether it saves memory or time by what it leaves closed; not if something else must be pretrained first."""
        return self.arm.startswith(_CHEAPER) and not self.arm.endswith((ON_LANGUAGES, AFTER_TAPT))

    @property
    def may_be_as_good(self) -> bool:
        """Whether its interval reaches full fine-tuning, or shows that it is worse by less than the margin."""
        return self.pooled.interval[1] >= 0 or self.is_no_worse

    @property
    def is_no_worse(self) -> bool:
        """Whether it is shown to be no worse than full fine-tuning by more than the margin."""
        return self.pooled.interval[0] > -MARGIN

    @property
    def examples(self) -> str:
        """The range of the numbers of training examples of its runs; empty if the situation says all that is known."""
        return _examples(self.effects)

    @property
    def runs(self) -> int:
        """The fewest runs of an arm in it."""
        return min(effect.runs for effect in self.effects)

    @property
    def most_frequent(self) -> str:
        """The form of the arm, with its options, that most of its effects are of; the first one of several."""
        return Counter(effect.example for effect in self.effects).most_common(1)[0][0]

    @property
    def doubts(self) -> tuple[str, ...]:
        """The limits of its runs that may change the verdict, by name."""
        return tuple(dict.fromkeys(doubt for effect in self.effects for doubt in effect.doubts))

    @property
    def most_in_doubt(self) -> bool:
        """Whether there is a doubt about its runs on more than half of the tasks."""
        doubted = {effect.task for effect in self.effects if effect.doubts}
        return 2 * len(doubted) > self.pooled.tasks

    @property
    def caveats(self) -> tuple[str, ...]:
        """Where its interval is over runs alone, with the test rows as they are, and the doubts about its runs."""
        return (*("test rows not counted",) * (not with_rows(self.effects)), *self.doubts)

    def relative(self, name: str) -> float | None:
        """Return the mean of a cost relative to full fine-tuning; None if not recorded."""
        values = [value for effect in self.effects if (value := getattr(effect, name)) is not None]
        return fmean(values) if values else None

    def tasks_with(self, name: str) -> int:
        """Return the number of tasks on which a cost was recorded."""
        return len({effect.task for effect in self.effects if getattr(effect, name) is not None})


@dataclass(frozen=True)
class SituationAdvice:
    """What to use in a situation.

    Attributes:
        arms: all that were compared with full fine-tuning, the best mean first.
        use: the arm; None for full fine-tuning.
        why: the rule that chose it.
    """

    where: Where
    arms: tuple[ArmInSituation, ...]
    use: ArmInSituation | None
    why: str

    def where_of(self, arm: ArmInSituation | None) -> Where:
        """Return the situation with the training examples of one arm, which may have been compared on some of them."""
        return replace(self.where, rows=f"{arm.examples} rows") if arm and arm.examples else self.where

    @property
    def next(self) -> ArmInSituation | None:
        """What to weigh against full fine-tuning.

        The arm that is better but in doubt, else the cheapest that is no worse by the margin but in doubt, else the
        best cheaper one that may be as good, else the best cheaper one.
        """
        if self.use is not None:
            return None
        cheaper = [arm for arm in self.arms if arm.is_cheaper]
        no_worse = [arm for arm in cheaper if arm.is_no_worse]
        as_good = (arm for arm in cheaper if arm.may_be_as_good)
        return _best(self.arms) or _cheapest(no_worse) or next(as_good, None) or next(iter(cheaper), None)

    @property
    def shown(self) -> ArmInSituation | None:
        """The arm to use, else what to weigh against full fine-tuning; None if no arm is better or cheaper."""
        return self.use or self.next

    @property
    def is_undecided(self) -> bool:
        """Whether that arm may be as good as full fine-tuning."""
        return self.next is not None and self.next.may_be_as_good

    @property
    def confidence(self) -> str:
        """How far the numbers carry, in words."""
        shown = self.shown or self.arms[0]
        tasks, few = shown.pooled.tasks, shown.pooled.tasks < 3 or shown.runs < 3
        generated = ("generated data",) * ("embedded" in self.where.model)
        level = "low" if few or generated or OTHER_MODEL in shown.doubts or shown.most_in_doubt else "medium"
        if level == "medium" and tasks >= 5 and not any(effect.limits for effect in shown.effects):
            level = "high"
        tasks_and_runs = f"{tasks} task{'s' * (tasks > 1)}", f"{shown.runs} or more runs per arm"
        return f"{level}: {', '.join((*tasks_and_runs, *shown.caveats, *generated))}"


def summarize(where: Where, effects: Sequence[ArmEffect]) -> SituationAdvice | None:
    """Summarize a situation; None if nothing is known of it."""
    by_arm: dict[str, list[ArmEffect]] = {}
    for effect in effects:
        if effect.where == where and effect.variance is not None:
            by_arm.setdefault(effect.arm, []).append(effect)
    if not by_arm:
        return None
    level = LEVEL / max(len(by_arm), *(effect.compared for own in by_arm.values() for effect in own))
    found = [
        ArmInSituation(arm, pool(own, level), tuple(own), without_collapsed(own, level)) for arm, own in by_arm.items()
    ]
    arms = tuple(sorted(found, key=lambda summary: -summary.pooled.mean))
    examples = _examples(effect for own in by_arm.values() for effect in own)
    rows = f"{examples} rows" if examples else where.rows
    return SituationAdvice(replace(where, rows=rows), arms, *_choose(arms))


def _examples(effects: Iterable[ArmEffect]) -> str:
    """Return the range of the numbers of training examples; empty if the situation says all that is known."""
    found = {effect.examples for effect in effects if effect.examples is not None}
    return " to ".join(dict.fromkeys(f"{end:,}" for end in (min(found), max(found)))) if found else ""


def without_collapsed(effects: Sequence[ArmEffect], level: float = LEVEL) -> Pooled | None:
    """Pool the effects of one arm without collapsed runs; None if none collapsed."""
    if all(effect.without_collapsed is None for effect in effects):
        return None
    kept = [each for each in (effect.without_collapsed or effect for effect in effects) if each.variance is not None]
    return pool(kept, level) if kept else None


def pool(effects: Sequence[ArmEffect], level: float = LEVEL) -> Pooled:
    """Pool the effects of one arm: the mean of its options, then of the studies of a task, then over tasks.

    Options of a study share its full fine-tuning, so the mean of their variances counts; so do training sizes of one,
    which makes the interval too wide rather than too narrow. Other runs are independent.
    The variances count test rows if those of all effects do, so no task weighs more than another for lack of its rows.
    Two tasks have an interval each, which hold together at the level.
    """
    rows = with_rows(effects)
    tasks: dict[str, dict[str, list[ArmEffect]]] = {}
    for effect in effects:
        tasks.setdefault(effect.task, {}).setdefault(effect.source, []).append(effect)
    found = {task: _of_task(list(by_source.values()), rows) for task, by_source in tasks.items()}
    if len(found) > 2:
        means, spreads = zip(*found.values(), strict=True)
        return random_effects(means, [max(variance for variance, _ in own) for own in spreads], level)
    each = {task: alone(*own, level / len(found)) for task, own in found.items()}
    return both(each) if len(each) == 2 else next(iter(each.values()))


def _of_task(sources: Sequence[Sequence[ArmEffect]], rows: bool) -> tuple[float, list[tuple[float, float]]]:
    """Return the difference on one task, and its variances with their degrees of freedom.

    There is one over runs, and one over runs and test rows if these count.
    """
    kinds = [[[effect.over_runs for effect in own] for own in sources]]
    if rows:
        kinds.append([[effect.over_rows or effect.over_runs for effect in own] for own in sources])
    return fmean(fmean(effect.difference for effect in own) for own in sources), [_combined(kind) for kind in kinds]


def _combined(sources: Sequence[Sequence[tuple[float, float]]]) -> tuple[float, float]:
    variances = [fmean(variance for variance, _ in own) for own in sources]
    return sum(variances) / len(sources) ** 2, min(freedom for own in sources for _, freedom in own)


def with_rows(effects: Sequence[ArmEffect]) -> bool:
    """Return True if the test rows of all effects are known, so that their intervals are over runs and rows."""
    return all(effect.over_rows is not None for effect in effects)


def _choose(arms: Sequence[ArmInSituation]) -> tuple[ArmInSituation | None, str]:
    """Choose the arm that is better than full, else the cheapest that is no worse by the margin, else full.

    An arm whose runs are in doubt is not chosen.
    """
    sound = [arm for arm in arms if not arm.doubts]
    if best := _best(sound):
        return best, f"better than `{FULL}`"
    if kept := [arm for arm in sound if arm.is_cheaper and arm.is_no_worse]:
        return _cheapest(kept), f"no worse than `{FULL}` by more than {MARGIN:g} point, and cheaper"
    if _best(arms):
        return None, "the second is better in these runs"
    if any(arm.is_cheaper and arm.is_no_worse for arm in arms):
        return None, f"the second is no worse by more than {MARGIN:g} point in these runs"
    if not any(arm.is_cheaper for arm in arms):
        return None, "no arm is shown to be better, and no cheaper one was compared"
    return None, NOT_SHOWN


def _cheapest(arms: Sequence[ArmInSituation]) -> ArmInSituation | None:
    """Return the arm that takes the least memory, of those without a record the first; None if there is none."""
    return min(arms, key=lambda arm: arm.relative("memory") or 1.0, default=None)


def _best(arms: Sequence[ArmInSituation]) -> ArmInSituation | None:
    """Return the arm whose interval is furthest above full fine-tuning; None if none is."""
    return max((arm for arm in arms if _low(arm) > 0), key=_low, default=None)


def _low(arm: ArmInSituation) -> float:
    return arm.pooled.interval[0]
