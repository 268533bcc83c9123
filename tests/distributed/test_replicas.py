"""Average what processes measured, share one's tensors, and find copies that differ."""

from __future__ import annotations

from hashlib import blake2b

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gradgate.clock import Clock
from gradgate.distributed.replicas import Replicas
from gradgate.errors import AttachError, AuditError
from support.gloo_group import in_processes


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))


def copies(**options: bool) -> tuple[nn.Module, Replicas]:
    """A model, the same in both processes under DDP, and what sees them as copies."""
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, Replicas(DistributedDataParallel(model, **options), optimizer, model)


def fingerprint(tensor: Tensor) -> str:
    return blake2b(tensor.detach().numpy().tobytes()).hexdigest()


def names() -> set[str]:
    return {name for name, _ in small().named_parameters()}


def test_one_process_has_no_copies() -> None:
    model = small()
    replicas = Replicas(model, torch.optim.SGD(model.parameters(), lr=0.1), model)
    tensors = {"0.weight": torch.ones(2)}
    assert replicas.group is None
    assert not replicas.sharded
    assert replicas.mean({"0": 0.1, "1": 0.2}) == {"0": 0.1, "1": 0.2}
    assert replicas.first(tensors) is tensors
    replicas.compare(fingerprint, step=1)
    replicas.expect(names(), lambda clock: names(), Clock(), ahead=True)
    replicas.watch()
    replicas.release()


@pytest.mark.parametrize("kind", ["MEGATRON_LM", "XLA", "DEEPSPEED"])
def test_other_engines_are_refused_by_name(kind: str) -> None:
    model = small()
    state = type("State", (), {"distributed_type": type("Kind", (), {"value": kind})})
    optimizer = type("Wrapped", (), {"accelerator_state": state})()
    with pytest.raises(AttachError, match="DeepSpeed" if kind == "DEEPSPEED" else kind):
        Replicas(model, optimizer, model)
    with pytest.raises(AttachError):
        Replicas(model, [torch.optim.SGD(model.parameters(), lr=0.1), optimizer], model)


@in_processes
def test_mean_is_over_processes() -> None:
    _, replicas = copies()
    assert replicas.group is not None
    rank = dist.get_rank()
    assert replicas.mean({"a": 1.0 + rank, "b": 10.0 * rank}) == {"a": 1.5, "b": 5.0}


@in_processes
def test_mean_of_equal_values_is_exact() -> None:
    _, replicas = copies()
    values = {"a": 0.1, "b": 1e-300, "c": 1 / 3}
    assert replicas.mean(values) == values


@in_processes
def test_tensors_of_the_first_are_shared() -> None:
    _, replicas = copies()
    rank = dist.get_rank()
    shared = replicas.first({"mask": torch.full((3,), float(rank)), "scores": torch.tensor([rank, 7])})
    assert {name: tensor.tolist() for name, tensor in shared.items()} == {"mask": [0, 0, 0], "scores": [0, 7]}


@in_processes
def test_equal_copies_pass() -> None:
    model, replicas = copies()
    replicas.compare(fingerprint, step=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    replicas.compare(fingerprint, step=4)


@pytest.mark.parametrize("name", ["0.weight", "1.bias"])
@in_processes
def test_differing_copy_is_named_everywhere(name: str) -> None:
    model, replicas = copies()
    if dist.get_rank() == 1:
        with torch.no_grad():
            model.get_parameter(name).flatten()[-1].add_(1e-6)
    with pytest.raises(AuditError, match=rf"^{name} is not the same in processes 0 and 1 \(seen after step 5\)"):
        replicas.compare(fingerprint, step=5)


@pytest.mark.parametrize("setting", ["find_unused_parameters=False", "static_graph=True"])
@in_processes
def test_waiting_ddp_refuses_a_later_closing(setting: str) -> None:
    """In advance where the plans are known, and at the step where they are not."""
    _, replicas = copies(**({"static_graph": True} if setting == "static_graph=True" else {}))

    def opened(clock: Clock) -> set[str]:
        return names() - ({"0.bias"} if clock.step >= 3 else set())

    clock = Clock(0, 10, 10)
    with pytest.raises(AttachError, match=rf"^0\.bias is closed in step 4.*{setting}"):
        replicas.expect(names(), opened, clock, ahead=True)
    replicas.expect(names(), opened, clock, ahead=False)
    replicas.admit(names(), 2)
    with pytest.raises(AttachError, match=r"^0\.bias is closed in step 4"):
        replicas.admit(names() - {"0.bias"}, 3)


@in_processes
def test_searching_ddp_allows_closing() -> None:
    _, replicas = copies(find_unused_parameters=True)
    replicas.expect(names(), lambda clock: {"1.bias"}, Clock(0, 10, 10), ahead=True)
    replicas.admit(set(), 4)


@in_processes
def test_parameters_that_ddp_ignores_may_not_open() -> None:
    model = small()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    model.requires_grad_(True)
    replicas = Replicas(wrapped, torch.optim.SGD(model.parameters(), lr=0.1), model)
    replicas.expect({"1.weight"}, lambda clock: {"1.weight"}, Clock(), ahead=True)
    with pytest.raises(AttachError, match=r"^0\.bias and 1 more did not require a gradient"):
        replicas.expect(names(), lambda clock: names(), Clock(), ahead=True)


@in_processes
def test_compiled_model_shows_its_ddp() -> None:
    model = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(DistributedDataParallel(model), backend="eager")
    assert Replicas(compiled, optimizer, model).group is not None
    outside = torch.compile(nn.Sequential(model), backend="eager")
    assert Replicas(outside, optimizer, model).group is None
