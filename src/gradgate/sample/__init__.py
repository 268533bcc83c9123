"""The embedded sample: a small multilingual encoder and five tasks in ten languages, all from one seeded generator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MODEL: Path = Path(__file__).parent / "model"
"""The encoder's folder, as ``AutoModel`` and ``AutoTokenizer`` load it."""

DATA: Path = Path(__file__).parent / "data"
"""A folder for each task, with its ``task.yaml``: train and dev in English, test in every language."""

TASKS: dict[str, Path] = {
    "sample": DATA / "sentiment",
    "sample-nli": DATA / "nli",
    "sample-pos": DATA / "pos",
    "sample-ner": DATA / "ner",
    "sample-qa": DATA / "qa",
}
"""A task's name -> its folder."""

QUICKSTART_METHODS: tuple[str, ...] = ("full", "freeze:layers=2", "gradual:every=30", "graddrop:p=0.2")
"""What ``gradgate quickstart`` compares."""

QUICKSTART_SETTINGS: dict[str, Any] = {"epochs": 4.0, "lr": 1e-3, "batch_size": 32, "max_length": 64}
"""Settings of its runs; the learning rate suits a model of this size."""

__all__ = ["DATA", "MODEL", "QUICKSTART_METHODS", "QUICKSTART_SETTINGS", "TASKS"]
