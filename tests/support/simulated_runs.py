"""Budgets without training: known scores of every run, handed out as a budget asks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from gradgate.runs.state import Progress
from gradgate.study.budget import Allocator, FullGrid, RunKey, Targets

STEPS = 80
LENGTHS = (10, 20, 40, 80)

Scores = npt.NDArray[np.float64]


def full_grid(arms: int, seeds: int, higher: bool = True, tasks: int = 1) -> FullGrid:
    """Arms a0, a1, ... with seeds 0, 1, ... on tasks t0, t1, ..., 80 steps each."""
    return FullGrid(
        arms=tuple(f"a{arm}" for arm in range(arms)),
        seeds=tuple(range(seeds)),
        steps={f"t{task}": STEPS for task in range(tasks)},
        higher_is_better=higher,
    )


def noisy(means: Scores, seeds: int, shared: float, seed: int) -> Scores:
    """Scores of shape (arms, seeds): an arm's mean, noise with sd 1, and noise that arms with one seed share."""
    draw = np.random.default_rng(seed)
    return means[:, None] + shared * draw.normal(size=(1, seeds)) + draw.normal(size=(len(means), seeds))


def begun(key: RunKey, until: int, scores: Scores) -> Progress:
    """A run at a step; its score at each length is its final one less what is left of the schedule, as for all arms."""
    final = scores[int(key.arm[1:]), key.seed]
    dev = {step: float(final - 1000 * (1 - step / STEPS)) for step in LENGTHS if step <= until}
    return Progress(until, dev)


def batches(
    allocator: Allocator, scores: Scores, observed: dict[RunKey, Progress] | None = None
) -> Iterator[tuple[Targets, Mapping[RunKey, Progress]]]:
    """Each batch with what is known after it, until the verdict stands."""
    observed = dict(observed or {})
    while batch := allocator.next(observed):
        observed |= {key: begun(key, until, scores) for key, until in batch.items()}
        yield batch, dict(observed)


def run(allocator: Allocator, scores: Scores) -> dict[RunKey, Progress]:
    """All that is known at the end."""
    known: Mapping[RunKey, Progress] = {}
    for _, known in batches(allocator, scores):
        assert allocator.spent(known) <= allocator.steps_allowed
    return dict(known)
