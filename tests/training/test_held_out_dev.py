"""Runs that hold their dev rows out of train: what selects, what is scored, and that they resume with the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.analysis.finished import Loader
from gradgate.analysis.runs import check_same_dev, find_runs
from gradgate.errors import DataError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.settings.analysis import ComputeSettings
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks import find_task, load_task
from gradgate.tasks.held_out import hold_out
from gradgate.training.named_tasks import check_tasks
from gradgate.training.prepared_task import prepare_single
from gradgate.training.run import train
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """Two scores on 20 held-out rows; 40 of the other 60 are trained on."""
    chosen = {"steps": 8, "train_size": 40, "dev_size": 20, "eval_every": 4, "save_every": 3}
    return make_config(**settings | chosen | changes)


@pytest.fixture(scope="module")
def finished(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with held-out dev rows."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    train(config_of(settings), folder)
    return folder


def gold(folder: Path, split: str) -> list[str]:
    lines = (folder / "predictions" / f"{split}.jsonl").read_text().splitlines()
    return [json.loads(line)["gold"] for line in lines]


def test_held_out_rows_select_and_the_original_dev_rows_are_scored(finished: Path, settings: dict[str, Any]) -> None:
    record, scores = (json.loads((finished / name).read_text()) for name in ("run.json", "scores.json"))
    assert record["task"]["rows"] == {"train": 60, "dev": 20, "test": 30, "original_dev": 30}
    assert record["train_examples"] == 40
    data = load_task(find_task(settings["task"]))
    _, dev = hold_out(data.train, 20, 40, seed=0)
    assert data.labels is not None
    expected = {"dev": dev, "original_dev": data.dev, "test": data.tests["test"]}
    for split, rows in expected.items():
        assert gold(finished, split) == [data.labels[label] for label in rows["label"]], split
    assert scores["tests"].keys() == {"test", "original_dev"}
    noted = {line["step"]: line["accuracy"] for line in history(finished, "dev")}
    assert scores["dev"]["accuracy"] == noted[scores["best_step"]] == max(noted.values())


def test_the_original_dev_rows_are_scored_later_under_the_same_name(finished: Path, tmp_path: Path) -> None:
    scores = json.loads((finished / "scores.json").read_text())["tests"]
    assert evaluate(finished, out=tmp_path / "out")["tests"] == {
        split: pytest.approx(each, abs=1e-6) for split, each in scores.items()
    }


def test_a_run_that_was_stopped_goes_on_with_the_same_rows(
    finished: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(PowerCutError):
        train(config_of(settings), tmp_path / "run", Falls(5))
    train(config_of(settings), tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_analyses_see_the_rows_of_each_run(finished: Path, settings: dict[str, Any], tmp_path: Path) -> None:
    train(config_of(settings, seed=1, steps=2), tmp_path / "other")
    loader = Loader(ComputeSettings(device="cpu"))
    first, other = (loader.load(path) for path in (finished, tmp_path / "other"))
    assert [len(first.rows(split)) for split in ("train", "dev", "test", "original_dev")] == [40, 20, 30, 30]
    assert set(first.rows("dev")["text"][:]) != set(other.rows("dev")["text"][:])
    (group,) = find_runs([finished, tmp_path / "other"], print)
    check_same_dev(group.runs[:1])
    with pytest.raises(
        UsageError, match=r"have different dev rows, as dev_size= draws them with the seed.*split='test'"
    ):
        check_same_dev(group.runs)


def test_a_task_needs_no_dev_split_of_its_own(settings: dict[str, Any], tiny_task: Path, tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / f"{split}.tsv").write_bytes((tiny_task / f"{split}.tsv").read_bytes())
    record = prepare_single(config_of(settings, task=str(tmp_path))).record()
    assert record.rows == {"train": 60, "dev": 20, "test": 30}
    with pytest.raises(DataError, match=r"has no dev split .* or pass dev_file=FILE, dev_size=ROWS or split="):
        prepare_single(config_of(settings, task=str(tmp_path), dev_size=None))


def test_a_run_without_test_rows_is_scored_later_on_the_original_dev_rows(
    settings: dict[str, Any], tiny_task: Path, tmp_path: Path
) -> None:
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_bytes((tiny_task / name).read_bytes())
    train(config_of(settings, task=str(tmp_path)), tmp_path / "run")
    scores = json.loads((tmp_path / "run/scores.json").read_text())["tests"]
    assert scores.keys() == {"test"}
    assert evaluate(tmp_path / "run", out=tmp_path / "out")["tests"]["test"] == pytest.approx(scores["test"], abs=1e-6)


def test_several_tasks_and_two_dev_splits_are_refused(settings: dict[str, Any], tiny_task: Path) -> None:
    with pytest.raises(UsageError, match=r"dev_size=20: rows of one task are held out .*'sample\+sample-nli' is sev"):
        check_tasks(make_config(task="sample+sample-nli", dev_size=20))
    with pytest.raises(UsageError, match=r"dev_size= takes dev from train and dev_file= is another dev; pass one"):
        config_of(settings, dev_file=tiny_task / "dev.tsv")
