"""Gradient release: the weights of an ordinary step, bit for bit, with few gradients in memory."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from gradgate import Tuner
from gradgate.errors import AttachError, NonFiniteError, RunError
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, batch, build, step, train, weights
from support.optimizers import muon_and_adamw

OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1),
    "adamw in batches": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
}


def trained(text: str, make: Callable[[Any], Any], *, release: bool, half: bool = False, name: str = "bert") -> Any:
    model = build(name)
    model = model.bfloat16() if half else model
    optimizer = make(model.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: 1 / (number + 1))
    options: dict[str, Any] = {"lr_scale": {"head": 3.0}, "total_steps": 5, "steps_per_epoch": 2}
    with Tuner(model, optimizer, text, release_gradients=release, seed=5, **options) as tuner:
        train(model, optimizer, 5, after=lambda _: scheduler.step())
        assert tuner.clock.step == 5
    return model, optimizer


@each_once("dtype", [torch.float32, torch.bfloat16], "name", list(OPTIMIZERS))
def test_the_weights_are_those_of_ordinary_steps(name: str, dtype: torch.dtype) -> None:
    make, half = OPTIMIZERS[name], dtype == torch.bfloat16
    (ordinary, one), (released, other) = (
        trained("lisa:layers=1,every=2", make, release=release, half=half) for release in (False, True)
    )
    assert_same_weights(ordinary, released)
    assert one.state_dict()["param_groups"] == other.state_dict()["param_groups"]


@each_once(
    "name",
    ["bert", "gpt2"],  # gpt2 ties its output to its embeddings
    "text",
    [
        "gradual:every=2",
        "graddrop:p=0.4,mask_target=update",
        "graddrop:p=0.4",
        "layer-graddrop:p=0.5,mask_target=grad",
        "graddrop-epoch+layerwise-lr:decay=0.8",
        "groups:open=embeddings[40:70]/layers.2",
    ],
)
def test_methods_decide_as_without_release(text: str, name: str) -> None:
    (ordinary, _), (released, _) = (
        trained(text, OPTIMIZERS["adamw"], release=release, name=name) for release in (False, True)
    )
    assert_same_weights(ordinary, released)


def test_few_gradients_are_there_at_a_time() -> None:
    model = build("bert")
    optimizer = adamw(model)
    seen: list[int] = []
    parameters = list(model.parameters())
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda _: seen.append(sum(p.grad is not None for p in parameters)))
    with Tuner(model, optimizer, "full", release_gradients=True):
        model(**batch(model, 0)).loss.backward()
        assert max(seen) <= 2
        assert all(parameter.grad is None for parameter in parameters)
        optimizer.step()


def test_several_optimizers_step_their_own() -> None:
    models = []
    for release in (False, True):
        model = build("bert")
        optimizers = muon_and_adamw(model)
        with Tuner(model, optimizers, "gradual:every=1", release_gradients=release) as tuner:
            for number in range(3):
                model.zero_grad()
                model(**batch(model, number)).loss.backward()
                for one in optimizers:
                    one.step()
            assert tuner.clock.step == 3
        models.append(model)
    assert_same_weights(*models)


def test_a_resumed_training_ends_as_if_unbroken() -> None:
    unbroken, resumed = build("bert"), build("bert")
    optimizer = adamw(unbroken)
    with Tuner(unbroken, optimizer, "lisa:layers=1,every=2", release_gradients=True) as tuner:
        train(unbroken, optimizer, 2)
        saved = copy.deepcopy((unbroken.state_dict(), optimizer.state_dict(), tuner.state_dict()))
        train(unbroken, optimizer, [2, 3])
    optimizer = adamw(resumed)
    resumed.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    with Tuner(resumed, optimizer, "lisa:layers=1,every=2", release_gradients=True, state=saved[2]):
        train(resumed, optimizer, [2, 3])
    assert_same_weights(unbroken, resumed)


def test_a_loss_that_is_no_number_moves_no_weight() -> None:
    model = build("bert")
    optimizer = adamw(model)
    before = weights(model)
    with Tuner(model, optimizer, "full", release_gradients=True):
        with pytest.raises(NonFiniteError, match="of step 1 are not finite"):
            (model(**batch(model, 0)).loss * float("nan")).backward()
        assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_accumulation_is_refused() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", release_gradients=True):
        model(**batch(model, 0)).loss.backward()
        with pytest.raises(RunError, match="got a second gradient before the optimizer's step"):
            model(**batch(model, 1)).loss.backward()


def test_a_parameter_that_reentrant_checkpoints_share_is_refused() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.layers = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 4)])

        def forward(self, x: torch.Tensor) -> Any:
            x = self.first(x)
            for _ in range(2):
                x = checkpoint(self.layers[0], x, use_reentrant=True)
            return x.sum()

    model = Shared()
    with (
        Tuner(model, adamw(model), "full", release_gradients=True, layers="layers"),
        pytest.raises(RunError, match="reentrant"),
    ):
        model(torch.ones(2, 4)).backward()


def test_an_optimizer_that_needs_all_gradients_is_refused() -> None:
    class Sharpness(torch.optim.Optimizer):
        def __init__(self, parameters: Any) -> None:
            super().__init__(parameters, {"lr": 0.1})

        def step(self, closure: Any = None) -> None: ...

    model = build("bert")
    with pytest.raises(AttachError, match="Sharpness is not known to step one independently"):
        Tuner(model, Sharpness(model.parameters()), "full", release_gradients=True)


def test_a_method_that_watches_gradients_is_refused() -> None:
    model = build("bert")
    with pytest.raises(AttachError, match="release_gradients leaves none until then"):
        Tuner(model, adamw(model), "grades:tau=1.0", total_steps=10, release_gradients=True)


def test_detaching_ends_it() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", release_gradients=True):
        step(model, optimizer, 0)
    model(**batch(model, 0)).loss.backward()
    assert any(parameter.grad is not None for parameter in model.parameters())
