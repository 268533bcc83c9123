"""The audit names what moved though it was closed, and what did not though it was open; and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from gradgate import Tuner
from gradgate.errors import AuditError
from gradgate.tuner.audit import fingerprint
from support.crossed import each_once, some_fast
from support.loop import adamw, build, momentum, step, train
from support.tiny_models import tiny_batch

CLOSED = "bert.encoder.layer.0.output.dense.weight"
OPEN = "bert.encoder.layer.2.output.dense.weight"


class Forgetful(torch.optim.AdamW):
    """Holds every parameter and steps all but one."""

    skipped: nn.Parameter

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        held, self.skipped.grad = self.skipped.grad, None
        super().step()
        self.skipped.grad = held


# What it catches.


def test_a_layer_opened_behind_the_tuners_back_is_named_before_it_moves() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=1", audit=True):
        train(model, optimizer, 2)
        before = model.get_parameter(CLOSED).clone()
        model.get_parameter(CLOSED).requires_grad_(True)
        with pytest.raises(AuditError, match=rf"{CLOSED} is closed in step 3, but something set its requires_grad"):
            step(model, optimizer, 2)
        assert torch.equal(model.get_parameter(CLOSED), before)


def test_a_layer_closed_behind_the_tuners_back_is_named() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", audit=True):
        train(model, optimizer, 2)
        model.get_parameter(OPEN).requires_grad_(False)
        with pytest.raises(
            AuditError, match=rf"{OPEN} is open in step 3, but something set its requires_grad to False"
        ):
            step(model, optimizer, 2)


@pytest.mark.parametrize("at", [0, 3])
def test_a_write_to_a_closed_weight_is_seen_after_the_step(at: int) -> None:
    model = build("bert")
    optimizer = adamw(model)
    Tuner(model, optimizer, "freeze:layers=1", audit=True)
    train(model, optimizer, at)
    with torch.no_grad():
        model.get_parameter(CLOSED)[0, 0].add_(1.0)
    with pytest.raises(AuditError, match=rf"{CLOSED} is closed, but .*seen after step {at + 1}\)"):
        step(model, optimizer, at)


@pytest.mark.parametrize("at", [0, 3])
def test_a_write_past_autograd_is_seen_at_the_end_of_the_phase_at_the_latest(at: int) -> None:
    model = build("bert")
    optimizer = adamw(model)
    tuner = Tuner(model, optimizer, "freeze:layers=1", audit=True)
    train(model, optimizer, at)
    model.get_parameter(CLOSED).data.add_(1e-6)

    def step_and_detach() -> None:
        step(model, optimizer, at)
        tuner.detach()

    with pytest.raises(AuditError, match=rf"{CLOSED} is closed, but it has changed"):
        step_and_detach()


def test_a_write_past_autograd_is_seen_when_the_plan_changes() -> None:
    model = build("bert")
    optimizer = adamw(model)
    Tuner(model, optimizer, "gradual:every=4", audit=True)
    train(model, optimizer, 2)
    model.get_parameter(CLOSED).data.neg_()
    with pytest.raises(AuditError, match=rf"{CLOSED} .*seen after step 3\)"):
        train(model, optimizer, [2])


def test_one_bit_of_a_closed_weight_is_enough() -> None:
    model = build("bert")
    tuner = Tuner(model, adamw(model), "head", audit=True)
    model.get_parameter(CLOSED).data.view(torch.int32)[3, 3] ^= 1
    with pytest.raises(AuditError, match=CLOSED):
        tuner.detach()


def test_a_frozen_backbone_is_watched_too() -> None:
    model = build("bert")
    model.get_parameter(OPEN).requires_grad_(False)
    tuner = Tuner(model, adamw(model), "full", audit=True)
    model.get_parameter(OPEN).data.add_(1.0)
    with pytest.raises(AuditError, match=OPEN):
        tuner.detach()


def test_detaching_with_an_error_still_detaches() -> None:
    model = build("bert")
    optimizer = adamw(model)
    tuner = Tuner(model, optimizer, "head", audit=True)
    model.get_parameter(CLOSED).data.add_(1.0)
    with pytest.raises(AuditError):
        tuner.detach()
    assert all(p.requires_grad for p in model.parameters())
    assert not optimizer._optimizer_step_pre_hooks
    Tuner(model, optimizer, "full").detach()


def test_an_open_weight_that_the_optimizer_passes_over_is_named() -> None:
    model = build("bert")
    optimizer = Forgetful(model.parameters(), lr=1e-3)
    optimizer.skipped = model.get_parameter(OPEN)
    with Tuner(model, optimizer, "full", audit=True):
        model(**tiny_batch(model)).loss.backward()
        with pytest.raises(AuditError, match=rf"{OPEN} is open and had a gradient in step 1, but did not move"):
            optimizer.step()


def test_an_open_weight_that_is_put_back_is_named() -> None:
    model = build("bert")
    optimizer = adamw(model)
    pinned = model.get_parameter(OPEN)
    first = pinned.detach().clone()
    optimizer.register_step_post_hook(lambda *_: pinned.data.copy_(first))
    with Tuner(model, optimizer, "full", audit=True), pytest.raises(AuditError, match=rf"{OPEN} .*putting it back"):
        step(model, optimizer, 0)


def test_a_layer_that_opens_later_is_watched_from_then_on() -> None:
    model = build("bert")
    optimizer = Forgetful(model.parameters(), lr=1e-3)
    optimizer.skipped = model.get_parameter(CLOSED)
    with Tuner(model, optimizer, "gradual:every=2", audit=True):
        train(model, optimizer, 3)
        with pytest.raises(AuditError, match=rf"{CLOSED} is open and had a gradient in step 4"):
            train(model, optimizer, [3])


# No false alarm.


def rates(*values: float) -> Callable[[torch.optim.Optimizer, int], None]:
    def set_rate(optimizer: torch.optim.Optimizer, number: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = values[min(number, len(values) - 1)]

    return set_rate


@each_once(
    "method", ["full", "gradual:every=1", "graddrop:p=0.5,mask_target=update"], "optimizer_of", [adamw, momentum]
)
@some_fast("first", [0.0, 1e-30, 1e-12, 1e-9, 1e-7], [0.0, 1e-9])
def test_a_warm_up_that_moves_nothing_yet_is_no_fault(
    first: float, optimizer_of: Callable[..., torch.optim.Optimizer], method: str
) -> None:
    model = build("bert")
    optimizer = optimizer_of(model)
    schedule = rates(first, first, 1e-3)
    with Tuner(model, optimizer, method, audit=True):
        for number in range(4):
            schedule(optimizer, number)
            step(model, optimizer, number)


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda p: torch.optim.SGD(p, lr=1e-12),
        lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, lr=torch.tensor(1e-3)),
        lambda p: torch.optim.AdamW(p, lr=1e-4, amsgrad=True),
        lambda p: torch.optim.AdamW(p, lr=1e-4, eps=1.0),
        lambda p: torch.optim.Adam(p, lr=1e-3, eps=0.0, weight_decay=0.1),
        lambda p: torch.optim.RAdam(p, lr=1e-3),
        lambda p: torch.optim.NAdam(p, lr=1e-3),
        lambda p: torch.optim.Adagrad(p, lr=1e-2),
        lambda p: torch.optim.Adadelta(p),
        lambda p: torch.optim.RMSprop(p, lr=1e-3),
        lambda p: torch.optim.Adafactor(p, lr=1e-3),
        lambda p: torch.optim.Rprop(p),
        lambda p: torch.optim.ASGD(p, lr=1e-3),
    ],
)
@some_fast("method", ["gradual:every=2", "graddrop:p=0.5"], ["gradual:every=2"])
def test_any_optimizer_of_torch_passes(method: str, optimizer_of: Callable[..., torch.optim.Optimizer]) -> None:
    model = build("bert")
    with torch.no_grad():  # as after pretraining: biases are not zero
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    optimizer = optimizer_of(model.parameters())
    with Tuner(model, optimizer, method, audit=True):
        train(model, optimizer, 4)


def test_an_update_that_adam_shrinks_by_its_past_is_no_fault() -> None:
    model = build("bert")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, betas=(0.5, 0.999))
    with Tuner(model, optimizer, "gradual:every=31", audit=True):
        for number in range(32):
            optimizer.zero_grad()
            (model(**tiny_batch(model, seed=number)).loss * (1.0 if number < 10 else 1e-5)).backward()
            optimizer.step()


@each_once("dtype", [torch.bfloat16, torch.float16, torch.float64], "optimizer_of", [adamw, momentum])
@some_fast("lr", [1e-7, 1e-5, 1e-3], [1e-7])
def test_coarse_weights_may_round_an_update_away(
    lr: float, optimizer_of: Callable[..., torch.optim.Optimizer], dtype: torch.dtype
) -> None:
    model = build("bert").to(dtype)
    optimizer = optimizer_of(model, lr=lr)
    if dtype == torch.float16:
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, eps=1e-4)
    for method in ("gradual:every=1", "graddrop:p=0.5,mask_target=update"):
        with Tuner(model, optimizer, method, audit=True):
            train(model, optimizer, 3, clip=0.1)


def test_a_gradient_of_zero_moves_nothing_and_is_no_fault() -> None:
    model = build("bert")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Tuner(model, optimizer, "gradual:every=1", audit=True):
        for number in range(3):
            optimizer.zero_grad()
            (model(**tiny_batch(model, seed=number)).loss * 0.0).backward()
            optimizer.step()


def test_a_parameter_without_a_gradient_is_no_fault() -> None:
    model = build("wav2vec2")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", audit=True):
        train(model, optimizer, 2)


def test_a_write_that_changes_nothing_is_no_fault() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=1", audit=True):
        for number in range(3):
            with torch.no_grad():
                model.get_parameter(CLOSED).mul_(1.0)
            step(model, optimizer, number)


def test_evaluation_between_steps_is_no_fault() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "gradual:every=2", audit=True):
        for number in range(4):
            step(model, optimizer, number)
            with torch.no_grad():
                model(**tiny_batch(model))


# Fingerprints.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64], ids=str)
def test_a_fingerprint_sees_every_bit(dtype: torch.dtype) -> None:
    tensor = torch.arange(60).to(dtype).view(5, 12)
    assert fingerprint(tensor) == fingerprint(tensor.clone())
    assert fingerprint(tensor) == fingerprint(tensor.t().contiguous().t())
    changed = tensor.clone()
    changed[4, 11] += 1
    assert fingerprint(changed) != fingerprint(tensor)


def test_a_fingerprint_tells_zeros_and_nans_apart() -> None:
    assert fingerprint(torch.tensor([0.0])) != fingerprint(torch.tensor([-0.0]))
    assert fingerprint(torch.tensor([torch.nan])) == fingerprint(torch.tensor([torch.nan]))
    assert fingerprint(torch.tensor(1.0)) == fingerprint(torch.tensor([1.0]))
    assert fingerprint(torch.empty(0)) == fingerprint(torch.empty(0, 3))
