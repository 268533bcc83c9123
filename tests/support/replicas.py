"""A tiny model as one process has it, as copies (DDP) and as shards (FSDP2), and what they have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from gradgate.errors import AttachError, GradgateError
from gradgate.layers import named_parameters
from support.loop import batch, build
from support.optimizers import matrices, others


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """A large epsilon: the gradients of some biases are nothing but rounding, which Adam would blow up."""
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, eps=1e-5)


def two_adamw(model: nn.Module) -> list[torch.optim.Optimizer]:
    """One for the matrices of the layers and one for the rest: of Muon's updates, shards change the rounding."""
    return [torch.optim.AdamW(own, lr=1e-2, weight_decay=0.1, eps=1e-5) for own in (matrices(model), others(model))]


def fresh() -> nn.Module:
    return build("bert").double()


def ddp(**options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(fresh(), **{"find_unused_parameters": True, **options})


def fsdp(model: nn.Module | None = None) -> nn.Module:
    """Each layer a group, the rest another."""
    model = model or fresh()
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    return fully_shard(model)


def backward(model: nn.Module, rows: slice, step: int, *, micro: int = 1) -> None:
    """A part of the step's batch, in so many pieces; the loss is its mean."""
    part = {name: values[rows] for name, values in batch(getattr(model, "module", model), step).items()}
    chunks = [values.chunk(micro) for values in part.values()]
    pieces = [dict(zip(part, values, strict=True)) for values in zip(*chunks, strict=True)]
    for piece in pieces:
        last = piece is pieces[-1]
        if hasattr(model, "set_requires_gradient_sync"):
            model.set_requires_gradient_sync(last)
        with nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync():
            (model(**piece).loss / micro).backward()


def mine() -> slice:
    """This process's half of the four rows of a batch."""
    return slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2)


def full(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()


def same_everywhere(value: object) -> bool:
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return all(other == found[0] for other in found)


def readable(state: dict[str, Any]) -> dict[str, Any]:
    """A tuner's state as values that can be compared; sums over shards are rounded differently."""
    tensors = {name: tensor.tolist() for name, tensor in state.get("tensors", {}).items()}
    read: dict[str, Any] = json.loads(
        json.dumps({**state, "tensors": tensors}), parse_float=lambda x: f"{float(x):.5g}"
    )
    return read


def digests(model: nn.Module) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


@contextmanager
def refused(match: str, kind: type[GradgateError] = AttachError) -> Iterator[None]:
    with pytest.raises(kind, match=match):
        yield


def compare(alone: nn.Module, other: nn.Module, start: dict[str, Tensor], where: str) -> None:
    """Gradients stopped at the same elements, weights equal up to rounding, and unmoved where the other's are."""
    reference, compared = named_parameters(alone), named_parameters(other)
    assert reference.keys() == compared.keys()
    for name, weight in reference.items():
        twin = compared[name]
        assert weight.requires_grad == twin.requires_grad, f"{where}: {name}"
        held, expected, began = local(twin), like(twin, weight), like(twin, start[name])
        assert torch.allclose(held, expected, rtol=0, atol=1e-9), f"{where}: {name}"
        if weight.dim() < 2:
            continue  # gradients of some biases are nothing but rounding
        assert torch.equal(held == began, expected == began), f"{where}: {name} moved elsewhere"
        if weight.grad is not None and twin.grad is not None:
            assert torch.equal(local(twin.grad) == 0, like(twin, weight.grad) == 0), f"{where}: the mask of {name}"


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def like(twin: Tensor, whole: Tensor) -> Tensor:
    """The part of a whole tensor that this process holds of its twin: FSDP2 cuts the rows as ``chunk`` does."""
    whole = whole.detach()
    if not isinstance(twin, DTensor):
        return whole
    chunks = whole.chunk(dist.get_world_size())
    return chunks[dist.get_rank()] if dist.get_rank() < len(chunks) else whole[:0]
