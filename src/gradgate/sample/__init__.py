"""The embedded sample: a small pretrained encoder and a classification task, both from one seeded generator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

MODEL: Path = Path(__file__).parent / "model"
"""The encoder's folder, as ``AutoModel`` and ``AutoTokenizer`` load it."""

DATA: Path = Path(__file__).parent / "data"
"""The folder that holds ``task.yaml`` and the three splits."""

QUICKSTART_METHODS: tuple[str, ...] = ("full", "freeze:layers=2", "gradual:every=30", "graddrop:p=0.2")
"""What ``gradgate quickstart`` compares."""

QUICKSTART_SETTINGS: dict[str, Any] = {"epochs": 4.0, "lr": 1e-3, "batch_size": 32, "max_length": 64}
"""Settings of its runs; the learning rate suits a model of this size."""

__all__ = ["MODEL", "QUICKSTART_METHODS", "QUICKSTART_SETTINGS", "TASK"]
