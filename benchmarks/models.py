"""Build the models that are timed: encoders with random weights, as their values do not affect speed."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification

VOCABULARY = 30522


def encoder(layers: int = 6, width: int = 384, vocabulary: int = VOCABULARY) -> BertForSequenceClassification:
    """Build a BERT classifier in training mode, the same at every call."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 32,
        intermediate_size=4 * width,
    )
    return BertForSequenceClassification(config).train()


def batch_of(rows: int, tokens: int, vocabulary: int = VOCABULARY) -> dict[str, Tensor]:
    """Return random tokens and labels, the same at every call."""
    generator = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(5, vocabulary, (rows, tokens), generator=generator),
        "labels": torch.randint(0, 2, (rows,), generator=generator),
    }
