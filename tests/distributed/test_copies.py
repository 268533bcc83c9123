"""Train copies of one model in two processes (DDP)."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradgate import Tuner
from gradgate.errors import AuditError
from support.crossed import some_fast
from support.gloo_group import in_processes
from support.loop import batch
from support.replicas import (
    adamw,
    backward,
    ddp,
    digests,
    fresh,
    mine,
    refused,
    same_everywhere,
)


@in_processes
def test_ddp_without_opening_parameter_is_refused() -> None:
    model = fresh()
    model.bert.encoder.layer[1].requires_grad_(False)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    model.requires_grad_(True)
    with refused(r"layer\.1\..*and \d+ more did not require a gradient"):
        Tuner(wrapped, adamw(model), "gradual:every=2")
    with Tuner(wrapped, adamw(model), "head"):  # opens what was there
        pass


@in_processes
def test_waiting_ddp_refuses_methods_that_close() -> None:
    methods = ("gradual:every=2", "freeze:layers=1", "layer-graddrop:p=0.2", "bitfit", "lisa:layers=1")
    rigid, static = {"find_unused_parameters": False}, {"static_graph": True}
    for method, options in (*((method, rigid) for method in methods), (methods[0], static)):
        model = ddp(**options)
        with refused(r"DistributedDataParallelKwargs\(find_unused_parameters=True\)"):
            Tuner(model, adamw(model), method, total_steps=50)
        assert all(p.requires_grad for p in model.parameters())


@in_processes
def test_waiting_ddp_allows_open_methods() -> None:
    for method in ("full", "graddrop:p=0.2"):
        model = ddp(find_unused_parameters=False)
        optimizer = adamw(model)
        with Tuner(model, optimizer, method, total_steps=3, audit=True):
            for step in range(3):
                optimizer.zero_grad()
                backward(model, mine(), step)
                optimizer.step()
        assert same_everywhere(digests(model))


@in_processes
def test_ddp_around_bare_model_is_found() -> None:
    """As in Trainer, whose callbacks get the model without its wrapper."""
    rigid = ddp(find_unused_parameters=False)
    with Tuner(rigid.module, adamw(rigid.train()), "gradual:every=2"), refused("find_unused_parameters=True"):
        backward(rigid, mine(), 0)
    late = fresh().train()
    tuner = Tuner(late, adamw(late), "gradual:every=2")
    wrapped = DistributedDataParallel(late, find_unused_parameters=True)  # sees the head alone
    with refused("did not require a gradient"):
        backward(wrapped, mine(), 0)
    tuner.detach()


@in_processes
def test_differing_copies_fail_the_audit() -> None:
    """After the first step of a phase, at a change of phase, and at the end."""
    for method, spoiled in (("full", 0), ("gradual:every=2", 1), ("full", 1)):
        model = ddp()
        optimizer = adamw(model)
        tuner = Tuner(model, optimizer, method, audit=True)
        with refused("classifier.weight is not the same in processes 0 and 1", AuditError):
            for step in range(2):
                if step == spoiled and dist.get_rank() == 1:
                    model.module.classifier.weight.data.add_(1e-6)
                optimizer.zero_grad()
                backward(model, mine(), step)
                optimizer.step()
            tuner.detach()
        tuner.detach(audit=False)


@in_processes
def test_fun_decides_alike_in_all_processes() -> None:
    """Whether the processes measure on the same batches, as one process does, or each on its own."""
    notes = []
    for kind in ("alone", "same", "own"):
        model: Any = fresh() if kind == "alone" else ddp()
        inner = getattr(model, "module", model)
        optimizer = adamw(model)
        first = dist.get_rank() if kind == "own" else 0
        data = lambda step, inner=inner, first=first: [batch(inner, step + 10 * first)]  # noqa: E731
        with Tuner(model, optimizer, "fun:every=1", total_steps=3, fisher_data=data, audit=True) as tuner:
            for step in range(3):
                optimizer.zero_grad()
                backward(model, slice(0, 4) if kind == "alone" else mine(), step)
                optimizer.step()
        if kind != "alone":
            assert same_everywhere(digests(model))
        notes.append(tuner.timeline.phases)
        assert same_everywhere(notes[-1])
    assert notes[0] == notes[1]


@in_processes
def test_child_tuning_chooses_alike() -> None:
    model = ddp()
    data = lambda step: [batch(model.module, step + 10 * dist.get_rank())]  # noqa: E731
    with Tuner(model, adamw(model), "child-tuning:mode=D,keep=0.3", total_steps=5, fisher_data=data) as tuner:
        chosen = tuner.state_dict()["tensors"]
    assert chosen
    assert same_everywhere({name: mask.tolist() for name, mask in chosen.items()})


@in_processes
@some_fast("method", ["sparse:share=0.2,by=gradient", "child-tuning:mode=D,keep=0.3"], ["child-tuning:mode=D,keep=0.3"])
def test_a_ddp_that_is_found_after_a_choice_is_refused(method: str) -> None:
    model = ddp()
    data = lambda step: [batch(model.module, step + 10 * dist.get_rank())]  # noqa: E731
    for shown, error in ((model.module, refused("Pass the wrapped model to Tuner")), (model, nullcontext())):
        with Tuner(shown, adamw(model.train()), method, total_steps=8, fisher_data=data) as tuner, error:
            backward(model, mine(), 0)
    state = tuner.state_dict()
    with Tuner(model.module, adamw(model), method, total_steps=8, fisher_data=data) as tuner:
        tuner.load_state_dict(state)  # all processes resume with the same choices
        backward(model, mine(), 0)


@in_processes
def test_mixout_equals_one_process() -> None:
    models = {"alone": fresh(), "ddp": ddp()}
    for kind, model in models.items():
        optimizer = adamw(model)
        with Tuner(model, optimizer, "gradual:every=2+mixout:p=0.3", total_steps=4):
            for step in range(4):
                optimizer.zero_grad()
                model.train()
                backward(model, slice(0, 4) if kind == "alone" else mine(), step)
                optimizer.step()
    for alone, copy in zip(models["alone"].parameters(), models["ddp"].module.parameters(), strict=True):
        torch.testing.assert_close(copy, alone, rtol=0, atol=1e-9)
