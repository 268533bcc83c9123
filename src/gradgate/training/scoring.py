"""How a run scores a split: metrics for Trainer, and the prediction files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset

from gradgate.tasks import Kind, Scored, TaskData
from gradgate.training.folder import RunFolder, write_text

DEV = "dev"


@dataclass(frozen=True)
class Split:
    """A split as read, and as the model takes it."""

    rows: Dataset
    features: Dataset


class Scorer:
    """Scores the outputs for one split, which Trainer does not know, and keeps what was predicted.

    Args:
        kind, data: the task.
        splits: name -> split, ``dev`` among them.
    """

    def __init__(self, kind: Kind, data: TaskData, splits: dict[str, Split]) -> None:
        self.kind = kind
        self.data = data
        self.splits = splits
        self.split = DEV
        self.latest = Scored({}, [])

    def __call__(self, output: Any) -> dict[str, float]:
        """The metrics of outputs for ``split``: Trainer's ``compute_metrics``."""
        held = self.splits[self.split]
        self.latest = self.kind.score(held.rows, held.features, output.predictions, self.data, self.split)
        return self.latest.metrics


def predictions_text(scored: Scored) -> str:
    """The content of a prediction file: one JSON object for each row."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in scored.predictions)


def write_predictions(folder: RunFolder, texts: Mapping[str, str]) -> None:
    """Write prediction files, of which the texts are the contents by name: a split, or a task and a split."""
    for name, text in texts.items():
        write_text(folder.predictions / f"{name}.jsonl", text)


def copy_predictions(kept: Path, folder: RunFolder) -> None:
    """Write the prediction files that were kept with the best weights."""
    files = sorted(kept.rglob("*.jsonl"))
    texts = {file.relative_to(kept).with_suffix("").as_posix(): file.read_text(encoding="utf-8") for file in files}
    write_predictions(folder, texts)
