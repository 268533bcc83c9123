"""The embedded sample: a small pretrained encoder and a classification task, both from one seeded generator."""

from __future__ import annotations

from pathlib import Path

MODEL: Path = Path(__file__).parent / "model"
"""The encoder's folder, as ``AutoModel`` and ``AutoTokenizer`` load it."""

TASK: Path = Path(__file__).parent / "data"
"""The folder that holds ``task.yaml`` and the three splits."""

__all__ = ["MODEL", "TASK"]
