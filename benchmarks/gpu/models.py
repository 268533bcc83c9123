"""Build the models that are measured, with random weights, on the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM
from transformers.utils import logging

from benchmarks.gpu.bench import Bench

Size = Literal["1 B", "8 B"]
_SHAPES: dict[Size, dict[str, Any]] = {  # of Llama 3.2 1B and Llama 3 8B
    "1 B": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "tie_word_embeddings": True},
    "8 B": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "tie_word_embeddings": False},
}
_TINY: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3}


def encoder(bench: Bench, layers: int = 12) -> BertForSequenceClassification:
    """Build a classifier of the size of BERT-base in float32, with SDPA, in training mode."""
    sizes: dict[str, Any] = {"num_hidden_layers": layers}
    if bench.dry:
        sizes = {"vocab_size": 512, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
        sizes |= {"num_hidden_layers": min(layers, 3)}
    # Set here, because the head writes it in its first pass, and compiled graphs depend on it.
    config = BertConfig(**sizes, problem_type="single_label_classification")
    torch.manual_seed(0)
    with bench.device:
        model = BertForSequenceClassification._from_config(config, attn_implementation="sdpa")
    return model.train()


def decoder_config(bench: Bench, size: Size) -> LlamaConfig:
    """Return the configuration of a decoder; a tiny one in a dry run."""
    shape: dict[str, Any] = {"vocab_size": 128256, "num_attention_heads": 32, "num_key_value_heads": 8}
    shape |= {**_SHAPES[size], "max_position_embeddings": 8192}
    if bench.dry:
        shape |= {**_TINY, "vocab_size": 512, "num_attention_heads": 2, "num_key_value_heads": 1}
    return LlamaConfig(**shape, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def decoder(bench: Bench, size: Size, dtype: torch.dtype = torch.bfloat16) -> LlamaForCausalLM:
    """Build a decoder with SDPA, in training mode."""
    torch.manual_seed(0)
    with bench.device:
        model = LlamaForCausalLM._from_config(decoder_config(bench, size), dtype=dtype, attn_implementation="sdpa")
    return model.train()


def batch_of(bench: Bench, model: Any, rows: int, tokens: int, seed: int = 0) -> dict[str, Tensor]:
    """Return random tokens with labels, on the device; few of them in a dry run."""
    if bench.dry:
        rows, tokens = min(rows, 4), min(tokens, 16)
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, model.config.vocab_size, (rows, tokens), generator=draw)
    texts = hasattr(model, "lm_head")
    labels = ids if texts else torch.randint(0, 2, (rows,), generator=draw)
    return {"input_ids": ids.to(bench.device), "labels": labels.to(bench.device)}


def save(model: Any, folder: Path) -> None:
    """Write a model as ``save_pretrained`` does, without a progress bar."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model.save_pretrained(folder)
    finally:
        if shown:
            logging.enable_progress_bar()


def checkpointing(model: Any) -> None:
    """Turn activation checkpointing on."""
    # transformers 5.20 has renamed it.
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)({"use_reentrant": False})
