"""The activation cache in runs, studies and anyone's Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments

from gradgate import ActivationCache, GateCallback
from gradgate.errors import UsageError
from gradgate.files import read_json
from gradgate.runs.progress import Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.training.run import train
from gradgate.training.start import activation_cache_of
from support.cached_loop import collate, texts
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history
from support.tiny_models import TINY

ALL_ROWS: dict[str, Any] = {"train_size": None, "steps": 24}  # else seeds train on other rows


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 5 an epoch, with dropout."""
    own = {"method": "freeze:layers=1", "train_size": 40, "steps": 12, "save_every": 3}
    return make_config(**settings | own | changes)


def rows(folder: Path) -> Any:
    return read_json(folder / "scores.json")["cost"]["prefix_rows"]


def test_on_a_gpu_only_a_named_folder_is_used(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)

    def cache_of(**changes: Any) -> ActivationCache | None:
        return activation_cache_of(config_of(settings, **changes), tmp_path / "own", Silent())

    assert cache_of(device="auto") is None
    named = cache_of(device="auto", activation_cache=str(tmp_path / "named"))
    assert named is not None
    assert named.folder == tmp_path / "named"
    own = cache_of(device="cpu")
    assert own is not None
    assert own.folder == tmp_path / "own"


def test_a_run_with_the_cache_learns_what_one_without_does(settings: dict[str, Any], tmp_path: Path) -> None:
    for name in ("auto", "off"):
        train(config_of(settings, activation_cache=name, eval_every=12, save_every=12), tmp_path / name)
    assert rows(tmp_path / "auto") == {"read": 56, "computed": 40}
    assert rows(tmp_path / "off") is None
    mine, theirs = history(tmp_path / "auto"), history(tmp_path / "off")
    assert [line["loss"] for line in mine] == pytest.approx([line["loss"] for line in theirs], abs=2e-6)
    assert not (tmp_path / "auto" / "cache").exists()


def test_a_run_that_is_too_short_to_gain_keeps_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    train(config_of(settings, steps=6), tmp_path / "run")
    assert rows(tmp_path / "run") == {"read": 0, "computed": 0}


def test_a_run_whose_closed_layers_keep_dropout_uses_no_cache(settings: dict[str, Any], tmp_path: Path) -> None:
    for name, noisy in (("quiet", None), ("noisy", True)):
        train(
            config_of(settings, frozen_dropout=noisy, activation_cache="auto", steps=6, save_every=6), tmp_path / name
        )
    assert rows(tmp_path / "noisy") is None
    mine, theirs = history(tmp_path / "noisy"), history(tmp_path / "quiet")
    assert mine[0]["loss"] != theirs[0]["loss"]


def test_a_cache_folder_and_dropout_in_closed_layers_are_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="activation_cache='x' and frozen_dropout= cannot be combined"):
        make_config(frozen_dropout=True, activation_cache="x")


def test_a_folder_that_cannot_be_is_refused_before_a_study_begins(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    base = config_of(settings, activation_cache=str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match="file/cache cannot be written"):
        compare(StudyRequest(base, ["head"], [0]), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


def test_a_setting_that_is_not_given_leaves_the_fingerprints_of_earlier_runs() -> None:
    assert make_config().fingerprint() == make_config(frozen_dropout=None).fingerprint() == "fe0b76accf7383d1"
    assert make_config(frozen_dropout=True).fingerprint() != make_config().fingerprint()


def test_a_folder_of_ones_own_is_kept_and_used_again(settings: dict[str, Any], tmp_path: Path) -> None:
    own = str(tmp_path / "own")
    train(config_of(settings, activation_cache=own, save_every=24, **ALL_ROWS), tmp_path / "one")
    train(
        config_of(settings, activation_cache=own, seed=1, save_every=12, **ALL_ROWS | {"steps": 12}), tmp_path / "two"
    )
    assert rows(tmp_path / "two") == {"read": 96, "computed": 0}


@pytest.fixture(scope="module")
def unbroken(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    train(config_of(settings), folder)
    return folder


@pytest.mark.parametrize(
    ("step", "cache"),
    [(4, "whole"), (8, "gone"), *(pytest.param(11, each, marks=pytest.mark.slow) for each in ("whole", "gone"))],
)
def test_a_run_without_power_ends_as_if_unbroken(
    settings: dict[str, Any], unbroken: Path, tmp_path: Path, step: int, cache: str
) -> None:
    config = config_of(settings)
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(step))
    if cache == "gone":
        for file in (tmp_path / "run" / "cache").glob("*.rows"):
            file.write_bytes(file.read_bytes()[: 100 * step])
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", unbroken)
    assert sum(rows(tmp_path / "run").values()) == sum(rows(unbroken).values())


def test_a_run_may_go_on_with_the_cache_switched(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PowerCutError):
        train(config_of(settings), tmp_path / "run", Falls(8))
    train(config_of(settings, activation_cache="off", activation_cache_size=1.0), tmp_path / "run")
    assert (tmp_path / "run" / "scores.json").is_file()


@pytest.mark.slow
def test_methods_and_seeds_of_a_study_share_the_cache(settings: dict[str, Any], tmp_path: Path) -> None:
    base = config_of(settings, keep_model=False, **ALL_ROWS)
    tally = compare(StudyRequest(base, ["freeze:layers=1", "head"], [0, 1]), tmp_path / "study", SilentStudy())
    assert tally == RunCounts(finished=4, failed=0)
    found = {path.parent.name + path.name: rows(path) for path in sorted((tmp_path / "study").glob("runs/*/seed-?"))}
    assert found == {
        "freeze-layers=1seed-0": {"read": 112, "computed": 80},
        "headseed-0": {"read": 112, "computed": 80},
        "freeze-layers=1seed-1": {"read": 192, "computed": 0},
        "headseed-1": {"read": 192, "computed": 0},
    }
    assert not (tmp_path / "study" / "cache").exists()


def test_a_size_that_is_no_size_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="activation_cache_size"):
        config_of(settings, activation_cache_size=0)


def trainer_losses(model: Any, gate: GateCallback, folder: Path) -> list[float]:
    """Of 4 epochs in bfloat16, with 2 batches of 4 for each step."""

    def collated(items: list[dict[str, Any]]) -> dict[str, Any]:
        return collate(model, [item["input_ids"] for item in items], torch.stack([item["labels"] for item in items]))

    arguments = TrainingArguments(
        str(folder),
        per_device_train_batch_size=4,
        num_train_epochs=4,
        gradient_accumulation_steps=2,
        use_cpu=True,
        bf16=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_steps=1,
    )
    data = [{"input_ids": ids, "labels": torch.tensor(len(ids) % 3)} for ids in texts()]
    trainer = Trainer(model, arguments, train_dataset=data, data_collator=collated, callbacks=[gate])
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


@pytest.mark.filterwarnings("ignore:gradient_accumulation_steps")
def test_a_callback_gives_any_trainer_the_cache(tmp_path: Path) -> None:
    plain = GateCallback("lpft:every=6")
    cached = GateCallback("lpft:every=6", activation_cache=tmp_path / "cache")
    losses = [trainer_losses(TINY["bert"](), gate, tmp_path) for gate in (plain, cached)]
    assert cached.tuner.cached_rows.read > cached.tuner.cached_rows.computed > 0
    assert losses[0] == pytest.approx(losses[1], abs=0.02)
