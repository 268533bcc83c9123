"""Optimizers that step twice, by a closure or within backward are followed with one tick a step, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from gradgate import Tuner, gates
from gradgate.errors import AttachError, NonFiniteError, RunError
from support import odd_optimizers as odd
from support.crossed import each_once, some_fast
from support.loop import adamw, assert_same_weights, build, moved, same, weights
from support.odd_optimizers import Dummy, Lomo, LomoWithoutName, Lookahead, Loop, Sam, SamByClosure, SamOfItsOwn

STEPS = 4
Make = Callable[[nn.Module], Any]
BASE = partial(torch.optim.AdamW, lr=1e-2, weight_decay=0.1)
MOMENTUM = partial(torch.optim.SGD, lr=0.1, momentum=0.9)

FOLLOWED: dict[str, tuple[Make, Loop]] = {
    "SAM in two calls": (lambda model: Sam(model.parameters(), BASE), odd.two_passes),
    "SAM by a closure": (lambda model: Sam(model.parameters(), BASE), odd.by_closure),
    "ASAM": (lambda model: Sam(model.parameters(), MOMENTUM, adaptive=True), odd.two_passes),
    "Lookahead": (lambda model: Lookahead(MOMENTUM(model.parameters())), odd.usual),
    "SAM around Lookahead": (
        lambda model: Sam(model.parameters(), lambda groups: Lookahead(MOMENTUM(groups))),
        odd.two_passes,
    ),
    "a wrapper that passes on": (lambda model: odd.Wrapped(BASE(model.parameters())), odd.usual),
    "accelerate's": (lambda model: Accelerator(cpu=True).prepare(BASE(model.parameters())), odd.usual),
}
METHODS = [
    "full",
    "gradual:every=2",
    "lisa:layers=1,every=2",
    "graddrop:p=0.5,mask_target=update",
    "layer-graddrop:p=0.5",
    "full+layerwise-lr:decay=0.5",
]


@each_once("case", list(FOLLOWED), "method", METHODS)
def test_one_step_is_one_tick(case: str, method: str) -> None:
    make, loop = FOLLOWED[case]
    model = build("bert")
    optimizer = make(model)
    with Tuner(model, optimizer, method, total_steps=STEPS, seed=5) as tuner:
        for number in range(STEPS):
            before, plan = weights(model), tuner.plan
            loop(model, optimizer, number)
            opened = {n for g, gate in plan.items() if not gate.closed for n in tuner.layers[g].parameter_names}
            changed = moved(before, model)
            assert changed <= opened, "what is closed keeps every bit"
            assert {tuner.layers.group_of(name).name for name in changed} >= {
                g for g, gate in plan.items() if gate.open
            }
            for group, gate in plan.items():
                for name in tuner.layers[group].parameter_names if gate.sparse and gate.hold else ():
                    key = gates.key(seed=5, stream=gate.stream, name=name, draw=gate.draw)
                    held = ~gates.mask(before[name].numel(), lo=gate.lo, hi=gate.hi, key=key).view(before[name].shape)
                    assert same(before[name][held], model.get_parameter(name)[held])
            assert tuner.clock.step == number + 1


@some_fast("case", list(FOLLOWED), ["SAM in two calls", "SAM by a closure", "Lookahead", "accelerate's"])
def test_full_is_the_training_without_a_tuner(case: str) -> None:
    make, loop = FOLLOWED[case]
    plain, gated = build("bert"), build("bert")
    for model in (plain, gated):
        optimizer = make(model)
        tuner = Tuner(model, optimizer, "full") if model is gated else None
        odd.train_oddly(model, optimizer, loop, 3)
        if tuner is not None:
            tuner.detach()
    assert_same_weights(plain, gated)


def test_half_precision_has_masters_under_a_rule() -> None:
    model = build("bert").bfloat16()
    optimizer = Sam(model.parameters(), partial(torch.optim.SGD, lr=1e-5))
    with Tuner(model, optimizer, "gradual:every=1") as tuner:
        odd.train_oddly(model, optimizer, odd.two_passes, 3)
        assert tuner.clock.step == 3
        masters = {name.removeprefix("master/"): value for name, value in tuner.state_dict()["tensors"].items()}
    assert masters
    assert all(same(model.get_parameter(name), value.bfloat16()) for name, value in masters.items())
    assert any(not torch.equal(value, value.bfloat16().float()) for value in masters.values())


def test_the_state_inside_a_rule_is_dropped() -> None:
    model = build("bert")
    optimizer = Sam(model.parameters(), BASE)
    with Tuner(model, optimizer, "lisa:layers=1,every=1,state=drop") as tuner:
        odd.train_oddly(model, optimizer, odd.two_passes, 4)
        opened = {n for g, gate in tuner.plan.items() if not gate.closed for n in tuner.layers[g].parameter_names}
    for one in (optimizer, optimizer.base_optimizer):
        assert {name for name, p in model.named_parameters() if p in one.state} <= opened


# Refused by name.

ATTACHING: dict[str, tuple[Make, str]] = {
    "LOMO": (Lomo, "Lomo updates weights within the backward pass"),
    "no step": (lambda model: type("Nothing", (torch.optim.Optimizer,), {})(model.parameters(), {}), "Nothing updates"),
    "Lookahead that torch does not know": (
        lambda model: Lookahead(adamw(model), by_torch=False),
        r"Lookahead does not call torch\.optim\.Optimizer\.__init__.*pass the optimizer inside it to the tuner",
    ),
    "SAM around LBFGS": (lambda model: Sam(model.parameters(), torch.optim.LBFGS), "LBFGS computes gradients inside"),
    "an object": (lambda model: object(), r"object is not a torch\.optim\.Optimizer"),
}


@pytest.mark.parametrize("case", ATTACHING)
def test_what_cannot_be_followed_does_not_attach(case: str) -> None:
    make, message = ATTACHING[case]
    model = build("bert")
    with pytest.raises(AttachError, match=message):
        Tuner(model, make(model), "full")
    Tuner(model, adamw(model), "full").detach()


def _sam(model: nn.Module) -> SamOfItsOwn:
    return SamOfItsOwn(model.parameters(), 0.1)


def _sam_by_closure(model: nn.Module) -> SamByClosure:
    return SamByClosure(model.parameters(), 0.1)


STEPPING: dict[str, tuple[Make, Loop, int, str]] = {
    "LOMO by another name": (LomoWithoutName, odd.usual, 1, "moved within the backward pass, before a step of Lomo"),
    "an optimizer in each hook": (odd.step_in_hooks, odd.in_backward, 1, "SGD steps within the backward pass"),
    "optimizers in hooks and a dummy": (Dummy, odd.usual, 1, r"SGD is about to step .* but the tuner follows Dummy"),
    "SAM with an update of its own": (
        _sam,
        odd.two_passes,
        2,
        "moved 2 times, and SamOfItsOwn took no step",
    ),
    "SAM by a closure of its own": (
        _sam_by_closure,
        odd.by_closure,
        1,
        "calls its closure more than once.*SamByClosure",
    ),
    "two steps on one gradient": (adamw, odd.stepped_twice, 1, "AdamW steps a second time on the gradients"),
    "an update by hand": (adamw, odd.by_hand, 3, "moved 2 times, and AdamW took no step"),
    "a new optimizer": (adamw, odd.by_another, 1, "SGD is about to step .* but the tuner follows AdamW"),
    "a wrapper that writes": (
        lambda model: odd.WrappedLookahead(MOMENTUM(model.parameters())),
        odd.usual,
        3,
        "WrappedLookahead or other code changed weights after the step of SGD",
    ),
}


@each_once("method", ["full", "gradual:every=50"], "case", list(STEPPING))
def test_what_moves_unseen_is_refused(case: str, method: str) -> None:
    make, loop, steps, message = STEPPING[case]
    model = build("bert")
    optimizer = make(model)
    with Tuner(model, optimizer, method), pytest.raises((AttachError, RunError), match=message):
        odd.train_oddly(model, optimizer, loop, steps)


def test_what_is_usual_is_not_refused() -> None:
    """Weights are loaded, set or averaged between steps; gradients are cleared in place, or never."""
    model = build("bert")
    optimizer = adamw(model)
    model.load_state_dict(build("bert").state_dict())
    with Tuner(model, optimizer, "full") as tuner:
        model.load_state_dict(build("bert").state_dict())
        for number in range(6):
            if number % 2:
                optimizer.zero_grad(set_to_none=False)
            odd.backward(model, number)
            with torch.no_grad():
                model.classifier.bias.clamp_(-0.5, 0.5)
            odd.backward(model, number)
            optimizer.step()
            with torch.no_grad():
                model.classifier.bias.mul_(0.9)
        assert tuner.clock.step == 6


def test_other_models_are_stepped_beside_it() -> None:
    model, other = build("bert"), build("bert")
    optimizers = adamw(model), adamw(other)
    with Tuner(model, optimizers[0], "head"), Tuner(other, optimizers[1], "full"):
        for number in range(2):
            for one, optimizer in zip((model, other), optimizers, strict=True):
                odd.usual(one, optimizer, number)


# What is watched.


class Diverging(torch.optim.SGD):
    """Leaves weights that are not numbers, as a rate that is far too high does."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for parameter in odd.learning(self):
            parameter.fill_(float("nan"))


def test_diverged_weights_are_called_what_they_are() -> None:
    model = build("bert")
    optimizer = Diverging(model.parameters(), lr=0.1)
    with Tuner(model, optimizer, "full", total_steps=STEPS):
        odd.usual(model, optimizer, 0)
        with pytest.raises(NonFiniteError):
            odd.usual(model, optimizer, 1)


def test_what_follows_a_failed_backward_pass_is_watched() -> None:
    model = build("bert")
    optimizer = BASE(model.parameters())
    with Tuner(model, optimizer, "full", total_steps=STEPS):
        fails = max(model.parameters(), key=torch.Tensor.numel).register_hook(lambda gradient: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            odd.backward(model, 0)
        fails.remove()
        smallest = min(model.parameters(), key=torch.Tensor.numel)

        def update(gradient: torch.Tensor) -> None:
            smallest.data.add_(1.0)

        max(model.parameters(), key=torch.Tensor.numel).register_hook(update)
        with pytest.raises(AttachError, match="moved within the backward pass"):
            odd.usual(model, optimizer, 0)


def test_gradients_that_are_written_in_place_are_new() -> None:
    model = build("bert")
    optimizer = BASE(model.parameters())
    with Tuner(model, optimizer, "full", total_steps=STEPS) as tuner:
        odd.usual(model, optimizer, 0)
        for number in range(1, 4):
            for parameter in odd.learning(optimizer):
                assert parameter.grad is not None
                parameter.grad.data.mul_(0.5)  # as the replay of a CUDA graph: the version stays
            optimizer.step()
            assert tuner.clock.step == number + 1


def test_a_resumed_tuner_logs_nothing_before_its_first_step() -> None:
    model = build("bert")
    optimizer = BASE(model.parameters())
    with Tuner(model, optimizer, "gradual:every=2", total_steps=STEPS) as tuner:
        odd.train_oddly(model, optimizer, odd.usual, 3)
        state = tuner.state_dict()
    with Tuner(model, optimizer, "gradual:every=2", total_steps=STEPS, state=state) as tuner:
        assert tuner.metrics == {}
        odd.usual(model, optimizer, 3)
        assert tuner.metrics["gradgate/open_share"] > 0
