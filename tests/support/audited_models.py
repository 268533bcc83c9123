"""A small classifier for the tests of audits."""

from __future__ import annotations

import torch
from transformers import BertConfig, BertForSequenceClassification


def bert(layers: int = 3) -> BertForSequenceClassification:
    """Return a classifier of three classes without dropout, of a fixed seed."""
    torch.manual_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=64,
            hidden_size=16,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=3,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
