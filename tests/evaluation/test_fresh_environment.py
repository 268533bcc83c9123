"""Exports load in an environment that has transformers and PEFT alone, and score there as the runs did.

``GRADGATE_PLAIN`` names the Python of such an environment; without it one is made by pip. A bottleneck adapter needs
the library of ``GRADGATE_ADAPTERHUB``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest
import torch

from gradgate.settings.finished import ExportSettings
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.exported_runs import Comparison, compare

pytestmark = pytest.mark.slow
PACKAGES = ("torch", "transformers", "peft", "safetensors", "tokenizers", "numpy")
LORA = {"adapter": "lora:r=4", "lr": 1e-2}
RUNS: dict[str, dict[str, Any]] = {
    "whole": {},
    "delta": {"method": "freeze:layers=1", "store": "delta"},
    "head": {"method": "head", "lr": 1e-2},
    "lora": LORA,
    "lora-of-another-task": {**LORA, "task": "sample-nli"},
    "ia3": {"adapter": "ia3", "lr": 1e-2},
    "several": {"task": "sample+sample-nli", "languages": None},
}
"""Kind of run to its settings; two adapters share a backbone."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python that has transformers and PEFT and cannot import gradgate."""
    given = os.environ.get("GRADGATE_PLAIN")
    if given:
        return given
    folder = tmp_path_factory.mktemp("plain")
    pinned = [f"{package}=={version(package)}" for package in PACKAGES]
    python = str(folder / "bin/python")
    for words in ([sys.executable, "-m", "venv", str(folder)], [python, "-m", "pip", "install", "-q", *pinned]):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no environment with {', '.join(pinned)}: {done.stderr.strip().splitlines()[-1]}")
    return python


@pytest.fixture(scope="module")
def compared(plain: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Comparison]]:
    folder = tmp_path_factory.mktemp("runs")
    shared = {"model": "sample", "task": "sample", "languages": "en", "train_size": 128, "steps": 16, "device": "cpu"}
    for name, own in RUNS.items():
        train(make_config(**{**shared, "lr": 1e-3, **own}), folder / name)
    found = compare([(folder / name, ExportSettings()) for name in RUNS], folder, plain)
    return {name: [each for each in found if each.made.run == folder / name] for name in RUNS}


def test_environment_has_no_gradgate(plain: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [plain, "-c", "import transformers, peft, gradgate"]
    said = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert "No module named 'gradgate'" in said.stderr


@pytest.mark.parametrize("name", RUNS)
def test_export_scores_as_its_run(name: str, compared: dict[str, list[Comparison]]) -> None:
    assert len(compared[name]) == (2 if name == "several" else 1)
    for each in compared[name]:
        scores = json.loads((each.made.run / "scores.json").read_text())
        of_task = scores if each.made.task is None else scores["tasks"][each.made.task]
        score = next(iter(of_task["tests"].values()))
        assert each.said["accuracy"] == score["accuracy"]
        assert all(torch.equal(value, each.theirs[output]) for output, value in each.ours.items()), each.difference
