"""Gradients that are gated together at the end of a backward pass have the bits of those that are gated in hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import gradgate as gg
from gradgate.gates import apply_, gradients
from gradgate.gates.gradients import GradientBatch, Window, is_unshared
from support.tiny_models import TINY, tiny_batch

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
ONE, OTHER = (Window(0.2, 1.0, 1.25, key) for key in (7, 8))


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gate together on the CPU, as on CUDA, and return the number of gradients of each launch."""
    counts: list[int] = []
    launch = gradients.apply_each_

    def counted(tensors: Any, **options: Any) -> None:
        counts.append(len(tensors))
        launch(tensors, **options)

    monkeypatch.setattr(GradientBatch, "pays", lambda self, gradient: True)
    monkeypatch.setattr(gradients, "apply_each_", counted)
    return counts


def gated(gradient: Tensor, window: Window) -> Tensor:
    return apply_(gradient.clone(), lo=window.lo, hi=window.hi, scale=window.scale, key=window.key)


def hook(batch: GradientBatch, parameter: nn.Parameter, window: Window) -> None:
    """Gate as the tuner does."""

    def gate(gradient: Tensor) -> Tensor | None:
        batch.settle(parameter)
        if is_unshared(gradient) and batch.takes(parameter, gradient, window):
            return None
        return gated(gradient, window)

    register: Callable[..., Any] = parameter.register_hook
    register(gate)


def pair() -> tuple[nn.Parameter, nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    one, other = (nn.Parameter(torch.randn(40, 50, generator=generator)) for _ in range(2))
    return one, other


def loss_of(one: Tensor, other: Tensor, factor: float = 1.0) -> Tensor:
    return (factor * one * other).sin().sum()


def plain(factor: float = 1.0) -> tuple[Tensor, Tensor]:
    one, other = pair()
    loss_of(one, other, factor).backward()
    assert one.grad is not None
    assert other.grad is not None
    return one.grad, other.grad


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise MemoryError


def hooked_pair() -> tuple[GradientBatch, nn.Parameter, nn.Parameter]:
    one, other = pair()
    batch = GradientBatch(nn.ParameterList([one, other]))
    hook(batch, one, ONE)
    hook(batch, other, OTHER)
    return batch, one, other


def test_all_gradients_of_a_pass_take_one_launch(launches: list[int]) -> None:
    _, one, other = hooked_pair()
    loss_of(one, other).backward()
    assert launches == [2]
    for parameter, gradient, window in zip((one, other), plain(), (ONE, OTHER), strict=True):
        assert torch.equal(parameter.grad, gated(gradient, window))


def test_a_second_micro_batch_is_gated_before_it_is_added(launches: list[int]) -> None:
    _, one, other = hooked_pair()
    loss_of(one, other).backward()
    loss_of(one, other, 2.0).backward()
    assert launches == [2]  # the second one is gated in its hooks
    assert torch.equal(one.grad, gated(plain()[0], ONE) + gated(plain(2.0)[0], ONE))


def test_returned_gradients_are_gated(launches: list[int]) -> None:
    _, one, other = hooked_pair()
    returned = torch.autograd.grad(loss_of(one, other), (one, other))
    assert launches == []
    for found, gradient, window in zip(returned, plain(), (ONE, OTHER), strict=True):
        assert torch.equal(found, gated(gradient, window))


@pytest.mark.parametrize("kind", ["before", "after"])
def test_other_hooks_see_gated_gradients(launches: list[int], kind: str) -> None:
    _, one, other = hooked_pair()
    seen: list[Tensor] = []
    if kind == "before":
        one.register_hook(lambda gradient: seen.append(gradient.clone()))  # type: ignore[no-untyped-call]
    else:
        one.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.clone()))  # type: ignore[union-attr]
    loss_of(one, other).backward()
    assert launches == ([1] if kind == "before" else [])  # one that runs later may look at any parameter
    assert torch.equal(seen[0], gated(plain()[0], ONE))


def test_equal_gradients_that_share_memory_are_gated_apart(launches: list[int]) -> None:
    _, one, other = hooked_pair()
    (one + other).sum().backward()  # autograd gives both the same tensor
    assert torch.equal(one.grad, gated(torch.ones(40, 50), ONE))
    assert torch.equal(other.grad, gated(torch.ones(40, 50), OTHER))


def test_a_pass_within_a_pass_adds_gated_gradients(launches: list[int]) -> None:
    """A reentrant checkpoint runs one, here through a weight that the outer pass has reached before."""
    one, other = pair()
    batch = GradientBatch(nn.ParameterList([one, other]))
    hook(batch, one, ONE)
    start = torch.zeros(40, 50, requires_grad=True)

    def inner(value: Tensor) -> Tensor:
        return (value + one * other.detach()).sin()

    middle = checkpoint(inner, start, use_reentrant=True)
    (middle * one).sum().backward()
    bare, _ = pair()
    within = (start + bare * other).sin()
    outer_part = within.detach()
    inner_part = torch.autograd.grad((within * bare.detach()).sum(), bare)[0]
    expected = gated(outer_part, ONE) + gated(inner_part, ONE)
    assert torch.equal(one.grad, expected)
    assert launches


def test_what_a_failed_pass_left_is_gated_before_the_step(launches: list[int]) -> None:
    batch, one, other = hooked_pair()

    deep = Fails.apply(other)  # made first, so that autograd reaches it last
    with pytest.raises(MemoryError):
        (deep + one * 3.0).sum().backward()
    assert launches == []
    batch.finish()
    assert torch.equal(one.grad, gated(torch.full((40, 50), 3.0), ONE))
    batch.finish()
    assert launches == [1]


def test_hooks_of_modules_see_gated_gradients(launches: list[int]) -> None:
    layer = nn.Linear(20, 20)
    batch = GradientBatch(layer)
    hook(batch, layer.weight, ONE)
    seen: list[Tensor] = []
    layer.register_full_backward_hook(lambda *_: seen.append(layer.weight.grad.clone()))
    layer(torch.ones(3, 20, requires_grad=True)).sum().backward()
    assert launches == []
    assert torch.equal(seen[0], gated(torch.full((20, 20), 3.0), ONE))


def test_a_launch_that_fails_is_made_up_for(launches: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    batch, one, other = hooked_pair()

    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(gradients, "apply_each_", full)
        with pytest.raises(MemoryError):
            loss_of(one, other).backward()
    batch.finish()
    assert torch.equal(one.grad, gated(plain()[0], ONE))


def test_a_retry_after_a_failed_pass_is_gated_once(launches: list[int]) -> None:
    """The gradients that the retry adds are shared, so the hooks gate them."""
    batch, one, other = hooked_pair()
    with pytest.raises(MemoryError):
        (Fails.apply(other) + one * 3.0).sum().backward()
    one.grad = None
    (one + other).sum().backward()
    batch.finish()
    assert torch.equal(one.grad, gated(torch.ones(40, 50), ONE))


def test_a_parameter_that_is_closed_between_the_passes_gets_no_gradient(launches: list[int]) -> None:
    _, one, other = hooked_pair()
    loss = loss_of(one, other)
    one.requires_grad_(False)
    loss.backward()
    assert one.grad is None
    assert torch.equal(other.grad, gated(plain()[1], OTHER))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_cuda)])
@pytest.mark.parametrize("micro", [1, 3])
def test_a_tuner_trains_to_the_same_bits(monkeypatch: pytest.MonkeyPatch, micro: int, device: str) -> None:
    def trained(together: bool) -> list[Tensor]:
        monkeypatch.setattr(GradientBatch, "pays", lambda self, gradient: together)
        torch.manual_seed(0)
        model = TINY["bert"]().to(device)
        batch = {name: tensor.to(device) for name, tensor in tiny_batch(model).items()}
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with gg.Tuner(model, optimizer, "graddrop:p=0.3", total_steps=4):
            for _ in range(4):
                for _ in range(micro):
                    model(**batch).loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        return [parameter.detach() for parameter in model.parameters()]

    assert all(map(torch.equal, trained(True), trained(False)))
