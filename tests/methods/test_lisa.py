"""LISA: which layers it draws, how often, and what it refuses."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from gradgate import LISA, Clock, LayerMap, Memory, Tuner
from gradgate.errors import MethodError
from support.loop import adamw, build
from support.schedules import open_groups, stack

TWELVE = stack(12)


def drawn(method: LISA, step: int, layers: LayerMap = TWELVE, seed: int = 0) -> frozenset[str]:
    opened = open_groups(method.plan(Clock(step), layers, Memory(seed=seed)))
    assert {"embeddings", "head"} <= opened
    return frozenset(opened - {"embeddings", "head"})


@pytest.mark.parametrize("layers", [1, 2, 5, 12])
def test_so_many_layers_learn_at_a_time(layers: int) -> None:
    assert {len(drawn(LISA(layers=layers, every=1), step)) for step in range(50)} == {layers}


def test_a_draw_holds_for_its_period_and_depends_on_the_seed() -> None:
    method = LISA(layers=2, every=20)
    periods = [[drawn(method, 20 * period + step) for step in range(20)] for period in range(30)]
    assert all(len(set(period)) == 1 for period in periods)
    assert len({period[0] for period in periods}) > 10
    assert [drawn(method, 20 * period, seed=1) for period in range(30)] != [period[0] for period in periods]


def test_every_pair_of_layers_is_as_likely() -> None:
    four, periods = stack(4), 6000
    method = LISA(layers=2, every=1)
    draws = [drawn(method, period, four) for period in range(periods)]
    pairs = [frozenset(pair) for pair in combinations((group.name for group in four.layers), 2)]
    share = 1 / len(pairs)
    error = (share * (1 - share) / periods) ** 0.5
    assert all(abs(draws.count(pair) / periods - share) < 4 * error for pair in pairs)
    # Draws of neighbouring periods are independent.
    same = sum(one == other for one, other in pairwise(draws)) / (periods - 1)
    assert abs(same - share) < 4 * error


@pytest.mark.parametrize(("layers", "every"), [(0, 20), (2, 0)])
def test_options_out_of_range_are_refused(layers: int, every: int) -> None:
    with pytest.raises(MethodError, match=r"'lisa' cannot have (layers|every)=0"):
        LISA(layers=layers, every=every)


def test_more_layers_than_there_are_is_refused() -> None:
    LISA(layers=12).check(TWELVE)
    with pytest.raises(MethodError, match=r"'lisa:layers=13' draws 13 layers at a time, but the model has 12"):
        LISA(layers=13).check(TWELVE)


def test_one_layer_for_all_depths_is_refused() -> None:
    model = build("albert")
    with pytest.raises(MethodError, match="shares one layer between all depths"):
        Tuner(model, adamw(model), "lisa:layers=1")
