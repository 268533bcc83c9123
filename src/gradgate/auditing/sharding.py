"""Read what a model was before FSDP, of either version, split it over processes."""

from __future__ import annotations

from typing import TypeGuard

from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

from gradgate.distributed.shards import is_sharded

Shape = tuple[int, ...]


def original_class(module: nn.Module) -> type[nn.Module]:
    """Return the class that a module had before ``fully_shard`` gave it one of its own."""
    kinds = (kind for kind in type(module).__mro__ if issubclass(kind, nn.Module))
    return next(kind for kind in kinds if not issubclass(kind, FSDPModule))


def shapes_of_shards(model: nn.Module) -> dict[int, Shape]:
    """Return the full shape of each parameter of which other processes have other elements, by ``id``.

    Version 1 merges parameters. Those that it keeps under their names are views of what it merges, with other
    shapes.
    """
    shapes = {id(each): tuple(each.shape) for each in model.parameters() if is_sharded(each)}
    for module in model.modules():
        flat = module._flat_param if is_shell(module) else None
        if flat is not None:
            shapes[id(flat)] = tuple(flat._unpadded_unsharded_size)
            shapes.update(
                {id(each): tuple(shape) for each, shape in zip(flat._params or (), flat._shapes, strict=False)}
            )
    return shapes


def is_shell(module: nn.Module) -> TypeGuard[FullyShardedDataParallel]:
    """Return True for the wrapper of version 1, whose class says nothing about the model."""
    return isinstance(module, FullyShardedDataParallel)
