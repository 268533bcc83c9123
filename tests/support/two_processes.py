"""What two processes do together: each function here runs in both of them, and asserts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from gradgate import Tuner, gates, map_layers
from gradgate.distributed.shards import local
from gradgate.errors import AttachError, AuditError, GradgateError, NonFiniteError, RunError
from gradgate.layers import named_parameters
from support.loop import batch, build
from support.optimizers import matrices, others

METHODS = (
    "gradual:every=2",
    "graddrop:p=0.4",
    "graddrop:p=0.4,mask_target=update",
    "layer-graddrop:p=0.4",
    "graddrop-epoch-toggle",
    "lisa:layers=1,every=2,state=reset",
    "graddrop:p=0.4,noise=gaussian",
    "sparse:share=0.3,by=lift,rank=4,every=3",
    "mofo:alpha=0.2",
    "grades:tau=1.3,alpha=0.3,unit=layer,metric=norm",
    "groups:open=embeddings[40:70]/layers.2",  # rows of both shards
)
# These close and mask what those above do, at other steps and by other draws.
MORE_METHODS = (
    "freeze:layers=2",
    "layer-graddrop:p=0.4,mask_target=grad",
    "graddrop-epoch",
    "child-tuning:mode=F,keep=0.5",
    "blocks:every=1",
    "spectrum:share=0.34",
    "hft:every=2",
)
STEPS = 6
Scenario = Callable[[], None]


def adamw(model: nn.Module) -> torch.optim.AdamW:
    """A large epsilon: the gradients of some biases are nothing but rounding, which Adam would blow up."""
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1, eps=1e-5)


def two_adamw(model: nn.Module) -> list[torch.optim.Optimizer]:
    """One for the matrices of the layers and one for the rest: of Muon's updates, shards change the rounding."""
    return [torch.optim.AdamW(own, lr=1e-2, weight_decay=0.1, eps=1e-5) for own in (matrices(model), others(model))]


def fresh() -> nn.Module:
    return build("bert").double()


def ddp(**options: Any) -> DistributedDataParallel:
    return DistributedDataParallel(fresh(), **{"find_unused_parameters": True, **options})


def fsdp(model: nn.Module | None = None) -> nn.Module:
    """Each layer a group, the rest another."""
    model = model or fresh()
    for layer in model.bert.encoder.layer:
        fully_shard(layer)
    return fully_shard(model)


def backward(model: nn.Module, rows: slice, step: int, *, micro: int = 1) -> None:
    """A part of the step's batch, in so many pieces; the loss is its mean."""
    part = {name: values[rows] for name, values in batch(getattr(model, "module", model), step).items()}
    chunks = [values.chunk(micro) for values in part.values()]
    pieces = [dict(zip(part, values, strict=True)) for values in zip(*chunks, strict=True)]
    for piece in pieces:
        last = piece is pieces[-1]
        if hasattr(model, "set_requires_gradient_sync"):
            model.set_requires_gradient_sync(last)
        with nullcontext() if last or not hasattr(model, "no_sync") else model.no_sync():
            (model(**piece).loss / micro).backward()


def mine() -> slice:
    """This process's half of the four rows of a batch."""
    return slice(2 * dist.get_rank(), 2 * dist.get_rank() + 2)


def full(tensor: Tensor) -> Tensor:
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach()


def same_everywhere(value: object) -> bool:
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return all(other == found[0] for other in found)


def readable(state: dict[str, Any]) -> dict[str, Any]:
    """A tuner's state as values that can be compared; sums over shards are rounded differently."""
    tensors = {name: tensor.tolist() for name, tensor in state.get("tensors", {}).items()}
    read: dict[str, Any] = json.loads(
        json.dumps({**state, "tensors": tensors}), parse_float=lambda x: f"{float(x):.5g}"
    )
    return read


def digests(model: nn.Module) -> list[bytes]:
    return [p.detach().numpy().tobytes() for p in model.parameters()]


@contextmanager
def refused(match: str, kind: type[GradgateError] = AttachError) -> Iterator[None]:
    with pytest.raises(kind, match=match):
        yield


def compare(alone: nn.Module, other: nn.Module, start: dict[str, Tensor], where: str) -> None:
    """Gradients stopped at the same elements, weights equal up to rounding, and unmoved where the other's are."""
    reference, compared = named_parameters(alone), named_parameters(other)
    assert reference.keys() == compared.keys()
    for name, weight in reference.items():
        twin = compared[name]
        assert weight.requires_grad == twin.requires_grad, f"{where}: {name}"
        held = full(twin)
        assert float((held - weight.detach()).abs().max()) < 1e-9, f"{where}: {name}"
        if weight.dim() < 2:
            continue  # gradients of some biases are nothing but rounding
        assert torch.equal(held == start[name], weight.detach() == start[name]), f"{where}: {name} moved elsewhere"
        if weight.grad is not None and twin.grad is not None:
            assert torch.equal(full(twin.grad) == 0, weight.grad == 0), f"{where}: the mask of {name}"


def equals_one_process(method: str, micro: int = 1, *, several: bool = False) -> None:
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


def closed_rows_keep_every_bit() -> None:
    """Ten steps of AdamW with weight decay, on shards and on copies."""
    table = "bert.embeddings.word_embeddings.weight"
    for model in (fsdp(), ddp()):
        inner = getattr(model, "module", model)
        before, optimizer = full(inner.get_parameter(table)).clone(), adamw(model)
        with Tuner(model, optimizer, "groups:open=embeddings[40:70]/head", audit=True):
            for step in range(10):
                model.zero_grad()
                backward(model, mine(), step)
                optimizer.step()
        after = full(inner.get_parameter(table))
        assert torch.equal(after[:40], before[:40])
        assert torch.equal(after[70:], before[70:])
        assert not (after[40:70] == before[40:70]).any()


def element_masks_of_shards_are_slices() -> None:
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


def fsdp_groups_are_those_of_the_whole_model() -> None:
    expected, model = map_layers(fresh()), fsdp()
    assert [(g.name, g.parameter_names, g.parameter_count) for g in map_layers(model)] == [
        (g.name, g.parameter_names, g.parameter_count) for g in expected
    ]
    assert all(isinstance(p, DTensor) for p in model.parameters())
    one_group = fully_shard(fresh())
    assert [g.parameter_names for g in map_layers(one_group)] == [g.parameter_names for g in expected]


def fsdp_reduces_once_for_a_gate_with_a_factor() -> None:
    model = fsdp()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "graddrop:p=0.4"):
        model(**batch(model, 0)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model(**batch(model, 1)).loss.backward()
        with refused("set_requires_gradient_sync", RunError):
            model(**batch(model, 2)).loss.backward()


def fsdp_may_reduce_often_for_a_gate_without_a_factor() -> None:
    models = fresh(), fsdp()
    for model in models:
        with Tuner(model, adamw(model), "graddrop-epoch", total_steps=4, steps_per_epoch=1):
            for number in range(2):
                model(**batch(model, number)).loss.backward()
    for alone, shard in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(full(shard.grad), alone.grad, rtol=1e-9, atol=1e-12)


def fsdp_refuses_what_needs_whole_weights() -> None:
    model = fsdp()
    for method, match in (("fun:every=1", "plan:FILE"), ("mixout:p=0.5", "mixout"), ("child-tuning:mode=D", "shards")):
        with refused(match):
            Tuner(model, adamw(model), method, total_steps=4, fisher_data=lambda step: [batch(model, step)])
    assert all(p.requires_grad for p in model.parameters())


def other_shards_are_refused() -> None:
    flat = FullyShardedDataParallel(fresh(), device_id=torch.device("cpu"), use_orig_params=True)
    with refused("FSDP version 1"):
        Tuner(flat, adamw(flat), "full")
    by_column = fresh()
    fully_shard(by_column, shard_placement_fn=lambda p: Shard(1) if p.dim() > 1 and p.shape[1] % 2 == 0 else None)
    with refused("Shard"):
        Tuner(by_column, adamw(by_column), "full")
    rows = fsdp()
    with refused("FSDP2 keeps shards. Use metric=norm"):
        Tuner(rows, adamw(rows), "grades:tau=1", total_steps=4)
    with refused("gradients, of whole weights, and FSDP2 keeps shards"):
        Tuner(rows, adamw(rows), "sparse:by=gradient", fisher_data=lambda step: [batch(rows, step)])


def fsdp_sees_a_gradient_that_is_no_number_everywhere() -> None:
    model = fsdp()
    optimizer = adamw(model)
    before = [full(p).clone() for p in model.parameters()]
    with Tuner(model, optimizer, "head", audit=False):
        (model(**batch(model, 0)).loss * (float("nan") if dist.get_rank() == 1 else 1.0)).backward()
        with refused("step 1", NonFiniteError):
            optimizer.step()
    assert all(torch.equal(full(p), old) for p, old in zip(model.parameters(), before, strict=True))


def ddp_without_a_parameter_that_opens_is_refused() -> None:
    model = fresh()
    model.bert.encoder.layer[1].requires_grad_(False)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    model.requires_grad_(True)
    with refused(r"layer\.1\..*and \d+ more did not require a gradient"):
        Tuner(wrapped, adamw(model), "gradual:every=2")
    with Tuner(wrapped, adamw(model), "head"):  # opens what was there
        pass


def ddp_that_waits_for_gradients_is_refused_where_something_closes() -> None:
    for options in ({"find_unused_parameters": False}, {"static_graph": True}):
        for method in ("gradual:every=2", "freeze:layers=1", "layer-graddrop:p=0.2", "bitfit", "lisa:layers=1"):
            model = ddp(**options)
            with refused("find_unused_parameters=True"):
                Tuner(model, adamw(model), method, total_steps=50)
            assert all(p.requires_grad for p in model.parameters())


def ddp_may_wait_for_gradients_where_nothing_closes() -> None:
    for method in ("full", "graddrop:p=0.2"):
        model = ddp(find_unused_parameters=False)
        optimizer = adamw(model)
        with Tuner(model, optimizer, method, total_steps=3, audit=True):
            for step in range(3):
                optimizer.zero_grad()
                backward(model, mine(), step)
                optimizer.step()
        assert same_everywhere(digests(model))


def ddp_around_a_bare_model_is_found_when_it_runs() -> None:
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


def copies_that_differ_fail_the_audit() -> None:
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


def fun_decides_alike() -> None:
    """Whether the processes measure on the same batches, as one process does, or each on its own."""
    notes = []
    for kind in ("alone", "same", "own"):
        model: Any = fresh() if kind == "alone" else ddp()
        inner = getattr(model, "module", model)
        optimizer = adamw(model)
        first = dist.get_rank() if kind == "own" else 0
        data = lambda step, inner=inner, first=first: [batch(inner, step + 10 * first)]  # noqa: E731
        with Tuner(model, optimizer, "fun:every=1", total_steps=5, fisher_data=data, audit=True) as tuner:
            for step in range(5):
                optimizer.zero_grad()
                backward(model, slice(0, 4) if kind == "alone" else mine(), step)
                optimizer.step()
        if kind != "alone":
            assert same_everywhere(digests(model))
        notes.append(tuner.timeline.phases)
        assert same_everywhere(notes[-1])
    assert notes[0] == notes[1]


def child_tuning_chooses_alike() -> None:
    model = ddp()
    data = lambda step: [batch(model.module, step + 10 * dist.get_rank())]  # noqa: E731
    with Tuner(model, adamw(model), "child-tuning:mode=D,keep=0.3", total_steps=5, fisher_data=data) as tuner:
        chosen = tuner.state_dict()["tensors"]
    assert chosen
    assert same_everywhere({name: mask.tolist() for name, mask in chosen.items()})


def mixout_equals_one_process() -> None:
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


def hybrid_shards_are_gated_like_whole_tensors() -> None:
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


ALONE: dict[str, Scenario] = {
    function.__name__: function
    for function in (
        element_masks_of_shards_are_slices,
        fsdp_groups_are_those_of_the_whole_model,
        fsdp_reduces_once_for_a_gate_with_a_factor,
        fsdp_may_reduce_often_for_a_gate_without_a_factor,
        fsdp_refuses_what_needs_whole_weights,
        other_shards_are_refused,
        fsdp_sees_a_gradient_that_is_no_number_everywhere,
        ddp_without_a_parameter_that_opens_is_refused,
        ddp_that_waits_for_gradients_is_refused_where_something_closes,
        ddp_may_wait_for_gradients_where_nothing_closes,
        ddp_around_a_bare_model_is_found_when_it_runs,
        copies_that_differ_fail_the_audit,
        fun_decides_alike,
        child_tuning_chooses_alike,
        mixout_equals_one_process,
        hybrid_shards_are_gated_like_whole_tensors,
        closed_rows_keep_every_bit,
    )
}
MORE: dict[str, Scenario] = {method: (lambda method=method: equals_one_process(method)) for method in MORE_METHODS}  # type: ignore[misc]
SCENARIOS: dict[str, Scenario] = {
    **{method: (lambda method=method: equals_one_process(method)) for method in METHODS},  # type: ignore[misc]
    "graddrop:p=0.4 in two pieces": lambda: equals_one_process("graddrop:p=0.4", micro=2),
    "gradual:every=2 by two optimizers": lambda: equals_one_process("gradual:every=2", several=True),
    **ALONE,
}
