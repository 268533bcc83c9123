"""Which weights are released, dropped and opened when: known answers of the papers' definitions, in numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor

from gradgate import (
    LPFT,
    AnnealGradDrop,
    AnnealLayerGradDrop,
    Clock,
    Gate,
    GivenOrder,
    GradDropEpoch,
    GradDropEpochToggle,
    GradFreeze,
    Method,
    MethodState,
    RandomOrder,
    gates,
    map_layers,
)
from gradgate import method as read_method
from gradgate.errors import MethodError
from support.crossed import some_fast
from support.loop import build
from support.masks import MILLION, PER_EPOCH, errors
from support.schedules import FROM_50, NEVER, TWELVE, of_layers, openings, stack

EPOCHS = some_fast("epochs", [3, 5, 10, 20], [3, 5])


def gate_of(method: Method, epoch: int, epochs: int, step: int = 0, group: str = "layers.3") -> Gate:
    """The gate of a layer in one step of an epoch; both count from 1 and 0."""
    clock = Clock((epoch - 1) * PER_EPOCH + step, PER_EPOCH, epochs * PER_EPOCH)
    return method.plan(clock, TWELVE, MethodState(seed=1))[group]


def mask_of(gate: Gate, name: str = "layers.3.weight", seed: int = 1) -> Tensor:
    key = gates.key(seed=seed, stream=gate.stream, name=name, draw=gate.draw)
    return gates.mask(MILLION, lo=gate.lo, hi=gate.hi, key=key)


def masks(method: Method, epochs: int) -> list[Tensor]:
    """What passes in each epoch; the same in all of its steps."""
    for epoch in range(1, epochs + 1):
        assert gate_of(method, epoch, epochs) == gate_of(method, epoch, epochs, step=PER_EPOCH - 1)
    return [mask_of(gate_of(method, epoch, epochs)) for epoch in range(1, epochs + 1)]


# GradDrop-Epoch: released by epoch e of T.


@EPOCHS
def test_a_share_of_e_in_t_is_released_by_epoch_e_and_stays(epochs: int) -> None:
    released = masks(GradDropEpoch(), epochs)
    for epoch, mask in enumerate(released, start=1):
        assert errors(mask, epoch / epochs) < 4
        assert gate_of(GradDropEpoch(), epoch, epochs).hold, "what is not released has not moved"
    assert not any((earlier & ~later).any() for earlier, later in pairwise(released))
    assert released[-1].all()
    assert gate_of(GradDropEpoch(), epochs, epochs).open


@EPOCHS
def test_each_closed_weight_has_the_same_hazard_and_the_last_epoch_releases_the_rest(epochs: int) -> None:
    released = masks(GradDropEpoch(epoch_release="hazard", p=0.7), epochs)
    for epoch, mask in enumerate(released[:-1], start=1):
        assert errors(mask, 1 - 0.7**epoch) < 4
    for earlier, later in pairwise(released[:-1]):
        assert not (earlier & ~later).any()
        assert errors(later[~earlier], 0.3) < 4
    assert released[-1].all()


def test_resampled_masks_have_one_rate_and_are_independent() -> None:
    drawn = masks(GradDropEpoch(epoch_release="resample", p=0.2), 5)
    assert all(errors(mask, 0.8) < 4 for mask in drawn)
    assert all(errors(one & other, 0.64) < 4 for one, other in pairwise(drawn))


@EPOCHS
def test_the_windows_of_toggle_are_disjoint_and_cover_every_weight(epochs: int) -> None:
    drawn = masks(GradDropEpochToggle(), epochs)
    assert all(errors(mask, 1 / epochs) < 4 for mask in drawn)
    assert torch.equal(torch.stack(drawn).sum(0), torch.ones(MILLION, dtype=torch.int64))


def test_toggle_releases_in_the_epoch_in_which_the_cumulative_form_would() -> None:
    def window(method: Method, epoch: int) -> tuple[float, float]:
        gate = gate_of(method, epoch, 5)
        return gate.lo, gate.hi

    for epoch in range(1, 6):
        assert window(GradDropEpochToggle(), epoch) == ((epoch - 1) / 5, epoch / 5)
        assert window(GradDropEpoch(), epoch) == (0.0, epoch / 5)


def test_epoch_scale_divides_by_the_active_share() -> None:
    assert [gate_of(GradDropEpoch(epoch_scale=True), e, 4).scale for e in (1, 2, 3, 4)] == [4, 2, 4 / 3, 1]
    assert [gate_of(GradDropEpochToggle(epoch_scale=True), e, 4).scale for e in (1, 2, 3, 4)] == [4, 4, 4, 4]
    assert {gate_of(GradDropEpoch(), e, 4).scale for e in (1, 2, 3, 4)} == {1}


# Anneal-GradDrop: the rate of epoch e of T.

LINEAR = {
    3: [0.9, 0.45, 0.0],
    5: [0.9, 0.675, 0.45, 0.225, 0.0],
    10: [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0],
    20: [0.9 * (19 - e) / 19 for e in range(20)],
}
LITERAL = {
    3: [0.9, 17 / 30, 7 / 30],
    5: [0.9, 0.7, 0.5, 0.3, 0.1],
    10: LINEAR[10],
    20: [0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0, 0],
}


@pytest.mark.parametrize(("anneal", "table"), [("linear", LINEAR), ("literal", LITERAL)])
@pytest.mark.parametrize("epochs", LINEAR)
def test_the_annealed_rate(epochs: int, anneal: str, table: dict[int, list[float]]) -> None:
    method = AnnealGradDrop(anneal=anneal)  # type: ignore[arg-type]
    for epoch, rate in enumerate(table[epochs], start=1):
        gate = gate_of(method, epoch, epochs, step=4)
        assert gate.lo == pytest.approx(rate, abs=1e-12)
        assert (gate.hi, gate.scale) == (1.0, pytest.approx(1 / (1 - rate)))
        assert AnnealLayerGradDrop(anneal=anneal).rate(  # type: ignore[arg-type]
            Clock((epoch - 1) * PER_EPOCH, PER_EPOCH, epochs * PER_EPOCH)
        ) == pytest.approx(rate, abs=1e-12)
    last = gate_of(method, epochs, epochs)
    assert last.open == (table[epochs][-1] == 0.0), "exactly 0, not nearly"


def test_the_rate_falls_by_steps_on_the_same_line() -> None:
    method = AnnealGradDrop(anneal_unit="step")
    rates = [method.rate(Clock(step, None, 10)) for step in range(10)]
    assert rates == pytest.approx(LINEAR[10])
    assert rates[-1] == 0.0


def test_one_epoch_has_no_decline() -> None:
    assert {AnnealGradDrop().rate(Clock(step, 10, 10)) for step in range(10)} == {0.9}


def test_layers_are_dropped_at_the_annealed_rate() -> None:
    method, steps = AnnealLayerGradDrop(), 500
    for epoch, rate in enumerate(LINEAR[5]):
        plans = [
            method.plan(Clock(epoch * steps + step, steps, 5 * steps), TWELVE, MethodState()) for step in range(steps)
        ]
        dropped = torch.tensor([[plan[group.name].dropped for group in TWELVE.layers] for plan in plans])
        assert errors(dropped, rate) < 4


# When layers open: L = 12, k = 50. Gradual unfreezing is in test_methods.py, FUN in test_fun.py.


def test_linear_probing_ends_after_k_steps() -> None:
    first = openings(LPFT(every=50))
    assert first.pop("head") == 0
    assert set(first.values()) == {51}, "steps 1 to 50 train the head alone"


def test_a_random_order_opens_the_top_layer_first_and_one_more_each_interval() -> None:
    first = openings(RandomOrder(every=50))
    steps = of_layers(first)
    assert steps[11] == 0
    assert sorted(steps[:11]) == FROM_50  # type: ignore[type-var]
    assert steps[:11] not in (FROM_50, FROM_50[::-1])
    assert first["embeddings"] == steps[0]


def test_each_layer_is_as_likely_to_be_drawn_first() -> None:
    method, seeds = RandomOrder(every=50), 1100
    counts = torch.zeros(11)
    for seed in range(seeds):
        plan = method.plan(Clock(49), TWELVE, MethodState(seed=seed))
        counts += torch.tensor([plan[f"layers.{number}"].open for number in range(11)])
    assert counts.sum() == seeds
    assert ((counts - seeds / 11) ** 2 / (seeds / 11)).sum() < chi2.ppf(1 - 1e-4, 10)


def test_a_given_order_is_followed() -> None:
    order = (10, 2, 6, 5, 8, 3, 7, 0, 1, 9, 4)
    for layers in (order, "preset-1"):
        steps = of_layers(openings(GivenOrder(layers=layers, every=50)))
        assert steps[11] == 0
        assert [steps[number] for number in order] == FROM_50


def test_the_nine_presets_differ_and_begin_near_the_top() -> None:
    orders = set()
    for number in range(1, 10):
        steps = of_layers(openings(GivenOrder(layers=f"preset-{number}", every=50)))
        assert sorted(steps) == [0, *FROM_50]  # type: ignore[type-var]
        assert 50 in (steps[9], steps[10])
        orders.add(tuple(steps))
    assert len(orders) == 9


def epochs_of(method: Method, epochs: int, layers: int = 12) -> list[list[int]]:
    """The open layers of each epoch; the same in all of its steps."""
    model, found = stack(layers), []
    for epoch in range(epochs):
        plans = [method.plan(Clock(epoch * 3 + step, 3, 3 * epochs), model, MethodState()) for step in range(3)]
        assert plans[0] == plans[1] == plans[2]
        assert plans[0]["head"].open
        assert plans[0]["embeddings"].open == plans[0]["layers.0"].open
        found.append([number for number in range(layers) if plans[0][f"layers.{number}"].open])
    return found


@pytest.mark.parametrize(("epochs", "each"), [(3, 4), (5, 3), (10, 2), (20, 1)])
def test_gradfreeze_opens_so_many_layers_each_epoch_from_the_top(epochs: int, each: int) -> None:
    opened = epochs_of(GradFreeze(), epochs)
    assert opened == [list(range(max(0, 12 - each * epoch), 12)) for epoch in range(1, epochs + 1)]
    assert opened[-1] == list(range(12))
    upward = epochs_of(GradFreeze(order="bottom-up"), epochs)
    assert upward == [list(range(min(12, each * epoch))) for epoch in range(1, epochs + 1)]


def test_gradfreeze_at_the_papers_two_layers_an_epoch_has_6_of_24_open_in_the_third() -> None:
    assert epochs_of(GradFreeze(layers_per_epoch=2), 10, layers=24)[2] == list(range(18, 24))


def test_gradfreeze_that_is_not_cumulative_trains_the_newest_layers_alone() -> None:
    assert epochs_of(GradFreeze(cumulative=False, layers_per_epoch=5), 4) == [
        [7, 8, 9, 10, 11],
        [2, 3, 4, 5, 6],
        [0, 1],
        [0, 1],
    ]


def test_the_rule_of_the_embeddings_holds_for_every_schedule() -> None:
    for method in (LPFT(freeze_embeddings="always"), RandomOrder(freeze_embeddings="always")):
        assert openings(method)["embeddings"] is NEVER
    for method in (LPFT(freeze_embeddings="never"), RandomOrder(freeze_embeddings="never")):
        assert openings(method)["embeddings"] == 0


@pytest.mark.parametrize("text", ["layer-graddrop:p=0.5", "anneal-layer-graddrop"])
def test_dropping_all_that_can_learn_is_refused_at_once(text: str) -> None:
    layers = map_layers(build("bert"))
    ends = (group for group in layers if group not in layers.layers)
    layers = layers.with_frozen(name for group in ends for name in group.parameter_names)
    read_method(text).check(layers)
    joined = f"{text},mask_target=update" if ":" in text else f"{text}:mask_target=update"
    with pytest.raises(MethodError, match="Use mask_target=grad"):
        read_method(joined).check(layers)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("layer-graddrop:state=drop", "state"),
        ("anneal-layer-graddrop:state=reset", "state"),
        ("gradfreeze:state=drop", "state"),
        ("graddrop:noise=gaussian,mask_target=update", "mask_target"),
        ("anneal-graddrop:anneal=literal,anneal_unit=step", "anneal"),
    ],
)
def test_a_word_that_would_have_no_effect_or_no_meaning_is_refused(text: str, option: str) -> None:
    with pytest.raises(MethodError, match=f"cannot have {option}="):
        read_method(text)
    read_method("layer-graddrop:state=drop,mask_target=update")
    read_method("gradfreeze:state=drop,cumulative=false")
