"""LISA: which layers it draws, how often, and what it refuses."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest

from gradgate import LISA, Clock, LayerMap, MethodState, Tuner, map_layers
from gradgate import method as read_method
from gradgate.errors import MethodError
from support.loop import adamw, build, fisher_data, step
from support.schedules import open_groups, stack

TWELVE = stack(12)


def drawn(method: LISA, step: int, layers: LayerMap = TWELVE, seed: int = 0) -> frozenset[str]:
    opened = open_groups(method.plan(Clock(step), layers, MethodState(seed=seed)))
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
    four, periods = stack(4), 3000
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


# Draws by what is measured.


def weighted(draw: str, scores: dict[str, float], periods: int, **options: object) -> list[frozenset[str]]:
    """The layers of each period for a model of four, under what was measured."""
    method = LISA(draw=draw, every=1, **options)  # type: ignore[arg-type]
    memory = MethodState(notes={"scores": scores, "measured": 0})
    return [
        frozenset(open_groups(method.plan(Clock(step), stack(4), memory)) - {"embeddings", "head"})
        for step in range(periods)
    ]


OUTLIERS = {"layers.0": 0.4, "layers.1": 0.3, "layers.2": 0.2, "layers.3": 0.1}


def test_one_layer_is_drawn_in_proportion_to_its_outliers() -> None:
    periods = 3000
    draws = weighted("outlier", OUTLIERS, periods, layers=1)
    for name, share in OUTLIERS.items():
        assert abs(draws.count(frozenset({name})) / periods - share) < 4 * (share * (1 - share) / periods) ** 0.5


def test_several_layers_are_drawn_one_after_another_without_putting_back() -> None:
    """As ``numpy.random.choice(replace=False, p=...)`` does, which OWS's authors use."""
    periods = 3000
    draws = weighted("outlier", OUTLIERS, periods, layers=2)
    for one, other in combinations(OUTLIERS, 2):
        first, second = OUTLIERS[one], OUTLIERS[other]
        share = first * second / (1 - first) + second * first / (1 - second)
        error = (share * (1 - share) / periods) ** 0.5
        assert abs(draws.count(frozenset({one, other})) / periods - share) < 4 * error


def test_a_layer_without_outliers_waits_until_there_is_no_other() -> None:
    scores = {**OUTLIERS, "layers.3": 0.0}
    assert all("layers.3" not in drawn for drawn in weighted("outlier", scores, 200, layers=3))
    assert weighted("outlier", dict.fromkeys(OUTLIERS, 0.0), 50) == weighted("uniform", {}, 50)


def test_equal_weights_draw_as_no_weights_do() -> None:
    equal = dict.fromkeys(OUTLIERS, 0.25)
    assert weighted("outlier", equal, 50) == weighted("uniform", {}, 50)


def test_the_weights_of_gradients_are_a_softmax_of_their_root_mean_squares() -> None:
    layers = map_layers(build("llama"))
    sizes = [group.parameter_count for group in layers.layers]
    norms = [1.0, 2.0, 3.0]  # root mean squares; in units of their mean 0.5, 1 and 1.5
    scores = {f"layers.{i}": norms[i] ** 2 * sizes[i] for i in range(3)}
    method, periods = LISA(layers=1, every=1, draw="gradient", temperature=0.5), 3000
    memory = MethodState(notes={"scores": scores, "measured": 0})
    drawn = [
        next(iter(open_groups(method.plan(Clock(step), layers, memory)) - {"embeddings", "head"}))
        for step in range(periods)
    ]
    weights = [math.exp(norm / 2.0 / 0.5) for norm in norms]
    for number, weight in enumerate(weights):
        share = weight / sum(weights)
        found = drawn.count(f"layers.{number}") / periods
        assert abs(found - share) < 4 * (share * (1 - share) / periods) ** 0.5


def test_gradients_are_measured_in_all_layers_first_and_later_in_those_that_learned() -> None:
    model = build("bert")
    optimizer, asked = adamw(model), []

    def data(step: int) -> object:
        asked.append(step)
        return fisher_data(model)(step)

    with Tuner(model, optimizer, "lisa:layers=1,every=2,draw=gradient,batches=1", fisher_data=data) as tuner:
        assert set(tuner.memory.notes["scores"]) == {"layers.0", "layers.1", "layers.2"}
        first, [learned] = dict(tuner.memory.notes["scores"]), open_layers(tuner)
        for number in range(2):
            step(model, optimizer, number)
        second = tuner.memory.notes["scores"]
        assert asked == [0, 2]
        assert {name for name in first if first[name] != second[name]} == {learned}


def open_layers(tuner: Tuner) -> list[str]:
    return [name for name, gate in tuner.plan.items() if gate.open and name.startswith("layers.")]


def test_closed_ends_leave_a_task_s_head_open_and_close_an_output_layer_over_tokens() -> None:
    for name, head in (("bert", {"head"}), ("llama", set())):
        layers, method = map_layers(build(name)), LISA(layers=3, ends="closed")
        assert open_groups(method.plan(Clock(0), layers, MethodState())) == {f"layers.{i}" for i in range(3)} | head


@pytest.mark.parametrize("option", ["batches=0", "threshold=0", "temperature=0", "temperature=inf", "draw=luck"])
def test_options_of_draws_out_of_range_are_refused(option: str) -> None:
    with pytest.raises(MethodError, match=option.partition("=")[0]):
        read_method(f"lisa:{option}")


@pytest.mark.parametrize(("text", "most"), [("lisa:layers=1,every=1", 1), ("lisa:layers=1,every=1,state=keep", 3)])
def test_closed_layers_store_no_state_by_default(text: str, most: int) -> None:
    model = build("bert")
    optimizer, layers = adamw(model), map_layers(model)
    stored = []
    with Tuner(model, optimizer, text, total_steps=12, seed=1, layers=layers):
        for number in range(12):
            step(model, optimizer, number)
            stored.append({layers.group_of(n).name for n, p in model.named_parameters() if optimizer.state.get(p)})
    assert max(len(names - {"embeddings", "head"}) for names in stored) == most


def test_layers_in_which_nothing_can_learn_are_not_drawn() -> None:
    layers = map_layers(build("bert"))
    layers = layers.with_frozen(name for group in layers.layers[:2] for name in group.parameter_names)
    can = {group.name for group in layers.layers if layers.can_learn(group.name)}
    assert len(can) == layers.layer_count - 2
    found = [drawn(LISA(layers=1, every=1), step, layers) for step in range(30)]
    assert set().union(*found) == can
    with pytest.raises(MethodError, match=rf"but the model has {len(can)} that can learn"):
        LISA(layers=len(can) + 1).check(layers)
