"""The answer of a budget: a winner or a tie, how sure that is, what was spent, and what it would take to decide."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Departure:
    """An arm that left after a stage, or that failed.

    Attributes:
        step_share: of the schedule that its runs had done.
        pairs: that the stage compared.
        place: among ``of`` arms of the stage by score and loss on dev, 1 for the best; None for an arm that failed.
        behind: the best score of that stage, on dev, 0 or more; None for an arm that failed.
    """

    arm: str
    step_share: float
    pairs: int
    place: int | None
    of: int
    behind: float | None

    @property
    def reason(self) -> str:
        """Why it left, in a sentence."""
        if self.place is None:
            return f"{self.arm} left because a run of it failed."
        return (
            f"{self.arm} left after {self.step_share:g} of the schedule: place {self.place} of {self.of} on "
            f"{self.pairs} pair{'s' * (self.pairs != 1)}, {self.behind:.4g} behind the best score on dev."
        )


@dataclass(frozen=True)
class Needed:
    """What would decide with 80 % power, if the lead and its noise are what was seen.

    Attributes:
        against: the arm that is hardest to tell from the leader.
        pairs: whole (task, seed) pairs of the two, with those that exist.
        seeds: more of them than the two have now.
        steps: optimizer steps for these.
    """

    against: str
    pairs: int
    seeds: int
    steps: int


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a budget found.

    Attributes:
        winners: the winner alone, or the arms that could not be told from the leader, the best on dev first.
        decided: whether one arm won.
        method: of all winners, at whatever rate, if a test told it from another method; None where none did.
        cheapest: of the winners, by seconds for a step where these are known, else the first.
        confidence: 1 minus the error that all looks of the study share.
        how: one sentence on the test, or on why there was none.
        unsettled: arms that left on scores which do not tell them from the leader: while there are any, nothing is
            decided.
        p: the largest of the leader against the others, after Holm's correction; None where one was not tested.
        pairs: whole runs of the leader and the others that the verdict rests on.
        step_share: of the schedule after which the arms were compared; 1 for whole runs.
        steps_of_grid, steps_allowed, steps_spent: optimizer steps.
        departures: what left when, and why.
        not_looked_at: one sentence on what was not trained.
        needed: what would decide; None where it is decided, or where no spread was seen to tell it from.
    """

    winners: tuple[str, ...]
    decided: bool
    method: str | None
    cheapest: str | None
    confidence: float
    how: str
    unsettled: tuple[str, ...]
    p: float | None
    pairs: int
    step_share: float
    steps_of_grid: int
    steps_allowed: int
    steps_spent: int
    departures: tuple[Departure, ...]
    not_looked_at: str
    needed: Needed | None

    @property
    def summary(self) -> str:
        """The verdict in two or three sentences."""
        if not self.winners:
            return f"No arm is left: a run of each failed. {self.not_looked_at}"
        if self.decided:
            return f"{self.winners[0]} wins. {self.how} {self.not_looked_at}"
        same = f" All are {self.method}, which wins." if self.method else ""
        if len(self.winners) > 1:
            tie = f"Not decided: {self.winners[0]} leads, {', '.join(self.winners[1:])} cannot be told from it.{same}"
            tie += f" The cheapest of them is {self.cheapest}."
        else:
            tie = f"Not decided: {self.winners[0]} leads."
        if self.unsettled:
            some = ", ".join(self.unsettled) if len(self.unsettled) <= 3 else f"{len(self.unsettled)} arms"
            tie += f" {some} left on scores that do not tell them from it."
        return f"{tie} {self.how} {self._need()} {self.not_looked_at}".replace("  ", " ")

    def _need(self) -> str:
        if self.needed is None:
            return ""
        return (
            f"If the lead over {self.needed.against} is as large as it looks, {self.needed.pairs} pairs of whole runs "
            f"tell it with 80 % power: {self.needed.seeds} more seeds, {self.needed.steps:,} more steps."
        )

    def record(self) -> dict[str, Any]:
        """Plain values, for JSON: ``budget`` and ``verdict``."""
        budget = {name: getattr(self, name) for name in ("steps_of_grid", "steps_allowed", "steps_spent")}
        verdict = {name: value for name, value in asdict(self).items() if name not in budget}
        departures = [{**asdict(left), "reason": left.reason} for left in self.departures]
        return {"budget": budget, "verdict": {**verdict, "departures": departures, "summary": self.summary}}
