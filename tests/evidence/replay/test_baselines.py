"""Other ways to spend the steps of a budget, on the same runs in the same orders."""

from __future__ import annotations

import numpy as np
import pytest

from evidence.replay.baselines import replay_all
from gradgate.errors import UsageError
from gradgate.study.replay.curve_rows import CurveRow
from gradgate.study.replay.curves import Curves, as_curves
from gradgate.study.replay.replay import replay


@pytest.fixture(scope="module")
def clear() -> Curves:
    """Ten arms, ten seeds: a0 leads by four sd of what seeds do not share; seeds differ by much more."""
    draw = np.random.default_rng(0)
    means = np.array([4.0, *-np.arange(9.0)])[:, None]
    finals = means + 20 * draw.normal(size=(1, 10)) + draw.normal(size=(10, 10))
    rows = [
        CurveRow(
            task="toy", model="m", arm=f"a{arm}", method=f"a{arm}", adapter=None, lr=0.1, seed=seed, step=step,
            of_steps=80, dev=float(final + step - 80),
        )
        for (arm, seed), final in np.ndenumerate(finals)
        for step in range(10, 81, 10)
    ]  # fmt: skip
    return as_curves(rows)


def test_only_paired_stages_find_the_best(clear: Curves) -> None:
    found = replay_all(clear, 0.1, 20, ["uniform", "halving", "hyperband"])
    scores = {score.name: score for score in found.scores}
    assert scores["budget"] == replay(clear, 0.1, 20).scores[0]
    assert scores["budget"].agreement == 1.0
    assert scores["halving"].agreement < 0.7
    assert scores["hyperband"].agreement < 0.7
    assert all(0 < score.steps <= 0.1 for score in found.scores)
    assert all(score.named is score.false_winners is None for score in found.scores[1:])


def test_baselines_repeat_with_their_seed(clear: Curves) -> None:
    assert replay_all(clear, 0.1, 3, ["hyperband"]) == replay_all(clear, 0.1, 3, ["hyperband"])


def test_uniform_takes_the_whole_grid(clear: Curves) -> None:
    found = replay_all(clear, 1.0, 2, ["uniform"])
    assert (found.scores[1].agreement, found.scores[1].steps) == (1.0, 1.0)


def test_an_unknown_baseline_names_the_nearest(clear: Curves) -> None:
    with pytest.raises(UsageError, match=r"no baseline 'hyperbend'. Did you mean 'hyperband'"):
        replay_all(clear, 0.1, 1, ["hyperbend"])
