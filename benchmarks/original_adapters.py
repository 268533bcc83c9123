"""Step AdapterHub's own library in its own environment: run by :mod:`benchmarks.adapters`, line by line.

Each input line names a rival; the script runs one step of it and prints a line.
"""

from __future__ import annotations

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification

BATCH, TOKENS = 8, 64


def main() -> None:
    torch.set_num_threads(int(sys.argv[1]))
    steps = {kind or "full": stepper(kind) for kind in (None, "seq_bn", "double_seq_bn")}
    print("ready", flush=True)
    for line in sys.stdin:
        steps[line.strip()]()
        print("done", flush=True)


def stepper(kind: str | None):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig())
    if kind:
        import adapters

        adapters.init(model)
        original = {"seq_bn": adapters.SeqBnConfig(), "double_seq_bn": adapters.DoubleSeqBnConfig()}
        model.add_adapter("task", config=original[kind])
        model.train_adapter("task")
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    batch = {
        "input_ids": torch.randint(5, 30000, (BATCH, TOKENS)),
        "labels": torch.randint(0, 2, (BATCH,)),
    }

    def step() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()
