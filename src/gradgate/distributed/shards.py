"""Handle sharded tensors, split into rows over processes by PyTorch's FSDP2 (``fully_shard``)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from gradgate.errors import AttachError
from gradgate.layers.names import reshard


def local(tensor: Tensor) -> tuple[Tensor, int]:
    """Return this process's shard of a tensor, and the index of its first element in the full tensor.

    Args:
        tensor: any; a tensor that is not sharded is returned in full, with index 0.

    Returns:
        A plain tensor that shares memory and version counter with the shard, without gradient. Rows are contiguous:
        element ``j`` of it is element ``index + j`` of the full tensor. It may be empty if there are fewer rows than
        processes.
    """
    if not isinstance(tensor, DTensor):
        return tensor.detach(), 0
    with torch.no_grad():
        shard: Tensor = tensor.to_local()
    return shard, _offset(tuple(tensor.shape), tensor.device_mesh, tuple(tensor.placements))


def whole(tensor: Tensor) -> Tensor:
    """Return the full tensor, without gradient; a collective call for every process with a shard of it."""
    if not isinstance(tensor, DTensor):
        return tensor.detach()
    with torch.no_grad():
        full: Tensor = tensor.full_tensor()
    return full


def is_sharded(tensor: Tensor) -> bool:
    """Return True if the tensor is split over processes."""
    return isinstance(tensor, DTensor)


def all_finite(tensor: Tensor) -> bool:
    """Return True if every element is finite; the same answer in all processes with a shard of it."""
    finite = torch.isfinite(local(tensor)[0]).all()
    if isinstance(tensor, DTensor):
        for axis, placement in enumerate(tensor.placements):
            if placement.is_shard():
                least = finite.to(torch.uint8)
                dist.all_reduce(least, op=dist.ReduceOp.MIN, group=tensor.device_mesh.get_group(axis))
                finite = least
    return bool(finite)


def check_shards(model: nn.Module, parameters: Mapping[str, Tensor]) -> None:
    """Check that all shards are rows made by FSDP2.

    Raises:
        AttachError: if one is not.
    """
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        raise AttachError(
            "FSDP version 1 merges parameters into flat ones, which cannot open, close or be masked one by one. Use "
            "FSDP2: torch.distributed.fsdp.fully_shard, or fsdp_version 2 in accelerate."
        )
    sharded = {name: tensor for name, tensor in parameters.items() if isinstance(tensor, DTensor)}
    by_fsdp = any(isinstance(module, FSDPModule) for module in model.modules())
    for name, tensor in sharded.items():
        placements = [placement for placement in tensor.placements if not placement.is_replicate()]
        if not by_fsdp or len(placements) > 1 or any(type(p) is not Shard or p.dim != 0 for p in placements):
            raise AttachError(
                f"{name} is sharded over processes as {tensor.placements}. Only rows (Shard(0)) made by fully_shard "
                f"can be gated: no tensor parallelism and no other dimension."
            )


def prepare(model: nn.Module) -> None:
    """Let FSDP2 choose its dtypes while every parameter that will learn still requires a gradient.

    By default it chooses them before the first forward pass, and treats a module that is frozen then as frozen for
    good: its gradients would be reduced in the compute dtype (https://github.com/pytorch/pytorch/issues/186998).
    A model that has already run with frozen parameters gets its dtypes again. Flags on unsharded parameters that the
    last forward pass left behind are copied to their shards.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            state: Any = module._get_fsdp_state()
            state._lazy_init()  # does nothing a second time; the outermost module comes first
            for group in _parameter_groups(state):
                for one in group.fsdp_params:
                    if one.sharded_state.name == "UNSHARDED":
                        one.sharded_param.requires_grad_(one.unsharded_param.requires_grad)
                if getattr(group, "_orig_dtype", ...) is None:
                    group._init_mp_dtypes()
    reshard(model)


def _parameter_groups(state: Any) -> list[Any]:
    """Return FSDP2's parameter groups, under the attribute names of several versions of PyTorch."""
    several = getattr(state, "_fsdp_param_groups", None)
    one = getattr(state, "_fsdp_param_group", None) if several is None else None
    return list(several) if several is not None else [one] if one is not None else []


@lru_cache(maxsize=4096)
def _offset(shape: tuple[int, ...], mesh: DeviceMesh, placements: tuple[Any, ...]) -> int:
    _, start = compute_local_shape_and_global_offset(shape, mesh, placements)
    return int(start[0]) * prod(shape[1:]) if start else 0
