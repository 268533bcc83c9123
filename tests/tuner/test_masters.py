"""Float32 masters: the step of float32 training, rounded once, for what is open and for nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

import gradgate.tuner.step_plan
from gradgate import Tuner, map_layers
from gradgate.errors import AttachError, RunError, UsageError
from gradgate.layers import named_parameters
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, batch, build, moved, same, step, train, weights
from support.optimizers import muon_and_adamw

Make = Callable[[Iterable[Any]], torch.optim.Optimizer]
SMALL = 1e-5
"""A rate whose steps are smaller than the rounding of most weights in bfloat16."""


def half(dtype: torch.dtype = torch.bfloat16) -> Any:
    return build("bert").to(dtype)


def masters(tuner: Tuner) -> dict[str, Tensor]:
    """The masters in a tuner's state, by parameter."""
    tensors = tuner.state_dict().get("tensors", {})
    return {name.removeprefix("master/"): t for name, t in tensors.items() if name.startswith("master/")}


def by_hand(model: nn.Module, optimizer_of: Make, open_names: set[str], steps: int, clip: float | None = None) -> None:
    """Copies in float32 that a loop of one's own steps, and rounds into the model."""
    parameters = {name: p for name, p in named_parameters(model).items() if name in open_names}
    for name, parameter in named_parameters(model).items():
        parameter.requires_grad_(name in open_names)
    copies = {name: nn.Parameter(p.detach().float()) for name, p in parameters.items()}
    optimizer = optimizer_of(copies.values())
    for number in range(steps):
        model.zero_grad()
        model(**batch(model, number)).loss.backward()
        if clip is not None:
            clip_grad_norm_(model.parameters(), clip)
        for name, one in copies.items():
            grad = parameters[name].grad
            one.grad = None if grad is None else grad.float()
        optimizer.step()
        with torch.no_grad():
            for name, one in copies.items():
                parameters[name].copy_(one)


OPTIMIZERS: dict[str, Make] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-4, weight_decay=0.1),
    "adamw in batches": lambda p: torch.optim.AdamW(p, lr=1e-4, weight_decay=0.1, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=1e-4, weight_decay=0.1, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, weight_decay=0.1),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-3),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-3, weight_decay=0.1),
}


@each_once("dtype", [torch.bfloat16, torch.float16], "name", list(OPTIMIZERS))
def test_each_step_is_that_of_a_float32_copy(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    make = OPTIMIZERS[name]
    monkeypatch.setattr(gradgate.tuner.step_plan, "CHUNK_BYTES", 2**13)
    ours, theirs = half(dtype), half(dtype)
    optimizer = make(ours.parameters())
    with Tuner(ours, optimizer, "groups:open=layers.1/head") as tuner:
        opened = {name for name, p in named_parameters(ours).items() if p.requires_grad}
        train(ours, optimizer, 4, clip=1.0)
        copies = masters(tuner)
    by_hand(theirs, make, opened, 4, clip=1.0)
    assert_same_weights(ours, theirs)
    assert copies.keys() == opened
    for name, copied in copies.items():
        assert same(copied.to(dtype), ours.get_parameter(name))
    states = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    assert all(value.dtype == torch.float32 for value in states)


def test_several_optimizers_step_their_own_masters() -> None:
    ours, theirs = half(), half()
    optimizers = muon_and_adamw(ours, lr=1e-4)
    with Tuner(ours, optimizers, "full") as tuner:
        for number in range(3):
            ours.zero_grad()
            ours(**batch(ours, number)).loss.backward()
            for one in optimizers:
                one.step()
        assert tuner.clock.step == 3
        copies = masters(tuner)
    full = theirs.float()
    expected = muon_and_adamw(full, lr=1e-4)
    for number in range(3):
        rounded = copy.deepcopy(full).bfloat16()
        rounded.zero_grad()
        rounded(**batch(rounded, number)).loss.backward()
        for parameter, twin in zip(full.parameters(), rounded.parameters(), strict=True):
            parameter.grad = None if twin.grad is None else twin.grad.float()
        for one in expected:
            one.step()
    for name, parameter in full.named_parameters():
        assert same(copies[name], parameter), name


def test_only_what_is_open_has_a_master_a_gradient_or_a_dropped_state() -> None:
    model = half()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "lisa:layers=1,every=1,state=drop", seed=1) as tuner:
        seen = set()
        for number in range(5):
            model.zero_grad()
            opened = {name for name, p in model.named_parameters() if p.requires_grad}
            seen.add(frozenset(opened))
            assert masters(tuner).keys() == opened
            model(**batch(model, number)).loss.backward()
            assert {name for name, p in model.named_parameters() if p.grad is not None} <= opened
            optimizer.step()
            assert {n for n, p in model.named_parameters() if p in optimizer.state} <= opened
            assert all(p.grad is None or p.requires_grad for p in model.parameters())
    assert len(seen) > 1
    assert tuner.state_dict().get("tensors", {}) == {}


def test_a_group_that_opens_again_starts_from_its_rounded_weights() -> None:
    model = half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with Tuner(model, optimizer, "lisa:layers=1,every=1", seed=1) as tuner:
        for number in range(6):
            before = tuner.plan
            step(model, optimizer, number)
            copies = masters(tuner)
            for group, gate in tuner.plan.items():
                if before[group].closed and not gate.closed:
                    for name in tuner.layers[group].parameter_names:
                        assert torch.equal(copies[name], model.get_parameter(name).float())


class Net(nn.Module):
    """Three layers of a regression, with norms whose weights of 1 no small step moves in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        blocks = [nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Tanh()) for _ in range(3)]
        self.layers = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


def losses(model: Net, steps: int = 200, *, lr: float, tuned: bool) -> list[float]:
    """Of each step, as the top two layers learn a fixed map."""
    made = torch.Generator().manual_seed(1)
    data = torch.randn(64, 16, generator=made)
    target = torch.randn(64, 16, generator=made) * 2
    dtype = next(model.parameters()).dtype
    for parameter in model.layers[0].parameters():
        parameter.requires_grad_(tuned)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    found = []
    method = "groups:open=layers.top2"
    with Tuner(model, optimizer, method, layers=map_layers(model, layers="layers")) if tuned else nullcontext():
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(data.to(dtype)).float() - target).square().mean()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
    return found


def test_200_steps_are_those_of_float32_and_plain_bfloat16_stalls() -> None:
    """At a rate of 1e-5, 200 steps go 2e-3 far: half of the rounding of a weight of 1."""
    start, models = Net().bfloat16(), [Net().bfloat16() for _ in range(3)]
    exact, ours, plain = models[0].float(), models[1], models[2]
    of_exact, of_ours = losses(exact, lr=SMALL, tuned=True), losses(ours, lr=SMALL, tuned=True)
    of_plain = losses(plain, lr=SMALL, tuned=False)
    falls = [curve[0] - sum(curve[-20:]) / 20 for curve in (of_exact, of_ours, of_plain)]
    assert abs(falls[1] - falls[0]) < 0.02 * falls[0]
    assert falls[2] < 0.1 * falls[0]
    apart, went, within = [], [], []
    for name, was in start.named_parameters():
        truth, mine = exact.get_parameter(name).detach(), ours.get_parameter(name).detach().float()
        neighbour = torch.nextafter(truth.bfloat16(), torch.tensor(torch.inf).bfloat16()).float()
        within.append(((mine - truth).abs() <= (neighbour - truth).abs().clamp(min=1e-4)).flatten())
        apart.append((mine - truth).flatten())
        went.append((truth - was.detach().float()).flatten())
    assert torch.cat(within).float().mean() > 0.98
    assert torch.cat(apart).abs().mean() < 0.15 * torch.cat(went).abs().mean()
    norm = models[2].layers[2][1].weight
    assert torch.equal(norm, torch.ones_like(norm))  # plain: not one step was taken
    assert not torch.equal(exact.layers[2][1].weight, torch.ones(16))


@each_once(
    "text",
    ["lisa:layers=1,every=2", "groups:open=layers.1/head"],
    "order",
    ["tuner first", "state at once", "weights last"],
)
def test_resuming_across_an_opening_changes_nothing(text: str, order: str) -> None:
    unbroken = half()
    optimizer = adamw(unbroken, lr=1e-4)
    saved: list[Any] = []
    with Tuner(unbroken, optimizer, text) as tuner:

        def save(_: int) -> None:
            saved.append(copy.deepcopy((unbroken.state_dict(), optimizer.state_dict(), tuner.state_dict())))

        train(unbroken, optimizer, 5, after=save)
    for done in (2, 3):  # before and after an opening
        weights_then, moments, state = saved[done - 1]
        resumed = half()
        optimizer = adamw(resumed, lr=1e-4)
        if order != "weights last":
            resumed.load_state_dict(weights_then)
        first = state if order == "state at once" else None
        with Tuner(resumed, optimizer, text, state=first, audit=order != "weights last") as tuner:
            optimizer.load_state_dict(moments)
            if order != "state at once":
                tuner.load_state_dict(state)
            if order == "weights last":
                resumed.load_state_dict(weights_then)
            train(resumed, optimizer, range(done, 5))
        assert_same_weights(unbroken, resumed)


def test_moments_that_were_rounded_when_they_were_loaded_are_refused() -> None:
    model = half()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full") as tuner:
        train(model, optimizer, 1)
        moments, state = optimizer.state_dict(), tuner.state_dict()
    resumed = half()
    optimizer = adamw(resumed)
    optimizer.load_state_dict(moments)
    with pytest.raises(RunError, match="Make the tuner first, then load the optimizer's state"):
        Tuner(resumed, optimizer, "full", state=state)


def test_a_state_with_masters_and_one_without_do_not_mix() -> None:
    model = half()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full") as tuner:
        with_masters = tuner.state_dict()
    with Tuner(model, optimizer, "full", master="none") as tuner:
        without = tuner.state_dict()
        with pytest.raises(RunError, match=r"has a float32 master of .* but this training has none"):
            tuner.load_state_dict(with_masters)
    with Tuner(model, optimizer, "full") as tuner, pytest.raises(RunError, match="has no float32 master of"):
        tuner.load_state_dict(without)


def test_weights_that_are_loaded_while_training_are_what_is_stepped() -> None:
    model = half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with Tuner(model, optimizer, "full") as tuner:
        train(model, optimizer, 2)
        kept = masters(tuner)
        with torch.no_grad():
            model.classifier.weight.fill_(2.0)
        step(model, optimizer, 2)
        copies = masters(tuner)
    assert ((copies["classifier.weight"] - 2.0).abs() < 0.01).all()
    assert ((copies["bert.pooler.dense.weight"] - kept["bert.pooler.dense.weight"]).abs() < 1e-3).all()


def test_masked_weights_keep_every_bit_and_others_gather_small_steps() -> None:
    model = half()
    optimizer = adamw(model, lr=SMALL, weight_decay=0.0)
    before = weights(model)
    with Tuner(model, optimizer, "child-tuning:mode=F,keep=0.5", seed=3) as tuner:
        train(model, optimizer, 1)
        copies = masters(tuner)
    name = "bert.encoder.layer.1.output.dense.weight"
    unmoved = copies[name] == before[name].float()
    assert 0.4 < float(unmoved.float().mean()) < 0.6
    assert same(model.get_parameter(name)[unmoved], before[name][unmoved])


def test_a_step_that_a_scaler_skips_leaves_weights_masters_and_states() -> None:
    model = half(torch.float16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4)
    with Tuner(model, optimizer, "full") as tuner:
        for number in range(3):
            optimizer.zero_grad()
            scaler.scale(model(**batch(model, number)).loss).backward()
            if number == 1:
                before, kept = weights(model), masters(tuner)
                model.classifier.weight.grad.fill_(float("inf"))
            scaler.step(optimizer)
            scaler.update()
            if number == 1:
                assert tuner.clock.step == 1
                assert all(same(before[name], p) for name, p in model.named_parameters())
                assert all(same(kept[name], t) for name, t in masters(tuner).items())
        assert tuner.clock.step == 2
        assert set(optimizer.state) <= set(model.parameters())


def test_a_float32_model_has_none_and_a_mixed_one_only_for_16_bits() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", master="float32") as tuner:
        assert masters(tuner) == {}
    model = half()
    model.classifier.float()
    with Tuner(model, adamw(model), "full") as tuner:
        assert masters(tuner).keys() == {n for n in named_parameters(model) if not n.startswith("classifier")}


def test_master_none_steps_the_weights_themselves() -> None:
    ours, theirs = half(), half()
    for model, tuned in ((ours, True), (theirs, False)):
        optimizer = adamw(model)
        with Tuner(model, optimizer, "full", master="none") if tuned else nullcontext():
            train(model, optimizer, 3)
        assert all(s["exp_avg"].dtype == torch.bfloat16 for s in optimizer.state.values())
    assert_same_weights(ours, theirs)


def rounding(parameters: Any) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    optimizer.bf16_stochastic_round = True  # type: ignore[attr-defined]
    return optimizer


def eight_bits(parameters: Any) -> torch.optim.Optimizer:
    kind = type("AdamW8bit", (torch.optim.AdamW,), {"__module__": "bitsandbytes.optim.adamw"})
    made: torch.optim.Optimizer = kind(parameters)
    return made


@pytest.mark.parametrize(
    ("make", "reason"), [(rounding, "has bf16_stochastic_round"), (eight_bits, "AdamW8bit is made for low precision")]
)
def test_an_optimizer_with_a_precision_of_its_own_has_no_masters(make: Make, reason: str) -> None:
    model = half()
    optimizer = make(model.parameters())
    with pytest.raises(AttachError, match=f"master=float32 does not fit: .*{reason}"):
        Tuner(model, optimizer, "full", master="float32")
    with Tuner(model, optimizer, "full") as tuner:
        assert masters(tuner) == {}


def test_an_optimizer_that_steps_other_weights_than_its_groups_have_is_refused() -> None:
    class Own(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            with torch.no_grad():
                for parameter in self.mine:
                    parameter.add_(1.0)

    model = half()
    optimizer = Own(model.parameters(), lr=0.1)
    optimizer.mine = list(model.parameters())  # type: ignore[attr-defined]
    with Tuner(model, optimizer, "full", audit=False), pytest.raises(AttachError, match="not in its param_groups"):
        step(model, optimizer, 0)


def test_an_unknown_master_is_refused() -> None:
    model = half()
    with pytest.raises(UsageError, match="master='bf16': expected 'float32', 'none' or None"):
        Tuner(model, adamw(model), "full", master="bf16")  # type: ignore[arg-type]


def test_a_model_that_is_cast_under_a_tuner_is_refused_before_the_step() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", total_steps=3):
        step(model, optimizer, 0)
        model.to(torch.bfloat16)
        before = weights(model)
        with pytest.raises(AttachError, match=r"were cast to torch\.bfloat16.*Cast the model first"):
            step(model, optimizer, 1)
        assert not moved(before, model)
        model.to(torch.float32)
        step(model, optimizer, 1)


def test_a_cast_without_masters_is_the_users_choice() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full", total_steps=3, master="none") as tuner:
        model.to(torch.bfloat16)
        step(model, optimizer, 0)
        assert tuner.clock.step == 1


def test_states_that_are_loaded_again_step_16_bit_weights_without_a_tuner() -> None:
    model = half()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "full"):
        train(model, optimizer, 2)
    optimizer.load_state_dict(optimizer.state_dict())
    before = weights(model)
    train(model, optimizer, 1)
    assert moved(before, model)
    with Tuner(model, optimizer, "full", master="none"):
        train(model, optimizer, 1)
