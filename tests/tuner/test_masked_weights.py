"""Held weights keep their bits under any optimizer, and at most one part of the model is copied at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler
from transformers.optimization import Adafactor

import gradgate.tuner.step_plan
from gradgate import Tuner, gates, map_layers
from gradgate.errors import AttachError
from support.crossed import some_fast
from support.loop import adamw, assert_same_weights, batch, build, layers_of, same, step, train, weights

SEED = 7
Make = Callable[[nn.Module], torch.optim.Optimizer]


class Signs(torch.optim.Optimizer):
    """An optimizer of one's own, which counts its steps in the group."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.01, "count": 0})

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["count"] += 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.data.add_(parameter.grad.sign(), alpha=-group["lr"] / group["count"])


class Masters(torch.optim.SGD):
    """Steps a copy of the weights, as optimizers for half precision do."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    master = self.state[parameter].setdefault("master", parameter.detach().clone())
                    master.add_(parameter.grad, alpha=-group["lr"])
                    parameter.data.copy_(master)


OPTIMIZERS: dict[str, Make] = {
    "adamw": adamw,
    "adamw-loop": lambda model: adamw(model, foreach=False),
    "adamw-fused": lambda model: adamw(model, fused=True),
    "amsgrad": lambda model: adamw(model, amsgrad=True),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), 0.1, 0.9, weight_decay=0.1, nesterov=True),
    "adafactor": lambda model: Adafactor(model.parameters()),
    "adafactor-torch": lambda model: torch.optim.Adafactor(model.parameters(), lr=0.01, weight_decay=0.1),
    "radam": lambda model: torch.optim.RAdam(model.parameters(), 0.01, weight_decay=0.1),
    "nadam": lambda model: torch.optim.NAdam(model.parameters(), 0.01, weight_decay=0.1),
    "rmsprop": lambda model: torch.optim.RMSprop(model.parameters(), 0.01, momentum=0.9),
    "own": lambda model: Signs(model.parameters()),
}
FAST = ["adamw", "adamw-fused", "amsgrad", "momentum", "adafactor", "radam", "own"]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a few tensors, so that a tiny model has many."""
    monkeypatch.setattr(gradgate.tuner.step_plan, "CHUNK_BYTES", 2**11)


def inner(model: nn.Module) -> list[str]:
    return [name for group in layers_of(model).layers for name in group.parameter_names]


def passes(name: str, tensor: Tensor, draw: int) -> Tensor:
    key = gates.key(seed=SEED, stream="graddrop", name=name, draw=draw)
    return gates.mask(tensor.numel(), lo=0.4, hi=1.0, key=key).view(tensor.shape)


@some_fast("name", list(OPTIMIZERS), FAST)
@pytest.mark.usefixtures("small_parts")
def test_what_is_masked_keeps_every_bit_and_the_rest_moves_as_without_holding(name: str) -> None:
    make = OPTIMIZERS[name]
    held, free = build("bert"), build("bert")
    ours, theirs = make(held), make(free)
    with (
        Tuner(held, ours, "graddrop:p=0.4,mask_target=update", seed=SEED),
        Tuner(free, theirs, "graddrop:p=0.4,mask_target=grad", seed=SEED),
    ):
        for number in range(3):
            before = weights(held)
            free.load_state_dict(held.state_dict())  # else the two part ways where momentum moved what is held
            for model, optimizer in ((held, ours), (free, theirs)):
                step(model, optimizer, number)
            for parameter, other in free.named_parameters():
                mine, old = held.get_parameter(parameter), before[parameter]
                masked = parameter in inner(held)
                mask = passes(parameter, old, number) if masked else torch.ones_like(old, dtype=torch.bool)
                assert same(mine[~mask], old[~mask]), (parameter, number)
                assert same(mine[mask], other[mask]), (parameter, number)


@pytest.mark.usefixtures("small_parts")
def test_one_part_is_copied_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("bert")
    optimizer = adamw(model)
    largest = max(parameter.nbytes for parameter in model.parameters())
    copied: list[int] = []
    values = gradgate.tuner.chunked_step._values

    def counted(part: Any) -> Any:
        copied.append(sum(one.parameter.nbytes for one in part))
        return values(part)

    monkeypatch.setattr(gradgate.tuner.chunked_step, "_values", counted)
    with Tuner(model, optimizer, "graddrop:p=0.4,mask_target=update"):
        step(model, optimizer, 0)
    assert len(copied) > 3
    assert max(copied) <= max(largest, 2**11)
    masked = [model.get_parameter(name) for name in inner(model)]
    assert sum(copied) == sum(parameter.nbytes for parameter in masked if parameter.grad is not None)


@pytest.mark.usefixtures("small_parts")
def test_step_hooks_and_schedulers_see_one_step() -> None:
    model = build("bert")
    optimizer = adamw(model)
    scheduler = lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (number + 1))
    seen: list[int] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(1))
    optimizer.register_step_post_hook(lambda *_: seen.append(-1))
    groups = [(group, list(group["params"])) for group in optimizer.param_groups]
    with Tuner(model, optimizer, "graddrop-epoch", total_steps=6, steps_per_epoch=2):
        for number in range(3):
            step(model, optimizer, number)
            scheduler.step()
    assert seen == [1, -1] * 3
    assert [(group, list(group["params"])) for group in optimizer.param_groups] == groups
    assert all(int(state["step"]) == 3 for state in optimizer.state.values())


@pytest.mark.usefixtures("small_parts")
def test_a_step_that_raises_leaves_the_groups_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("bert")
    optimizer = adamw(model)
    names = [id(p) for group in optimizer.param_groups for p in group["params"]]
    with Tuner(model, optimizer, "graddrop:p=0.4,mask_target=update"):
        model(**batch(model, 0)).loss.backward()
        module = sys.modules["torch.optim.adam"]
        original, calls = module.adam, []

        def fails_later(*args: Any, **kwargs: Any) -> None:
            calls.append(1)
            if len(calls) == 3:
                raise RuntimeError("out of memory")
            original(*args, **kwargs)

        monkeypatch.setattr(module, "adam", fails_later)
        with pytest.raises(RuntimeError, match="out of memory"):
            optimizer.step()
        assert [id(p) for group in optimizer.param_groups for p in group["params"]] == names
        monkeypatch.undo()
        step(model, optimizer, 1)
        assert len(optimizer.state_dict()["param_groups"][0]["params"]) == len(names)


def test_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parted = build("bert"), build("bert")
    for model, size in ((whole, 2**40), (parted, 1)):
        monkeypatch.setattr(gradgate.tuner.step_plan, "CHUNK_BYTES", size)
        optimizer = adamw(model)
        with Tuner(model, optimizer, "graddrop-epoch+layerwise-lr:decay=0.8", total_steps=6, steps_per_epoch=2):
            train(model, optimizer, 6, clip=1.0)
    assert_same_weights(whole, parted)


def test_an_optimizer_with_weights_of_its_own_is_refused() -> None:
    model = build("bert")
    optimizer = Masters(model.parameters(), lr=0.1)
    with Tuner(model, optimizer, "graddrop:p=0.4,mask_target=update"):
        model(**batch(model, 0)).loss.backward()
        with pytest.raises(AttachError, match=r"Masters keeps weights of its own .*'master'.*Use mask_target=grad"):
            optimizer.step()


def test_a_gradient_in_other_hands_is_not_gated_in_place() -> None:
    model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False))
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    losses: list[Callable[[], Tensor]] = [
        lambda: nn.functional.linear(x, model[0].weight + model[1].weight + model[2].weight).square().sum(),
        lambda: nn.functional.linear(
            x, model[0].weight + model[1].weight.view(-1).view(64, 64) + model[2].weight
        ).sum(),
        lambda: model[0].weight.sum() + model[1].weight.sum() + model[2].weight.sum(),
    ]
    for loss in losses:
        model.zero_grad()
        with Tuner(model, adamw(model), "child-tuning:keep=0.6", seed=SEED, layers=map_layers(model, layers=".")):
            loss().backward()
        for number in range(3):
            key = gates.key(seed=SEED, stream="child-tuning", name=f"{number}.weight", draw=0)
            mask = gates.mask(64 * 64, lo=0.0, hi=0.6, key=key).view(64, 64)
            assert torch.equal(model[number].weight.grad != 0, mask), number
