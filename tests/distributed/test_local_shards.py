"""Index a shard's elements in its full tensor, for any shape and any number of rows."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from gradgate.distributed.shards import all_finite, check_shards, is_sharded, local, whole
from gradgate.errors import AttachError
from gradgate.layers import map_layers, named_parameters
from gradgate.memory.sharding import Sharding
from support.gloo_group import in_processes
from support.replicas import fresh, fsdp, refused

several = pytest.mark.parametrize("processes", [2, pytest.param(4, marks=pytest.mark.slow)])
SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple)


def sharded(tensor: Tensor) -> Tensor:
    """Rows of a tensor over all processes."""
    return distribute_tensor(tensor, init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])


def numbered(shape: tuple[int, ...]) -> Tensor:
    """Each element is its own index."""
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float64).view(shape)


@given(SHAPES)
def test_full_tensor_begins_at_zero(shape: tuple[int, ...]) -> None:
    tensor = nn.Parameter(numbered(shape))
    shard, index = local(tensor)
    assert index == 0
    assert torch.equal(shard, tensor)
    assert torch.equal(whole(tensor), tensor)
    assert not shard.requires_grad
    assert not is_sharded(tensor)
    assert all_finite(tensor)


def test_local_tensor_shares_memory() -> None:
    weight = nn.Parameter(torch.zeros(3, 2))
    version = weight._version
    local(weight)[0].add_(1)
    assert torch.equal(weight, torch.ones(3, 2))
    assert weight._version > version, "autograd sees the change"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_odd_values_are_not_finite(value: float) -> None:
    tensor = torch.zeros(3, 2)
    tensor[2, 1] = value
    assert not all_finite(tensor)


@several
@settings(max_examples=40)
@given(shape=SHAPES)
@in_processes
def test_shard_index_counts_full_elements(shape: tuple[int, ...], processes: int) -> None:
    tensor = sharded(numbered(shape))
    shard, index = local(tensor)
    assert torch.equal(shard.flatten(), torch.arange(index, index + shard.numel(), dtype=torch.float64))
    assert torch.equal(whole(tensor), numbered(shape))
    places = [(0, 0)] * processes
    dist.all_gather_object(places, (index, shard.numel()))
    assert sum(size for _, size in places) == numbered(shape).numel(), "each element is in one process"
    ends = [start + size for start, size in places if size]
    assert [start for start, size in places if size] == [0, *ends[:-1]]


@in_processes
def test_process_without_rows_has_an_empty_shard() -> None:
    shard, index = local(sharded(numbered((1, 3))))
    assert (shard.numel(), index) == ((3, 0) if dist.get_rank() == 0 else (0, 3))


@in_processes
def test_writing_to_a_shard_writes_the_tensor() -> None:
    tensor = sharded(torch.zeros(4, 2))
    local(tensor)[0].fill_(dist.get_rank() + 1)
    assert whole(tensor).tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]


@in_processes
def test_copies_on_a_mesh_are_in_full() -> None:
    mesh = init_device_mesh("cpu", (2,))
    tensor = distribute_tensor(numbered((3, 2)), mesh, [Replicate()])
    shard, index = local(tensor)
    assert index == 0
    assert torch.equal(shard, numbered((3, 2)))


@in_processes
def test_odd_value_is_seen_by_all() -> None:
    for row in range(4):
        tensor = sharded(torch.zeros(4, 2))
        assert all_finite(tensor)
        shard, index = local(tensor)
        if index <= 2 * row < index + shard.numel():
            shard.view(-1)[2 * row - index] = float("nan")
        assert not all_finite(tensor)


@in_processes
def test_only_rows_by_fsdp_are_accepted() -> None:
    model = fsdp()
    check_shards(model, dict(model.named_parameters()))
    plain = nn.Linear(4, 4)
    check_shards(plain, dict(plain.named_parameters()))
    with refused("Shard", AttachError):
        check_shards(plain, {"weight": sharded(torch.zeros(4, 4))})


@in_processes
def test_memory_counts_the_largest_shard() -> None:
    alone, model = fresh(), fsdp()
    sizes = Sharding(named_parameters(alone), map_layers(alone), dist.get_world_size())
    for name, parameter in named_parameters(model).items():
        shards = [0] * dist.get_world_size()
        dist.all_gather_object(shards, local(parameter)[0].numel())
        assert sizes.elements(name) == max(shards), name
