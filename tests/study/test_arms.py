"""Arms in studies: parsed once, the same in every command and in Python, and found again in old folders."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import gradgate as gg
from gradgate.settings.arms.arm import Arm
from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import make_config
from gradgate.specs import Syntax
from gradgate.study.arms import cross
from gradgate.study.grid import Grid
from gradgate.study.planning import Execution, StudyRequest, plan
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from support.arms import adapters, arms, names
from support.command_line import Command
from support.contract import FOLDER

GIVEN = ("gradual:every=3,lr=1e-4", "houlsby:size=4 + gradual:every=3", "houlsby:size=4,lr=1e-3")
NAMES = ["gradual:every=3,lr=0.0001", "houlsby:size=4 + gradual:every=3", "houlsby:size=4,lr=1e-3"]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often each text of a method or an adapter is parsed."""
    counts: Counter[str] = Counter()
    parse = Syntax.parse

    def counted(self: Syntax, text: str) -> Any:
        counts[text] += 1
        return parse(self, text)

    monkeypatch.setattr(Syntax, "parse", counted)
    return counts


def test_texts_are_parsed_once(settings: dict[str, Any], tmp_path: Path, parsed: Counter[str]) -> None:
    own = {name: value for name, value in settings.items() if name not in ("model", "task")}
    subjects = {"model": [settings["model"]], "task": [settings["task"]]}
    methods = ["full", "gradual:every=5", "pfeiffer:size=9"]
    asked = CompareSettings(**own, **subjects, method=methods, adapter=["none", "houlsby:size=4"])
    comparison = StudyRequest.of(asked, tmp_path / "study")
    layout = plan(comparison, tmp_path / "study", SilentStudy(), Execution())
    assert len(layout.planned[0].grid.runs()) == 5 * 3
    assert max(parsed[text] for text in methods[1:]) <= 2  # the text of a kind of adapter is read by its own parser
    assert parsed["full"] <= 3


def _written(tmp_path: Path, settings: dict[str, Any], **more: Any) -> str:
    file = tmp_path / "settings.yaml"
    file.write_text(yaml.safe_dump({**settings, **more}))
    return str(file)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(text, name, marks=() if "+" in text else pytest.mark.slow)
        for text, name in zip(GIVEN, NAMES, strict=True)
    ],
)
def test_every_door_takes_an_arm(
    text: str, name: str, settings: dict[str, Any], command: Command, tmp_path: Path
) -> None:
    short = settings | {"steps": 2, "max_length": 16}
    as_flags = [word for key, value in short.items() for word in (f"--{key.replace('_', '-')}", str(value))]

    memory = command("memory", "-m", text, *as_flags, "--json")
    assert [each["method"] for each in json.loads(memory.out)] == [name]
    drawn = command("plan", "-m", text, "--model", str(settings["model"]), "--steps", "6")
    assert drawn.code == 0, drawn.err
    dry = command("train", "--config", _written(tmp_path, short, method=text), "--dry-run", "--json")
    assert [each["label"] for each in json.loads(dry.out)["arms"]] == [make_config(method=text).arm.name]
    compared = ["compare", "--config", _written(tmp_path, short, method=[text]), "--seeds", "1", "--dry-run"]
    forecast = json.loads(command(*compared, "--out", str(tmp_path / "study"), "--json").out)
    assert [each["label"] for each in forecast["arms"]] == [name]
    estimate = gg.estimate_memory(str(settings["model"]), text, batch_size=2, max_length=16)
    assert estimate.method == name


@pytest.mark.usefixtures("here")
def test_a_run_and_a_study_train_the_same_arm(
    settings: dict[str, Any], tmp_path: Path, draw_only: Callable[..., None]
) -> None:
    draw_only()
    short = settings | {"steps": 2, "threads": 1, "keep_model": False}
    text = GIVEN[1]
    run = gg.train(**short, method=text, out=tmp_path / "run", quiet=True)
    study = gg.compare(**short, method=text, seeds=1, out=tmp_path / "study", quiet=True)
    (alone,) = read_study(study.path).cells
    assert (alone.arm.name, alone.score("test")) == (text, run.scores["tests"]["test"]["accuracy"])


def test_own_settings_reach_the_runs(tmp_path: Path) -> None:
    grid = Grid.of(tmp_path, make_config(lr=0.5), arms(["full", "full:lr=0.1", "gradual:clip=0,lr=0.2"]), [0])
    assert [(run.config.lr, run.config.clip) for run in grid.runs()] == [(0.5, 1.0), (0.1, 1.0), (0.2, 0.0)]
    assert len({run.folder.path for run in grid.runs()}) == 3


def test_settings_that_all_share_make_no_arm() -> None:
    found = cross(arms(["full", "full:lr=0.5", "full:lr=0.1"]), [None], shared={"lr": 0.5})
    assert names(found) == ["full", "full:lr=0.1"]


def test_an_arm_with_an_adapter_is_not_crossed() -> None:
    found = cross(arms(["full", "lora:r=2", "head"]), adapters(["none", "houlsby"]))
    assert names(found) == ["full", "head", "houlsby", "houlsby + head", "lora:r=2"]


@pytest.mark.parametrize("study", ["study-budget", "study-crossed"])
def test_old_study_folders_have_their_arms(study: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / "folders" / study, tmp_path / study))
    results = read_study(folder)
    assert results.problems == ()
    assert "houlsby:size=8" in results.study.arm_names
    runs = {(run.arm, run.config.seed): run for run in Grid.read(folder).runs()}
    for cell in results.cells:
        if cell.folder is not None:
            assert runs[cell.arm, cell.seed].folder.path == cell.folder
            recorded = json.loads((cell.folder / "run.json").read_text())
            assert runs[cell.arm, cell.seed].config.fingerprint() == recorded["fingerprint"]


def test_old_names_are_the_same_arms(tmp_path: Path) -> None:
    base = make_config()
    folder = Path(shutil.copytree(FOLDER / "folders" / "study-budget", tmp_path / "study"))
    grid = Grid.of(folder, Grid.read(folder).base, arms(["houlsby:size=8"]), [0])
    assert len(grid.arms) == len(Grid.read(folder).arms)
    assert Arm(base.method) in grid.arms
