"""Packed rows: a model in which their examples read each other is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from gradgate.errors import RunError
from gradgate.training.generation.packing import check_packing

_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.3}
_LLAMA = {**_LAYERS, "intermediate_size": 64, "num_key_value_heads": 1, "max_position_embeddings": 128, "head_dim": 16}
_OPT = {**_LAYERS, "ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 128, "init_std": 0.3}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 128, "initializer_range": 0.3}


def model_of(kind: str, sizes: dict[str, Any], dtype: torch.dtype) -> Any:
    config = AutoConfig.for_model(kind, vocab_size=60, pad_token_id=1, bos_token_id=0, eos_token_id=None, **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).to(dtype).train()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("llama", _LLAMA), ("qwen3", _LLAMA), ("gemma3_text", {**_LLAMA, "sliding_window": 16}), ("gpt2", _GPT2)],
)
def test_examples_that_stay_apart_may_be_packed(kind: str, sizes: dict[str, Any], dtype: torch.dtype) -> None:
    model = model_of(kind, sizes, dtype)
    state = torch.random.get_rng_state()
    check_packing(model, "it")
    assert model.training
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("opt", _OPT),
        ("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 2, "initializer_range": 0.3}),
        ("mamba", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "initializer_range": 0.3}),
    ],
)
def test_examples_that_would_read_each_other_are_refused(kind: str, sizes: dict[str, Any], dtype: torch.dtype) -> None:
    with pytest.raises(RunError, match=rf"packing=True: in 'it', an example would read .* of the kind {kind} does"):
        check_packing(model_of(kind, sizes, dtype), "it")
