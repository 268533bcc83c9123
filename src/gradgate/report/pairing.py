"""Say how the runs of two arms are compared: in pairs of one seed, or all with all if seeds have nothing in common."""

from __future__ import annotations

from dataclasses import dataclass

from gradgate.study.importing import columns as importing


@dataclass(frozen=True)
class Pairing:
    """The words for one way to compare runs.

    Attributes:
        matched: how a difference comes from two arms' runs.
        test: the name of the test.
        over: what the test is over.
        unit: what the two runs of a pair share; a run if there are no pairs.
    """

    matched: str
    test: str
    over: str
    unit: str

    @property
    def full_test(self) -> str:
        """The test with its sides and what it is over."""
        return f"two-sided {self.test} over {self.over}"


BY_SEED = Pairing("paired by seed", "paired t-test", "seeds", "seed")
"""Runs of one seed are a pair."""

UNPAIRED = Pairing("not paired", "Welch t-test", "runs", "run")
"""No two runs belong together, as in an import with ``pair="none"``."""


def pairing_of(pair: str) -> Pairing:
    """Return the words for what makes two runs a pair: ``seed``, ``none``, or the column of an import."""
    if pair == importing.UNPAIRED:
        return UNPAIRED
    return BY_SEED if pair == BY_SEED.unit else Pairing(f"paired by {pair}", BY_SEED.test, f"{pair}s", pair)
