"""What each method opens when, against known answers from the papers' definitions."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradgate import (
    Clock,
    Combined,
    Freeze,
    Full,
    Gate,
    GradDrop,
    Gradual,
    Head,
    LayerGradDrop,
    Method,
    MethodState,
    Mixout,
    Plan,
    map_layers,
    method,
)
from gradgate.errors import MethodError
from support.schedules import FROM_50, NEVER, TWELVE, of_layers, open_groups, openings, stack
from support.tiny_models import TINY

# full, head, freeze


def test_full_opens_everything() -> None:
    assert open_groups(Full().plan(Clock(), TWELVE, MethodState())) == set(TWELVE.names)


def test_head_opens_the_head_alone() -> None:
    assert openings(Head(), steps=3) == {**dict.fromkeys(TWELVE.names, NEVER), "head": 0}
    assert Head().reaches(TWELVE) == {"head"}


@pytest.mark.parametrize("closed", [0, 1, 6, 9, 11, 12])
def test_freeze_closes_the_embeddings_and_the_lowest_layers(closed: int) -> None:
    upper = {f"layers.{number}" for number in range(closed, 12)}
    assert open_groups(Freeze(layers=closed).plan(Clock(), TWELVE, MethodState())) == upper | {"head"}
    assert Freeze(layers=closed).reaches(TWELVE) == upper | {"head"}


def test_bitfit_needs_biases_in_the_layers() -> None:
    with pytest.raises(MethodError, match="The layers of LlamaForCausalLM have no biases, so 'bitfit' would train"):
        method("bitfit").check(map_layers(TINY["llama"]()))
    method("bitfit").check(map_layers(TINY["bert"]()))


def test_freezing_every_layer_is_the_head_alone() -> None:
    assert Freeze(layers=12).plan(Clock(), TWELVE, MethodState()) == Head().plan(Clock(), TWELVE, MethodState())


def test_freezing_more_layers_than_there_are_is_refused() -> None:
    Freeze(layers=12).check(TWELVE)
    with pytest.raises(MethodError, match=r"'freeze:layers=99' asks for 99 closed layers, but the model has 12"):
        Freeze(layers=99).check(TWELVE)


# gradual: L = 12, k = 50

FROM_100 = [*FROM_50[1:], 600]


@pytest.mark.parametrize(
    ("timing", "bottom_to_top"),
    [
        ("text", [*reversed(FROM_50), 0]),
        ("code_gu", [*reversed(FROM_100), 0]),
        ("algorithm", [*reversed(FROM_100), 50]),
    ],
)
def test_top_down_known_answers(timing: str, bottom_to_top: list[int]) -> None:
    first = openings(Gradual(every=50, timing=timing))  # type: ignore[arg-type]
    assert of_layers(first) == bottom_to_top
    assert first["head"] == 0
    assert first["embeddings"] == first["layers.0"]


@pytest.mark.parametrize(
    ("rev_start", "timing", "bottom_to_top"),
    [
        ("top", "text", [*FROM_50, 0]),
        ("top", "code_gu", [*FROM_100, 0]),
        ("top", "algorithm", [*FROM_100, 50]),
        ("none", "text", [0, *FROM_50]),
        ("none", "code_gu", [0, *FROM_100]),
        ("none", "algorithm", [50, *FROM_100]),
    ],
)
def test_bottom_up_known_answers(rev_start: str, timing: str, bottom_to_top: list[int]) -> None:
    method = Gradual(every=50, order="bottom-up", timing=timing, rev_start=rev_start)  # type: ignore[arg-type]
    first = openings(method)
    assert of_layers(first) == bottom_to_top
    assert first["head"] == 0
    assert first["embeddings"] == first["layers.0"]


@pytest.mark.parametrize("order", ["top-down", "bottom-up"])
def test_the_rule_of_the_embeddings(order: str) -> None:
    def embeddings(rule: str) -> int | None:
        return openings(Gradual(order=order, freeze_embeddings=rule))["embeddings"]  # type: ignore[arg-type]

    assert embeddings("never") == 0
    assert embeddings("always") is NEVER
    assert embeddings("with_bottom") == (550 if order == "top-down" else 50)


def test_embeddings_that_stay_closed_need_not_be_in_the_optimizer() -> None:
    assert "embeddings" not in Gradual(freeze_embeddings="always").reaches(TWELVE)
    assert Gradual().reaches(TWELVE) == set(TWELVE.names)


def test_a_layer_learns_from_the_step_decided_before_its_forward() -> None:
    method = Gradual(every=50)
    assert "layers.10" not in open_groups(method.plan(Clock(48), TWELVE, MethodState()))
    assert "layers.10" in open_groups(method.plan(Clock(49), TWELVE, MethodState()))


@pytest.mark.parametrize("order", ["top-down", "bottom-up"])
@pytest.mark.parametrize("layers", [1, 2])
def test_few_layers_have_an_order_too(layers: int, order: str) -> None:
    first = openings(Gradual(every=10, order=order), stack(layers), steps=20)  # type: ignore[arg-type]
    assert of_layers(first) == [[0], [10, 0]][layers - 1]


def test_an_interval_of_one_step() -> None:
    assert of_layers(openings(Gradual(every=1, timing="algorithm"), stack(3), steps=9)) == [3, 2, 0]


def test_a_model_without_a_head_or_embeddings() -> None:
    layers = stack(3, embeddings=False, head=False)
    assert openings(Gradual(every=10), layers, steps=40) == {"layers.0": 20, "layers.1": 10, "layers.2": 0}


def test_shared_layers_have_no_order() -> None:
    with pytest.raises(MethodError, match="shares one layer between all depths"):
        Gradual().check(stack(1, uses=12))
    GradDrop().check(stack(1, uses=12))


# graddrop


@given(st.floats(0.0, 1.0, exclude_max=True), st.integers(0, 10**6))
def test_graddrop_masks_the_layers_and_nothing_else(p: float, step: int) -> None:
    plan = GradDrop(p=p).plan(Clock(step), TWELVE, MethodState(seed=3))
    assert plan["embeddings"] == plan["head"] == Gate()
    for group in TWELVE.layers:
        gate = plan[group.name]
        assert (gate.lo, gate.hi, gate.draw, gate.hold) == (p, 1.0, step, False)
        assert gate.scale == pytest.approx(1 / (1 - p))


def test_graddrop_scales_what_passes_by_a_quarter_more_at_its_default() -> None:
    assert GradDrop().plan(Clock(), TWELVE, MethodState())["layers.0"].scale == 1.25


def test_graddrop_can_hold_what_is_masked() -> None:
    assert GradDrop(mask_target="update").plan(Clock(), TWELVE, MethodState())["layers.3"].hold


def test_each_step_has_a_mask_of_its_own() -> None:
    draws = [GradDrop().plan(Clock(step), TWELVE, MethodState())["layers.0"].draw for step in range(5)]
    assert draws == [0, 1, 2, 3, 4]


# layer-graddrop


def dropped(method: LayerGradDrop, clock: Clock, seed: int = 0) -> list[bool]:
    plan = method.plan(clock, TWELVE, MethodState(seed=seed))
    assert plan["embeddings"].open
    assert plan["head"].open
    return [plan[group.name].share == 0.0 for group in TWELVE.layers]


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.9])
def test_a_layer_is_dropped_with_probability_p(p: float) -> None:
    drawn = torch.tensor([dropped(LayerGradDrop(p=p), Clock(step)) for step in range(2000)]).double()
    error = (p * (1 - p) / drawn.numel()) ** 0.5
    assert abs(drawn.mean().item() - p) < 4 * error
    assert ((drawn.mean(dim=0) - p).abs() < 4 * error * 12**0.5).all(), "each layer has the same rate"


def test_layers_and_steps_are_drawn_independently() -> None:
    drawn = torch.tensor([dropped(LayerGradDrop(p=0.5), Clock(step)) for step in range(4000)])
    four_errors = 4 * 0.5 / 4000**0.5
    for lower in range(11):
        same = (drawn[:, lower] == drawn[:, lower + 1]).double().mean().item()
        assert abs(same - 0.5) < four_errors
    assert abs((drawn[1:] == drawn[:-1]).double().mean().item() - 0.5) < four_errors


def test_the_draw_depends_on_seed_and_step_alone() -> None:
    method = LayerGradDrop(p=0.5)
    once = [dropped(method, Clock(step), seed=1) for step in range(20)]
    assert once == [dropped(LayerGradDrop(p=0.5), Clock(step, 7, 99), seed=1) for step in range(20)]
    assert once != [dropped(method, Clock(step), seed=2) for step in range(20)]


def test_one_draw_an_epoch() -> None:
    method = LayerGradDrop(p=0.5, layer_unit="epoch")
    drawn = [dropped(method, Clock(step, steps_per_epoch=5, total_steps=40)) for step in range(40)]
    epochs = [drawn[5 * epoch : 5 * epoch + 5] for epoch in range(8)]
    assert all(step == epoch[0] for epoch in epochs for step in epoch)
    assert len({tuple(epoch[0]) for epoch in epochs}) > 4
    with pytest.raises(MethodError, match="steps_per_epoch"):
        dropped(method, Clock())


def test_a_dropped_layer_may_move_by_momentum_or_not_at_all() -> None:
    def gate(target: str) -> Gate:
        method = LayerGradDrop(p=0.99, mask_target=target)  # type: ignore[arg-type]
        return min(method.plan(Clock(), TWELVE, MethodState()).values(), key=lambda gate: gate.share)

    assert gate("grad").dropped
    assert not gate("grad").closed
    assert gate("update").closed


def test_kept_layers_are_scaled_on_request_only() -> None:
    assert {g.scale for g in LayerGradDrop(p=0.5).plan(Clock(), TWELVE, MethodState()).values() if g.share} == {1.0}
    plan = LayerGradDrop(p=0.5, layer_scale=True).plan(Clock(), TWELVE, MethodState())
    assert {plan[group.name].scale for group in TWELVE.layers if plan[group.name].share} == {2.0}
    assert plan["head"].scale == plan["embeddings"].scale == 1.0


# options and purity


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
@pytest.mark.parametrize("cls", [GradDrop, LayerGradDrop])
def test_a_share_out_of_range_is_refused(cls: type[GradDrop], p: float) -> None:
    with pytest.raises(MethodError, match=rf"{cls.name}.* cannot have p={p} \(expected 0 <= p < 1"):
        cls(p=p)


def test_counts_out_of_range_are_refused() -> None:
    with pytest.raises(MethodError, match=r"'gradual' cannot have every=0 \(expected 1 or more"):
        Gradual(every=0)
    with pytest.raises(MethodError, match=r"'freeze' cannot have layers=-1 \(expected 0 or more"):
        Freeze(layers=-1)


@pytest.mark.parametrize(
    ("cls", "option", "expected"),
    [
        (GradDrop, "mask_target", "grad, update"),
        (LayerGradDrop, "mask_target", "grad, update"),
        (LayerGradDrop, "layer_unit", "batch, epoch"),
        (Gradual, "order", "top-down, bottom-up"),
        (Gradual, "timing", "text, code_gu, algorithm"),
        (Gradual, "rev_start", "top, none"),
        (Gradual, "freeze_embeddings", "with_bottom, never, always"),
    ],
)
def test_a_word_that_is_no_choice_is_refused(cls: type[Method], option: str, expected: str) -> None:
    with pytest.raises(MethodError, match=rf"cannot have {option}=wrong \(expected one of {expected}\)"):
        cls(**{option: "wrong"})


def test_every_wrong_option_is_named_at_once() -> None:
    with pytest.raises(MethodError, match=r"every=0.*order=up"):
        Gradual(every=0, order="up")  # type: ignore[arg-type]


def test_methods_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        GradDrop().p = 0.5  # type: ignore[misc]


def test_the_gates_of_a_plan_say_what_they_do() -> None:
    assert Gate().open
    assert not Gate().sparse
    assert Gate(lo=0.0, hi=0.0).closed
    assert Gate(lo=0.0, hi=0.0, hold=False).dropped
    assert Gate(lo=0.25).share == 0.75
    assert Gate(lo=0.25).sparse
    assert Gate(scale=2.0).sparse
    assert Gate(lo=0.8, hi=0.2).closed


@pytest.mark.parametrize(
    "wrong",
    [{"lo": -1.0}, {"hi": 1.5}, {"lr": -1.0}, {"lo": float("nan")}, {"hi": "1"}, {"lr": None}, {"scope": "decoder"}],
)
def test_a_gate_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MethodError, match="A gate cannot have"):
        Gate(**wrong)


def test_a_plan_takes_gates_alone() -> None:
    for value in ("yes", 0.5, None):
        with pytest.raises(MethodError, match=r"head=.* is not a gate\. Expected True, False or a Gate"):
            Plan.opening(TWELVE, {"head": value})
    with pytest.raises(MethodError, match=r"groups=\['head'\]: expected a mapping"):
        Plan.opening(TWELVE, ["head"])
    with pytest.raises(MethodError, match=r"head=True is not a gate\. .*Plan\.opening\(layers, {'head': True}\)"):
        Plan({"head": True})


@pytest.mark.parametrize("methods", [3, ("full", "mixout"), [Full(), "mixout"]])
def test_only_methods_are_combined(methods: Any) -> None:
    with pytest.raises(MethodError, match=r"expected several methods\. Read a text"):
        Combined(methods=methods)
    assert Combined(methods=[Full(), Mixout()]) == method("full+mixout")


@pytest.mark.parametrize("wrong", [{"step": "3"}, {"total_steps": 2.5}, {"steps_per_epoch": 0}])
def test_a_clock_counts_whole_steps(wrong: dict[str, Any]) -> None:
    with pytest.raises(MethodError, match="steps are counted in whole numbers"):
        Clock(**wrong)
