"""Spend budgets on simulated learning curves: how often the best arm is put first, and whether verdicts are right.

A score is an arm's curve plus noise. Gaps are in standard deviations of a whole run's noise, without the part that its
seed shares. Six families of curves were used to choose the plan of a budget (honest, crossing, slow, failing,
heavy-tailed and rates); four have other formulas and were not (power laws, late starts, overfitting, clusters). The
best arm leads the second by 0, 0.5, 1 or 2. In half of the grids, arms with one seed share twice as much noise as they
have of their own. "share" is that of the grid's steps; all ways to spend them take the same steps.

"within 1" is how often the first arm's true mean is within 1 of the best, and "grid" how often that is so for the first
arm of the whole grid, which a share of it cannot be expected to exceed; "same best" how often it is the grid's best, if
the grid has 10 or more seeds and is decisive (p < 0.01); "false" how often a wrong arm is named as better than all
others, of the budgets that can name one; "tie set" how often it includes the true best; "true" how often every
statement "within x of the best" is true. A dash: no grid, or no budget that can say it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice, product
from statistics import fmean

import numpy as np
import numpy.typing as npt

from evidence.replay.baselines import hyperband, uniform, unpaired_halving
from gradgate.runs.state import Progress
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.budget.full_grid import EIGHTHS
from gradgate.study.replay.curves import Curves
from gradgate.study.replay.replay import play, truth_of

STEPS, SHARED = 80, 2.0
SIZES = ((6, 5), (12, 5), (18, 10), (40, 10), (18, 20))
SHARES, GAPS, REPEATS, REPEATS_OF_HYPERBAND = (0.1, 0.2), (0.0, 0.5, 1.0, 2.0), 80, 8
DECISIVE, SEEDS_OF_DECISIVE = 0.01, 10

Array = npt.NDArray[np.float64]
Family = Callable[[Array, np.random.Generator], Array]
"""Final means of the arms to their curves, of shape (arms, lengths); it may change the means in place."""

_LEFT = np.array([1.0, 0.7, 0.3, 0.0])
"""What is left at each eighth of what an arm still gains or loses against others."""
_RISE = np.array([12.0, 7.0, 3.0, 0.0])
"""How far all arms are below their ends, so that the best score so far is mostly the last one."""
_NOISE = np.array([1.5, 1.2, 1.0, 1.0])
_KEPT = np.array([0.3, 0.45, 0.7, 1.0])
"""The correlation of a run's noise at each eighth with that at its end."""


def honest(means: Array, draw: np.random.Generator) -> Array:
    """Show what ends first from the beginning, in smaller gaps."""
    return means[:, None] * np.array([0.5, 0.7, 0.9, 1.0])


def crossing(means: Array, draw: np.random.Generator) -> Array:
    """Let each arm be ahead or behind early, whatever its end."""
    return means[:, None] + 2 * draw.normal(size=(len(means), 1)) * _LEFT


def slow(means: Array, draw: np.random.Generator) -> Array:
    """Let a third of the arms start late, the best one in seven of ten grids."""
    late = draw.random(len(means)) < 1 / 3
    late[0] = draw.random() < 0.7
    return means[:, None] - 5 * late[:, None] * np.array([1.0, 0.8, 0.25, 0.0])


def rates(means: Array, draw: np.random.Generator) -> Array:
    """Give each method three rates, of which the highest is the fastest and a middle one often the best."""
    rate = np.arange(len(means)) % 3 - 1.0
    methods = np.arange(len(means)) // 3
    quality = 1.5 * draw.normal(size=methods[-1] + 1)
    means[:] = quality[methods] - 1.5 * (rate - draw.uniform(-1, 1, methods[-1] + 1)[methods]) ** 2
    return means[:, None] + 2 * rate[:, None] * _LEFT


def power_laws(means: Array, draw: np.random.Generator) -> Array:
    """Let arms approach their ends by power laws with exponents of their own."""
    time = np.array([1.0, 2.0, 4.0, 8.0])
    exponent = draw.uniform(0.5, 2.5, (len(means), 1))
    return means[:, None] - draw.uniform(1, 6, (len(means), 1)) * (time**-exponent - 8.0**-exponent)


def late_starts(means: Array, draw: np.random.Generator) -> Array:
    """Let each arm rise as a logistic function whose middle lies between the beginning and half of the schedule."""
    middle = draw.uniform(-1, 4, (len(means), 1))
    risen = 1 / (1 + np.exp(middle - np.array([1.0, 2.0, 4.0, 8.0])))
    return means[:, None] - 6 * (risen[:, -1:] - risen)


def overfitting(means: Array, draw: np.random.Generator) -> Array:
    """Let a quarter of the arms be best at half of the schedule, which counts, and fall afterwards."""
    peak = 1.2 * (draw.random(len(means)) < 0.25)
    curve = means[:, None] + peak[:, None] * np.array([0.3, 0.7, 1.0, 0.0])
    means += peak
    return curve + _RISE * np.array([0.0, 0.0, 1.0, 0.0])  # no arm gains after half of the schedule


def clusters(means: Array, draw: np.random.Generator) -> Array:
    """Put a third of the arms next to the best one, and the others far behind."""
    near = np.arange(len(means)) < len(means) / 3
    means[:] = np.where(near, means / 4, means - 3)
    return means[:, None] * np.array([0.6, 0.8, 0.9, 1.0])


TUNED: dict[str, Family] = {
    "honest": honest, "crossing": crossing, "slow": slow, "failing": honest, "heavy-tailed": honest, "rates": rates,
}  # fmt: skip
FRESH: dict[str, Family] = {
    "power laws": power_laws, "late starts": late_starts, "overfitting": overfitting, "clusters": clusters,
}  # fmt: skip


@dataclass(frozen=True)
class Simulated:
    """One grid: the true means of its arms, and its runs."""

    means: Array
    runs: dict[RunKey, Progress]


@dataclass
class Tally:
    """What happened to one family and share, over sizes, gaps and repeats."""

    within: list[bool] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    same_best: list[bool] = field(default_factory=list)
    false: list[bool] = field(default_factory=list)
    tie: list[bool] = field(default_factory=list)
    bounds: list[bool] = field(default_factory=list)
    regret: list[float] = field(default_factory=list)
    others: dict[str, list[bool]] = field(default_factory=dict)


def run(repeats: int = REPEATS) -> list[str]:
    """Return a line per family and share."""
    names = ("uniform", "halving", "hyperband")
    lines = [
        "  curves         share   within 1    grid   uniform   halving   hyperband   regret   same best   false"
        "   tie set     true"
    ]
    for families in (TUNED, FRESH):
        for family, share in product(families, SHARES):
            tally = Tally()
            for arms, seeds in SIZES:
                _spend(family, families[family], arms, seeds, share, repeats, tally)
            others = "".join(
                f"{_percent(tally.others[name]):>{width}}" for name, width in zip(names, (10, 10, 12), strict=True)
            )
            lines.append(
                f"  {family:<15}{share:<8}{_percent(tally.within):>8}{_percent(tally.whole):>8}{others}"
                f"{fmean(tally.regret):>9.2f}"
                f"{_percent(tally.same_best):>12}{_percent(tally.false):>8}{_percent(tally.tie):>10}"
                f"{_percent(tally.bounds):>9}"
            )
        lines.append("")
    return lines[:-1]


def _spend(name: str, family: Family, arms: int, seeds: int, share: float, repeats: int, tally: Tally) -> None:
    """Spend a share on simulated grids of one size, and on the same grids in other ways."""
    grid = FullGrid(arms=tuple(f"a{arm}" for arm in range(arms)), seeds=tuple(range(seeds)), steps={"toy": STEPS})
    allocator = Allocator(grid, int(share * grid.total_steps))
    for repeat, (gap, is_shared) in enumerate(islice(cycle(product(GAPS, (True, False))), repeats)):
        draw = np.random.default_rng([repeat, arms, seeds, sum(map(ord, name))])
        grid_of = simulate(name, family, grid, gap, draw, is_shared=is_shared)
        _judge(grid_of, allocator, tally)
        for other, spend in (("uniform", uniform), ("halving", unpaired_halving), ("hyperband", hyperband)):
            found = tally.others.setdefault(other, [])
            if other != "hyperband" or repeat < REPEATS_OF_HYPERBAND:
                arm = spend(grid, grid_of.runs, allocator.steps_allowed, repeat).arm
                found.append(arm is not None and _behind(grid_of, arm) <= 1)


def simulate(
    name: str, family: Family, grid: FullGrid, gap: float, draw: np.random.Generator, *, is_shared: bool
) -> Simulated:
    """Draw one grid of a family."""
    arms, seeds = len(grid.arms), len(grid.seeds)
    means = -np.sort(-1.5 * draw.normal(size=arms))
    means -= means[min(1, arms - 1)]
    means[0] = gap
    curve = family(means, draw)
    size = (arms, seeds, len(EIGHTHS))

    def noise(shape: tuple[int, ...]) -> Array:
        return draw.standard_t(3, shape) / 3**0.5 if name == "heavy-tailed" else draw.normal(size=shape)

    own = _KEPT * noise((arms, seeds, 1)) + (1 - _KEPT**2) ** 0.5 * noise(size)
    scores = curve[:, None] - _RISE + _NOISE * own + SHARED * is_shared * draw.normal(size=(1, seeds, 1))
    if name == "failing":
        chance = 0.3 * (draw.random(arms) < 0.3)
        collapsed = draw.random((arms, seeds)) < chance[:, None]
        scores -= 8 * collapsed[:, :, None] * np.array([0.2, 0.5, 0.9, 1.0])
        means -= 8 * chance
    place = draw.permutation(arms)  # the order of arms settles equal scores
    lengths = [grid.until("toy", eighths) for eighths in EIGHTHS]
    runs = {
        RunKey(grid.arms[place[arm]], "toy", seed): Progress(
            STEPS, dict(zip(lengths, map(float, scores[arm, seed]), strict=True)), of_steps=STEPS
        )
        for arm, seed in product(range(arms), range(seeds))
    }
    return Simulated(means[np.argsort(place)], runs)


def _judge(found: Simulated, allocator: Allocator, tally: Tally) -> None:
    """Spend a budget on one grid, and note what of its verdict is true."""
    observed = play(allocator, found.runs)
    verdict = allocator.verdict(observed)
    first, best = verdict.winners[0], allocator.grid.arms[int(found.means.argmax())]
    tally.within.append(_behind(found, first) <= 1)
    tally.regret.append(_behind(found, first))
    tally.tie.append(best in verdict.tied)
    if allocator.can_name_a_winner:
        tally.false.append(verdict.decided and first != best)
    if verdict.within:
        arms = [int(each.arm[1:]) for each in verdict.within]
        top = max(found.means[arms])
        tally.bounds.append(
            all(top - found.means[arm] <= each.behind + 1e-9 for arm, each in zip(arms, verdict.within, strict=True))
        )
    truth = truth_of(Curves(allocator.grid, found.runs))
    tally.whole.append(_behind(found, truth.best) <= 1)
    if len(allocator.grid.seeds) >= SEEDS_OF_DECISIVE and truth.p is not None and truth.p < DECISIVE:
        tally.same_best.append(first == truth.best)


def _behind(found: Simulated, arm: str) -> float:
    return float(found.means.max() - found.means[int(arm[1:])])


def _percent(found: list[bool]) -> str:
    return f"{100 * fmean(found):.1f}" if found else "–"
