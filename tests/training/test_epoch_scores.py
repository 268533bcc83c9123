"""``test_each_epoch`` scores the test splits while a run trains, and the run is the same bit for bit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.runs.history import EpochScores, read_history
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.epoch_scores import EachEpochScorer
from gradgate.training.run import train
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 5 an epoch; dropout on."""
    fixed = {"steps": 12, "train_size": 35, "eval_every": 5, "save_every": 4, "method": "gradual:every=4"}
    return make_config(**settings | fixed | {"dropout": 0.3} | changes)


def without_tests(folder: Path) -> Path:
    """The run as if no test split had been scored on the way."""
    lines = [line for line in history(folder) if "used_for_selection" not in line]
    (folder / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def unbroken(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The run that scores its tests after each epoch, by its ``eval_every``. Tests leave it as it is."""

    @cache
    def trained(eval_every: int) -> Path:
        folder = tmp_path_factory.mktemp("unbroken") / "run"
        train(config_of(settings, eval_every=eval_every, test_each_epoch=True), folder)
        return folder

    return trained


# 2 scores dev at the end of no epoch but the second
@pytest.mark.parametrize("eval_every", [pytest.param(5, marks=pytest.mark.slow), 2])
def test_it_changes_no_bit_and_no_choice(
    settings: dict[str, Any], unbroken: Callable[[int], Path], tmp_path: Path, eval_every: int
) -> None:
    train(config_of(settings, eval_every=eval_every), tmp_path / "plain")
    shutil.copytree(unbroken(eval_every), tmp_path / "run")
    lines = [line for line in history(tmp_path / "run") if line["split"] == "test"]
    # 5 steps an epoch; the last step ends the run within one.
    assert [(line["step"], line["epoch"], line["used_for_selection"]) for line in lines] == [
        (5, 1.0, False),
        (10, 2.0, False),
        (12, 2.4, False),
    ]
    final = json.loads((tmp_path / "run/scores.json").read_text())
    at_best = [line for line in lines if line["step"] == final["best_step"]]
    for line in at_best:
        assert {name: line[name] for name in final["tests"]["test"]} == final["tests"]["test"]
    assert_same_run(without_tests(tmp_path / "run"), tmp_path / "plain")


@pytest.mark.parametrize(
    ("eval_every", "falls_at"),
    [pytest.param(5, 6, marks=pytest.mark.slow), pytest.param(2, 5, marks=pytest.mark.slow), (2, 6)],
)
def test_a_resumed_run_has_each_score_once(
    settings: dict[str, Any], unbroken: Callable[[int], Path], tmp_path: Path, eval_every: int, falls_at: int
) -> None:
    config = config_of(settings, test_each_epoch=True, eval_every=eval_every)
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(falls_at))  # with a checkpoint of step 4
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", unbroken(eval_every))


def test_an_epoch_whose_checkpoint_is_saved_and_whose_scores_are_not_is_scored_on_resume(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(settings, test_each_epoch=True, eval_every=3, save_every=5)
    train(config, tmp_path / "unbroken")
    with monkeypatch.context() as broken:
        broken.setattr(EachEpochScorer, "_score", _falls)
        with pytest.raises(PowerCutError):
            train(config, tmp_path / "run")
    assert (tmp_path / "run/checkpoints/checkpoint-5").is_dir()
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


def _falls(*_: Any) -> None:
    raise PowerCutError


def test_what_is_read_back(tmp_path: Path) -> None:
    scores = EpochScores(10, 1.0, "de", {"accuracy": 0.5, "loss": 0.7})
    lines = [
        {"step": 5, "epoch": 0.5, "split": "train", "loss": 0.9, "lr": 1e-3, "grad_norm": None, "open_fraction": 1.0},
        {"step": 6, "epoch": 0.6, "split": "train", "loss": float("nan")},
        {"step": 10, "epoch": 1.0, "split": "dev", "accuracy": 0.6},
        scores.line(),
    ]
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = read_history(tmp_path / "history.jsonl")
    assert found.losses == ((5, 0.9),)
    assert [record.metrics["accuracy"] for record in found.dev] == [0.6]
    assert found.tests == (scores,)


def test_it_does_not_go_with_leaving_the_tests_alone() -> None:
    with pytest.raises(UsageError, match="test_each_epoch= scores the test splits and skip_test= leaves them alone"):
        make_config(test_each_epoch=True, skip_test=True)
    assert make_config(test_each_epoch=True).fingerprint() == make_config().fingerprint()
