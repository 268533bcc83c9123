"""Measure the peak memory of one training on BERT-base (110 M parameters, AdamW), each rival in its own process.

The floor is the plain step. Weights, gradients and the two moments of AdamW are 418 MiB each, and so is every copy of
the weights. Masked weights add one chunk of old values, of at most 64 MiB, at a time.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
from multiprocessing.connection import Connection

import torch

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.step import naive_masks, step_and_put_back

RIVALS = ("plain", "naive masks", "graddrop:p=0.2", "graddrop-epoch", "child-tuning:keep=0.3", "copies, put back")
STEPS = 3


def run() -> list[str]:
    """Return one line per rival: the peak of the resident memory, and its excess over the plain step."""
    peaks = {name: _peak(name) for name in RIVALS}
    plain = peaks["plain"]
    return [f"{name:<24}{peak:8.0f} MiB {peak - plain:+8.0f} MiB" for name, peak in peaks.items()]


def _peak(name: str) -> float:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_train, args=(name, theirs))
    process.start()
    peak: float = ours.recv()
    process.join()
    return peak


def _train(name: str, told: Connection) -> None:
    model = encoder(layers=12, width=768)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    if name not in ("plain", "naive masks", "copies, put back"):
        gg.Tuner(model, optimizer, name, total_steps=1000, steps_per_epoch=100)
    batch = batch_of(1, 16)  # activations are not compared
    for _ in range(STEPS):
        model(**batch).loss.backward()
        if name == "naive masks":
            naive_masks(model)
        if name == "copies, put back":
            step_and_put_back(model, optimizer)
        else:
            optimizer.step()
        optimizer.zero_grad()
    unit = 2**20 if sys.platform == "darwin" else 2**10
    told.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit)
