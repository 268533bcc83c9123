"""What finished and broken run folders hold, in forms that can be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from gradgate.deltas.delta import DELTA_FILE
from gradgate.deltas.patched import open_weights


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that a run computed, without what it measured of time and memory."""
    scores = json.loads((folder / "scores.json").read_text())
    measured = ("seconds_per_step", "seconds_total", "peak_memory_bytes", "prefix_rows")
    scores["cost"] = {name: value for name, value in scores["cost"].items() if name not in measured}
    return {"scores": scores, "history": history(folder), "plan": (folder / "plan.yaml").read_text()}


def history(folder: Path, split: str | None = None) -> list[dict[str, Any]]:
    """The lines of ``history.jsonl``, of one split or all."""
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    return [line for line in lines if split in (None, line["split"])]


def weights(folder: Path) -> dict[str, Tensor]:
    """The saved model's tensors; of a run with an adapter, those of the adapter and the head."""
    if (folder / "model" / DELTA_FILE).is_file():
        held = open_weights(str(folder / "model"))
        return {name: held.read(name).clone() for name in held.entries}
    files = sorted((folder / "model").glob("*.safetensors"))
    assert files
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def assert_same_run(folder: Path, other: Path) -> None:
    """Equal scores, history and plan, and bit-identical weights."""
    assert outcome(folder) == outcome(other)
    mine, theirs = weights(folder), weights(other)
    assert mine.keys() == theirs.keys()
    for name, tensor in mine.items():
        assert torch.equal(tensor, theirs[name]), name


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder with its time of change and its bytes."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
