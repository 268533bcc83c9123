"""Learning rates that differ between layers, in force: exact, and the optimizer's groups are left alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import gradgate as gg
from gradgate import Clock, Gate, Gradual, LayerMap, LayerwiseRates, Method, MethodState, Plan, Tuner, map_layers
from gradgate.errors import AttachError, SelectorError, UsageError
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, batch, build, fisher_data, momentum, step, train, weights

OPTIMIZERS = pytest.mark.parametrize("optimizer_of", [adamw, momentum])


def by_hand(model: nn.Module, rates: Mapping[str, float]) -> list[dict[str, Any]]:
    """One parameter group for each layer, with the rate that it should have."""
    return [
        {"params": [model.get_parameter(name) for name in group.parameter_names], "lr": 1e-2 * rates[group.name]}
        for group in map_layers(model)
    ]


@OPTIMIZERS
def test_layerwise_rates_are_those_of_groups_made_by_hand(optimizer_of: Callable[..., Any]) -> None:
    ours, theirs = build("bert"), build("bert")
    optimizer = optimizer_of(ours, lr=1e-2)
    with Tuner(ours, optimizer, "layerwise-lr:decay=0.5", audit=True):
        train(ours, optimizer, 4)
    rates = LayerwiseRates(decay=0.5).rates(Clock(), map_layers(theirs), MethodState())
    reference = optimizer_of(theirs, lr=1e-2)
    reference.param_groups[:] = [{**reference.param_groups[0], **group} for group in by_hand(theirs, rates)]
    train(theirs, reference, 4)
    assert_same_weights(ours, theirs)


@OPTIMIZERS
def test_a_warm_up_is_that_of_rates_set_by_hand_under_a_scheduler(optimizer_of: Callable[..., Any]) -> None:
    def falling(done: int) -> float:
        return 1.0 - done / 10

    schedule = Gradual(every=2, warm_open=3)
    ours, theirs = build("bert"), build("bert")
    optimizer = optimizer_of(ours, lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, falling)
    own = list(optimizer.param_groups)
    with Tuner(ours, optimizer, schedule, audit=True):
        for done in range(8):
            step(ours, optimizer, done)
            scheduler.step()
            assert [group is kept for group, kept in zip(optimizer.param_groups, own, strict=True)] == [True]
            assert optimizer.param_groups[0]["lr"] == 1e-2 * falling(done + 1)
            assert len(optimizer.param_groups[0]["params"]) == len(list(ours.parameters()))

    layers = map_layers(theirs)
    reference = optimizer_of(theirs, lr=1e-2)
    reference.param_groups[:] = [
        {**reference.param_groups[0], **group} for group in by_hand(theirs, dict.fromkeys(layers.names, 1.0))
    ]
    for done in range(8):
        plan = schedule.plan(Clock(done), layers, MethodState())
        for group, gate in zip(reference.param_groups, plan.values(), strict=True):
            group["lr"] = 1e-2 * falling(done) * gate.lr
            for parameter in group["params"]:
                parameter.requires_grad_(not gate.closed)
        step(theirs, reference, done)
    assert_same_weights(ours, theirs)


# Factors by selector.


@OPTIMIZERS
def test_selected_weights_learn_as_in_groups_made_by_hand(optimizer_of: Callable[..., Any]) -> None:
    ours, theirs = build("llama"), build("llama")
    optimizer = optimizer_of(ours, lr=1e-2)
    scale = {"head": 10.0, "layers.*.mlp": 0.5}
    with Tuner(ours, optimizer, "gradual:every=2", lr_scale=scale, audit=True) as tuner:
        train(ours, optimizer, 6)
    reference = optimizer_of(theirs, lr=1e-2)
    only = {text: set(gg.select(theirs, text).names) for text in scale}
    rates = {name: next((scale[text] for text in scale if name in only[text]), 1.0) for name in weights(theirs)}
    reference.param_groups[:] = [
        {**reference.param_groups[0], "params": [theirs.get_parameter(name)], "lr": 1e-2 * rate}
        for name, rate in rates.items()
    ]
    with Tuner(theirs, reference, "gradual:every=2"):
        train(theirs, reference, 6)
    assert_same_weights(ours, theirs)
    assert sorted(set(rates.values())) == [0.5, 1.0, 10.0]
    assert tuner.plan["head"].lr == 1.0, "the method's own factor"


def test_a_factor_multiplies_that_of_the_method() -> None:
    def moved_by(method: str, **options: Any) -> torch.Tensor:
        model = build("bert")
        dense = model.bert.encoder.layer[0].intermediate.dense.weight
        before = dense.detach().clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Tuner(model, optimizer, method, **options):
            step(model, optimizer, 0)
        return dense.detach() - before

    rates = LayerwiseRates(decay=0.5).rates(Clock(), map_layers(build("bert")), MethodState())
    both = moved_by("layerwise-lr:decay=0.5", lr_scale={"layers.0": 4.0})
    assert torch.allclose(both, 4.0 * rates["layers.0"] * moved_by("full"), atol=1e-7)


def test_a_factor_for_rows_counts_where_they_alone_learn() -> None:
    model, twin = build("llama"), build("llama")
    method = "groups:open=embeddings[90:]/layers.2"
    optimizer = momentum(model, lr=0.1)
    with Tuner(model, optimizer, method, lr_scale={"embeddings[90:]": 3.0}):
        train(model, optimizer, 1)
    start = twin.model.embed_tokens.weight.detach().clone()
    optimizer = momentum(twin, lr=0.1)
    with Tuner(twin, optimizer, method):
        train(twin, optimizer, 1)
    ours, theirs = model.model.embed_tokens.weight - start, twin.model.embed_tokens.weight - start
    assert torch.allclose(ours, 3.0 * theirs, atol=1e-6)
    assert not torch.equal(theirs[90:], torch.zeros_like(theirs[90:]))


@pytest.mark.parametrize(
    ("scale", "error", "message"),
    [
        ({"heda": 2.0}, SelectorError, "'heda' is not a valid selector term. Did you mean 'head'"),
        ({"layers.9": 2.0}, SelectorError, "expected layers from 0 to 2"),
        ({"head": 2.0, "@head": 3.0}, SelectorError, "two factors for model.norm.weight: 'head' and '@head' name it"),
        ({"embeddings[90:]": 2.0}, SelectorError, "names rows of model.embed_tokens.weight"),
        ({"head": 0.0}, UsageError, "the factor 0 for 'head'. Expected a finite number above 0"),
        ({"head": float("nan")}, UsageError, "the factor nan for 'head'"),
    ],
)
def test_a_factor_that_cannot_be_is_refused(scale: dict[str, float], error: type[Exception], message: str) -> None:
    model = build("llama")
    with pytest.raises(error) as caught:
        Tuner(model, adamw(model), "full", lr_scale=scale)
    assert message in str(caught.value)


def test_the_audit_expects_no_more_than_a_small_rate_can_move() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "layerwise-lr:decay=0.0001", audit=True):
        train(model, optimizer, 3)


class Watched(torch.optim.SGD):
    """Keeps the groups that each step saw; counts its steps in them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: list[list[dict[str, Any]]] = []
        self.failing = False

    def step(self, closure: Any = None) -> Any:
        self.seen.append(list(self.param_groups))
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1
        if self.failing:
            raise KeyboardInterrupt
        return super().step(closure)


def watched(model: nn.Module) -> Watched:
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return Watched([{"params": matrices}, {"params": others, "weight_decay": 0.0}], lr=0.1)


def test_without_factors_the_optimizer_sees_its_own_groups() -> None:
    model = build("bert")
    optimizer = watched(model)
    own = list(optimizer.param_groups)
    with Tuner(model, optimizer, "gradual:every=2"):
        train(model, optimizer, 3)
    assert all(group is kept for seen in optimizer.seen for group, kept in zip(seen, own, strict=True))


def test_the_split_has_one_group_for_each_rate_and_keeps_the_options() -> None:
    model = build("bert")
    optimizer = watched(model)
    own = list(optimizer.param_groups)
    with Tuner(model, optimizer, "gradual:every=2,warm_open=4"):
        train(model, optimizer, 3)
    # In the third step the second layer from the top has half of its rate; all else has the full one.
    assert [(group["lr"], group.get("weight_decay")) for group in optimizer.seen[2]] == [
        (0.1, 0),
        (0.05, 0),
        (0.1, 0.0),
        (0.05, 0.0),
    ]
    assert [group["steps"] for group in own] == [3, 3]
    assert all(group is kept for group, kept in zip(optimizer.param_groups, own, strict=True))


def test_a_learning_rate_may_be_a_tensor() -> None:
    ours, theirs = build("bert"), build("bert")
    rate = torch.tensor(1e-2)
    optimizer = torch.optim.AdamW(ours.parameters(), lr=rate, foreach=False, capturable=False)
    with Tuner(ours, optimizer, "layerwise-lr:decay=0.5"):
        train(ours, optimizer, 2)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(1e-2)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=1e-2, foreach=False)
    with Tuner(theirs, optimizer, "layerwise-lr:decay=0.5"):
        train(theirs, optimizer, 2)
    reference = weights(theirs)
    assert all(torch.allclose(p, reference[name], atol=1e-6) for name, p in ours.named_parameters())


@pytest.mark.parametrize("then", ["state", "tuner's state", "load", "step", "detach"])
def test_a_step_that_raised_leaves_nothing_behind(then: str) -> None:
    model = build("bert")
    optimizer = watched(model)
    own = list(optimizer.param_groups)
    before = copy.deepcopy(optimizer.state_dict())
    tuner = Tuner(model, optimizer, "layerwise-lr:decay=0.5")
    names = tuner.state_dict()["optimizer_parameters"]
    optimizer.failing = True
    with pytest.raises(KeyboardInterrupt):
        step(model, optimizer, 0)
    assert len(optimizer.param_groups) > 2
    optimizer.failing = False
    if then == "state":
        assert [len(group["params"]) for group in optimizer.state_dict()["param_groups"]] == [
            len(group["params"]) for group in own
        ]
    elif then == "tuner's state":
        assert tuner.state_dict()["optimizer_parameters"] == names
    elif then == "load":
        optimizer.load_state_dict(before)
        own = list(optimizer.param_groups)  # torch makes new ones
    elif then == "step":
        step(model, optimizer, 1)
        assert tuner.clock.step == 1
    tuner.detach()
    assert len(own) == 2
    assert all(group is kept for group, kept in zip(optimizer.param_groups, own, strict=True))


def test_an_optimizer_without_a_learning_rate_is_refused() -> None:
    model = build("bert")
    optimizer = momentum(model)
    optimizer.param_groups[0]["lr"] = None
    with (
        Tuner(model, optimizer, "layerwise-lr"),
        pytest.raises(AttachError, match=r"without 'lr'\..* Found lr=None"),
    ):
        step(model, optimizer, 0)


def test_outside_the_scope_of_a_gate_the_rate_holds_as_well() -> None:
    """Under plain descent without masks, half the rate is half the movement."""

    @dataclass(frozen=True, kw_only=True)
    class Half(Method):
        name: ClassVar[str] = "half"
        summary: ClassVar[str] = "a gate on attention alone"
        source: ClassVar[str] = "here"

        lr: float = 0.5

        def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
            return Plan(dict.fromkeys(layers.names, Gate(scale=2.0, scope="attention", lr=self.lr)))

    def moved_by(lr: float) -> torch.Tensor:
        model = build("bert")
        dense = model.bert.encoder.layer[1].intermediate.dense.weight
        before = dense.detach().clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Tuner(model, optimizer, Half(lr=lr)):
            step(model, optimizer, 0)
        return dense.detach() - before

    assert torch.allclose(moved_by(0.5), 0.5 * moved_by(1.0), atol=1e-7)


# Resume.


@each_once(
    "optimizer_of",
    [adamw, momentum],
    "text",
    [
        "gradual:every=3,warm_open=4",
        "gradfreeze:cumulative=false,warm_open=2,state=drop+layerwise-lr:decay=0.7",
        "fun:every=3,batches=1,warm_open=3",
    ],
)
def test_resuming_within_a_warm_up_changes_nothing(text: str, optimizer_of: Callable[..., Any]) -> None:
    steps = 9

    def attach(model: nn.Module, optimizer: torch.optim.Optimizer) -> Tuner:
        return Tuner(
            model, optimizer, text, total_steps=steps, steps_per_epoch=3, audit=True, fisher_data=fisher_data(model)
        )

    unbroken = build("bert")
    optimizer = optimizer_of(unbroken)
    saved: list[Any] = []
    with attach(unbroken, optimizer) as tuner:
        train(
            unbroken,
            optimizer,
            steps,
            after=lambda _: saved.append(
                copy.deepcopy((unbroken.state_dict(), optimizer.state_dict(), tuner.state_dict()))
            ),
        )
        phases = tuner.timeline.phases
    for done in (1, 4, 7):  # before, within and after a warm-up
        resumed = build("bert")
        optimizer = optimizer_of(resumed)
        weights_then, moments, state = saved[done - 1]
        resumed.load_state_dict(weights_then)
        with attach(resumed, optimizer) as tuner:
            optimizer.load_state_dict(moments)
            tuner.load_state_dict(state)
            train(resumed, optimizer, range(done, steps))
            assert tuner.timeline.phases == phases
        assert_same_weights(unbroken, resumed)


def test_accumulated_batches_are_one_step_of_the_warm_up() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "gradual:every=2,warm_open=2") as tuner:
        for done in range(2):
            for half in range(2):
                model(**batch(model, 2 * done + half)).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert tuner.plan["layers.1"].lr == 1.0
