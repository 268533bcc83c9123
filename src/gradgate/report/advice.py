"""Advise what to use after a study, and never say more than its comparisons show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gradgate.errors import counted, listed
from gradgate.report import formats
from gradgate.report.cost_summary import CostSummary
from gradgate.report.formats import abridged
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.verdict import compared_on
from gradgate.report.verdict_sentence import margin_words
from gradgate.runs.state import RunState
from gradgate.statistics import Verdict, Word
from gradgate.study.verdicts import verdicts_against_best

_COSTS = (
    ("seconds_total", "training time", formats.seconds),
    ("peak_memory_bytes", "peak memory", formats.size),
    ("parameters_trained", "parameters trained", formats.count),
)
"""What makes an arm the cheapest: the first of these that is known of all."""
_OF_A_DEVICE = ("seconds_total", "peak_memory_bytes")


@dataclass(frozen=True)
class Advice:
    """A recommendation of an arm.

    Attributes:
        headline: a short sentence.
        reasons: sentences with the differences and their intervals.
        arm: the arm to use; the best mean if nothing is decided.
        is_decided: whether the comparisons support using that arm.
    """

    headline: str
    reasons: tuple[str, ...]
    arm: ArmSummary
    is_decided: bool


def advise(study: StudySummary) -> Advice | None:
    """Return what to use of the arms that can be compared; None if nothing can, and where a budget decides.

    The arm with the best mean leads. Arms that are worse than it by a corrected test are out. Those that are
    equivalent to it within the margin leave the choice to their costs. Any other leaves the choice open.
    """
    if study.is_race or len(study.scored) < 2 or len(study.best) != 1 or study.best[0].score.n < 2:
        return None
    ranked = set(study.scored) - set(study.unranked)
    field = _Field(study, study.best[0], tuple(arm for arm in study.by_score if arm in ranked))
    return field.advice() if len(field.arms) > 1 else None


@dataclass(frozen=True, eq=False)
class _Field:
    """The arms that can be compared, the best mean first."""

    study: StudySummary
    lead: ArmSummary
    arms: tuple[ArmSummary, ...]

    def advice(self) -> Advice:
        """Return the advice."""
        if self.undecided:
            return self._open()
        found = self._equivalent() if self.equivalent else self._winner()
        waiting = self._waiting()
        if not waiting:
            return found
        return replace(found, headline=f"So far: {found.headline}", reasons=(*found.reasons, waiting))

    def _waiting(self) -> str:
        """Say what is missing of the study, whose answer may still change; nothing if all is there."""
        results, without = self.study.results, [arm.name for arm in self.study.arms if arm not in self.arms]
        parts = [f"{abridged(without)} {'has' if len(without) == 1 else 'have'} no score to compare"] if without else []
        left = results.count(RunState.MISSING) + results.count(RunState.PAUSED)
        if left and self.study.record.imported is None:
            parts.append(f"{counted(left, 'run')} {'has' if left == 1 else 'have'} not finished")
        return f"{listed(parts)}." if parts else ""

    @cached_property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The verdict on each other arm against the lead; the planned one where either is the reference."""
        if self.lead is self.study.reference:
            return {arm.name: arm.judged.verdict for arm in self.others if arm.judged is not None}
        names = [arm.name for arm in self.others if arm is not self.study.reference]
        return verdicts_against_best(self.study.results, self.lead.name, names)

    @property
    def others(self) -> tuple[ArmSummary, ...]:
        """The arms besides the lead, the best first."""
        return tuple(arm for arm in self.arms if arm is not self.lead)

    @cached_property
    def equivalent(self) -> tuple[ArmSummary, ...]:
        """Those that are equivalent to the lead within the margin."""
        return tuple(arm for arm in self.others if self._word(arm) is Word.EQUIVALENT)

    @cached_property
    def undecided(self) -> tuple[ArmSummary, ...]:
        """Those that are neither worse than the lead nor equivalent to it."""
        return tuple(arm for arm in self.others if self._word(arm) not in (Word.WORSE, Word.EQUIVALENT))

    def _word(self, arm: ArmSummary) -> Word:
        """Return how an arm compares to the lead."""
        verdict, sign = self._judged(arm)
        if sign < 0:
            return verdict.word
        turned = {Word.BETTER: Word.WORSE, Word.EQUIVALENT: Word.EQUIVALENT}
        return turned.get(verdict.word, Word.INCONCLUSIVE)

    def _winner(self) -> Advice:
        reference, runner_up = self.study.reference, self.others[0]
        against = dict.fromkeys((runner_up if self.lead is reference else reference, runner_up))
        all_of = f"It is better than each of the {len(self.others)} others."
        reasons = [self._standing([*against]), *([all_of] if len(self.others) > 1 else [])]
        cheapest = self._cheapest((self.lead, *(arm for arm in self.others if self._judged(arm)[0].equivalent)))
        if cheapest is not None and cheapest[0] is not self.lead:
            reasons.append(f"Yet {cheapest[0].name} is{self._within()} of it and cheaper: {cheapest[1]}.")
        return Advice(f"Use {self.lead.name}.", (*reasons, *self._collapses()), self.lead, True)

    def _equivalent(self) -> Advice:
        good = (self.lead, *self.equivalent)
        cheapest = self._cheapest(good)
        headline = f"{abridged([arm.name for arm in good])} are equally good here{self._within()}"
        reasons = [self._standing(self.equivalent[:2])]
        if cheapest is not None:
            arm, cost = cheapest
            headline += f"; {arm.name} is the cheapest"
            reasons.append(f"{arm.name} is the cheapest of these: {cost}.")
        chosen = self.lead if cheapest is None else cheapest[0]
        return Advice(f"{headline}.", (*reasons, *self._collapses()), chosen, True)

    def _open(self) -> Advice:
        candidates = (self.lead, *(arm for arm in self.others if self._word(arm) is not Word.WORSE))
        nearest, reference = self.undecided[0], self.study.reference
        reasons = [self._standing([nearest]), self._needed(nearest)]
        if self.lead is not reference and nearest is not reference and self._word(reference) is Word.WORSE:
            reasons.append(f"{self.lead.name} is {self._apart(reference)}, so it is better.")
        out = len(self.arms) - len(candidates)
        if out:
            reasons.append(f"{counted(out, 'method')} {'is' if out == 1 else 'are'} worse.")
        names = abridged([arm.name for arm in candidates])
        return Advice(f"Inconclusive: no winner between {names}.", (*reasons, *self._collapses()), self.lead, False)

    def _standing(self, against: Sequence[ArmSummary]) -> str:
        """Say where the lead is ahead, over how many seeds, and how far it is from some arms."""
        pairs = {self._judged(arm)[0].comparison.n for arm in against}
        over = f", over {counted(pairs.pop(), 'seed')}" if len(pairs) == 1 and 0 not in pairs else ""
        where = compared_on(self.study)
        return f"On {where}{over}, {self.lead.name} is {listed([self._apart(arm) for arm in against])}."

    def _judged(self, arm: ArmSummary) -> tuple[Verdict, int]:
        """Return the verdict between the lead and an arm, and the sign that makes its difference the lead's."""
        if arm.name in self.verdicts:
            return self.verdicts[arm.name], -1
        assert self.lead.judged is not None, "the only arm without a verdict against the lead is the reference"
        return self.lead.judged.verdict, 1

    def _apart(self, arm: ArmSummary) -> str:
        """Say how far the lead is from an arm, with the interval that belongs to the verdict."""
        verdict, sign = self._judged(arm)
        found, interval = verdict.comparison.difference, verdict.interval_corrected
        if found is None:
            return f"not compared to {arm.name}, which shares no finished seed with it"
        words = f"{_farther(self.study, sign * found)} than {arm.name}"
        if interval is None:
            return f"{words} (no interval: {verdict.comparison.note})"
        return f"{words} (corrected 95% interval: {_between(self.study, sorted(sign * end for end in interval))})"

    def _needed(self, arm: ArmSummary) -> str:
        """Say what would decide between the lead and an arm."""
        verdict, _ = self._judged(arm)
        if verdict.comparison.difference is None:
            return f"Runs with common {verdict.comparison.unit}s would decide."
        needed = verdict.pairs_to_choose
        return f"{'More' if needed is None else f'About {needed:,}'} {verdict.comparison.unit}s would decide."

    def _cheapest(self, arms: Sequence[ArmSummary]) -> tuple[ArmSummary, str] | None:
        """Return the arm that costs least, and what; None if no cost is known of all, or all cost the same."""
        several = len(self.study.results.devices) > 1
        for name, title, form in _COSTS:
            costs = [_cost(arm.cost, name) for arm in arms]
            known = [cost for cost in costs if cost is not None]
            if len(known) == len(arms) and len(set(known)) > 1 and not (several and name in _OF_A_DEVICE):
                least = costs.index(min(known))
                return arms[least], f"{form(min(known))} of {title}"
        return None

    def _within(self) -> str:
        margin = self._judged(self.others[0])[0].margin
        assert margin is not None, "without a margin, no arm counts as equivalent"
        return f" within {margin_words(margin, self.study.format.factor)}"

    def _collapses(self) -> list[str]:
        """Say which arms have collapsed runs, as a mean hides them."""
        found: dict[str, tuple[int, int]] = {}
        for arm in self.arms:
            if arm.judged is None:
                continue
            own, theirs = arm.judged.collapsed, arm.judged.reference_collapsed
            found[arm.name] = own.collapsed, own.runs
            found[arm.judged.reference] = theirs.collapsed, theirs.runs
        parts = [f"{lost} of {runs} of {name}" for name, (lost, runs) in found.items() if lost]
        if not parts:
            return []
        judged = self.lead.judged
        without = None if judged is None else judged.without_collapsed
        changed = judged is not None and without is not None and without.word is not judged.verdict.word
        then = f"; without these, against {self.study.reference.name}: {without.word}" if changed and without else ""
        return [f"Collapsed runs: {abridged(parts)}{then}."]


def _cost(cost: CostSummary, name: str) -> float | None:
    found: float | None = getattr(cost, name)
    return found


def _amount(study: StudySummary, value: float) -> str:
    text = study.format.value(abs(value))
    if study.format.factor != 100:
        return text
    return f"{text} {'point' if float(text) == 1 else 'points'}"


def _farther(study: StudySummary, value: float) -> str:
    return f"{_amount(study, value)} {'higher' if value >= 0 else 'lower'}"


def _between(study: StudySummary, ends: Sequence[float]) -> str:
    """Return an interval in words: ``4.0 to 7.1 points``, or ``0.6 points lower to 6.2 points higher``."""
    low, high = ends
    if low < 0 < high:
        return f"{_farther(study, low)} to {_farther(study, high)}"
    near, far = sorted((abs(low), abs(high)))
    return f"{study.format.value(near)} to {_amount(study, far)}"
