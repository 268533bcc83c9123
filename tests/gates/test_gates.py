"""The random gate: one definition, the same bits from every back end, and statistics that hold."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numba
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from torch import Tensor

from gradgate import gates
from gradgate.gates import cpu, reference
from gradgate.gates.key import hash_at, window

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
KEY = gates.key(seed=0, stream="graddrop", name="encoder.layer.0.output.dense.weight", draw=7)
MILLION = 10**6

keys = st.integers(0, 2**64 - 1)
shares = st.floats(0.0, 1.0)
# Most interesting offsets lie around a multiple of 2**32, where the high part of an index begins to act.
offsets = st.one_of(st.integers(0, 1000), st.builds(lambda b, d: b * 2**32 + d, st.integers(1, 9), st.integers(-99, 9)))


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(BITS[tensor.element_size()])


def same_bits(one: Tensor, other: Tensor) -> bool:
    return torch.equal(bits(one), bits(other))


def key_of(**change: object) -> int:
    return gates.key(**{"seed": 0, "stream": "graddrop", "name": "layer.weight", "draw": 1, **change})  # type: ignore[arg-type]


# The definition, pinned: checkpoints of unfinished runs and published seeds rely on these numbers.


INDICES = (0, 1, 2, 1000, 2**32 - 1, 2**32, 2**40 + 3)


def test_the_definition_never_changes() -> None:
    assert KEY == 9843156349350420956
    assert key_of() == 1225046678379327568
    assert [hash_at(KEY, i) for i in INDICES] == [
        2685253280,
        3807106126,
        1913748954,
        1732119782,
        1493503387,
        997593391,
        1214283198,
    ]
    mask = gates.mask(32, lo=0.2, hi=1.0, key=KEY)
    assert "".join("01"[int(passes)] for passes in mask) == "11100111111100101101111111101100"


def test_the_hash_is_the_published_mixer_in_two_keyed_rounds() -> None:
    def lowbias32(x: int) -> int:
        x = ((x ^ x >> 16) * 0x7FEB352D) % 2**32
        x = ((x ^ x >> 15) * 0x846CA68B) % 2**32
        return x ^ x >> 16

    for index in range(100):
        assert hash_at(KEY, index) == lowbias32(lowbias32(index ^ KEY % 2**32) ^ KEY >> 32)


@given(keys, offsets, shares, shares)
@settings(max_examples=50, deadline=None)
def test_an_element_passes_if_its_number_lies_in_the_window(key: int, offset: int, lo: float, hi: float) -> None:
    lo, hi = sorted((lo, hi))
    mask = gates.mask(64, lo=lo, hi=hi, key=key, offset=offset)
    assert mask.tolist() == [lo <= gates.uniform(key, offset + i) < hi for i in range(64)]


# Every back end.


@pytest.mark.parametrize("scale", [1.0, 1.25, 1.0 / 0.7])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("numel", [0, 1, 2, 3, 7, 31, 33, 257, 4099])
def test_numba_and_torch_give_the_same_bits(numel: int, dtype: torch.dtype, scale: float) -> None:
    values = torch.randn(numel).to(dtype)
    for offset in (0, 5, 2**32 - 17, 3 * 2**32 - 1):
        arguments = (*window(0.2, 0.9), scale, KEY, offset)
        assert cpu.serves(values)
        assert same_bits(cpu.apply_(values.clone(), *arguments), reference.apply_(values.clone(), *arguments))


@given(keys, offsets, shares, shares, st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_the_public_gate_is_the_reference_anywhere(key: int, offset: int, lo: float, hi: float, dtype: int) -> None:
    values = torch.linspace(-3.0, 3.0, 101).to(DTYPES[dtype])
    lo, hi = sorted((lo, hi))
    gated = gates.apply_(values.clone(), lo=lo, hi=hi, scale=1.6, key=key, offset=offset)
    assert same_bits(gated, reference.apply_(values.clone(), *window(lo, hi), 1.6, key, offset))


def test_a_tensor_longer_than_the_scratch_space_is_one_mask() -> None:
    numel = reference.CHUNK + 5
    ones = torch.ones(numel)
    assert torch.equal(gates.apply_(ones, lo=0.5, hi=1.0, key=KEY).bool(), gates.mask(numel, lo=0.5, hi=1.0, key=KEY))
    tail = gates.mask(10, lo=0.5, hi=1.0, key=KEY, offset=reference.CHUNK - 5)
    assert torch.equal(gates.mask(numel, lo=0.5, hi=1.0, key=KEY)[-10:], tail)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_elements_count_in_row_major_order_whatever_the_memory_layout(dtype: torch.dtype) -> None:
    values = torch.randn(6, 5, 4, 3).to(dtype)
    expected = gates.apply_(values.clone(), lo=0.3, hi=1.0, scale=1.5, key=KEY)
    for layout in (
        values.clone(memory_format=torch.channels_last),
        values.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
        torch.stack([values, values], dim=-1)[..., 0],
    ):
        assert not layout.is_contiguous()
        assert same_bits(gates.apply_(layout, lo=0.3, hi=1.0, scale=1.5, key=KEY), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_apply_keeps_exactly_what_the_mask_shows(dtype: torch.dtype) -> None:
    values = torch.randn(7, 11, 13).to(dtype)
    mask = gates.mask(values.numel(), lo=0.2, hi=1.0, key=KEY).view(values.shape)
    gated = gates.apply_(values.clone(), lo=0.2, hi=1.0, scale=1.25, key=KEY)
    assert same_bits(gated, torch.where(mask, values * 1.25, torch.zeros((), dtype=dtype)))


def test_apply_works_in_place_and_returns_its_tensor() -> None:
    for lo, hi in ((0.0, 1.0), (0.2, 1.0), (0.5, 0.5)):
        values = torch.randn(33)
        assert gates.apply_(values, lo=lo, hi=hi, scale=2.0, key=KEY) is values


def test_what_does_not_pass_is_a_clean_zero_even_from_infinity() -> None:
    for layout in (torch.full((40, 40), -torch.inf), torch.full((40, 80), torch.nan)[:, ::2]):
        gated = gates.apply_(layout.clone(), lo=0.5, hi=1.0, key=KEY)
        mask = gates.mask(1600, lo=0.5, hi=1.0, key=KEY).view(40, 40)
        assert torch.equal(bits(gated[~mask]), torch.zeros(int((~mask).sum()), dtype=torch.int32))
        assert not gated[mask].isfinite().any()


def test_a_scalar_and_an_empty_tensor_are_tensors_too() -> None:
    assert gates.apply_(torch.tensor(3.0), lo=0.0, hi=1.0, scale=2.0, key=KEY).item() == 6.0
    passes = bool(gates.mask(1, lo=0.2, hi=1.0, key=KEY))
    assert gates.apply_(torch.tensor(3.0), lo=0.2, hi=1.0, key=KEY).item() == (3.0 if passes else 0.0)
    assert gates.apply_(torch.empty(0, 4), lo=0.2, hi=1.0, key=KEY).shape == (0, 4)


# Shards.


@given(keys, offsets, st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_a_shard_is_a_slice_of_the_whole(key: int, offset: int, start: int, length: int) -> None:
    whole = gates.mask(128, lo=0.25, hi=0.75, key=key, offset=offset)
    shard = gates.mask(length, lo=0.25, hi=0.75, key=key, offset=offset + start)
    assert torch.equal(shard, whole[start : start + length])
    applied = gates.apply_(torch.ones(length), lo=0.25, hi=0.75, key=key, offset=offset + start)
    assert torch.equal(applied.bool(), shard)


def test_elements_2_to_the_32_apart_have_masks_of_their_own() -> None:
    blocks = [gates.mask(4096, lo=0.5, hi=1.0, key=KEY, offset=block * 2**32) for block in range(4)]
    for one in range(4):
        for other in range(one):
            assert abs((blocks[one] == blocks[other]).float().mean().item() - 0.5) < 4 * 0.5 / 64


# Windows.


@given(keys, shares)
@settings(max_examples=50, deadline=None)
def test_two_windows_that_meet_divide_the_elements(key: int, edge: float) -> None:
    below = gates.mask(500, lo=0.0, hi=edge, key=key)
    above = gates.mask(500, lo=edge, hi=1.0, key=key)
    assert torch.equal(below, ~above)


@pytest.mark.parametrize("epochs", [1, 2, 3, 7, 10, 49])
def test_windows_of_all_epochs_release_each_element_once(epochs: int) -> None:
    edges = [e / epochs for e in range(epochs + 1)]
    released = sum(gates.mask(5000, lo=lo, hi=hi, key=KEY).int() for lo, hi in pairwise(edges))
    assert torch.equal(released, torch.ones(5000, dtype=torch.int32))


@given(keys, st.tuples(shares, shares).map(sorted))
@settings(max_examples=50, deadline=None)
def test_a_wider_window_passes_all_that_a_narrower_one_did(key: int, edges: list[float]) -> None:
    narrow, wide = (gates.mask(500, lo=0.0, hi=edge, key=key) for edge in edges)
    assert not (narrow & ~wide).any()


def test_the_whole_window_passes_everything_and_an_empty_one_nothing() -> None:
    for empty in ((0.0, 0.0), (0.3, 0.3), (1.0, 1.0)):
        assert not gates.mask(1000, lo=empty[0], hi=empty[1], key=KEY).any()
        assert not gates.apply_(torch.ones(1000), lo=empty[0], hi=empty[1], key=KEY).any()
    assert gates.mask(1000, lo=0.0, hi=1.0, key=KEY).all()
    values = torch.randn(1000)
    assert same_bits(gates.apply_(values.clone(), lo=0.0, hi=1.0, key=KEY), values)
    assert same_bits(gates.apply_(values.clone(), lo=0.0, hi=1.0, scale=1.25, key=KEY), values * 1.25)


def test_the_edges_of_a_window_are_exact() -> None:
    number = gates.uniform(KEY, 12)
    one = 2.0**-32
    assert gates.mask(1, lo=number, hi=number + one, key=KEY, offset=12).all()
    assert not gates.mask(1, lo=number + one, hi=1.0, key=KEY, offset=12).any()
    assert not gates.mask(1, lo=0.0, hi=number, key=KEY, offset=12).any()
    assert window(one / 2, one) == (1, 1)


@pytest.mark.parametrize(("lo", "hi"), [(-0.1, 1.0), (0.0, 1.1), (float("nan"), 1.0), (0.0, float("nan")), (1.0, 0.2)])
def test_a_window_outside_of_the_unit_interval_is_refused(lo: float, hi: float) -> None:
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        gates.mask(1, lo=lo, hi=hi, key=KEY)
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        gates.apply_(torch.ones(1), lo=lo, hi=hi, key=KEY)


# Statistics. The keys are fixed, so these never fail by chance.


def z(mask: Tensor, rate: float) -> float:
    """By how many standard errors the share of True differs from the rate."""
    return abs(mask.double().mean().item() - rate) / (rate * (1 - rate) / mask.numel()) ** 0.5


@pytest.mark.parametrize("p", [0.001, 0.1, 0.2, 0.5, 0.9, 0.999])
def test_the_rate_is_right(p: float) -> None:
    assert z(gates.mask(MILLION, lo=p, hi=1.0, key=KEY), 1 - p) < 4
    assert z(gates.apply_(torch.ones(MILLION), lo=p, hi=1.0, key=KEY) > 0, 1 - p) < 4


def test_a_scaled_gate_keeps_the_mean() -> None:
    values = torch.rand(MILLION, dtype=torch.float64) + 1.0
    gated = gates.apply_(values.clone(), lo=0.2, hi=1.0, scale=1.25, key=KEY)
    assert (gated.mean() / values.mean()).item() == pytest.approx(1.0, abs=0.003)


@pytest.mark.parametrize("lag", [1, 2, 3, 16, 768, 1024, 65536])
def test_an_element_tells_nothing_of_its_neighbours(lag: int) -> None:
    mask = gates.mask(MILLION, lo=0.5, hi=1.0, key=KEY)
    assert z(mask[lag:] == mask[:-lag], 0.5) < 4


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"seed": 2**40}, {"draw": 2}, {"draw": 10**9}, {"stream": "other"}, {"name": "layer.bias"}],
    ids=str,
)
def test_seeds_steps_streams_and_parameters_are_independent(change: dict[str, object]) -> None:
    one = gates.mask(MILLION, lo=0.5, hi=1.0, key=key_of())
    other = gates.mask(MILLION, lo=0.5, hi=1.0, key=key_of(**change))
    assert z(one == other, 0.5) < 4


def test_keys_that_differ_in_one_bit_are_independent() -> None:
    one = gates.mask(MILLION // 10, lo=0.5, hi=1.0, key=KEY)
    for bit in range(64):
        other = gates.mask(MILLION // 10, lo=0.5, hi=1.0, key=KEY ^ 1 << bit)
        assert z(one == other, 0.5) < 4.5, bit


def test_the_numbers_are_uniform() -> None:
    bins = 256
    counts = torch.stack(
        [gates.mask(MILLION // 16, lo=b / bins, hi=(b + 1) / bins, key=KEY).sum() for b in range(bins)]
    ).double()
    expected = MILLION // 16 / bins
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    assert chi2.ppf(1e-4, bins - 1) < statistic < chi2.ppf(1 - 1e-4, bins - 1)


def test_one_number_a_step_is_uniform_over_the_steps() -> None:
    draws = torch.tensor([gates.uniform(key_of(draw=step)) for step in range(20_000)])
    counts = torch.histc(draws, bins=20, min=0.0, max=1.0).double()
    statistic = ((counts - 1000) ** 2 / 1000).sum().item()
    assert chi2.ppf(1e-4, 19) < statistic < chi2.ppf(1 - 1e-4, 19)
    assert z(draws[1:] > draws[:-1], 0.5) < 4


# Keys.


@pytest.mark.parametrize(
    "name",
    [
        "module.layer.weight",
        "_orig_mod.layer.weight",
        "module._orig_mod.layer.weight",
        "_fsdp_wrapped_module.layer._checkpoint_wrapped_module.weight",
    ],
)
def test_names_that_wrappers_add_do_not_change_the_key(name: str) -> None:
    assert key_of(name=name) == key_of()


def test_a_key_is_a_64_bit_number() -> None:
    drawn = [key_of(draw=draw) for draw in range(2000)]
    assert len(set(drawn)) == 2000
    assert all(0 <= key < 2**64 for key in drawn)
    assert max(drawn) > 2**63


@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_the_parts_of_a_key_do_not_run_into_each_other(a: str, b: str, c: str, d: str) -> None:
    one, other = key_of(stream=a, name=b), key_of(stream=c, name=d)
    assert (one == other) == ((a, b) == (c, d))


def test_no_gate_touches_the_global_generators() -> None:
    before = torch.random.get_rng_state()
    gates.apply_(torch.ones(1000), lo=0.2, hi=1.0, key=KEY)
    gates.mask(1000, lo=0.2, hi=1.0, key=KEY)
    gates.uniform(KEY)
    assert torch.equal(torch.random.get_rng_state(), before)


# Half precision.


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("scale", [1.25, 1 / 0.7, 3.0e-3, 1e30, 1e-30, 65504.0])
def test_every_half_is_multiplied_and_rounded_as_torch_does(dtype: torch.dtype, scale: float) -> None:
    values = torch.arange(2**16).to(torch.uint16).view(dtype)
    passes = gates.mask(values.numel(), lo=0.2, hi=1.0, key=7)
    expected = values.clone().mul_(scale).masked_fill_(~passes, 0.0)
    gated = gates.apply_(values.clone(), lo=0.2, hi=1.0, scale=scale, key=7)
    number = ~expected.isnan()
    assert torch.equal(gated.isnan(), expected.isnan())
    assert torch.equal(gated.view(torch.int16)[number], expected.view(torch.int16)[number])


def test_a_processor_without_float16_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.randn(5000).half()
    expected = gates.apply_(values.clone(), lo=0.2, hi=1.0, scale=1.25, key=7)
    monkeypatch.setattr(cpu, "_has_float16", lambda: False)
    assert torch.equal(gates.apply_(values.clone(), lo=0.2, hi=1.0, scale=1.25, key=7), expected)


def test_kernels_are_compiled_where_no_folder_can_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = numba.njit

    def njit(**options: Any) -> Any:
        def decorate(function: Any) -> Any:
            if options.get("cache"):
                raise RuntimeError(f"cannot cache function {function.__name__!r}: no locator available")
            return compiled(**options)(function)

        return decorate

    monkeypatch.setattr(cpu.numba, "njit", njit)
    assert cpu._compiled(lambda number: 2 * number)(3) == 6
