"""The form of an estimate: sums, devices, phases in one line, and values for JSON."""

from __future__ import annotations

import pytest

from gradgate.memory import DEVICES, GIB, MemoryEstimate, PhaseMemory, Usage
from gradgate.memory.usage import in_words

EVERY = ["embeddings", *(f"layers.{number}" for number in range(6)), "head"]


def phase(size: int, step: int = 0, steps: int = 1) -> PhaseMemory:
    return PhaseMemory(step, steps, "all", Usage("step", weights=size))


def test_peak_is_the_sum_of_parts() -> None:
    usage = Usage("backward", weights=1, gradients=20, optimizer=300, masters=4000, activations=50000)
    assert usage.peak == 54321
    more = usage.plus(weights=1, activations=10)
    assert (more.weights, more.activations, more.peak, more.at) == (2, 50010, 54332, "backward")
    assert usage.weights == 1
    assert Usage().peak == 0


def test_worst_phase_is_the_first_highest() -> None:
    estimate = MemoryEstimate("full", (phase(5), phase(9, 1), phase(9, 2), phase(7, 3)))
    assert estimate.worst.step == 1
    assert estimate.peak_bytes == 9


@pytest.mark.parametrize(
    ("size", "gib", "fits"),
    [(15 * GIB, 16, True), (15 * GIB + 1, 16, False), (0, 16, True), (GIB // 2, 1.5, True), (0, 0.5, False)],
)
def test_what_fits_leaves_room_for_the_context(size: int, gib: float, fits: bool) -> None:
    assert MemoryEstimate("full", (phase(size),)).fits(gib) is fits


def test_larger_devices_fit_what_smaller_ones_do() -> None:
    fits = MemoryEstimate("full", (phase(39 * GIB),)).to_dict()["fits"]
    assert list(fits) == [f"{gib}GiB" for gib in DEVICES]
    assert list(fits.values()) == [False, False, True, True, True, True]
    assert list(DEVICES) == sorted(DEVICES)


def test_plain_values_are_of_the_worst_phase() -> None:
    worst = PhaseMemory(10, 5, "head", Usage("forward", 1, 2, 3, 4, 5))
    values = MemoryEstimate("gradual", (phase(2), worst)).to_dict()
    assert values.pop("fits")["16GiB"] is True
    assert values == {
        "method": "gradual",
        "peak_bytes": 15,
        "weights_bytes": 1,
        "gradient_bytes": 2,
        "optimizer_bytes": 3,
        "master_bytes": 4,
        "activation_bytes": 5,
        "at": "forward",
        "phase": "steps 11-15: head",
        "overhead_bytes": GIB,
        "accumulate": 1,
        "choice": None,
    }


@pytest.mark.parametrize(
    ("step", "steps", "supposed", "text"),
    [
        (0, 1, False, "step 1: head"),
        (0, 10, False, "steps 1-10: head"),
        (10, 1, False, "step 11: head"),
        (10, 20, True, "steps 11-30: head (supposed)"),
    ],
)
def test_phase_is_one_line(step: int, steps: int, supposed: bool, text: str) -> None:
    assert PhaseMemory(step, steps, "head", Usage(), supposed).text == text


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], "nothing"),
        (EVERY, "all"),
        (["head"], "head"),
        (["layers.1", "layers.2", "layers.3", "head"], "layers.1..3, head"),
        (["embeddings", "layers.0", "layers.1"], "embeddings, layers.0..1"),
        (["layers.0", "layers.2", "layers.4"], "layers.0, layers.2, layers.4"),
        (["layers.0", "layers.1", "layers.3", "layers.4"], "layers.0..1, layers.3..4"),
    ],
)
def test_neighbouring_layers_are_a_range(groups: list[str], words: str) -> None:
    assert in_words(groups, EVERY) == words


def test_many_groups_are_cut_short() -> None:
    every = [f"layers.{number}" for number in range(20)]
    words = in_words(every[::2], every)
    assert words == "layers.0, layers.2, layers.4, layers.6, layers.8, layers.10 and 4 more"
    assert in_words(every[::2], every, most=2).endswith("layers.2 and 8 more")
