"""What holds where several processes train one model: every scenario runs in all, started once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from gradgate import Tuner
from gradgate.errors import AttachError
from support.loop import adamw, build
from support.process_group import GROUPS

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this torch has no gloo")


def failures_of(folder: Path, group: str) -> list[dict[str, str]]:
    """What failed in each process of a group, by scenario.

    Gloo's thread has crashed once in many runs (torch 2.13, a segmentation fault in ``pt_gloo_runloop``), so processes
    that die by one begin again; a crash of our own would come again, too.
    """
    logs, codes = _run(folder / "first", group)
    if -signal.SIGSEGV in codes:
        folder = folder / "again"
        logs, _ = _run(folder, group)
    else:
        folder = folder / "first"
    reports = [folder / f"{rank}.json" for rank in range(GROUPS[group][0])]
    assert all(report.is_file() for report in reports), "\n".join(logs)
    found = [json.loads(report.read_text()) for report in reports]
    assert all(report.pop("done", False) for report in found), "\n".join([*logs, *map(str, found)])
    return found


def _run(folder: Path, group: str) -> tuple[list[str], list[int]]:
    """What the processes of a group print, and their exit codes."""
    folder.mkdir()
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "support.process_group", str(folder), str(rank), group],
            cwd=Path(__file__).parents[1],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(GROUPS[group][0])
    ]
    logs = [process.communicate()[0].decode() for process in processes]
    return logs, [process.returncode for process in processes]


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    return failures_of(tmp_path_factory.mktemp("two-processes"), "two")


@pytest.mark.parametrize("scenario", GROUPS["two"][1])
def test_two_processes(scenario: str, failures: list[dict[str, str]]) -> None:
    for rank, failed in enumerate(failures):
        assert scenario not in failed, f"in process {rank}:\n{failed[scenario]}"


@pytest.mark.slow
def test_four_processes(tmp_path: Path) -> None:
    assert failures_of(tmp_path, "four") == [{}] * 4


@pytest.mark.slow
def test_two_processes_with_more_methods(tmp_path: Path) -> None:
    assert failures_of(tmp_path, "two with more methods") == [{}] * 2


@pytest.mark.parametrize("by", ["engine", "optimizer", "accelerate"])
def test_deepspeed_is_refused_with_the_reason(by: str) -> None:
    """It is too large to install for a test: what it is known by are the modules of its classes."""
    model: torch.nn.Module = build("bert")
    optimizer = adamw(model)
    if by == "engine":
        engine = type("DeepSpeedEngine", (torch.nn.Module,), {"__module__": "deepspeed.runtime.engine"})()
        engine.module = model
        model = engine
    elif by == "optimizer":
        optimizer = type("Wrapper", (), {"__module__": "accelerate.utils.deepspeed", "optimizer": optimizer})()
    else:
        state = SimpleNamespace(distributed_type=SimpleNamespace(value="DEEPSPEED"))
        optimizer = SimpleNamespace(optimizer=optimizer, accelerator_state=state)
    with pytest.raises(AttachError, match="inside its backward pass"):
        Tuner(model, optimizer, "full")
