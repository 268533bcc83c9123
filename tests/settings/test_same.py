"""Other words for the same files are the same settings of a run or study; other files are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.cli import runs as commands
from gradgate.errors import RunError, UsageError
from gradgate.methods import method
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import RunRecord
from gradgate.settings.arms.arm import Arm
from gradgate.settings.run import RunConfig, make_config
from gradgate.settings.same import differing, same_place
from gradgate.study.grid import Grid, settings_of
from support.command_line import Command
from support.study_folder import write_study

ROWS = "text,label\n" + "".join(f"row {row},{'ab'[row % 2]}\n" for row in range(20))
PLAN = "phases:\n- {step: 0, open: [head]}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with data, copies of it and other data of the same size."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("data.csv", ROWS), ("copy.csv", ROWS), ("other.csv", ROWS.replace("row 1,", "row 7,"))):
        (tmp_path / name).write_text(text)
    for folder, text in (("one", ROWS), ("two", ROWS), ("three", ROWS.replace("row 1,", "row 7,"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.csv").write_text(text)
    for name, text in (("p.yaml", PLAN), ("q.yaml", PLAN), ("x.yaml", PLAN.replace("head", "body"))):
        (tmp_path / name).write_text(text)
    (tmp_path / "below").mkdir()
    return tmp_path


SAME = {
    "a dot": ("task", "data.csv", "./data.csv"),
    "a way round": ("task", "data.csv", "below/../data.csv"),
    "the whole path": ("task", "data.csv", "{here}/data.csv"),
    "a copy": ("task", "data.csv", "copy.csv"),
    "a folder": ("data", "one", "./one/"),
    "a copy of a folder": ("task", "one", "two"),
    "a file of dev": ("dev_file", "data.csv", "{here}/copy.csv"),
    "a model": ("model", "./one", "{here}/one"),
    "a place that is gone": ("task", "gone.csv", "{here}/gone.csv"),
    "language adapters": ("language_adapters", "one/{{language}}", "{here}/one/{{language}}"),
    "other text": ("forgetting", "data.csv:tokens=5", "./data.csv:tokens=5"),
    "a plan": ("method", "plan:p.yaml", "plan:./p.yaml"),
    "a copy of a plan": ("method", "plan:p.yaml", "plan:q.yaml"),
}
OTHER = {
    "other rows": ("task", "data.csv", "other.csv"),
    "another folder": ("task", "one", "three"),
    "a file and a folder": ("task", "data.csv", "one"),
    "another name": ("task", "sst2", "cola"),
    "a hub name and a folder": ("model", "owner/one", "one"),
    "what is gone": ("task", "gone.csv", "data.csv"),
    "other options": ("forgetting", "data.csv:tokens=5", "./data.csv:tokens=6"),
    "another plan": ("method", "plan:p.yaml", "plan:x.yaml"),
    "another method": ("method", "full", "head"),
    "another kind of file": ("method", "plan:p.yaml", "axolotl:p.yaml"),
    "none": ("data", None, "one"),
    "a column": ("text", "./a", "a"),
}


@pytest.mark.parametrize(("name", "there", "now"), SAME.values(), ids=SAME)
def test_words_for_one_place_are_the_same(here: Path, name: str, there: str, now: str) -> None:
    there, now = (text.format(here=here) for text in (there, now))
    assert differing({name: there}, {name: now}, here / "runs" / "x") == {}
    assert differing({name: now}, {name: there}, here / "runs" / "x") == {}


@pytest.mark.parametrize(("name", "there", "now"), OTHER.values(), ids=OTHER)
def test_other_places_differ(here: Path, name: str, there: Any, now: str) -> None:
    assert differing({name: there}, {name: now}, here / "runs" / "x") == {name: (there, now)}


def test_a_record_from_another_folder_is_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here / "below")
    assert same_place("data.csv", "../data.csv", Path("../runs/x"))
    assert not same_place("data.csv", "../other.csv", Path("../runs/x"))


def test_a_run_and_a_study_continue_by_another_path(here: Path) -> None:
    folder = RunFolder(here / "run")
    folder.claim(make_config(task="data.csv"))
    folder.history_file.touch()
    folder.claim(make_config(task=str(here / "data.csv")))
    with pytest.raises(RunError, match=r"another configuration \(task: 'data.csv' there, 'other.csv' here\)"):
        folder.claim(make_config(task="other.csv"))

    base = make_config(task="data.csv")
    study = write_study(here / "study", methods=["full"])
    record = json.loads((study / "study.json").read_text()) | {"settings": settings_of(base)}
    (study / "study.json").write_text(json.dumps(record))
    grid = Grid.of(study, make_config(task="./copy.csv"), [Arm(method("full"))], [0])
    assert grid.base.task == "data.csv"
    with pytest.raises(RunError, match=r"other settings \(task: 'data.csv' there, 'other.csv' here\)"):
        Grid.of(study, make_config(task="other.csv"), [Arm(method("full"))], [0])


def test_a_plan_is_followed_by_its_content(here: Path) -> None:
    begun = RunRecord(config=make_config(method="plan:p.yaml").record(), followed="plan:p.yaml@f00d")
    begun.check_plan("plan:./p.yaml@f00d", here)
    with pytest.raises(RunError, match="was started with another plan"):
        begun.check_plan("plan:p.yaml@beef", here)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunConfig]:
    """The settings that 'train' and 'compare' are called with, which then stop."""
    found: list[RunConfig] = []

    def stop(settings: RunConfig, *_: Any, **__: Any) -> None:
        found.append(settings)
        raise UsageError("stopped")

    monkeypatch.setattr(commands, "train_in", stop)
    return found


def test_a_run_is_a_configuration(here: Path, command: Command, asked: list[RunConfig]) -> None:
    own = make_config(
        task="data.csv", method="gradual:every=1", seed=3, steps=2, lr_scale={"head": 2.0}, split="70/20/10"
    )
    record = {"config": own.record(), "fingerprint": own.fingerprint(), "versions": {}, "task": {}}
    (here / "run.json").write_text(json.dumps(record))
    command("train", "--config", "run.json")
    command("train", "--config", "run.json", "--steps", "5", "--task", "copy.csv")
    command("train", "--config", "run.json", "--epochs", "2")
    same, changed, longer = asked
    assert same == own
    assert changed == own.model_copy(update={"steps": 5, "task": "copy.csv"})
    assert (longer.steps, longer.epochs) == (None, 2.0)


def test_flags_change_parts_of_a_runs_arm(here: Path, command: Command, asked: list[RunConfig]) -> None:
    own = make_config(task="data.csv", method="lora:r=8,lr=1e-3 + gradual:every=1", steps=2, split="70/20/10")
    (here / "run.json").write_text(json.dumps({"config": own.record(), "fingerprint": own.fingerprint()}))
    for words in (["-m", "full"], ["-m", "lora:r=16"], ["--adapter", "houlsby:size=8"], ["--lr", "1e-4"], []):
        command("train", "--config", "run.json", *words)
    other, wider, stacked, slower, same = asked
    assert (other.arm.name, wider.arm.name) == ("full", "lora:r=16")
    assert stacked.arm.name == "houlsby:size=8 + gradual:every=1"
    assert (slower.arm.name, slower.lr) == ("lora:r=8 + gradual:every=1", 1e-4)
    assert same == own


def test_a_typed_rate_wins_over_that_of_the_files_arm(here: Path, command: Command, asked: list[RunConfig]) -> None:
    (here / "a.yaml").write_text("task: data.csv\nmethod: 'full:lr=1e-3,clip=0'\nsteps: 2\nsplit: 70/20/10\n")
    command("train", "--config", "a.yaml", "--lr", "1e-4")
    command("train", "--config", "a.yaml")
    assert [(each.lr, each.clip) for each in asked] == [(1e-4, 0), (1e-3, 0)]


def test_words_that_older_yaml_takes_for_booleans_stay_words(
    here: Path, command: Command, asked: list[RunConfig]
) -> None:
    (here / "a.yaml").write_text("task: data.csv\nactivation_cache: off\nkeep_model: no\nsteps: 2\nsplit: 70/20/10\n")
    command("train", "--config", "a.yaml")
    (only,) = asked
    assert (only.activation_cache, only.keep_model) == ("off", False)


@pytest.mark.parametrize("words", [("train", "--config", "scores.json"), ("doctor", "--config", "run.json")])
def test_what_is_no_configuration_is_refused(here: Path, command: Command, words: tuple[str, ...]) -> None:
    (here / "run.json").write_text(json.dumps({"config": make_config().record(), "fingerprint": "f00d"}))
    (here / "scores.json").write_text(json.dumps({"metric": "accuracy", "dev": {"accuracy": 0.5}}))
    said = command(*words)
    assert said.code == 2
    assert "There is no setting" in said.err
