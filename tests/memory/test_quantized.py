"""The memory of an adapter on a model in 4 or 8 bits: known sizes, and input that is refused."""

from __future__ import annotations

from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import AttachError, UsageError
from gradgate.layers import map_layers
from gradgate.memory.quantized import QuantizedBase
from support.command_line import Command
from support.loop import build
from support.small_configs import bert, estimate, llama_3_8b

OPTIONS: dict[str, Any] = {"batch_size": 1, "max_length": 16}
LORA = {"adapter": "lora:r=2"}
MATRICES = 2 * (4 * 16 * 16 + 2 * 16 * 32)


# The bytes that bitsandbytes 0.50 and torchao 0.18 store for a matrix of 384 x 192, scales included.
@pytest.mark.parametrize(("quantization", "stored"), [("nf4", 41_472), ("int8", 75_264), ("fp8", 75_264)])
def test_a_matrix_takes_what_the_library_stores(quantization: Any, stored: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(
        LlamaConfig(hidden_size=192, intermediate_size=384, num_hidden_layers=1, num_attention_heads=6, vocab_size=50)
    )
    sizes = QuantizedBase.of(model, map_layers(model), quantization).bytes
    assert sizes["model.layers.0.mlp.gate_proj.weight"] == stored
    assert "lm_head.weight" not in sizes


@pytest.mark.parametrize(("weights", "per_weight"), [("nf4", 0.5 + 4 / 64), ("int8", 1 + 4 / 16)])
def test_only_the_matrices_of_the_frozen_base_shrink(weights: str, per_weight: float) -> None:
    plain, small = (estimate(**LORA, weights=each).worst.usage for each in ("bfloat16", weights))
    rows = 2 * (5 * 16 + 32)  # each output has a scale in 8 bits
    expected = MATRICES * per_weight if weights == "nf4" else MATRICES + 4 * rows
    assert plain.weights - small.weights == 2 * MATRICES - expected
    assert (plain.optimizer, plain.gradients) == (small.optimizer, small.gradients)


@pytest.mark.slow
def test_llama_3_8b_fits_a_small_device_in_4_bits() -> None:
    options: dict[str, Any] = {"adapter": "lora:r=16", "batch_size": 1, "max_length": 1024, "checkpointing": True}
    assert gg.estimate_memory(llama_3_8b(), weights="nf4", **options).fits(16)
    assert not gg.estimate_memory(llama_3_8b(), weights="bfloat16", **options).fits(16)


@pytest.mark.parametrize("method", ["full", "freeze:layers=1", "lisa:layers=1", "gradual:every=2"])
def test_a_method_that_would_open_a_quantized_matrix_is_refused(method: str) -> None:
    with pytest.raises(AttachError, match="is quantized"):
        gg.estimate_memory(bert(), method, **OPTIONS, weights="nf4")


@pytest.mark.parametrize("method", ["head", "bitfit"])
def test_one_that_opens_none_is_estimated(method: str) -> None:
    assert gg.estimate_memory(bert(), method, **OPTIONS, weights="nf4").peak_bytes > 0


def test_what_a_quantized_base_does_not_go_with_is_named() -> None:
    with pytest.raises(UsageError, match="weights='nf4' and shards=2 cannot be combined"):
        gg.estimate_memory(bert(), **LORA, **OPTIONS, weights="nf4", shards=2)
    with pytest.raises(UsageError, match="weights='int8' and a model cannot be combined"):
        gg.estimate_memory(build("llama"), **LORA, **OPTIONS, weights="int8")


def test_the_command_line_takes_it_for_an_estimate_only(command: Command) -> None:
    assert command("memory", "-m", "lora:r=4", "--weights", "nf4", "--max-length", "32", "--json").code == 0
    refused = command("train", "--weights", "nf4")
    assert refused.code == 2
    assert "--weights" in refused.err
