"""Simulate how often ``gradgate study verdicts`` is wrong about arms that do not differ.

Each study has a reference and 3 to 40 arms with a true difference of 0, and seeds that move all arms alike. "false"
is the share of studies in which any arm is called better or worse (at most 5 % are promised), "intervals" the share
in which the corrected intervals of all arms include 0. In the last lines the true difference is the margin: they have
the share of arms that are called non-inferior, or equivalent (at most 5 % each). Effects of runs are normal, or t
with 4 degrees of freedom. Each line is of 400 studies, so that a share of 5 % is known to about 2 points. In
collapsing arms, one run in ten is 20 points lower, in the reference none. Their true difference is then -2 points,
which the intervals of few seeds miss, since no run or a third of them may have collapsed.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from gradgate.statistics import compare_paired, judge
from gradgate.statistics.verdicts import Verdict, Word

KINDS, ARMS, SEEDS = ("normal", "t4", "collapsing"), (3, 8, 20, 40), (3, 5, 10)
STUDIES, ARMS_AT_MARGIN = 400, 4000
RUN_SD, SEED_SD, MARGIN = 0.01, 0.01, 0.01
COLLAPSED, LOST = 0.1, 0.2

Values = npt.NDArray[np.float64]


def run() -> list[str]:
    """Return a line per kind of runs, number of arms and seeds, and those of the tests against the margin."""
    lines = ["  runs         arms  seeds    false   intervals"]
    for kind, arms, seeds in product(KINDS, ARMS, SEEDS):
        false, held = family(kind, arms, seeds)
        lines.append(f"  {kind:<12}{arms:>5}{seeds:>7}{false:>9.1%}{held:>12.1%}")
    for kind, seeds in product(("normal", "t4"), SEEDS):
        inferior, equivalent = at_margin(kind, seeds)
        lines.append(
            f"  {kind}, {seeds} seeds, one margin worse: {inferior:.1%} non-inferior, {equivalent:.1%} equivalent"
        )
    return lines


def family(kind: str, arms: int, seeds: int) -> tuple[float, float]:
    """Return the share of studies with a false better or worse, and of those whose intervals all hold the truth."""
    truth = -COLLAPSED * LOST if kind == "collapsing" else 0.0
    false = held = 0
    for study in range(STUDIES):
        draw = np.random.default_rng([study, arms, seeds])
        verdicts = _verdicts(kind, arms, seeds, 0.0, draw)
        wrong = (Word.BETTER,) if truth < 0 else (Word.BETTER, Word.WORSE)
        false += any(verdict.word in wrong for verdict in verdicts)
        ends = [verdict.interval_corrected for verdict in verdicts if verdict.interval_corrected is not None]
        held += all(low <= truth <= high for low, high in ends)
    return false / STUDIES, held / STUDIES


def at_margin(kind: str, seeds: int) -> tuple[float, float]:
    """Return the shares of arms, worse by exactly the margin, that are called non-inferior and equivalent."""
    draw = np.random.default_rng([7, seeds])
    found = [_verdicts(kind, 1, seeds, -MARGIN, draw)[0] for _ in range(ARMS_AT_MARGIN)]
    inferior = sum(bool(verdict.non_inferior) for verdict in found)
    equivalent = sum(verdict.word is Word.EQUIVALENT for verdict in found)
    return inferior / ARMS_AT_MARGIN, equivalent / ARMS_AT_MARGIN


def _verdicts(kind: str, arms: int, seeds: int, shift: float, draw: np.random.Generator) -> list[Verdict]:
    common = draw.normal(0, SEED_SD, seeds)
    reference = 0.8 + common + _effects(kind, (1, seeds), draw)[0]
    scores = 0.8 + shift + common + _effects(kind, (arms, seeds), draw)
    if kind == "collapsing":
        scores -= LOST * (draw.random((arms, seeds)) < COLLAPSED)
    theirs = dict(enumerate(reference.tolist()))
    return judge([compare_paired(dict(enumerate(own.tolist())), theirs) for own in scores], True, MARGIN)


def _effects(kind: str, shape: tuple[int, int], draw: np.random.Generator) -> Values:
    return draw.standard_t(4, shape) * RUN_SD / 2**0.5 if kind == "t4" else draw.normal(0, RUN_SD, shape)
