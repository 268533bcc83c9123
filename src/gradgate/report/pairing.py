"""Say how the runs of two arms are compared: in pairs of one seed, or all with all if seeds have nothing in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pairing:
    """The words for one way to compare runs.

    Attributes:
        matched: how a difference comes from two arms' runs.
        test: the name of the test.
        over: what the test is over.
    """

    matched: str
    test: str
    over: str

    @property
    def full_test(self) -> str:
        """The test with its sides and what it is over."""
        return f"two-sided {self.test} over {self.over}"


BY_SEED = Pairing("paired by seed", "paired t-test", "seeds")
"""Runs of one seed are a pair."""

UNPAIRED = Pairing("not paired", "Welch t-test", "runs")
"""No two runs belong together, as in an import with ``pair="none"``."""
