"""Define the verdict of a budget: a winner or a tie, its confidence, what was spent, and what would decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gradgate.errors import listed
from gradgate.settings.arms.recorded import ArmName


@dataclass(frozen=True)
class Departure:
    """An arm that left after a stage, or that failed.

    Attributes:
        step_share: of the schedule that its runs had done.
        pairs: that the stage compared.
        place: among ``of`` arms of the stage by score and loss on dev, 1 for the best; None for an arm that failed.
        behind: the best score of that stage, on dev, 0 or more; None for an arm that failed.
        factor: what sentences multiply that by: 100 for shares.
    """

    arm: ArmName
    step_share: float
    pairs: int
    place: int | None
    of: int
    behind: float | None
    factor: int = 1

    @property
    def reason(self) -> str:
        """A sentence on why it left."""
        if self.place is None:
            return f"{self.arm} was dropped because one of its runs failed."
        behind = "" if self.behind is None else f", {_amount(self.behind, self.factor)} behind the best score on dev"
        return (
            f"{self.arm} was dropped after {self.step_share:g} of the schedule: place {self.place} of {self.of} on "
            f"{self.pairs} pair{'s' * (self.pairs != 1)}{behind}."
        )


@dataclass(frozen=True)
class Within:
    """A bound on how far an arm is behind the best arm with full runs: at most ``behind``, on dev, with 95 %
    confidence.

    The bounds of all arms of a verdict hold together.
    """

    arm: ArmName
    behind: float


@dataclass(frozen=True)
class Needed:
    """The pairs that would decide with 80 % power, if the lead and its noise are as observed.

    Attributes:
        against: the arm with the least significant deficit.
        pairs: whole (task, seed) pairs of the two, with those that exist.
        seeds: more of them than the two have now.
        steps: optimizer steps for these.
    """

    against: ArmName
    pairs: int
    seeds: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class BudgetVerdict:
    """The result of a budget.

    Attributes:
        winners: the winner alone, or the leader and the arms that are not significantly worse, the best on dev first.
        decided: whether one arm won against all others that did not fail.
        method: of all winners, if it is significantly better than another method, at any rate; else None.
        cheapest: of the winners, by seconds per step if these are known, else the first.
        confidence: that the winner is the best, 1 minus the error that all looks of the study share; None without one.
        how: one sentence on the test, or on why there was none.
        unsettled: arms that left after whole runs and are not significantly worse than the leader, or were not tested;
            while there are any, nothing is decided.
        beaten: arms that are significantly worse than the leader.
        uncompared: arms that left before their end. Nothing is known about how they end, so nothing is decided either.
        within: how far each arm with full runs may be behind the best of them, the closest first.
        p: the largest of the leader against the others, after Holm's correction; None if one was not tested.
        pairs: whole runs of the leader and the others that the verdict rests on.
        step_share: of the schedule after which the arms were compared; 1 for whole runs.
        steps_of_grid, steps_allowed, steps_spent: optimizer steps.
        departures: which arms left when, and why.
        not_looked_at: what was not trained; empty if all was.
        needed: what would decide; None if it is decided, or if the scores have no spread to estimate it from.
        tested: whether a test was made; without one, the order is that of dev and no more: of means after whole runs,
            of scores and losses together after parts of them.
        factor: what sentences multiply differences of scores by: 100 for shares.
    """

    winners: tuple[ArmName, ...]
    decided: bool
    method: ArmName | None
    cheapest: ArmName | None
    confidence: float | None
    how: str
    unsettled: tuple[ArmName, ...]
    p: float | None
    pairs: int
    step_share: float
    steps_of_grid: int
    steps_allowed: int
    steps_spent: int
    departures: tuple[Departure, ...]
    not_looked_at: str
    needed: Needed | None
    tested: bool = True
    uncompared: tuple[ArmName, ...] = ()
    beaten: tuple[ArmName, ...] = ()
    within: tuple[Within, ...] = ()
    factor: int = 1

    @property
    def tied(self) -> tuple[ArmName, ...]:
        """The tie set: the arms that no test excludes as the best, those that left early among them; none failed."""
        return (*self.winners, *self.unsettled, *self.uncompared)

    @property
    def recommended(self) -> ArmName | None:
        """The winner, or the cheapest of a tie; None if no arm is left."""
        return next(iter(self.winners), None) if self.decided or self.cheapest is None else self.cheapest

    @property
    def headline(self) -> str:
        """A sentence on who won or leads."""
        if not self.winners:
            return "No arm is left, because each has a failed run."
        leader, *others = self.winners
        if self.decided:
            return f"{leader} is better than {self._all_others()}."
        if not self.tested:
            return f"Inconclusive: nothing was tested. {self._untested()}"
        if not others and self.beaten:
            left = (*self.unsettled, *self.uncompared)
            return f"Inconclusive: {leader} is better than {_some(self.beaten)}, but {_are(left)} not settled."
        if not others:
            return f"Inconclusive: {leader} is the only remaining arm."
        are = "is" if len(others) == 1 else "are"
        return f"Inconclusive: {leader} leads, but {listed(others)} {are} not significantly worse."

    @property
    def rank(self) -> str:
        """The reason to name an arm first that no test did: its mean, or scores and losses of parts of runs."""
        return "has the best mean on dev" if self.step_share >= 1 else "is first by scores and losses on dev"

    def _all_others(self) -> str:
        failed = [left.arm for left in self.departures if left.place is None]
        if not failed:
            return "every other arm"
        return f"every arm without a failed run; {_are(failed)} not compared"

    def _untested(self) -> str:
        """Say what is known of the arms that remain, in a sentence."""
        leader, *others = self.winners
        if not others:
            return f"{leader} is the only remaining arm."
        return f"Of the remaining {listed(self.winners)}, {leader} {self.rank}."

    @property
    def details(self) -> str:
        """Sentences on how that was found, and what it would take to decide."""
        return " ".join(filter(None, (*self._of_tie(), self.how, self._need(), self.not_looked_at)))

    @property
    def summary(self) -> str:
        """The whole verdict in a few sentences."""
        return f"{self.headline} {self.details}"

    def _of_tie(self) -> Iterator[str]:
        if self.decided or not self.winners:
            return
        if self.method is not None:
            which = f"All of them are {self.method}, which" if len(self.winners) > 1 else self.method
            yield f"{which} is better than every other method that was compared."
        if len(self.winners) > 1:
            yield f"The cheapest of them is {self.cheapest}."
        if self.unsettled:
            how = "on scores that are not significantly worse" if self.tested else "without a test"
            yield f"{_some(self.unsettled)} left {how}."
        if self.uncompared:
            early = len(self.uncompared)
            yield f"{early} arm{'s' * (early != 1)} dropped early; their early scores do not show their final ones."
        yield from self._bounds()

    def _bounds(self) -> Iterator[str]:
        bounds = {each.arm: each.behind for each in self.within}
        known = [arm for arm in self.winners if arm in bounds]
        if len(known) > 1:
            shown = listed([f"{arm} ({_amount(bounds[arm], self.factor)})" for arm in known])
            whole = "arm with full runs" if self.uncompared else "arm"
            yield f"On dev, with 95 % confidence for all, these are behind the best {whole} by at most: {shown}."

    def _need(self) -> str:
        if self.needed is None:
            return ""
        return (
            f"If the lead over {self.needed.against} is as large as it looks, {self.needed.pairs} pairs of full "
            f"runs would show it with 80 % power: {self.needed.seeds} more seeds, {self.needed.steps:,} more "
            "steps."
        )

    def record(self) -> dict[str, Any]:
        """Return plain values for JSON: ``budget`` and ``verdict``."""
        budget = {name: getattr(self, name) for name in ("steps_of_grid", "steps_allowed", "steps_spent")}
        verdict = {name: value for name, value in asdict(self).items() if name not in budget}
        departures = [{**asdict(left), "reason": left.reason} for left in self.departures]
        verdict["confidence"] = self.confidence if self.decided else None  # older files have it for ties, too
        return {"budget": budget, "verdict": {**verdict, "departures": departures, "summary": self.summary}}


def _amount(value: float, factor: int) -> str:
    """Return a difference of scores, in points for shares."""
    text = f"{factor * value:.4g}"
    return text if factor == 1 else f"{text} {'point' if text == '1' else 'points'}"


def _some(names: Sequence[str]) -> str:
    """Return up to three names, or how many there are."""
    return listed(names) if len(names) <= 3 else f"{len(names)} arms"


def _are(names: Sequence[str]) -> str:
    return f"{_some(names)} {'is' if len(names) == 1 else 'are'}"
