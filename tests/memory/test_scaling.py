"""How an estimate changes with depth, batch, length, shards and what is open."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import gradgate as gg
from gradgate.memory import GIB
from support.small_configs import bert, estimate, llama_3_8b, peak

LAYER = 4 * 16 * 17 + 16 * 32 + 32 + 32 * 16 + 16 + 4 * 16
"""Elements of a layer of the small BERT."""


@pytest.mark.parametrize(
    ("depth", "top", "full"),
    [
        (2, 5.08, 13.04),
        pytest.param(3, 5.50, 14.66, marks=pytest.mark.slow),
        pytest.param(4, 5.91, 16.29, marks=pytest.mark.slow),
    ],
)
def test_shallow_llama_takes_what_was_measured(depth: int, top: float, full: float) -> None:
    options: dict[str, Any] = {"weights": "bfloat16", "master": "none", "checkpointing": True}
    for method, gib in ((f"groups:open=layers.{depth - 1}", top), ("full", full)):
        found = gg.estimate_memory(llama_3_8b(depth), method, batch_size=1, max_length=1024, **options)
        assert found.peak_bytes / GIB == pytest.approx(gib, rel=0.005)


@pytest.mark.parametrize(
    "method", ["full", *(pytest.param(each, marks=pytest.mark.slow) for each in ("freeze:layers=1", "head"))]
)
def test_peak_is_linear_in_depth(method: str) -> None:
    per_layer = peak(method, 3) - peak(method, 2)
    assert per_layer > 0
    assert peak(method, 5) == peak(method, 2) + 3 * per_layer


def test_closed_layers_cost_their_weights_only() -> None:
    assert peak("head", 4) - peak("head") == 4 * 2 * LAYER


def test_peak_is_linear_in_batch() -> None:
    """All but the activations is the same for any batch."""
    per_row = peak(batch_size=2) - peak(batch_size=1)
    assert peak(batch_size=16) == peak(batch_size=1) + 15 * per_row
    one, many = estimate(batch_size=1).worst.usage, estimate(batch_size=16).worst.usage
    assert (one.weights, one.optimizer, one.masters) == (many.weights, many.optimizer, many.masters)


@pytest.mark.slow
def test_peak_grows_faster_than_length() -> None:
    peaks = [peak(max_length=length) for length in (8, 16, 32, 64)]
    assert peaks == sorted(peaks)
    growth = [(later - earlier) / earlier for earlier, later in pairwise(peaks)]
    assert growth == sorted(growth), "attention is quadratic"


def test_accumulation_holds_gradients_over_passes() -> None:
    once, often = (estimate(accumulate=count).worst.usage for count in (1, 4))
    assert often.gradients == 4 * (100 * 16 + 64 * 16 + 2 * 16 + 2 * 16 + 2 * LAYER + 16 * 17 + 2 * 17)
    assert often.peak > once.peak
    assert estimate(accumulate=8).peak_bytes == often.peak, "it counts that there are several, not how many"


@pytest.mark.parametrize(
    ("shards", "part"),
    [
        pytest.param(2, 0.5, marks=pytest.mark.slow),
        (4, 0.25),
        pytest.param(8, 0.125, marks=pytest.mark.slow),
    ],
)
def test_shards_divide_weights_and_states(shards: int, part: float) -> None:
    whole, shard = (estimate(depth=4, shards=count).worst.usage for count in (1, shards))
    assert shard.weights == pytest.approx(whole.weights * part, rel=0.2)
    assert shard.optimizer == pytest.approx(whole.optimizer * part, rel=0.1)
    assert shard.activations > whole.activations, "a layer is gathered while it runs"


@pytest.mark.slow
def test_more_shards_never_take_more() -> None:
    peaks = [peak(shards=shards) for shards in (1, 2, 4, 8)]
    assert peaks == sorted(peaks, reverse=True)


@pytest.mark.slow
def test_opening_more_takes_more() -> None:
    methods = ("head", "freeze:layers=3", "freeze:layers=2", "freeze:layers=1", "full")
    peaks = [peak(method, 4) for method in methods]
    assert peaks == sorted(peaks)
    assert len(set(peaks[:-1])) == 4


def test_lower_layer_takes_longer_backward() -> None:
    """The same elements learn; what backward passes through counts."""
    top, low = (estimate(f"groups:open=layers.{layer}").worst.usage for layer in (1, 0))
    assert top.peak < low.peak
    assert top.optimizer == low.optimizer


@pytest.mark.parametrize("method", ["graddrop:p=0.5", pytest.param("gradual:every=100", marks=pytest.mark.slow)])
def test_methods_that_open_all_take_as_full(method: str) -> None:
    assert peak(method) == peak("full")


def test_gradual_takes_more_as_it_opens() -> None:
    phases = estimate("gradual:every=100", 3).phases
    assert sum(phase.steps for phase in phases) == 1000
    assert [phase.step + phase.steps for phase in phases[:-1]] == [phase.step for phase in phases[1:]]
    assert len(phases) == 3, "a layer each, and the embeddings with the lowest"
    peaks = [phase.usage.peak for phase in phases]
    assert peaks == sorted(peaks)
    assert peaks[0] < peaks[-1]


@pytest.mark.slow
def test_checkpointing_takes_time_for_memory() -> None:
    options: dict[str, Any] = {"batch_size": 16, "max_length": 64}
    stored, recomputed = (estimate(depth=4, **options, checkpointing=on).worst.usage for on in (False, True))
    assert recomputed.activations < stored.activations / 3
    assert (recomputed.weights, recomputed.optimizer) == (stored.weights, stored.optimizer)


def test_checkpointed_activations_hardly_grow_with_depth() -> None:
    options: dict[str, Any] = {"batch_size": 16, "max_length": 64, "checkpointing": True}
    two, four = (estimate(depth=depth, **options).worst.usage.activations for depth in (2, 4))
    assert (four - two) / 2 == 4 * 16 * 64 * 16, "only the input of each layer is stored, in float32"


def test_16_bits_halve_the_weights() -> None:
    whole, short = estimate().worst.usage, estimate(weights="bfloat16").worst.usage
    integers = 64 * 8  # positions and token types, which stay
    assert short.weights == pytest.approx(whole.weights / 2, abs=2 * integers)
    assert short.peak < whole.peak


def test_masters_and_float32_states_are_the_default() -> None:
    default, without = (estimate(weights="bfloat16", **more).worst.usage for more in ({}, {"master": "none"}))
    assert default == estimate(weights="bfloat16", master="float32").worst.usage
    assert (default.masters > 0, without.masters) == (True, 0)
    assert default.masters == 2 * (default.weights - 64 * 8 * 2)
    assert without.optimizer == pytest.approx(default.optimizer / 2, rel=0.01)


def test_autocast_changes_activations_only() -> None:
    plain, mixed = (estimate(precision=word).worst.usage for word in ("fp32", "bf16"))
    assert (plain.weights, plain.optimizer) == (mixed.weights, mixed.optimizer)
    assert mixed.activations < plain.activations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("smaller", "larger"),
    [("sgd", "adafactor"), ("adafactor", "lion_8bit"), ("lion_8bit", "adamw_torch")],
)
def test_optimizers_order_by_their_states(smaller: str, larger: str) -> None:
    assert peak(optim=smaller) < peak(optim=larger)


def test_own_optimizer_is_counted() -> None:
    import torch

    made = gg.estimate_memory(
        llama_3_8b(1), "head", batch_size=1, max_length=8, optim=lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9)
    )
    assert made.worst.usage.optimizer == 4 * (4096 * 128256 + 4096), "one state per element"


@pytest.mark.parametrize(
    ("adapter", "elements"),
    [
        ("lora:r=2", 2 * 2 * 2 * 2 * 16),
        pytest.param("lora:r=4", 2 * 2 * 2 * 4 * 16, marks=pytest.mark.slow),
        ("pfeiffer:reduction=2", 2 * (2 * 16 * 8 + 24)),
    ],
)
def test_adapter_learns_beside_frozen_weights(adapter: str, elements: int) -> None:
    pytest.importorskip("peft")
    usage = estimate(adapter=adapter).worst.usage
    assert usage.weights >= estimate().worst.usage.weights + 4 * elements
    states = usage.optimizer - estimate("head").worst.usage.optimizer
    assert states == pytest.approx(8 * elements, rel=0.05), "and a count of steps per tensor"
    assert usage.peak < peak()


def test_same_question_has_the_same_answer() -> None:
    first, second = (gg.estimate_memory(bert(), "lisa:layers=1,every=600", max_length=8) for _ in range(2))
    assert first == second
    assert first.method == "lisa:layers=1,every=600"
