"""Compare training in two processes, with copies and with shards, with one process."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import clip_grad_norm_

from gradgate import Tuner
from support.gloo_group import in_processes
from support.replicas import (
    adamw,
    backward,
    compare,
    ddp,
    digests,
    fresh,
    fsdp,
    full,
    mine,
    readable,
    same_everywhere,
    two_adamw,
)

METHODS = (
    "graddrop:p=0.4,mask_target=update",
    "graddrop:p=0.4,noise=gaussian",
    "sparse:share=0.3,by=lift,rank=4,every=2",
    "mofo:alpha=0.2",
    "grades:tau=1.3,alpha=0.3,unit=layer,metric=norm",
    "groups:open=embeddings[40:70]/layers.2",  # rows of both shards
)
# These close and mask what those above and the cases below do, at other steps and by other draws.
MORE_METHODS = (
    "gradual:every=2",
    "lisa:layers=1,every=2,state=reset",
    "graddrop:p=0.4",
    "layer-graddrop:p=0.4",
    "graddrop-epoch-toggle",
    "freeze:layers=2",
    "layer-graddrop:p=0.4,mask_target=grad",
    "graddrop-epoch",
    "child-tuning:mode=F,keep=0.5",
    "blocks:every=1",
    "spectrum:share=0.34",
    "hft:every=2",
    "grades:tau=9,alpha=0.3,unit=layer,metric=weights",
)
STEPS = 4


@pytest.mark.parametrize(
    ("method", "micro", "several"),
    [
        *(pytest.param(method, 1, False, id=method) for method in METHODS),
        *(pytest.param(method, 1, False, id=method, marks=pytest.mark.slow) for method in MORE_METHODS),
        pytest.param("graddrop:p=0.4", 2, False, id="graddrop:p=0.4 in two pieces"),
        pytest.param("gradual:every=2", 1, True, id="gradual:every=2 by two optimizers"),
    ],
)
@in_processes
def test_two_processes_equal_one(method: str, micro: int, several: bool) -> None:
    """DDP and FSDP2 in lockstep with one process that sees the whole batch, over all transitions."""
    models = {"alone": fresh(), "ddp": ddp(), "fsdp": fsdp()}
    start = {name: p.detach().clone() for name, p in models["alone"].named_parameters()}
    optimizers = {kind: two_adamw(model) if several else [adamw(model)] for kind, model in models.items()}
    options = {"total_steps": STEPS, "steps_per_epoch": 2, "seed": 3, "audit": True}
    tuners = {kind: Tuner(model, optimizers[kind], method, **options) for kind, model in models.items()}
    for step in range(STEPS):
        for kind, model in models.items():
            model.zero_grad()
            backward(model, slice(0, 4) if kind == "alone" else mine(), step, micro=micro)
            clip_grad_norm_(model.parameters(), 0.5)
            for optimizer in optimizers[kind]:
                optimizer.step()
        for kind in ("ddp", "fsdp"):
            assert tuners[kind].plan == tuners["alone"].plan
            compare(models["alone"], getattr(models[kind], "module", models[kind]), start, f"{kind}, step {step}")
        assert same_everywhere(digests(models["ddp"])), f"the copies differ after step {step}"
    for kind in ("ddp", "fsdp"):
        assert readable(tuners[kind].state_dict()) == readable(tuners["alone"].state_dict())
        assert tuners[kind].open_fraction == tuners["alone"].open_fraction
        tuners[kind].detach()


@in_processes
def test_closed_rows_keep_every_bit() -> None:
    """Five steps of AdamW with weight decay, on shards and on copies."""
    table = "bert.embeddings.word_embeddings.weight"
    for model in (fsdp(), ddp()):
        inner = getattr(model, "module", model)
        before, optimizer = full(inner.get_parameter(table)).clone(), adamw(model)
        with Tuner(model, optimizer, "groups:open=embeddings[40:70]/head", audit=True):
            for step in range(5):
                model.zero_grad()
                backward(model, mine(), step)
                optimizer.step()
        after = full(inner.get_parameter(table))
        assert torch.equal(after[:40], before[:40])
        assert torch.equal(after[70:], before[70:])
        assert not (after[40:70] == before[40:70]).any()
