"""Time one training step with each method, on a 6-layer encoder of width 384, batch 16 x 64 tokens, AdamW.

Floors: a sparse gate must read and write each gradient once. A dropped or closed layer saves its weight gradients, a
third of its cost, and its whole backward pass if nothing below it learns.

Freezing saves less where weights below the closed ones learn: the backward pass runs through them all the same, and
only gradients and updates of weights are saved. Masks over single weights (graddrop, child-tuning) save nothing: a step
takes as long as a plain one, or longer. What freezing costs in scores, evidence/what-to-use.md says.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.timing import medians, repeated, rows

# Steps of a round: layer-graddrop drops other layers in each.
STEPS = 6
Change = Callable[[nn.Module], None]
OTHERS = ("plain", "naive masks", "copies of all weights", "by hand")  # lines that time something else


def run(rounds: int = 7) -> list[str]:
    """Return four tables: masks, lower layers closed, layers closed above open weights, dropped layers."""
    masks = {
        "plain": stepper(None),
        "full": stepper("full"),
        "naive masks": stepper(None, after_backward=naive_masks),
        "graddrop:p=0.2": stepper("graddrop:p=0.2"),
        "graddrop-epoch (holds)": stepper("graddrop-epoch"),
        "child-tuning:keep=0.3": stepper("child-tuning:keep=0.3"),
        "copies of all weights, put back": stepper(None, holding=True),
    }
    closed = {
        "by hand: 3 of 6 layers closed": stepper(None, before=freeze_three),
        "freeze:layers=3": stepper("freeze:layers=3"),
        "by hand: all but the top layer closed": stepper(None, before=freeze_all_but_top),
        "gradual, first stage": stepper("gradual:every=1000000"),
    }
    above = {
        "plain": stepper(None),
        "upper 3 of 6 layers closed": stepper("groups:open=embeddings/layers.0/layers.1/layers.2/head"),
        "bitfit": stepper("bitfit"),
    }
    dropped = {
        "plain, embeddings closed": stepper(None, before=freeze_embeddings),
        "layer-graddrop:p=0.5": stepper("layer-graddrop:p=0.5", before=freeze_embeddings),
        "layer-graddrop:p=0.5,mask_target=update": stepper(
            "layer-graddrop:p=0.5,mask_target=update", before=freeze_embeddings
        ),
    }
    times = [
        medians({name: repeated(step, STEPS) for name, step in table.items()}, rounds)
        for table in (masks, closed, above, dropped)
    ]
    by_hand, frozen, top, gradual = times[1].values()
    return [
        *rows(f"masks, {STEPS} steps", times[0]),
        *rows(f"closed layers, {STEPS} steps", times[1]),
        f"  freeze:layers=3 is {frozen / by_hand:.3f}x, gradual {gradual / top:.3f}x of the same by hand",
        *rows(f"closed above open weights, {STEPS} steps", times[2]),
        *rows(f"dropped layers, {STEPS} steps", times[3]),
    ]


def stepper(
    method: str | None,
    *,
    before: Change | None = None,
    after_backward: Change | None = None,
    holding: bool = False,
) -> Callable[[], None]:
    model = encoder()
    if before:
        before(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    if method:
        gg.Tuner(model, optimizer, method, total_steps=1000, steps_per_epoch=100)
    batch = batch_of(16, 64)

    def step() -> None:
        model(**batch).loss.backward()
        if after_backward:
            after_backward(model)
        if holding:
            step_and_put_back(model, optimizer)
        else:
            optimizer.step()
        optimizer.zero_grad()

    return step


def masked(model: nn.Module) -> list[nn.Parameter]:
    named = model.named_parameters()
    return [parameter for name, parameter in named if "encoder.layer" in name and parameter.grad is not None]


def naive_masks(model: nn.Module) -> None:
    for parameter in masked(model):
        mask = (torch.rand_like(parameter.grad) >= 0.2).to(parameter.grad.dtype)
        parameter.grad.mul_(mask).mul_(1.25)


def step_and_put_back(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    masks = [torch.rand_like(parameter) >= 0.9 for parameter in masked(model)]
    before = [parameter.detach().clone() for parameter in masked(model)]
    for parameter, mask in zip(masked(model), masks, strict=True):
        parameter.grad.mul_(mask)
    optimizer.step()
    with torch.no_grad():
        for parameter, mask, old in zip(masked(model), masks, before, strict=True):
            parameter.copy_(torch.where(mask, parameter, old))


def freeze_embeddings(model: nn.Module) -> None:
    model.bert.embeddings.requires_grad_(False)


def freeze_three(model: nn.Module) -> None:
    freeze_embeddings(model)
    model.bert.encoder.layer[:3].requires_grad_(False)


def freeze_all_but_top(model: nn.Module) -> None:
    freeze_embeddings(model)
    model.bert.encoder.layer[:-1].requires_grad_(False)
