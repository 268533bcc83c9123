"""Define what a claim is, and what its check finds: it holds, fails, or is undecided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gradgate.papers.claims.numbers import Numbers

if TYPE_CHECKING:
    from gradgate.statistics import Comparison

State = Literal["holds", "fails", "cannot tell"]
HOLDS: State = "holds"
FAILS: State = "fails"
UNKNOWN: State = "cannot tell"
MANY_REPEATS = 100
"""More seeds or runs than these are needed only if the difference is next to none, so that their number says little."""


@dataclass(frozen=True)
class ThresholdTest:
    """The test that decides a measured finding.

    Attributes:
        what: the quantity in words.
        comparison: its values minus the threshold; for a claim of equality, minus the nearer end of the margin.
        threshold: that was subtracted.
        margin: of a claim of equality, above 0; None for a claim of a side.
        above: whether values above the threshold are claimed; no matter for a claim of equality.
    """

    what: str
    comparison: Comparison
    threshold: float
    above: bool = True
    margin: float | None = None


@dataclass(frozen=True)
class ClaimCheck:
    """One part of a claim: what was compared, with its numbers.

    Attributes:
        found: a quantity and its value, or why there is none.
        claimed: what the claim says of it; empty if nothing was compared.
        limits: why the numbers do not decide it, if the state alone would.
        repeats_needed: how many seeds or runs would decide it with 80 % power, if the observed difference and spread
            persist; None if it is decided, or if no number follows.
        compared: whether there was something to compare: a number, several arms that could be meant, or some of the
            methods that a claim is about.
        arms: the labels of the paper in it, each with the arm that was run for it.
        test: what a measured state rests on; None for printed numbers, and if no test decides.
        tasks: of the numbers, by the labels of the paper.
        seeds: the fewest of a score in it; 0 for printed numbers.
    """

    state: State
    found: str
    claimed: str = ""
    limits: tuple[str, ...] = ()
    repeats_needed: int | None = None
    compared: bool = False
    arms: tuple[tuple[str, str], ...] = ()
    test: ThresholdTest | None = None
    tasks: tuple[str, ...] = ()
    seeds: int = 0

    @property
    def leans(self) -> State | None:
        """The state that more seeds with the same mean would give.

        None if no test is behind it, for a claim of equality, and if the mean is the claimed value.
        """
        if self.test is None or self.test.margin is not None or not self.test.comparison.difference:
            return None
        return HOLDS if (self.test.comparison.difference > 0) is self.test.above else FAILS

    @property
    def repeat(self) -> str:
        """The unit that is repeated: ``seed``, or ``run`` if seeds are not known."""
        return self.test.comparison.unit if self.test else "seed"

    @property
    def text(self) -> str:
        """All of it in one line."""
        claimed = f", claimed {self.claimed}" if self.claimed else ""
        return "; ".join(filter(None, (f"{self.found}{claimed}", *self.limits, self._more_repeats)))

    @property
    def _more_repeats(self) -> str:
        if self.repeats_needed is None:
            return ""
        if self.repeats_needed > MANY_REPEATS:
            return f"more than {MANY_REPEATS} {self.repeat}s would be needed"
        return f"about {self.repeats_needed} {self.repeat}s would decide"


@dataclass(frozen=True)
class ClaimPart:
    """Findings of a claim that are counted together.

    Attributes:
        least: how many of them must hold.
        rule: that in words, without the count.
    """

    findings: tuple[ClaimCheck, ...]
    least: int
    rule: str


@dataclass(frozen=True)
class ClaimOutcome:
    """The result of a claim's check.

    Attributes:
        rule: how many findings must hold, and over how many tests they are corrected.
        parts: that its findings come from.
    """

    state: State
    findings: tuple[ClaimCheck, ...]
    rule: str = ""
    parts: tuple[ClaimPart, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, in our words.

    Attributes:
        id: such as ``G1``; the letter is that of the paper.
        paper: its key.
        wording: what is claimed, as it is tested.
        sources: tables that print what it needs; several if the paper prints it twice.
        check: the test; None if scores of runs do not suffice.
        needs: what a test would take in that case.
        about: the data that it speaks of, which no other data decide; empty for a claim about any data.
    """

    id: str
    paper: str
    wording: str
    sources: tuple[tuple[str, ...], ...] = ()
    check: Callable[[Numbers], ClaimOutcome] | None = None
    needs: str = ""
    about: tuple[str, ...] = ()
