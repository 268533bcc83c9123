"""Check the seeds that ``gradgate study power`` names against resampled runs: do they reach 80 % power?

The runs are those of What would Elsa do? (Lee et al. 2019) in $GRADGATE_SHARED/results/elsa, ten seeds per arm. Each
comparison with ten pairs and no collapsed run is a population: its ten differences, shifted to the difference to be
found and scaled to the planned standard deviation. The named number of seeds is drawn from it with replacement and
tested. "By theory" is the power of these seeds if differences are normal with the standard deviation of all ten: above
80 %, as the number of seeds is rounded up. Plans from three or five of the ten pairs show the effect of an uncertain
spread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from scipy import special

from gradgate.api.imports import import_results
from gradgate.statistics import equivalence_power, paired_power, pairs_for_equivalence, pairs_needed
from gradgate.study.power import ArmPower, study_power

DRAWS, MOST, PILOTS, PAIRS = 2000, 150, (3, 5), 10

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Goal:
    """What is to be shown: the seeds for it, their power, the true difference, and the test of drawn seeds."""

    name: str
    needed: Callable[[ArmPower, float], int | None]
    power: Callable[[ArmPower, float, int], float]
    shift: Callable[[ArmPower], float]
    shown: Callable[[ArmPower, Values], Values]


def run() -> list[str]:
    """Return a line per goal and plan; one line if the runs are not there."""
    file = Path(os.environ.get("GRADGATE_SHARED", ""), "results/elsa/runs.csv")
    if not file.is_file():
        return [f"  skipped: {file} is not there; set GRADGATE_SHARED to the folder of it"]
    with TemporaryDirectory() as folder:
        import_results(file, Path(folder, "elsa"), model=["family", "model"])
        found = [each for each in study_power(Path(folder, "elsa")) if _is_whole(each)]
    lines = [
        "  to show            planned from   comparisons   power by theory   reached   "
        "10 % to 90 % of comparisons   median seeds"
    ]
    for goal in GOALS:
        for pilot in (PAIRS, *PILOTS):
            draw = np.random.default_rng(0)
            reached = np.array(list(_reached(goal, found, pilot, draw)))
            low, high = np.quantile(reached[:, 0], [0.1, 0.9])
            lines.append(
                f"  {goal.name:<19}{f'{pilot} pairs':<15}{len(reached):>11,}{reached[:, 2].mean():>18.1%}"
                f"{reached[:, 0].mean():>10.1%}{f'{low:.0%} to {high:.0%}':>30}{np.median(reached[:, 1]):>15.0f}"
            )
    return lines


def _is_whole(each: ArmPower) -> bool:
    return each.pairs == PAIRS and each.sd is not None and each.without_collapsed is None


def _reached(goal: Goal, found: list[ArmPower], pilot: int, draw: np.random.Generator) -> Iterator[tuple[float, ...]]:
    """Yield the reached power, the seeds and their power by theory of each comparison within MOST seeds."""
    for each in found:
        differences = np.array(each.comparison.differences)
        assert each.sd is not None
        sd = each.sd if pilot == PAIRS else float(draw.choice(differences, pilot, replace=False).std(ddof=1))
        whole, needed = goal.needed(each, each.sd), goal.needed(each, sd) if sd else None
        if whole is None or whole > MOST or needed is None:
            continue
        population = (differences - differences.mean()) * (PAIRS / (PAIRS - 1)) ** 0.5
        seeds = min(needed, 4 * MOST)
        drawn = goal.shift(each) + draw.choice(population, (DRAWS, seeds))
        yield float(goal.shown(each, drawn).mean()), seeds, goal.power(each, each.sd, seeds)


def _t_interval(drawn: Values, level: float) -> tuple[Values, Values]:
    """Return the two-sided t interval of each row."""
    n = drawn.shape[1]
    half = -special.stdtrit(n - 1, level / 2) * drawn.std(axis=1, ddof=1) / n**0.5
    return drawn.mean(axis=1) - half, drawn.mean(axis=1) + half


def _differs(each: ArmPower, drawn: Values) -> Values:
    low, high = _t_interval(drawn, each.level)
    return np.asarray((low > 0) | (high < 0), dtype=np.float64)


def _not_worse(each: ArmPower, drawn: Values) -> Values:
    return np.asarray(_t_interval(drawn, 0.1)[0] > -_margin(each), dtype=np.float64)


def _equivalent(each: ArmPower, drawn: Values) -> Values:
    low, high = _t_interval(drawn, 0.1)
    return np.asarray((low > -_margin(each)) & (high < _margin(each)), dtype=np.float64)


def _margin(each: ArmPower) -> float:
    assert each.verdict.verdict.margin is not None
    return each.verdict.verdict.margin


def _difference(each: ArmPower) -> float:
    assert each.comparison.difference is not None
    return each.comparison.difference


GOALS = (
    Goal(
        "its difference",
        lambda each, sd: pairs_needed(_difference(each) / sd, 0.8, each.level),
        lambda each, sd, n: paired_power(_difference(each) / sd, n, each.level),
        _difference,
        _differs,
    ),
    Goal(
        "one point",
        lambda each, sd: pairs_needed(_margin(each) / sd, 0.8, each.level),
        lambda each, sd, n: paired_power(_margin(each) / sd, n, each.level),
        _margin,
        _differs,
    ),
    Goal(
        "non-inferior",
        lambda each, sd: pairs_needed(_margin(each) / sd, 0.8, 0.1),
        lambda each, sd, n: paired_power(_margin(each) / sd, n, 0.1),
        lambda each: 0.0,
        _not_worse,
    ),
    Goal(
        "equivalent",
        lambda each, sd: pairs_for_equivalence(_margin(each) / sd),
        lambda each, sd, n: equivalence_power(0.0, _margin(each) / sd, n),
        lambda each: 0.0,
        _equivalent,
    ),
)
