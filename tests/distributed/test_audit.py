"""Audit trainings of two processes: one report, with what the processes do not agree in."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

from gradgate.auditing.expectation import Expectation
from gradgate.auditing.report import AuditReport
from gradgate.auditing.watch import Watch
from support.command_line import Command
from support.crossed import some_fast
from support.gloo_group import in_processes
from support.launched import ACCELERATE


class Net(nn.Module):
    """Four layers between a table and a head; another head is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)) for _ in range(4))
        self.head = nn.Linear(8, 1)

    def forward(self, input_ids: Tensor) -> Tensor:
        states = self.table(input_ids).mean(1)
        for layer in self.layers:
            states = states + layer(states)
        return self.head(states)


def net() -> Net:
    torch.manual_seed(0)
    return Net()


def train(model: nn.Module, expect: str | None = None, without: str = "none") -> AuditReport:
    """Train on rows of this process, and return the report of all processes."""
    held = [each for name, each in model.named_parameters() if without not in name]
    optimizer = torch.optim.AdamW(held, lr=1e-2)
    rows = torch.Generator().manual_seed(dist.get_rank())
    watch = Watch(None if expect is None else Expectation(expect))
    watch.start()
    for _ in range(5):
        model(torch.randint(0, 20, (4, 6), generator=rows)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    records: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(records, watch.stop())
    return AuditReport.of(records, expect)


def kinds(report: AuditReport) -> dict[str, tuple[str, ...]]:
    return {each.kind: each.names for each in report.findings}


def check_one_report(report: AuditReport) -> None:
    (model,) = report.models
    assert (model.processes, model.steps) == (dist.get_world_size(), 5)


@in_processes
def test_a_parameter_that_no_loss_uses_under_ddp() -> None:
    model = net()
    model.other = nn.Linear(8, 2)
    report = train(DistributedDataParallel(model, find_unused_parameters=True))
    check_one_report(report)
    assert kinds(report) == {"unused": ("other.weight", "other.bias")}
    assert {group for model in report.models for each in model.parameters if (group := each.group)} >= {"layers.3"}


@in_processes
def test_processes_that_train_copies_of_their_own() -> None:
    report = train(net())
    check_one_report(report)
    (finding,) = report.findings
    assert finding.kind == "unexpected"
    assert "began with equal values in 2 processes" in finding.text
    assert "layers.0.0.weight" in finding.names


@in_processes
def test_a_forward_around_the_wrapper_of_ddp() -> None:
    model = DistributedDataParallel(net())
    report = train(model.module)
    assert "copy of its own" in report.findings[0].text


@in_processes
def test_what_learns_in_one_process_only() -> None:
    model = net()
    model.head.requires_grad_(dist.get_rank() == 0)
    texts = [each.text for each in train(model).findings]
    assert any("learns in some of 2 processes only" in text and "head.weight" in text for text in texts)


@some_fast("processes", [1, 2], [2])
@pytest.mark.parametrize("root", [True, False])
@in_processes
def test_fully_sharded_models_have_their_layers_and_findings(processes: int, root: bool) -> None:
    model = net()
    model.layers[0].requires_grad_(False)
    mesh = init_device_mesh("cpu", (processes,))
    for layer in (*model.layers, *([model] if root else [])):
        fully_shard(layer, mesh=mesh)
    report = train(model, "layers.1-3/embeddings/head", without="table")
    check_one_report(report)
    assert report.models[0].name == "Net"
    assert set(kinds(report)) == {"not_in_optimizer", "unexpected"}
    assert kinds(report)["not_in_optimizer"] == ("table.weight",)
    assert kinds(report)["unexpected"] == ("table.weight",)  # expected, but it did not learn
    assert report.learned.elements == 3 * (2 * 8 * 16 + 16 + 8) + 9


@pytest.mark.parametrize("named", [True, False])
@in_processes
def test_an_audit_leaves_sharding_of_version_1_alone(named: bool) -> None:
    def sharded(module: nn.Module) -> nn.Module:
        return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=named)

    model = net()
    for place, layer in enumerate(model.layers):
        model.layers[place] = sharded(layer)
    report = train(sharded(model))
    check_one_report(report)
    assert (report.findings, report.notes) == ((), ())
    assert report.learned.elements == sum(each.numel() for each in net().parameters())
    assert not named or set(report.learned.names) == {name for name, _ in net().named_parameters()}


SCRIPT = """
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model[0].parameters(), lr=1e-2)
rows = [(torch.randn(4), 0) for _ in range(24)]
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(rows, batch_size=2))
for inputs, labels in loader:
    accelerator.backward(nn.functional.cross_entropy(model(inputs), labels))
    optimizer.step()
    optimizer.zero_grad()
accelerator.end_training()
print(f"trained in {accelerator.num_processes}")
raise SystemExit(3 * accelerator.is_main_process)
"""


@pytest.mark.slow
def test_a_script_that_accelerate_launches_has_one_report(command: Command, tmp_path: Path) -> None:
    script, out = tmp_path / "train.py", tmp_path / "audit.json"
    script.write_text(SCRIPT, encoding="utf-8")
    done = command("audit", "--json", "--out", str(out), "--", sys.executable, *ACCELERATE, str(script))
    report = json.loads(out.read_text(encoding="utf-8"))
    assert done.code == 1  # the launcher's
    assert report["steps"] == 6
    assert report["learned"] == {"names": ["0.weight", "0.bias"], "elements": 40}
    assert [(each["kind"], each["names"]) for each in report["findings"]] == [
        ("not_in_optimizer", ["2.weight", "2.bias"])
    ]
