"""Time the steps of a training with and without an audit.

Both train the embedded encoder with AdamW in one process, in turns of 64 steps. The audit looks at
steps 1, 2, 4, 8, 16, 32 and 64 and at the end; its time is in the ratio.
"""

from __future__ import annotations

import torch
from transformers import AutoModelForSequenceClassification

import gradgate as gg
from benchmarks.timing import medians, rows
from gradgate.sample import MODEL

STEPS, ROUNDS = 64, 5


def run() -> list[str]:
    """Return the milliseconds of a turn of each."""
    ids = torch.randint(5, 100, (16, 48), generator=torch.Generator().manual_seed(0))
    labels = torch.arange(16) % 2
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def turn() -> None:
        for _ in range(STEPS):
            model(input_ids=ids, labels=labels).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def audited() -> None:
        with gg.audit(model):
            turn()

    return rows(f"{STEPS} steps", medians({"plain": turn, "with an audit": audited}, ROUNDS))
