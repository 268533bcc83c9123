"""Optimizers as other people write them: they step twice, by a closure, within the backward pass, or around another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from support.loop import batch

Loop = Callable[[nn.Module, Any, int], None]


class Sam(torch.optim.Optimizer):
    """Sharpness-aware minimization around another optimizer, in two calls or by a closure; adaptive on request."""

    def __init__(self, parameters: Any, base: Callable[..., torch.optim.Optimizer], adaptive: bool = False) -> None:
        super().__init__(parameters, {"rho": 0.05, "adaptive": adaptive})
        self.base_optimizer = base(self.param_groups)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self) -> None:
        with_gradient = list(learning(self))
        norm = torch.stack([p.grad.norm() for p in with_gradient if p.grad is not None]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p]["old_p"] = p.data.clone()
                    p.add_(p.grad * (p.pow(2) if group["adaptive"] else 1.0), alpha=group["rho"] / float(norm))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for p in learning(self):
            p.data = self.state[p]["old_p"]
        self.base_optimizer.step()
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.first_step()
        torch.enable_grad()(closure)()
        self.second_step()


class SamOfItsOwn(torch.optim.SGD):
    """Perturbs and updates by itself: no step of torch ever runs."""

    @torch.no_grad()
    def first_step(self) -> None:
        for p in learning(self):
            self.state[p]["e"] = 0.01 * p.grad
            p.add_(self.state[p]["e"])
            p.grad = None

    @torch.no_grad()
    def second_step(self) -> None:
        for p in learning(self):
            p.sub_(self.state[p]["e"]).sub_(0.1 * p.grad)
            p.grad = None


class SamByClosure(SamOfItsOwn):
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.first_step()
        closure()
        self.second_step()


class Lomo(torch.optim.Optimizer):
    """Updates in hooks of the backward pass."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())
        for parameter in self._parameters:
            hook: Any = parameter.register_hook
            hook(lambda gradient: self._update())
        super().__init__(self._parameters, {"lr": 0.1})

    @torch.no_grad()
    def _update(self) -> None:
        for p in self._parameters:
            if p.grad is not None:
                p.data.add_(p.grad, alpha=-0.1)
                p.grad = None

    def fused_backward(self, loss: Tensor) -> None:
        loss.backward()
        self._update()


class LomoWithoutName(Lomo):
    """Has a step, which does nothing."""

    fused_backward = None  # type: ignore[assignment]

    def step(self, closure: Any = None) -> None: ...


class Lookahead(torch.optim.Optimizer):
    """Pulls every weight to a slow copy at each second step."""

    def __init__(self, base: torch.optim.Optimizer, *, by_torch: bool = True) -> None:
        self.base, self.count = base, 0
        if by_torch:
            super().__init__(base.param_groups, {})
        else:
            self.param_groups, self.state, self.defaults = base.param_groups, base.state, {}
        self.slow = {p: p.detach().clone() for group in base.param_groups for p in group["params"]}

    def step(self, closure: Any = None) -> None:
        self.base.step(closure)
        self.count += 1
        for group in self.param_groups if self.count % 2 == 0 else ():
            for p in group["params"]:
                slow = self.slow[p].add_(p.detach() - self.slow[p], alpha=0.5)
                p.data.copy_(slow)


class Wrapped:
    """Passes its step on, like wrappers for mixed precision."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.param_groups = optimizer, optimizer.param_groups

    def step(self) -> None:
        self.optimizer.step()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()


class WrappedLookahead(Wrapped):
    """Writes to the weights after the step of its optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self.slow = {p: p.detach().clone() for group in self.param_groups for p in group["params"]}

    def step(self) -> None:
        super().step()
        for p, slow in self.slow.items():
            p.data.copy_(slow.add_(p.detach() - slow, alpha=0.5))


class Dummy(torch.optim.Optimizer):
    """Has the parameters, while an optimizer for each of them steps in a hook."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model.parameters(), {"lr": 0.1})
        step_in_hooks(model)

    def step(self, closure: Any = None) -> None: ...


def step_in_hooks(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Step each parameter as soon as its gradient is there, as in PyTorch's tutorial."""
    each = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}

    def update(parameter: Tensor) -> None:
        each[parameter].step()
        each[parameter].zero_grad()

    for parameter in each:
        parameter.register_post_accumulate_grad_hook(update)
    return list(each.values())


def train_oddly(model: nn.Module, optimizer: Any, loop: Loop, steps: int) -> None:
    for number in range(steps):
        loop(model, optimizer, number)


def learning(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None)


def backward(model: nn.Module, number: int) -> Tensor:
    loss: Tensor = model(**batch(model, number)).loss
    loss.backward()
    return loss


def usual(model: nn.Module, optimizer: Any, number: int) -> None:
    model.zero_grad()
    backward(model, number)
    optimizer.step()


def two_passes(model: nn.Module, optimizer: Any, number: int) -> None:
    backward(model, number)
    optimizer.first_step()
    backward(model, number)
    optimizer.second_step()


def by_closure(model: nn.Module, optimizer: Any, number: int) -> None:
    backward(model, number)
    optimizer.step(lambda: backward(model, number))


def in_backward(model: nn.Module, optimizer: Any, number: int) -> None:
    backward(model, number)


def fused(model: nn.Module, optimizer: Any, number: int) -> None:
    optimizer.fused_backward(model(**batch(model, number)).loss)


def stepped_twice(model: nn.Module, optimizer: Any, number: int) -> None:
    usual(model, optimizer, number)
    optimizer.step()


def by_hand(model: nn.Module, optimizer: Any, number: int) -> None:
    model.zero_grad()
    backward(model, number)
    with torch.no_grad():
        for p in learning(optimizer):
            p.sub_(0.1 * p.grad)


def by_another(model: nn.Module, optimizer: Any, number: int) -> None:
    usual(model, torch.optim.SGD(model.parameters(), lr=0.1), number)
