"""Sparse gates and dropped layers in a bare loop, against loops written by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from gradgate import Clock, Gate, LayerGradDrop, LayerMap, Method, MethodState, Plan, Tuner, gates, map_layers
from support.crossed import each_once, some_fast
from support.loop import Weights, adamw, assert_same_weights, build, layers_of, momentum, moved, same, train, weights
from support.tiny_models import tiny_batch

OPTIMIZERS = pytest.mark.parametrize("optimizer_of", [adamw, momentum])
SEED = 5


@dataclass(frozen=True, kw_only=True)
class Sparse(Method):
    """Every group is sparse, the embeddings and the head too."""

    name: ClassVar[str] = "sparse"
    lo: float = 0.5

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        gate = Gate(lo=self.lo, scale=1 / (1 - self.lo), stream=self.name, draw=clock.step, hold=False)
        return Plan({group.name: gate for group in layers})


def layer_names(model: nn.Module) -> set[str]:
    return {name for group in layers_of(model).layers for name in group.parameter_names}


def passes(name: str, parameter: Tensor, p: float, step: int, stream: str = "graddrop") -> Tensor:
    key = gates.key(seed=SEED, stream=stream, name=name, draw=step)
    return gates.mask(parameter.numel(), lo=p, hi=1.0, key=key).view(parameter.shape)


def by_hand(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    steps: int,
    change: Callable[[str, Tensor, int], None],
    *,
    clip: float | None = None,
    set_to_none: bool = True,
) -> None:
    """A loop that changes each gradient of a layer in place before clipping."""
    inner = layer_names(model)
    for number in range(steps):
        optimizer.zero_grad(set_to_none=set_to_none)
        model(**tiny_batch(model, seed=number)).loss.backward()
        for name, parameter in model.named_parameters():
            if name in inner and parameter.grad is not None:
                change(name, parameter.grad, number)
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


# mask_target="grad"


@each_once("optimizer_of", [adamw, momentum], "name", ["bert", "gpt2", "t5", "mixtral"])
@some_fast("clip", [None, 0.1], [0.1])
def test_graddrop_multiplies_each_gradient_by_its_mask_before_clipping(
    name: str, clip: float | None, optimizer_of: Callable[[nn.Module], torch.optim.Optimizer]
) -> None:
    tuned, other = build(name), build(name)
    optimizer = optimizer_of(tuned)
    with Tuner(tuned, optimizer, "graddrop:p=0.4", seed=SEED, audit=True):
        train(tuned, optimizer, 4, clip=clip)

    def mask(name: str, gradient: Tensor, step: int) -> None:
        gradient.mul_(passes(name, gradient, 0.4, step) * (1 / 0.6))

    by_hand(other, optimizer_of(other), 4, mask, clip=clip)
    assert_same_weights(tuned, other)


def test_graddrop_without_dropping_is_plain_training() -> None:
    tuned, other = build("bert"), build("bert")
    optimizer = adamw(tuned)
    with Tuner(tuned, optimizer, "graddrop:p=0.0"):
        train(tuned, optimizer, 3)
    train(other, adamw(other), 3)
    assert_same_weights(tuned, other)


def test_a_masked_weight_may_still_move_by_momentum_and_decay() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "graddrop:p=0.5", seed=SEED):
        train(model, optimizer, 1)
        before = weights(model)
        train(model, optimizer, [1])
    name = "bert.encoder.layer.0.output.dense.weight"
    masked = ~passes(name, before[name], 0.5, 1)
    assert (model.get_parameter(name)[masked] != before[name][masked]).double().mean() > 0.9


def test_embeddings_and_head_are_never_masked() -> None:
    tuned, plain = build("bert"), build("bert")
    with Tuner(tuned, adamw(tuned), "graddrop:p=0.9", seed=SEED):
        for model in (tuned, plain):
            model(**tiny_batch(model)).loss.backward()
    outer = {name for name, _ in tuned.named_parameters()} - layer_names(tuned)
    assert len(outer) > 4
    for name in outer:
        assert torch.equal(tuned.get_parameter(name).grad, plain.get_parameter(name).grad), name


def test_a_tied_weight_is_masked_once_in_both_its_places() -> None:
    tuned, plain = build("gpt2"), build("gpt2")
    with Tuner(tuned, adamw(tuned), Sparse(lo=0.5), seed=SEED):
        for model in (tuned, plain):
            model(**tiny_batch(model)).loss.backward()
    mask = passes("transformer.wte.weight", plain.transformer.wte.weight, 0.5, 0, stream="sparse")
    expected = plain.transformer.wte.weight.grad * mask * 2.0
    assert torch.equal(tuned.transformer.wte.weight.grad, expected)


def test_one_gradient_handed_to_two_parameters_is_masked_for_each_alone() -> None:
    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Parameter(torch.zeros(8, 64)) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.first + self.second

    model = nn.Sequential(nn.Linear(64, 64), Twins(), Twins())
    with Tuner(model, adamw(model), Sparse(lo=0.5), seed=SEED, layers=map_layers(model, layers=".")):
        model(torch.randn(8, 64)).square().sum().backward()
    for number in (1, 2):
        for name in (f"{number}.first", f"{number}.second"):
            parameter = model.get_parameter(name)
            assert torch.equal(parameter.grad != 0, passes(name, parameter, 0.5, 0, stream="sparse")), name


def test_an_accumulated_gradient_has_the_mask_of_its_step_exactly() -> None:
    model = build("bert")
    name = "bert.encoder.layer.1.attention.self.query.weight"
    with Tuner(model, adamw(model), "graddrop:p=0.3", seed=SEED):
        for number in range(4):
            model(**tiny_batch(model, seed=number)).loss.backward()
    parameter = model.get_parameter(name)
    assert torch.equal(parameter.grad != 0, passes(name, parameter, 0.3, 0))


def test_the_mask_does_not_stop_second_derivatives() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    with Tuner(model, adamw(model), Sparse(lo=0.5), seed=SEED, layers=map_layers(model, layers=".")):
        loss = model(torch.randn(4, 8)).square().sum()
        (gradient,) = torch.autograd.grad(loss, [model[0].weight], create_graph=True)
        gradient.square().sum().backward()
        mask = passes("0.weight", model[0].weight, 0.5, 0, stream="sparse")
        assert torch.equal(model[0].weight.grad[~mask], torch.zeros(int((~mask).sum())))


# mask_target="update"


@each_once("optimizer_of", [adamw, momentum], "name", ["bert", "gpt2"])
def test_held_elements_keep_every_bit_and_the_others_move(
    name: str, optimizer_of: Callable[[nn.Module], torch.optim.Optimizer]
) -> None:
    model = build(name)
    optimizer = optimizer_of(model)
    inner = layer_names(model)
    with Tuner(model, optimizer, "graddrop:p=0.4,mask_target=update", seed=SEED, audit=True):
        for number in range(4):
            before = weights(model)
            train(model, optimizer, [number])
            open_elements, moved_elements = 0, 0
            for parameter_name in inner:
                parameter, old = model.get_parameter(parameter_name), before[parameter_name]
                mask = passes(parameter_name, old, 0.4, number)
                assert same(parameter[~mask], old[~mask]), (parameter_name, number)
                open_elements += int(mask.sum())
                moved_elements += int((parameter[mask] != old[mask]).sum())
            assert moved_elements > 0.95 * open_elements


def test_holding_keeps_parameters_that_are_not_contiguous() -> None:
    model = nn.Sequential(nn.Linear(6, 10), nn.Linear(10, 6))
    model[0].weight = nn.Parameter(torch.randn(6, 10).t())
    assert not model[0].weight.is_contiguous()
    before = model[0].weight.detach().clone()
    optimizer = momentum(model)
    method = LayerHold(lo=0.5)
    with Tuner(model, optimizer, method, seed=SEED, layers=map_layers(model, layers=".")):
        model(torch.randn(4, 6)).square().sum().backward()
        optimizer.step()
    mask = passes("0.weight", before, 0.5, 0, stream="hold")
    assert torch.equal(model[0].weight[~mask], before[~mask])
    assert (model[0].weight[mask] != before[mask]).all()


@dataclass(frozen=True, kw_only=True)
class LayerHold(Method):
    """Every group is sparse, and what is masked is held."""

    name: ClassVar[str] = "hold"
    lo: float = 0.5

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan({group.name: Gate(lo=self.lo, stream=self.name, draw=clock.step) for group in layers})


# layer-graddrop


def dropped_layers(model: nn.Module, method: LayerGradDrop, step: int) -> set[str]:
    layers = layers_of(model)
    plan = method.plan(Clock(step), layers, MethodState(seed=SEED))
    return {name for group in layers if plan[group.name].share == 0.0 for name in group.parameter_names}


@pytest.mark.parametrize(
    ("name", "set_to_none", "optimizer_of"),
    [
        ("bert", True, adamw),
        ("bart", False, momentum),
        pytest.param("bert", False, momentum, marks=pytest.mark.slow),
        pytest.param("bart", True, adamw, marks=pytest.mark.slow),
    ],
)
def test_a_dropped_layer_gets_a_gradient_of_zero(
    name: str, set_to_none: bool, optimizer_of: Callable[[nn.Module], torch.optim.Optimizer]
) -> None:
    tuned, other = build(name), build(name)
    optimizer = optimizer_of(tuned)
    method = LayerGradDrop(p=0.5)
    with Tuner(tuned, optimizer, method, seed=SEED, audit=True):
        for number in range(8):
            optimizer.zero_grad(set_to_none=set_to_none)
            tuned(**tiny_batch(tuned, seed=number)).loss.backward()
            optimizer.step()
    dropped = [dropped_layers(other, method, number) for number in range(8)]
    assert len({frozenset(names) for names in dropped}) > 3

    def zero(name: str, gradient: Tensor, step: int) -> None:
        if name in dropped[step]:
            gradient.zero_()

    by_hand(other, optimizer_of(other), 8, zero, set_to_none=set_to_none)
    assert_same_weights(tuned, other)


def test_dropped_layers_count_as_zero_in_clipping() -> None:
    tuned, other = build("bert"), build("bert")
    optimizer = momentum(tuned)
    method = LayerGradDrop(p=0.5, layer_scale=True)
    with Tuner(tuned, optimizer, method, seed=SEED):
        train(tuned, optimizer, 6, clip=0.05)

    def scale(name: str, gradient: Tensor, step: int) -> None:
        gradient.mul_(0.0 if name in dropped_layers(other, method, step) else 2.0)

    by_hand(other, momentum(other), 6, scale, clip=0.05)
    for one, two in zip(weights(tuned).values(), weights(other).values(), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-7)


def test_a_dropped_layer_computes_no_weight_gradient() -> None:
    model = build("bert")
    method = LayerGradDrop(p=0.5)
    optimizer = adamw(model)
    with Tuner(model, optimizer, method, seed=SEED):
        for number in range(4):
            model(**tiny_batch(model, seed=number)).loss.backward()
            without = {name for name, p in model.named_parameters() if p.grad is None}
            assert without == dropped_layers(model, method, number)
            optimizer.step()
            optimizer.zero_grad()


@some_fast("optimizer_of", [adamw, momentum], [adamw])
def test_a_dropped_layer_that_is_held_keeps_every_bit(
    optimizer_of: Callable[[nn.Module], torch.optim.Optimizer],
) -> None:
    model = build("bert")
    optimizer = optimizer_of(model)
    method = LayerGradDrop(p=0.5, mask_target="update")
    with Tuner(model, optimizer, method, seed=SEED, audit=True):
        for number in range(8):
            before: Weights = weights(model)
            train(model, optimizer, [number])
            assert moved(before, model) == set(before) - dropped_layers(model, method, number)


def test_a_held_step_that_a_scaler_skips_changes_nothing() -> None:
    model = build("bert")
    optimizer = adamw(model, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = weights(model)
    with Tuner(model, optimizer, "graddrop:p=0.4,mask_target=update", seed=SEED, audit=True) as tuner:
        scaler.scale(model(**tiny_batch(model)).loss * float("inf")).backward()
        scaler.step(optimizer)
        assert tuner.clock.step == 0
    assert not moved(before, model)
