"""Train shards of one model in two processes (FSDP2)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Shard

from gradgate import Tuner, gates, map_layers
from gradgate.distributed.shards import local
from gradgate.errors import NonFiniteError, RunError
from support.gloo_group import in_processes
from support.loop import batch
from support.replicas import (
    adamw,
    backward,
    fresh,
    fsdp,
    full,
    mine,
    refused,
)


@in_processes
def test_masks_of_shards_are_slices() -> None:
    """Rows that do not divide evenly, a shard without any, and one of another offset."""
    for rows in (1, 2, 5, 8):
        weight = nn.Linear(3, rows).double()
        fully_shard(weight)
        shard, offset = local(weight.weight)
        whole = gates.mask(3 * rows, lo=0.4, hi=1.0, key=7)
        part = gates.apply_(torch.ones_like(shard), lo=0.4, hi=1.0, key=7, offset=offset).flatten().bool()
        assert torch.equal(part, whole[offset : offset + shard.numel()])
        found: list[Any] = [None, None]
        dist.all_gather_object(found, part)
        assert torch.equal(torch.cat(found), whole)


@in_processes
def test_shards_have_the_model_s_groups() -> None:
    expected, model = map_layers(fresh()), fsdp()
    assert [(g.name, g.parameter_names, g.parameter_count) for g in map_layers(model)] == [
        (g.name, g.parameter_names, g.parameter_count) for g in expected
    ]
    assert all(isinstance(p, DTensor) for p in model.parameters())
    one_group = fully_shard(fresh())
    assert [g.parameter_names for g in map_layers(one_group)] == [g.parameter_names for g in expected]


@in_processes
def test_gate_with_factor_reduces_once() -> None:
    model = fsdp()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "graddrop:p=0.4"):
        model(**batch(model, 0)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model(**batch(model, 1)).loss.backward()
        with refused("set_requires_gradient_sync", RunError):
            model(**batch(model, 2)).loss.backward()


@in_processes
def test_gate_without_factor_may_reduce_often() -> None:
    models = fresh(), fsdp()
    for model in models:
        with Tuner(model, adamw(model), "graddrop-epoch", total_steps=4, steps_per_epoch=1):
            for number in range(2):
                model(**batch(model, number)).loss.backward()
    for alone, shard in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(full(shard.grad), alone.grad, rtol=1e-9, atol=1e-12)


@in_processes
def test_methods_on_full_weights_are_refused() -> None:
    model = fsdp()
    for method, match in (("fun:every=1", "plan:FILE"), ("mixout:p=0.5", "mixout"), ("child-tuning:mode=D", "shards")):
        with refused(match):
            Tuner(model, adamw(model), method, total_steps=4, fisher_data=lambda step: [batch(model, step)])
    assert all(p.requires_grad for p in model.parameters())


@in_processes
def test_other_shards_are_refused() -> None:
    flat = FullyShardedDataParallel(fresh(), device_id=torch.device("cpu"), use_orig_params=True)
    with refused("FSDP version 1"):
        Tuner(flat, adamw(flat), "full")
    by_column = fresh()
    fully_shard(by_column, shard_placement_fn=lambda p: Shard(1) if p.dim() > 1 and p.shape[1] % 2 == 0 else None)
    with refused("Shard"):
        Tuner(by_column, adamw(by_column), "full")
    rows = fsdp()
    with refused("Use metric=norm"):
        Tuner(rows, adamw(rows), "grades:tau=1", total_steps=4)
    with refused("gradients, of whole weights, and FSDP2"):
        Tuner(rows, adamw(rows), "sparse:by=gradient", fisher_data=lambda step: [batch(rows, step)])


@in_processes
def test_nan_gradient_stops_all_processes() -> None:
    model = fsdp()
    optimizer = adamw(model)
    before = [full(p).clone() for p in model.parameters()]
    with Tuner(model, optimizer, "head", audit=False):
        (model(**batch(model, 0)).loss * (float("nan") if dist.get_rank() == 1 else 1.0)).backward()
        with refused("step 1", NonFiniteError):
            optimizer.step()
    assert all(torch.equal(full(p), old) for p, old in zip(model.parameters(), before, strict=True))


@in_processes
def test_hybrid_shards_are_gated_like_tensors() -> None:
    """A mesh of copies and shards: here two copies of one shard."""
    mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("copies", "shards"))
    alone, model = fresh(), fresh()
    for layer in model.bert.encoder.layer:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for each, rows in ((alone, slice(0, 4)), (model, mine())):
        with Tuner(each, adamw(each), "graddrop:p=0.4", seed=5):
            backward(each, rows, 0)
    for weight, shard in zip(alone.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(full(shard.grad), weight.grad, rtol=1e-9, atol=1e-12)
