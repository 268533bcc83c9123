"""Putting back what a mask stops: the complement of the gate, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradgate import gates

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTEGERS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
KEY = gates.key(seed=0, stream="graddrop", name="layer.weight", draw=3)


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(INTEGERS[tensor.element_size()])


def pair(numel: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """New and old values of random bits, NaNs with any payload among them."""
    generator = torch.Generator().manual_seed(numel)
    kind = INTEGERS[dtype.itemsize]
    high = 2 ** (8 * dtype.itemsize - 1) - 1
    new, old = (torch.randint(-high, high, (numel,), generator=generator, dtype=kind) for _ in range(2))
    return new.view(dtype), old.view(dtype)


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None)  # numba compiles
@given(st.integers(0, 300), st.integers(0, 2**34), st.floats(0, 1), st.floats(0, 1))
def test_what_passes_stays_and_the_rest_is_as_before(
    dtype: torch.dtype, numel: int, offset: int, one: float, two: float
) -> None:
    lo, hi = sorted((one, two))
    new, old = pair(numel, dtype)
    passes = gates.mask(numel, lo=lo, hi=hi, key=KEY, offset=offset)
    expected = torch.where(passes, bits(new), bits(old))
    assert gates.restore_(new, old, lo=lo, hi=hi, key=KEY, offset=offset) is new
    assert torch.equal(bits(new), expected)


def test_strides_do_not_matter() -> None:
    new, old = (values.view(20, 30) for values in pair(600, torch.float32))
    expected = gates.restore_(new.clone(), old, lo=0.3, hi=0.8, key=KEY)
    turned = new.T.contiguous().T
    assert torch.equal(bits(gates.restore_(turned, old, lo=0.3, hi=0.8, key=KEY)), bits(expected))


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_cut_a_large_tensor_where_no_element_notices(dtype: torch.dtype) -> None:
    numel, offset = 2**21 + 12345, 2**32 - 2**20
    new, old = pair(numel, dtype)
    passes = gates.mask(numel, lo=0.2, hi=1.0, key=KEY, offset=offset)
    gradient = torch.ones(numel, dtype=dtype)
    gates.apply_(gradient, lo=0.2, hi=1.0, key=KEY, offset=offset)
    assert torch.equal(gradient.bool(), passes)
    expected = torch.where(passes, bits(new), bits(old))
    assert torch.equal(bits(gates.restore_(new, old, lo=0.2, hi=1.0, key=KEY, offset=offset)), expected)


def test_a_parameter_is_restored_outside_of_autograd() -> None:
    parameter = torch.nn.Parameter(torch.zeros(50))
    gates.restore_(parameter, torch.ones(50), lo=0.5, hi=1.0, key=KEY)
    assert parameter.grad_fn is None
    assert 0 < float(parameter.detach().sum()) < 50


@pytest.mark.parametrize("before", [torch.zeros(3), torch.zeros(4, dtype=torch.float64), torch.zeros(2, 2)])
def test_unlike_tensors_are_refused(before: Tensor) -> None:
    with pytest.raises(ValueError, match="must have one shape, dtype and device"):
        gates.restore_(torch.zeros(4), before, lo=0.0, hi=0.5, key=KEY)
