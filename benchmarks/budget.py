"""Simulate how often a budget puts the best arm of the full grid first, on grids with known gaps.

18 arms, 20 seeds; the best arm leads the second by a gap, in standard deviations of the noise that seeds do not share,
and the others follow 0.3 apart. Seeds share noise with twice that deviation. A score at each length is the final one
less what is left of the schedule, the same for all arms: how honest early scores are, only recorded grids can say
(``python -m evidence early``). Without pairs each arm draws the shared noise for itself.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from gradgate.runs.state import Progress
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.replay import play

ARMS, SEEDS, STEPS, APART, SHARED = 18, 20, 80, 0.3, 2.0
GAPS, SHARES, REPEATS = (1.0, 1.5), (0.1, 0.2), 100

Scores = npt.NDArray[np.float64]


def run(repeats: int = REPEATS) -> list[str]:
    """Return a line per gap and share of the grid's steps."""
    lines = ["  gap   share   in pairs   without   a winner is named (in pairs)"]
    for gap, share in product(GAPS, SHARES):
        paired, named = agreement(gap, share, repeats, is_paired=True)
        unpaired, _ = agreement(gap, share, repeats, is_paired=False)
        lines.append(f"  {gap:<6}{share:<8}{paired:>8.0%}{unpaired:>10.0%}{named:>16.0%}")
    return lines


def agreement(gap: float, share: float, repeats: int, *, is_paired: bool) -> tuple[float, float]:
    """Return the shares of simulated grids whose best arm leads when the budget is spent, and with a named winner."""
    grid = FullGrid(arms=tuple(f"a{arm}" for arm in range(ARMS)), seeds=tuple(range(SEEDS)), steps={"toy": STEPS})
    allocator = Allocator(grid, int(share * grid.total_steps))
    means = np.array([gap, *-APART * np.arange(ARMS - 1)])
    agreed = named = 0
    for repeat in range(repeats):
        draw = np.random.default_rng(repeat)
        shared = SHARED * draw.normal(size=(1 if is_paired else ARMS, SEEDS))
        scores = means[:, None] + shared + draw.normal(size=(ARMS, SEEDS))
        finding = allocator.finding(play(allocator, _runs(grid, scores)))
        agreed += finding.winners[0] == grid.arms[int(scores.mean(1).argmax())]
        named += finding.decided
    return agreed / repeats, named / repeats


def _runs(grid: FullGrid, scores: Scores) -> dict[RunKey, Progress]:
    lengths = [grid.until("toy", eighths) for eighths in EIGHTHS]
    return {
        RunKey(grid.arms[arm], "toy", seed): Progress(
            STEPS, {step: float(score) - 1000 * (1 - step / STEPS) for step in lengths}
        )
        for (arm, seed), score in np.ndenumerate(scores)
    }
