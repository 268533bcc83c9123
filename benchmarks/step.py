"""One training step with each method against the plain step, on a 6-layer encoder of hidden size 384."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

import gradgate as gg
from benchmarks.timing import medians

BATCH, TOKENS = 16, 64


def run(rounds: int = 9) -> list[str]:
    """One line a rival; ratios to the plain step, or to the same freezing by hand."""
    steps = {
        "plain": _stepper(None),
        "naive masks": _stepper(None, after_backward=_naive_masks),
        "full": _stepper("full"),
        "graddrop:p=0.2": _stepper("graddrop:p=0.2"),
        "layer-graddrop:p=0.5": _stepper("layer-graddrop:p=0.5"),
        "by hand: 3 frozen": _stepper(None, before=_freeze_three),
        "freeze:layers=3": _stepper("freeze:layers=3"),
    }
    times = medians(steps, rounds)
    plain, by_hand = times["plain"], times["by hand: 3 frozen"]
    lines = [f"{name:<22}{1e3 * seconds:9.1f} ms   {seconds / plain:6.3f}x plain" for name, seconds in times.items()]
    return [*lines, f"freeze:layers=3 against the same by hand: {times['freeze:layers=3'] / by_hand:.3f}x"]


def _stepper(
    method: str | None,
    *,
    before: Callable[[nn.Module], None] | None = None,
    after_backward: Callable[[nn.Module], None] | None = None,
) -> Callable[[], None]:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30522, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = BertForSequenceClassification(config)
    if before:
        before(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    if method:
        gg.Tuner(model, optimizer, method)
    batch = {
        "input_ids": torch.randint(5, 30000, (BATCH, TOKENS)),
        "labels": torch.randint(0, 2, (BATCH,)),
    }

    def step() -> None:
        model(**batch).loss.backward()
        if after_backward:
            after_backward(model)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _naive_masks(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if "encoder.layer" in name and parameter.grad is not None:
            mask = (torch.rand_like(parameter.grad) >= 0.2).to(parameter.grad.dtype)
            parameter.grad.mul_(mask).mul_(1.25)


def _freeze_three(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if "embeddings" in name or any(f"encoder.layer.{number}." in name for number in range(3)):
            parameter.requires_grad_(False)
