"""What every test file shares: the offline environment, the real data folder, a fresh seed."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("GRADGATE_AUDIT", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.pop("COLUMNS", None)  # what is printed is as wide as in any pipe
os.environ["OMP_NUM_THREADS"] = "1"  # sums differ in their last bits with the number of threads

import hypothesis
import pytest
import torch

from support.command_line import Command, Said

torch.set_num_threads(1)
# No test is timed: a busy machine is no failure. The examples are the same in each run.
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True)
hypothesis.settings.load_profile("steady")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real models and data, or a skip where it is absent."""
    folder = Path(os.environ.get("GRADGATE_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip(f"no real data at {folder}; set GRADGATE_SHARED")
    return folder


@pytest.fixture(scope="module", autouse=True)
def _few_objects_to_look_through() -> Iterator[None]:
    """Trainer collects garbage after each training, which takes longer than the training if it meets every import."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _fresh_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random BERT of 2 layers and a small word-piece tokenizer."""
    from support.tiny_folders import save_bert

    return save_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="session")
def tiny_gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random GPT-2 of 2 layers; neither it nor its tokenizer has a padding token."""
    from support.tiny_folders import save_gpt2

    return save_gpt2(tmp_path_factory.mktemp("tiny-gpt2"))


@pytest.fixture(scope="session")
def tiny_task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.tsv (80 rows), dev.tsv and test.tsv (30 each): a text and one of two labels."""
    from support.tiny_folders import save_texts

    return save_texts(tmp_path_factory.mktemp("moods"))


@pytest.fixture(scope="session")
def settings(tiny_model: Path, tiny_task: Path) -> dict[str, Any]:
    """Settings of a run that takes about a second; 10 steps an epoch."""
    return {
        "model": str(tiny_model),
        "task": str(tiny_task),
        "max_length": 32,
        "batch_size": 8,
        "lr": 1e-3,
        "steps": 12,
        "device": "cpu",
    }


@pytest.fixture
def draw_only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Leaves reports the figures of the given sections alone, because drawing takes most of a report's time.

    Tables, page and files stay as they are. test_report.py and test_page.py of tests/report and
    tests/hardening/test_report.py draw all.
    """
    from gradgate.report.sections import SECTIONS
    from gradgate.report.sections.base import Section

    def leave(*drawn: type[Section]) -> None:
        for kind in SECTIONS:
            if kind not in drawn:
                monkeypatch.setattr(kind, "drawings", Section.drawings)

    return leave


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the entry point with words of the command line."""
    from gradgate import cli

    def run(*words: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["gradgate", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        captured = capsys.readouterr()
        return Said(int(end.value.code or 0), captured.out, captured.err)

    return run
