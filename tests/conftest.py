"""What every test file shares: the offline environment, the real data folder, a fresh seed."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and data, or a skip where it is absent."""
    folder = Path(os.environ.get("GRADGATE_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}; set GRADGATE_SHARED")
    return folder


@pytest.fixture(autouse=True)
def _fresh_seed() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
