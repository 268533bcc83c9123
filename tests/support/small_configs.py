"""Configurations of small models whose memory is estimated, and their estimates, each computed once."""

from __future__ import annotations

from functools import cache
from typing import Any

from transformers import BertConfig, LlamaConfig

from gradgate import estimate_memory
from gradgate.memory import MemoryEstimate

_USUAL: dict[str, Any] = {
    "batch_size": 2,
    "max_length": 16,
    "shards": 1,
    "accumulate": 1,
    "checkpointing": False,
    "optim": "adamw_torch",
    "precision": "fp32",
}


def bert(depth: int = 2) -> BertConfig:
    return BertConfig(
        vocab_size=100,
        hidden_size=16,
        num_hidden_layers=depth,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )


def llama_3_8b(depth: int = 32) -> LlamaConfig:
    """The shape of Llama-3-8B, with any number of layers."""
    return LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=depth,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
    )


def estimate(method: str = "full", depth: int = 2, **options: Any) -> MemoryEstimate:
    """Estimate a training of the small BERT, 2 rows of 16 tokens unless something else is passed."""
    chosen = {**_USUAL, **options}
    return _estimated(method, depth, tuple(sorted(chosen.items(), key=lambda option: option[0])))


def peak(method: str = "full", depth: int = 2, **options: Any) -> int:
    """Return the peak of a training of the small BERT, in bytes."""
    return estimate(method, depth, **options).peak_bytes


@cache
def _estimated(method: str, depth: int, options: tuple[tuple[str, Any], ...]) -> MemoryEstimate:
    return estimate_memory(bert(depth), method, **dict(options))
