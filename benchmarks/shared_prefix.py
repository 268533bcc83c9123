"""Time eight tasks on one input: one call of ``SharedPrefix`` against eight calls of the separate models.

The models have 12 layers of 384 units, of which nine are shared. The ideal runs the nine once and the three of each
task: (9 + 8 · 3) / (8 · 12).
"""

from __future__ import annotations

import copy

import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.timing import medians, rows
from gradgate.deltas import SharedPrefix

TASKS, LAYERS, SHARED = 8, 12, 9
ROWS, TOKENS = 8, 64
IDEAL = (SHARED + TASKS * (LAYERS - SHARED)) / (TASKS * LAYERS)


@torch.no_grad()
def run(rounds: int = 7) -> list[str]:
    """Return one line per rival, and the distance to the ideal."""
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=384, num_hidden_layers=LAYERS, num_attention_heads=12, intermediate_size=1536, num_labels=3
    )
    base = BertForSequenceClassification(config).eval()
    separate = [base, *(trained(base) for _ in range(TASKS - 1))]
    shared = SharedPrefix.of([copy.deepcopy(model) for model in separate])
    assert shared.depth == SHARED
    inputs = {"input_ids": torch.randint(0, config.vocab_size, (ROWS, TOKENS))}
    wanted = [model(**inputs).logits for model in separate]
    same = all(torch.equal(output.logits, one) for output, one in zip(shared(**inputs), wanted, strict=True))
    times = medians(
        {
            "eight separate models": lambda: [model(**inputs) for model in separate],
            "shared prefix": lambda: shared(**inputs),
        },
        rounds,
    )
    ratio = times["shared prefix"] / times["eight separate models"]
    held = {parameter.data_ptr(): parameter.nbytes for model in shared.models for parameter in model.parameters()}
    whole = sum(parameter.nbytes for model in separate for parameter in model.parameters())
    return [
        *rows(f"{TASKS} tasks, {ROWS} rows of {TOKENS} tokens", times),
        f"{ratio / IDEAL:.3f}x of the ideal share {IDEAL:.3f}; outputs {'are' if same else 'are NOT'} the same bits",
        f"weights in memory: {sum(held.values()) / 1e6:.0f} MB of {whole / 1e6:.0f} MB",
    ]


def trained(base: BertForSequenceClassification) -> BertForSequenceClassification:
    """Build a copy whose upper layers and head have other weights."""
    model = copy.deepcopy(base)
    for module in (*model.bert.encoder.layer[SHARED:], model.bert.pooler, model.classifier):
        for parameter in module.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    return model
