"""What one of several FSDP2 processes stores, and what it gathers while a layer runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import Parameter

from gradgate.layers import map_layers, named_parameters
from gradgate.memory.passes import Segment
from gradgate.memory.sharding import Sharding
from support.tiny_models import TINY


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return TINY["bert"]()


def sharding(model: nn.Module, count: int) -> Sharding:
    return Sharding(named_parameters(model), map_layers(model), count)


def bytes_of(model: nn.Module, group: str) -> int:
    names = map_layers(model)[group].parameter_names
    return sum(named_parameters(model)[name].nbytes for name in names)


def test_one_process_stores_everything(model: nn.Module) -> None:
    sizes = sharding(model, 1)
    for name, parameter in named_parameters(model).items():
        assert sizes.shape(name) == tuple(parameter.shape)
        assert sizes.elements(name) == parameter.numel()
        assert sizes.nbytes(name) == parameter.nbytes
    assert sizes.bytes(named_parameters(model)) == sum(p.nbytes for p in model.parameters())
    assert sizes.reduced(17) == 17


@pytest.mark.parametrize(
    ("shape", "count", "part"),
    [
        ((8, 3), 2, (4, 3)),
        ((7, 3), 2, (4, 3)),
        ((1, 3), 4, (1, 3)),
        ((10,), 3, (4,)),
        ((6, 2, 5), 4, (2, 2, 5)),
        ((), 4, ()),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_first_rows_are_the_largest_shard(
    model: nn.Module, shape: tuple[int, ...], count: int, part: tuple[int, ...], dtype: torch.dtype
) -> None:
    parameters = {**named_parameters(model), "weight": Parameter(torch.empty(shape, dtype=dtype))}
    sizes = Sharding(parameters, map_layers(model), count)
    assert sizes.shape("weight") == part
    assert sizes.elements("weight") == torch.Size(part).numel()
    assert sizes.nbytes("weight") == torch.Size(part).numel() * dtype.itemsize
    assert sizes.bytes(["weight", "weight"]) == 2 * sizes.nbytes("weight")


@pytest.mark.parametrize("count", [2, 3, 8])
def test_shards_cover_every_element(model: nn.Module, count: int) -> None:
    sizes, whole = sharding(model, count), sharding(model, 1)
    for name in named_parameters(model):
        assert whole.elements(name) <= count * sizes.elements(name)
        assert sizes.elements(name) <= whole.elements(name)
    assert count * sizes.reduced(1001) >= 1001 > count * (sizes.reduced(1001) - 1)


@pytest.mark.parametrize(
    ("at", "layer", "next_layer"),
    [
        ("forward", "layers.0", "layers.1"),
        ("forward", "layers.1", "layers.2"),
        ("forward", "layers.2", None),
        ("backward", "layers.2", "layers.1"),
        ("backward", "layers.1", "layers.0"),
        ("backward", "layers.0", None),
    ],
)
def test_layer_and_the_next_are_gathered(model: nn.Module, at: str, layer: str, next_layer: str | None) -> None:
    segment = Segment(at, layer, delta=1000, peak=5000, gradients=400, gradients_at_peak=0)
    sharded = sharding(model, 2).of_segment(segment)
    always = sum(bytes_of(model, name) for name in ("embeddings", "head"))
    gathered = bytes_of(model, layer) + (bytes_of(model, next_layer) if next_layer else 0)
    assert sharded.peak == 5000 + always + gathered
    assert (sharded.gradients, sharded.delta) == (200, 800), "gradients are reduced at the layer's end"


def test_gradients_outside_layers_stay_whole(model: nn.Module) -> None:
    segment = Segment("backward", "", delta=1000, peak=5000, gradients=400, gradients_at_peak=100)
    sharded = sharding(model, 2).of_segment(segment)
    assert (sharded.gradients, sharded.delta) == (400, 1000)
    assert sharded.peak == 5000 + bytes_of(model, "embeddings") + bytes_of(model, "head")


def test_one_process_gathers_nothing(model: nn.Module) -> None:
    segment = Segment("forward", "layers.1", 1000, 5000, 400, 0)
    assert sharding(model, 1).of_segment(segment) == segment
