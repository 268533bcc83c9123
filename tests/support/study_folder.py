"""Study folders as `gradgate compare` leaves them, written by hand so that every number in them is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

GROUPS = ["embeddings", "layers.0", "layers.1", "head"]
SIZES = {"embeddings": 100, "layers.0": 40, "layers.1": 40, "head": 20}
METRIC = "macro_f1"


def write_study(
    folder: Path,
    methods: Sequence[str] = ("full", "gradual:every=40"),
    seeds: Sequence[int] = (0, 1, 2),
    scores: Mapping[str, Sequence[float]] | None = None,
    tests: Sequence[str] = ("test",),
    **task: Any,
) -> Path:
    """A study whose ``scores`` (method to one test score a seed) have all finished; the rest has not begun."""
    record = {
        "task": {
            "name": "toy",
            "kind": "classification",
            "metric": METRIC,
            "metric_higher_is_better": True,
            "labels": ["no", "yes"],
            "fingerprint": "f00d",
            "rows": {"train": 100, "dev": 20, **dict.fromkeys(tests, 30)},
            **task,
        },
        "model": {"name": "toy-bert", "parameters": 200},
        "methods": list(methods),
        "seeds": list(seeds),
        "settings": {"epochs": 3, "lr": 2e-5, "precision": "fp32", "clip": None},
        "versions": {"gradgate": "0.1.0", "torch": "2.13.0"},
    }
    _write(folder / "study.json", record)
    for method, values in (scores or {}).items():
        for seed, value in zip(seeds, values, strict=False):
            finish(folder, method, seed, value, tests, metric=record["task"]["metric"])
    return folder


def begin(folder: Path, method: str, seed: int) -> Path:
    """A run that has written its configuration only. Its folder is not named after its method."""
    study = json.loads((folder / "study.json").read_text())
    path = folder / "runs" / f"method-{study['methods'].index(method)}" / f"seed-{seed}"
    _write(path / "run.json", {"config": {"method": method, "seed": seed, "lr": 2e-5}, "versions": {"torch": "2.13.0"}})
    return path


def finish(
    folder: Path, method: str, seed: int, score: float, tests: Sequence[str] = ("test",), metric: str = METRIC
) -> Path:
    """A finished run; dev is 0.01 above the first test split, each further split 0.1 below the one before."""
    path = begin(folder, method, seed)
    cost = {
        "steps": 80,
        "seconds_per_step": 0.020 if method == "full" else 0.010,
        "seconds_total": 2.0 if method == "full" else 1.0,
        "peak_memory_bytes": 412_000_000,
        "trainable_share": 1.0 if method == "full" else 0.25,
        "parameters": 200,
        "parameters_trained": 200,
        "device": "cpu",
    }
    dev = score + 0.01
    record = {
        "metric": metric,
        "best_step": 80,
        "dev": {metric: dev, "loss": 1 - dev},
        "tests": {split: {metric: score - 0.1 * place, "loss": 0.5} for place, split in enumerate(tests)},
        "cost": cost,
    }
    lines = [
        {"step": 10, "epoch": 0.25, "split": "train", "loss": 1.0, "lr": 2e-5, "open_fraction": 1.0},
        {"step": 40, "epoch": 1.0, "split": "dev", "loss": 0.5, metric: dev - 0.1},
        {"step": 80, "epoch": 2.0, "split": "dev", "loss": 0.4, metric: dev},
    ]
    (path / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    phases = [{"step": 0, "open": GROUPS}] if method == "full" else gradual_phases()
    plan = {"method": method, "steps": 80, "groups": GROUPS, "sizes": SIZES, "phases": phases}
    (path / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False))
    _write(path / "scores.json", record)
    return path


def forget(
    folder: Path,
    lost: Mapping[str, Sequence[float]],
    metric: str = "loss",
    *,
    higher_is_better: bool = False,
    before: float = 2.0,
    tokens: int | None = 1000,
) -> None:
    """Say in each finished run what it has forgotten: ``lost`` is method to one difference a seed."""
    methods = json.loads((folder / "study.json").read_text())["methods"]
    for method, differences in lost.items():
        for seed, difference in enumerate(differences):
            file = folder / "runs" / f"method-{methods.index(method)}" / f"seed-{seed}" / "scores.json"
            record = {"file": "wiki.txt", "fingerprint": "f00d", "metric": metric, "higher_is_better": higher_is_better}
            record |= {"before": before, "after": before + difference, "difference": difference, "rows": 40}
            record |= {} if tokens is None else {"tokens": tokens}
            _write(file, {**json.loads(file.read_text()), "forgetting": record})


def gradual_phases() -> list[dict[str, Any]]:
    """The head first, one more layer at half time, the bottom layer with every fifth element dropped."""
    return [
        {"step": 0, "open": ["head"]},
        {"step": 40, "open": ["layers.1", "head"], "sparse": {"layers.0": {"lo": 0.2, "hi": 1.0, "scale": 1.25}}},
    ]


def fail(folder: Path, method: str, seed: int, message: str = "The loss became nan.", step: int | None = 7) -> Path:
    """A failed run."""
    path = begin(folder, method, seed)
    _write(path / "error.json", {"type": "NonFiniteError", "message": message, "step": step})
    return path


def pause(folder: Path, method: str, seed: int, score: float = 0.6, step: int = 12, of_steps: int = 80) -> Path:
    """A run that is paused at a step, with an evaluation of its own two steps before."""
    path = begin(folder, method, seed)
    line = {"step": step - 2, "epoch": 0.25, "split": "dev", "loss": 0.9, METRIC: score - 0.1}
    (path / "history.jsonl").write_text(f"{json.dumps(line)}\n")
    dev = [{"step": step, "metrics": {METRIC: score, "loss": 0.8}}]
    _write(path / "pauses.json", {"metric": METRIC, "of_steps": of_steps, "seconds": 0.3, "dev": dev})
    return path


def _write(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))
