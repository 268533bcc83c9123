"""Commands that list, check and show: their help, JSON, exit codes and silence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradgate.cli import app
from gradgate.settings.run import RunConfig
from support.command_line import Command
from support.contract import FOLDER
from support.crossed import each_once
from support.study_folder import fail, pause, write_study

TOP = sorted(str(command.name) for command in app.registered_commands)
BELOW = sorted(
    f"{group.name} {command.name or command.callback.__name__}"
    for group in app.registered_groups
    for command in group.typer_instance.registered_commands
    if command.callback is not None
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A copy of the folders of an earlier version."""
    return Path(shutil.copytree(FOLDER / "folders", tmp_path / "old"))


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A finished run, a failed one, a paused one and one that has not begun."""
    folder = write_study(tmp_path / "study", seeds=(0, 1), scores={"full": [0.7]})
    fail(folder, "full", 1, "The loss became [nan].")
    pause(folder, "gradual:every=40", 0)
    return folder


@each_once("flag", ["--help", "-h"], "words", [*TOP, *BELOW])
def test_help_of_every_command_runs(command: Command, words: str, flag: str) -> None:
    said = command(*words.split(), flag)
    assert (said.code, said.err) == (0, "")
    assert f"Usage: gradgate {words}" in " ".join(said.out.split())


def test_help_names_every_command(command: Command) -> None:
    listed = {line.split()[0] for line in command("--help").out.splitlines() if line.startswith("  ")}
    assert {*TOP, "study", "delta", "analyze"} <= listed


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("methods", list),
        ("tasks", list),
        ("tasks sample", dict),
        ("layers sample", (list, dict)),
        ("papers", list),
        ("papers --paper elsa", list),
        ("doctor", list),
        ("memory --model sample -m head --batch-size 1 --max-length 8", list),
    ],
)
def test_lists_are_json_alone(command: Command, words: str, kind: Any) -> None:
    said = command(*words.split(), "--json")
    assert (said.code, said.err) == (0, "")
    assert isinstance(json.loads(said.out), kind)


@pytest.mark.parametrize("words", ["study status", "study failed", "study export"])
@pytest.mark.parametrize("name", ["study-budget", "study-crossed"])
def test_old_studies_are_json_alone(command: Command, words: str, name: str, old: Path) -> None:
    said = command(*words.split(), str(old / name), "--json")
    assert (said.code, said.err) == (0, "")
    json.loads(said.out)


@pytest.mark.parametrize("words", ["study status", "study export", "study failed"])
def test_reading_changes_no_file(command: Command, words: str, old: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {
            path: path.read_bytes() for path in sorted(old.rglob("*")) if path.suffix in (".json", ".yaml", ".jsonl")
        }

    before = files()
    command(*words.split(), str(old / "study-crossed"))
    assert files() == before


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("methods", 0),
        ("--version", 0),
        ("study status STUDY", 0),
        ("study failed STUDY", 0),
        ("study status OLD/run-method", 1),
        ("study export OLD/missing", 1),
        ("report OLD/run-method/predictions", 1),
        ("worker OLD/missing", 1),
        ("layers OLD/missing", 1),
        ("tasks OLD/missing", 2),
        ("study", 2),
        ("study stats STUDY", 2),
        ("study status", 2),
        ("study status STUDY STUDY", 2),
        ("methods --jsno", 2),
        ("memory --model sample -m nothing", 2),
        ("memory --model sample -m full --shards 0", 2),
        ("memory --model sample -m full --shards many", 2),
        ("plan --model sample -m full --steps 0", 2),
        ("train --lr fast", 2),
        ("train --steps -1", 2),
        ("recommend --steps", 2),
        ("reproduce no-such-table", 2),
        ("delta info OLD/missing", 1),
        ("analyze fisher", 2),
    ],
)
def test_exit_code_says_whose_fault(command: Command, words: str, code: int, study: Path, old: Path) -> None:
    said = command(*words.replace("STUDY", str(study)).replace("OLD", str(old)).split())
    assert said.code == code, said.err
    if code == 0:
        assert said.out
    else:
        assert said.err
        assert "Traceback" not in said.err


@pytest.mark.parametrize("word", ["", " "])
def test_empty_path_is_wrong_usage(command: Command, word: str) -> None:
    said = command("study", "status", word)
    assert said.code in (1, 2)
    assert said.out == ""


def test_status_says_each_state(command: Command, study: Path) -> None:
    shown = command("study", "status", str(study)).out
    assert "4 runs: 1 finished" in shown
    record = json.loads(command("study", "status", str(study), "--json").out)
    states = [run["state"] for run in record["runs"]]
    assert sorted(states) == ["failed", "finished", "paused", "waiting"]
    assert record["paused"] == 1


def test_failed_lists_the_reason(command: Command, study: Path) -> None:
    (record,) = json.loads(command("study", "failed", str(study), "--json").out)
    assert record["label"] == "full seed 1"
    assert "The loss became [nan]." in json.dumps(record)


def test_report_prints_its_path(command: Command, study: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    said = command("report", str(study))
    assert (said.code, said.out) == (0, f"Report: {study / 'report.html'}\n")


# Flags of a command, and the same as its file.
ALIKE: dict[str, tuple[list[str], dict[str, Any]]] = {
    "memory": (
        ["-m", "head", "-m", "full", "--batch-size", "2", "--max-length", "8", "--checkpointing"],
        {"method": ["head", "full"], "batch_size": 2, "max-length": 8, "checkpointing": True},
    ),
    "plan": (
        ["--method", "gradual:every=5", "--steps", "20"],
        {"method": "gradual:every=5", "steps": 20},
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_config_file_equals_flags(command: Command, name: str, tiny_model: Path, tmp_path: Path) -> None:
    flags, values = ALIKE[name]
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({"model": str(tiny_model), **values}))
    by_file = command(name, "--config", str(file))
    assert by_file.code == 0, by_file.err
    assert by_file == command(name, "--model", str(tiny_model), *flags)


def test_flag_wins_over_config_file(command: Command, tiny_model: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"model: {tiny_model}\nmethod: full\nbatch_size: 2\nmax_length: 8\n")
    words = ["memory", "--config", str(file), "--json"]
    (plain,) = json.loads(command(*words).out)
    (larger,) = json.loads(command(*words, "--batch-size", "4").out)
    (head,) = json.loads(command(*words, "-m", "head").out)
    assert plain["activation_bytes"] < larger["activation_bytes"]
    assert (plain["method"], head["method"]) == ("full", "head")


@pytest.mark.parametrize(
    ("written", "flags", "rate", "tapt"),
    [
        ("adapter: lora:r=4,lr=1e-3", "--lr 3e-4", 3e-4, None),
        ("adapter: lora:r=4,lr=1e-3,tapt_steps=9", "--tapt-epochs 2", 1e-3, {"steps": None, "epochs": 2.0}),
        ("method: lora:r=4,tapt_steps=9 + gradual", "--tapt-steps 2", 5e-5, {"steps": 2, "epochs": None}),
        ("method: full:tapt_steps=9,lr=1e-3", "--tapt-epochs 2", 1e-3, {"steps": None, "epochs": 2.0}),
        ("method: full:lr=1e-3", "--batch-size 4", 1e-3, None),
    ],
)
def test_flag_wins_over_what_the_arm_of_a_file_sets(
    command: Command,
    written: str,
    flags: str,
    rate: float,
    tapt: dict[str, Any] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[RunConfig] = []
    monkeypatch.setattr("gradgate.cli.runs.forecast_of", lambda config, *_, **__: asked.append(config))
    monkeypatch.setattr("gradgate.cli.runs.show_forecast", lambda *_: None)
    file = tmp_path / "c.yaml"
    file.write_text(f"model: sample\ntask: sample\n{written}\n")
    command("train", "--config", str(file), *flags.split(), "--out", str(tmp_path / "out"), "--dry-run")
    assert [(config.peak_lr, config.tapt) for config in asked] == [(rate, tapt)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batchsize: 2\n", "no setting 'batchsize'"),
        ("batch_size: two\n", "batch"),
        ("- method\n", "expected lines"),
        ("method: [\n", "cannot be read"),
    ],
)
def test_faulty_config_file_is_wrong_usage(command: Command, text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(text)
    said = command("memory", "--config", str(file), "--model", "sample")
    assert said.code == 2
    assert message in " ".join(said.err.split())


def test_missing_config_file_is_named(command: Command, tmp_path: Path) -> None:
    said = command("train", "--config", str(tmp_path / "none.yaml"))
    assert said.code == 2
    assert "none.yaml" in said.err


def test_quiet_run_prints_nothing(command: Command, settings: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({**settings, "steps": 2, "method": "head", "keep_model": False}))
    out = tmp_path / "run"
    said = command("train", "--config", str(file), "--out", str(out), "--quiet")
    assert said == (0, "", "")
    again = command("train", "--config", str(file), "--out", str(out), "--quiet", "--json")
    assert json.loads(again.out) == json.loads((out / "scores.json").read_text())
    assert again.err == ""
