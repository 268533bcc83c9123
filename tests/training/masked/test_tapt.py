"""Task-adaptive pretraining of the whole model: what it leaves to the task, what it writes, and that it resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from gradgate.errors import RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.first_steps import time_first_steps
from gradgate.training.run import train
from support.power_cuts import PowerCutError
from support.run_folders import assert_same_run, weights

ENCODER = "tapt/encoder.safetensors"


def tapt_config(settings: dict[str, Any], **changes: Any) -> RunConfig:
    return make_config(**settings | {"tapt_steps": 6, "steps": 8, "save_every": 3} | changes)


class FallsAt(Silent):
    """A power cut after so many steps of both stages."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def advance(self, step: int, loss: float | None) -> None:
        self.left -= 1
        if not self.left:
            raise PowerCutError


@pytest.fixture(scope="module")
def unbroken(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tapt") / "unbroken"
    train(tapt_config(settings), folder)
    return folder


def test_the_task_begins_with_the_encoder_and_a_fresh_head(
    unbroken: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Under ``head``, the encoder ends as the pretraining left it, and the pooler as the pretrained model has it."""
    scores = train(tapt_config(settings, method="head"), tmp_path / "run")
    left, kept = load_file(tmp_path / "run" / ENCODER), weights(tmp_path / "run")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in left.items())
    base = AutoModelForSequenceClassification.from_pretrained(settings["model"]).state_dict()
    moved = {name for name, tensor in left.items() if not torch.equal(tensor, base[name])}
    assert any(".layer.0." in name for name in moved)
    assert any(".embeddings." in name for name in moved)
    assert {name for name in kept if name not in left and not name.startswith("classifier")} == {
        "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",
    }
    assert not [name for name in left if name.startswith("cls")]
    for name, tensor in load_file(unbroken / ENCODER).items():
        assert torch.equal(tensor, left[name])  # whatever learns later
    assert scores["cost"]["bytes_stored"] > sum(tensor.nbytes for tensor in left.values()), "a task stores the encoder"


@pytest.mark.parametrize("falls", [4, 10])
def test_a_run_that_lost_its_power_ends_as_if_unbroken(
    unbroken: Path, settings: dict[str, Any], falls: int, tmp_path: Path
) -> None:
    """A fall within the first stage, and one within the second."""
    with pytest.raises(PowerCutError):
        train(tapt_config(settings), tmp_path / "run", FallsAt(falls))
    train(tapt_config(settings), tmp_path / "run")
    assert_same_run(tmp_path / "run", unbroken)
    assert (tmp_path / "run" / ENCODER).read_bytes() == (unbroken / ENCODER).read_bytes()
    mine, theirs = (folder / "tapt/history.jsonl" for folder in (tmp_path / "run", unbroken))
    assert mine.read_text() == theirs.read_text()


def test_an_encoder_that_is_lost_is_trained_again_and_a_damaged_one_is_named(
    unbroken: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(PowerCutError):
        train(tapt_config(settings), tmp_path / "run", FallsAt(7))
    (tmp_path / "run" / ENCODER).write_bytes(b"damaged")
    with pytest.raises(RunError, match=r"encoder\.safetensors is damaged"):
        train(tapt_config(settings), tmp_path / "run")
    RunFolder(tmp_path / "run").abandon()
    assert not (tmp_path / "run" / ENCODER).exists()
    train(tapt_config(settings), tmp_path / "run")
    assert_same_run(tmp_path / "run", unbroken)


def test_the_pretraining_may_have_own_batches_and_keep_no_encoder(settings: dict[str, Any], tmp_path: Path) -> None:
    config = tapt_config(settings, tapt_steps=None, tapt_epochs=1, tapt_batch=40, steps=1, keep_model=False)
    train(config, tmp_path / "run")
    assert json.loads((tmp_path / "run/tapt/scores.json").read_text())["steps"] == 2  # 80 texts
    assert not list((tmp_path / "run").rglob("*.safetensors"))
    assert make_config(adapter="houlsby:tapt_batch=4", tapt_steps=7, tapt_batch=2).tapt == {
        "steps": 7, "epochs": None, "batch_size": 4,
    }  # fmt: skip
    assert make_config(tapt_batch=None).fingerprint() == make_config().fingerprint()


def test_steps_are_timed_without_the_pretraining(settings: dict[str, Any]) -> None:
    assert time_first_steps(tapt_config(settings, tapt_steps=30, steps=2)).total == 2
    assert time_first_steps(tapt_config(settings, tapt_steps=30, tapt_batch=4, steps=2)).total == 2
    assert time_first_steps(tapt_config(settings, tapt_steps=None, adapter="houlsby:tapt_steps=30", steps=2)).total == 2


def test_what_cannot_fill_in_masked_words_is_refused(settings: dict[str, Any], tiny_gpt2: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no mask token.*encoders"):
        train(tapt_config(settings, model=str(tiny_gpt2)), tmp_path / "decoder")
    with pytest.raises(UsageError, match=r"pretrained on the texts of one task, and task='cola\+sst2' is several"):
        train(tapt_config(settings, task="cola+sst2"), tmp_path / "several")
    with pytest.raises(UsageError, match="tapt_epochs= and fsdp= cannot be combined"):
        make_config(tapt_steps=3, fsdp=True)
