"""Compare training with shards of one model (FSDP2) in two and in four processes with one process."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from gradgate import Tuner
from gradgate.layers import named_parameters
from support.crossed import some_fast
from support.gloo_group import in_processes
from support.loop import batch, build
from support.replicas import adamw, compare, fresh, fsdp, full, refused, same_everywhere

METHODS = (
    "blocks:every=1",
    "blocks:every=1,ends=blocks,order=top-down,state=offload",
    "lisa:layers=1,every=1,ends=closed,state=drop",
)
STEPS = 3
several = pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])


def my_rows() -> slice:
    """This process's share of the four rows of a batch."""
    share = 4 // dist.get_world_size()
    return slice(share * dist.get_rank(), share * (dist.get_rank() + 1))


def backward(model: nn.Module, rows: slice, step: int) -> None:
    part = {name: values[rows] for name, values in batch(model, step).items()}
    model(**part).loss.backward()


@several
@some_fast("method", METHODS, METHODS[1:])
@in_processes
def test_shards_equal_one_process(method: str, processes: int) -> None:
    """In lockstep with one process that sees the whole batch, over all openings; FSDP2 wraps each layer."""
    models = {"alone": fresh(), "fsdp": fsdp()}
    start = {name: p.detach().clone() for name, p in models["alone"].named_parameters()}
    optimizers = {kind: adamw(model) for kind, model in models.items()}
    tuners = {kind: Tuner(model, optimizers[kind], method, seed=3, audit=True) for kind, model in models.items()}
    for step in range(STEPS):
        for kind, model in models.items():
            model.zero_grad()
            backward(model, slice(0, 4) if kind == "alone" else my_rows(), step)
            optimizers[kind].step()
        assert tuners["fsdp"].plan == tuners["alone"].plan
        compare(models["alone"], models["fsdp"], start, f"step {step}")
        for parameter in models["fsdp"].parameters():
            assert parameter.requires_grad or parameter.grad is None
            assert all(
                isinstance(v, DTensor) for k, v in optimizers["fsdp"].state.get(parameter, {}).items() if k != "step"
            )
    for tuner in tuners.values():
        tuner.detach()


def half() -> nn.Module:
    model: nn.Module = build("bert").bfloat16()
    return model


def small_steps(model: nn.Module) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, eps=1e-5)


def masters_of(tuner: Tuner) -> dict[str, Tensor]:
    """Of every process, because each gives its part."""
    return {name: tensor for name, tensor in tuner.state_dict()["tensors"].items() if name.startswith("master/")}


@several
@in_processes
def test_masters_and_states_are_equal_shards(processes: int) -> None:
    """Every process has the same batch, so that the mean of their gradients in bfloat16 has no rounding of its own."""
    models = {"alone": half(), "fsdp": fsdp(half())}
    optimizers = {kind: small_steps(model) for kind, model in models.items()}
    tuners = {kind: Tuner(model, optimizers[kind], "blocks:every=1", seed=3) for kind, model in models.items()}
    for step in range(STEPS):
        for kind, model in models.items():
            model.zero_grad()
            backward(model, slice(0, 4), step)
            optimizers[kind].step()
        theirs, ours = (masters_of(tuners[kind]) for kind in ("alone", "fsdp"))
        opened = {f"master/{name}" for name, p in named_parameters(models["fsdp"]).items() if p.requires_grad}
        assert ours.keys() == theirs.keys() == opened
        for name, whole in theirs.items():
            torch.testing.assert_close(ours[name], whole, rtol=0, atol=1e-7, msg=name)
        for name, parameter in named_parameters(models["fsdp"]).items():
            twin = named_parameters(models["alone"])[name]
            torch.testing.assert_close(full(parameter).float(), twin.detach().float(), rtol=2**-7, atol=1e-7, msg=name)
            states = {k: v for k, v in optimizers["fsdp"].state.get(parameter, {}).items() if k != "step"}
            assert all(isinstance(v, DTensor) and v.dtype == torch.float32 for v in states.values())
            assert parameter.requires_grad or not states
    for tuner in tuners.values():
        tuner.detach()


@several
@in_processes
def test_masters_resume_from_saved_state(processes: int) -> None:
    unbroken = fsdp(half())
    optimizer = small_steps(unbroken)
    with Tuner(unbroken, optimizer, "blocks:every=1", seed=3) as tuner:
        for step in range(STEPS):
            if step == 2:
                weights = {name: full(p).clone() for name, p in named_parameters(unbroken).items()}
                moments, state = copy.deepcopy(optimizer.state_dict()), tuner.state_dict()
            unbroken.zero_grad()
            backward(unbroken, my_rows(), step)
            optimizer.step()
    whole = half()
    with torch.no_grad():
        for name, parameter in named_parameters(whole).items():
            parameter.copy_(weights[name])
    resumed = fsdp(whole)
    optimizer = small_steps(resumed)
    with Tuner(resumed, optimizer, "blocks:every=1", seed=3) as tuner:
        optimizer.load_state_dict(moments)
        tuner.load_state_dict(state)
        for step in range(2, STEPS):
            resumed.zero_grad()
            backward(resumed, my_rows(), step)
            optimizer.step()
    for one, other in zip(unbroken.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(full(one), full(other))


@several
@in_processes
def test_frozen_first_pass_fixes_no_dtype(processes: int) -> None:
    """In mixed precision: of what is frozen then, FSDP2 would reduce later gradients in the type of the computation."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

    def mixed() -> Any:
        model: Any = build("bert")
        for layer in model.bert.encoder.layer:
            fully_shard(layer, mp_policy=policy)
        return fully_shard(model, mp_policy=policy)

    gradients = []
    for frozen_first in (False, True):
        model = mixed()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        if frozen_first:
            model.requires_grad_(False)
            with torch.no_grad():
                model(**batch(model, 9))
            model.requires_grad_(True)  # of the root's whole parameters, which this pass has left in place
        with Tuner(model, optimizer, "gradual:every=1"):
            for step in range(3):  # the first with the head alone open
                model.zero_grad()
                backward(model, my_rows(), step)
                optimizer.step()
        gradients.append([None if p.grad is None else full(p.grad) for p in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == torch.float32 and torch.equal(one, other))


@several
@in_processes
def test_gradient_release_needs_one_process(processes: int) -> None:
    model = fsdp()
    with refused("averaged over the . processes"):
        Tuner(model, adamw(model), "full", release_gradients=True)
    assert same_everywhere(all(p.requires_grad for p in model.parameters()))
