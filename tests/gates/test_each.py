"""Many tensors under one window: what gating each alone would give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gradgate import gates

SHAPES = [(5, 7), (3,), (), (0, 4), (2, 3, 4)]
DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float32, torch.float16]
KEYS = [gates.key(seed=0, stream="graddrop", name=f"layers.{number}", draw=1) for number in range(len(SHAPES))]


def gradients() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape, dtype in zip(SHAPES, DTYPES, strict=True)]
    return [*tensors[:-1], tensors[-1].transpose(0, 2)]


@pytest.mark.parametrize("edges", [(0.2, 1.0), (0.0, 1.0), (0.4, 0.4)], ids=["sparse", "whole", "empty"])
@pytest.mark.parametrize("offsets", [None, [0, 5, 2**32, 1, 2**32 - 3]])
def test_each_tensor_is_gated_as_if_alone(edges: tuple[float, float], offsets: list[int] | None) -> None:
    lo, hi = edges
    together = gradients()
    gates.apply_each_(together, lo=lo, hi=hi, scale=1.25, keys=KEYS, offsets=offsets)
    for number, (gated, alone) in enumerate(zip(together, gradients(), strict=True)):
        offset = offsets[number] if offsets else 0
        gates.apply_(alone, lo=lo, hi=hi, scale=1.25, key=KEYS[number], offset=offset)
        assert torch.equal(gated, alone)


def test_no_tensors_are_no_error() -> None:
    gates.apply_each_([], lo=0.2, hi=1.0, keys=[])


@pytest.mark.parametrize("short", [{"keys": KEYS[:-1]}, {"keys": KEYS, "offsets": [0]}], ids=["keys", "offsets"])
def test_a_missing_key_or_offset_is_refused_before_anything_is_gated(short: dict[str, list[int]]) -> None:
    tensors = gradients()
    with pytest.raises(ValueError, match=r"one key and one offset; got 5 tensors"):
        gates.apply_each_(tensors, lo=0.2, hi=1.0, **short)  # type: ignore[arg-type]
    assert all(torch.equal(one, other) for one, other in zip(tensors, gradients(), strict=True))


@pytest.mark.parametrize("edges", [(-0.1, 1.0), (0.0, 1.1)])
def test_a_window_outside_of_the_unit_interval_is_refused(edges: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        gates.apply_each_(gradients(), lo=edges[0], hi=edges[1], keys=KEYS)


def test_a_tensor_whose_elements_share_memory_is_refused() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        gates.apply_(torch.ones(3).expand(4, 3), lo=0.2, hi=1.0, key=KEYS[0])
