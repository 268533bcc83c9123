"""What is closed does not move, what is open does, and nothing else changes: in a bare loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from gradgate import Clock, Gate, Gradual, LayerMap, Method, MethodState, Plan, Tuner, map_layers
from gradgate.methods import CLOSED, OPEN
from support.crossed import some_fast
from support.loop import adamw, assert_same_weights, build, layers_of, learnable, moved, same, step, train, weights
from support.tiny_models import TINY, VARIED, tiny_batch

ARCHITECTURES = some_fast("name", list(TINY), VARIED)


@dataclass(frozen=True, kw_only=True)
class Blink(Method):
    """The top layer is closed in every second stretch of ``every`` steps."""

    name: ClassVar[str] = "blink"
    every: int = 2

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        top = CLOSED if clock.step // self.every % 2 else OPEN
        return Plan({group.name: top if group == layers.layers[-1] else OPEN for group in layers})


def names_of(model: torch.nn.Module, *groups: str) -> set[str]:
    return {name for group in layers_of(model) if group.name in groups for name in group.parameter_names}


# Semantics 1: closed means untouched.


@some_fast("name", list(TINY), ["bert", "t5", "albert", "mixtral"])
def test_closed_groups_keep_every_bit_under_weight_decay_and_open_ones_learn(name: str) -> None:
    model = build(name, dropout=True)
    before, learns = weights(model), learnable(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=1", audit=True) as tuner:
        train(model, optimizer, 4)
        closed = names_of(model, "embeddings", "layers.0")
        assert {group for group, gate in tuner.plan.items() if gate.closed} == {"embeddings", "layers.0"}
        assert learns - closed <= moved(before, model) <= set(before) - closed
        assert not closed & {n for n, p in model.named_parameters() if optimizer.state.get(p)}, "no state either"


@ARCHITECTURES
def test_gradual_moves_each_group_from_its_step_on(name: str) -> None:
    model = build(name, dropout=True)
    layers = map_layers(model)
    if layers.shared_layers:
        pytest.skip("one layer runs at every depth")
    before, learns = weights(model), learnable(model)
    optimizer = adamw(model)
    method = Gradual(every=1)
    steps = len(layers)
    seen: list[set[str]] = []
    with Tuner(model, optimizer, method, audit=True, layers=layers):
        train(model, optimizer, steps, after=lambda _: seen.append(moved(before, model)))
    opened: set[str] = set()
    for number in range(steps):
        plan = method.plan(Clock(number), layers, MethodState())
        opened |= names_of(model, *(group for group, gate in plan.items() if gate.open))
        assert opened & learns <= seen[number] <= opened, f"step {number + 1}"
    assert opened == set(before)


@some_fast("name", list(TINY), ["bert", "gpt2", "t5", "albert", "mixtral", "vit"])
def test_graddrop_trains_every_architecture(name: str) -> None:
    model = build(name, dropout=True)
    before, learns = weights(model), learnable(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "graddrop:p=0.5,mask_target=update", audit=True):
        train(model, optimizer, 2)
    assert learns <= moved(before, model)


def test_a_closed_group_has_no_gradient_and_takes_no_part_in_backward() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=2"):
        model(**tiny_batch(model)).loss.backward()
        closed = names_of(model, "embeddings", "layers.0", "layers.1")
        for name, parameter in model.named_parameters():
            assert (parameter.grad is None) == (name in closed), name
            assert parameter.requires_grad == (name not in closed), name
        assert not model.bert.encoder.layer[1](torch.randn(1, 3, 16)).requires_grad


def test_a_group_that_closes_keeps_its_optimizer_state() -> None:
    model = build("bert")
    optimizer = adamw(model)
    top = names_of(model, "layers.2")
    parameters = dict(model.named_parameters())
    with Tuner(model, optimizer, Blink(every=2), audit=True):
        train(model, optimizer, 2)
        held = {n: {k: v.clone() for k, v in optimizer.state[parameters[n]].items()} for n in top}
        before = weights(model)
        train(model, optimizer, [2, 3])
        assert moved(before, model) == set(before) - top
        for name in top:
            state = optimizer.state[parameters[name]]
            assert all(torch.equal(held[name][what], state[what]) for what in held[name]), name
        train(model, optimizer, [4])
        assert moved(before, model) == set(before)
        assert all(optimizer.state[parameters[name]]["step"] == 3 for name in top)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_what_a_group_gathered_before_it_closed_is_not_applied(set_to_none: bool) -> None:
    model = build("bert")
    optimizer = adamw(model)
    before = weights(model)
    with Tuner(model, optimizer, "freeze:layers=1", audit=True):
        for number in range(3):
            model(**tiny_batch(model, seed=number)).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=set_to_none)
    assert moved(before, model) == set(before) - names_of(model, "embeddings", "layers.0")


def test_gradients_from_before_the_tuner_do_not_move_what_it_closes() -> None:
    model = build("bert")
    optimizer = adamw(model)
    before = weights(model)
    model(**tiny_batch(model)).loss.backward()
    with Tuner(model, optimizer, "head", audit=True):
        left = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
        assert left == names_of(model, "head"), "nor do they count in clipping"
        optimizer.step()
    assert moved(before, model) == names_of(model, "head")


# Nothing else changes.


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_full_is_the_training_without_a_tuner(name: str) -> None:
    models = []
    for tuned in (False, True):
        model = build(name, dropout=True)
        optimizer = adamw(model)
        torch.manual_seed(7)
        tuner = Tuner(model, optimizer, "full", audit=True) if tuned else None
        train(model, optimizer, 3, clip=1.0)
        if tuner:
            tuner.detach()
        models.append(model)
    assert_same_weights(*models)


def test_freeze_is_the_same_as_closing_by_hand() -> None:
    tuned, by_hand = build("bert", dropout=True), build("bert", dropout=True)
    optimizer = adamw(tuned)
    torch.manual_seed(7)
    with Tuner(tuned, optimizer, "freeze:layers=1"):
        train(tuned, optimizer, 5, clip=0.5)
    for name in names_of(by_hand, "embeddings", "layers.0"):
        by_hand.get_parameter(name).requires_grad_(False)
    by_hand.bert.embeddings.eval()
    by_hand.bert.encoder.layer[0].eval()
    torch.manual_seed(7)
    train(by_hand, adamw(by_hand), 5, clip=0.5)
    assert_same_weights(tuned, by_hand)


# Semantics 4: the clock.


def test_the_clock_counts_steps_not_backward_passes() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "gradual:every=2", total_steps=9, steps_per_epoch=3) as tuner:
        for done in range(3):
            assert tuner.clock == Clock(done, 3, 9)
            for micro in range(4):
                model(**tiny_batch(model, seed=micro)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert tuner.clock.step == 3


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_a_scaler_skips_is_not_one(fused: bool) -> None:
    model = build("bert")
    optimizer = adamw(model, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = weights(model)
    clock = []
    with Tuner(model, optimizer, "gradual:every=2", audit=True) as tuner:
        for number in range(3):
            loss = model(**tiny_batch(model, seed=number)).loss
            scaler.scale(loss * (float("inf") if number == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            clock.append(tuner.clock.step)
            if number == 0:
                first = weights(model)
            elif number == 1:
                assert not moved(first, model)
                assert "layers.1" in {group for group, gate in tuner.plan.items() if gate.open}
                assert "layers.0" in {group for group, gate in tuner.plan.items() if gate.closed}
    assert clock == [1, 1, 2]
    assert moved(before, model) == names_of(model, "head", "layers.2", "layers.1")


def test_a_learning_rate_schedule_and_the_tuner_live_together() -> None:
    model = build("bert")
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: done / 3)
    with Tuner(model, optimizer, "gradual:every=1", audit=True) as tuner:
        train(model, optimizer, 3, after=lambda _: schedule.step())
        assert tuner.clock.step == 3


# What the tuner tells.


def test_the_plan_is_a_mapping_from_groups_to_gates() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "graddrop:p=0.25") as tuner:
        assert list(tuner.plan) == ["embeddings", "layers.0", "layers.1", "layers.2", "head"]
        assert tuner.plan["head"] == Gate()
        assert (tuner.plan["layers.1"].lo, tuner.plan["layers.1"].hi) == (0.25, 1.0)


def test_the_open_share_counts_parameters() -> None:
    model = build("bert")
    sizes = {group.name: group.parameter_count for group in map_layers(model)}
    total = sum(p.numel() for p in model.parameters())
    optimizer = adamw(model)
    with Tuner(model, optimizer, "gradual:every=2") as tuner:
        stages = [sizes["head"] + sizes["layers.2"]]
        stages.append(stages[0] + sizes["layers.1"])
        stages.append(total)
        assert tuner.open_fraction == stages[0] / total
        assert tuner.mean_open_fraction == 0.0
        train(model, optimizer, 5)
        assert tuner.open_fraction == 1.0
        assert tuner.mean_open_fraction == pytest.approx((stages[0] + 2 * stages[1] + 2 * stages[2]) / 5 / total)
        assert tuner.parameters_opened == total
        assert [phase.step for phase in tuner.timeline.phases] == [0, 1, 3]


def test_a_sparse_gate_counts_with_its_share() -> None:
    model = build("bert")
    layers = map_layers(model)
    inner = sum(group.parameter_count for group in layers.layers) / layers.parameter_count
    optimizer = adamw(model)
    with Tuner(model, optimizer, "graddrop:p=0.25") as tuner:
        train(model, optimizer, 2)
        assert tuner.open_fraction == pytest.approx(1 - 0.25 * inner)
        assert tuner.mean_open_fraction == pytest.approx(1 - 0.25 * inner)


def test_tied_weights_are_one_parameter() -> None:
    model = build("gpt2")
    before = weights(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=0", audit=True):
        train(model, optimizer, 3)
    assert same(before["transformer.wte.weight"], model.lm_head.weight)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert "transformer.h.0.mlp.c_fc.weight" in moved(before, model)


def test_a_wrapped_model_is_trained_like_the_model_in_it() -> None:
    plain, wrapped = build("bert"), build("bert")
    for model, outer in ((plain, plain), (wrapped, torch.nn.DataParallel(wrapped))):
        optimizer = adamw(model)
        with Tuner(outer, optimizer, "graddrop:p=0.5", seed=3):
            step(model, optimizer, 0)
    assert_same_weights(plain, wrapped)


def test_an_optimizer_that_calls_the_step_of_its_base_steps_once() -> None:
    class Clamped(torch.optim.AdamW):
        def step(self, closure: None = None) -> None:  # type: ignore[override]
            super().step()
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.data.clamp_(-2.0, 2.0)

    plain, nested = build("bert"), build("bert")
    optimizers = [adamw(plain), Clamped(nested.parameters(), lr=1e-2, weight_decay=0.1)]
    for model, optimizer in zip((plain, nested), optimizers, strict=True):
        with Tuner(model, optimizer, "graddrop:p=0.5,mask_target=update", audit=True) as tuner:
            train(model, optimizer, 4)
            assert tuner.clock.step == 4
    assert_same_weights(plain, nested)


def test_a_step_that_fails_is_not_one_and_the_next_one_counts() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "gradual:every=2", audit=True) as tuner:
        train(model, optimizer, 1)
        betas, optimizer.param_groups[0]["betas"] = optimizer.param_groups[0]["betas"], None
        with pytest.raises(TypeError):
            step(model, optimizer, 1)
        assert tuner.clock.step == 1
        optimizer.param_groups[0]["betas"] = betas
        train(model, optimizer, [1, 2])
        assert tuner.clock.step == 3
