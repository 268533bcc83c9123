"""Sweeps: which methods they stand for, and a study that is made from one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate import cli
from gradgate.errors import MethodError, RunError, UsageError
from gradgate.layers import Group, LayerMap
from gradgate.methods import method
from gradgate.settings.run import make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.sweep import FreezeSweep, read_sweep
from gradgate.training import preview as preview_module
from support.arms import arms, names
from support.run_folders import files


def layer_map(count: int) -> LayerMap:
    names = ["embeddings", *(f"layers.{index}" for index in range(count)), "head"]
    return LayerMap("toy", tuple(Group(name, depth, (f"{name}.weight",), 1) for depth, name in enumerate(names)))


def test_the_sweep_is_full_and_every_number_of_frozen_layers() -> None:
    assert names(read_sweep("freeze").arms(layer_map(2))) == ["full", "freeze:layers=1", "freeze:layers=2"]
    assert len(read_sweep("freeze").arms(layer_map(24))) == 25


@pytest.mark.parametrize(
    ("layers", "step", "points"),
    [(12, 3, [3, 6, 9, 12]), (24, 7, [7, 14, 21, 24]), (2, 2, [2]), (1, 1, [1])],
)
def test_a_coarser_sweep_still_ends_with_the_head_alone(layers: int, step: int, points: list[int]) -> None:
    shape = layer_map(layers)
    found = read_sweep(f"freeze: step={step}").arms(shape)
    assert names(found) == ["full", *(f"freeze:layers={count}" for count in points)]
    assert found[-1].method.reaches(shape) == method("head").reaches(shape) == {"head"}


def test_what_head_trains_is_not_trained_again() -> None:
    assert names(read_sweep("freeze").arms(layer_map(2), arms(["full", "head"]))) == ["full", "freeze:layers=1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("freze", "no sweep 'freze'. Did you mean 'freeze'"),
        ("gradual", r"no sweep 'gradual'.*Known: freeze .* given with method="),
        ("", "no sweep ''"),
        ("freeze:stop=3", "no option 'stop'. Did you mean 'step'"),
        ("freeze:step=0", r"step=0 \(expected 1 or more layers\)"),
        ("freeze:step=-1", "whole number of layers, as in step=3; got 'step=-1'"),
        ("freeze:step", "whole number of layers"),
        ("freeze:step=1,step=2", "given twice"),
    ],
)
def test_other_sweeps_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_sweep(text)


def test_a_step_beyond_the_model_is_refused() -> None:
    with pytest.raises(UsageError, match=r"step=3, but the model has 2 layers\. Use 1 to 2"):
        FreezeSweep(step=3).arms(layer_map(2))


@pytest.mark.parametrize(
    ("sweep", "methods", "error", "message"),
    [
        ("freze", [], UsageError, "Did you mean 'freeze'"),
        ("freeze:step=3", [], UsageError, "the model has 2 layers"),
        ("freeze", ["unfreeze"], MethodError, "no method 'unfreeze'"),
        ("freeze", ["freeze:layers=3"], MethodError, "asks for 3 closed layers"),
    ],
)
def test_a_sweep_that_cannot_work_is_refused_before_anything_is_written(
    settings: dict[str, Any], sweep: str, methods: list[str], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        compare(StudyRequest(make_config(**settings), methods, [0], sweep=sweep), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(("sweep", "loads"), [("freze", 0), ("freeze:step=3", 1)])
def test_the_model_is_loaded_once_and_not_for_what_is_wrong_without_it(
    settings: dict[str, Any], sweep: str, loads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real: Callable[..., Any] = preview_module.preview
    monkeypatch.setattr(preview_module, "preview", lambda *given: (seen.append(given), real(*given))[1])
    with pytest.raises(UsageError):
        compare(StudyRequest(make_config(**settings), [], [0], sweep=sweep), tmp_path / "study", SilentStudy())
    assert len(seen) == loads


@pytest.mark.slow
def test_a_sweep_on_the_command_line_gives_the_curve_and_goes_on(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study"

    def run(*words: str) -> tuple[int, str]:
        given = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        monkeypatch.setattr("sys.argv", ["gradgate", "compare", *given, "--out", str(study), *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), capsys.readouterr().out

    code, out = run("--steps", "2", "--sweep", "freeze", "--seeds", "1")
    assert code == 0
    assert "of full's accuracy on test" in " ".join(out.split())
    assert json.loads((study / "study.json").read_text())["methods"] == ["full", "freeze:layers=1", "freeze:layers=2"]
    assert (study / "figures/freezing.svg").is_file()
    table = (study / "tables/freezing.md").read_text().splitlines()
    assert [line.split(" | ")[1] for line in table[2:]] == ["none", "1 of 2", "2 of 2"]
    before = files(study / "runs")
    code, out = run("--steps", "2", "--sweep", "freeze", "-m", "bitfit", "--seeds", "1", "--json")
    assert code == 0
    assert [record["method"] for record in json.loads(out)] == ["full", "freeze:layers=1", "freeze:layers=2", "bitfit"]
    after = files(study / "runs")
    assert {name: after[name] for name in before} == before
    results = read_study(study)
    costs = [cell.scores.cost.parameters_trained for cell in results.cells if cell.scores]
    assert costs[0] == results.study.model.parameters
    assert costs[:3] == sorted(costs[:3], reverse=True)


@pytest.mark.usefixtures("here")
def test_other_settings_are_refused_for_a_sweep_too(settings: dict[str, Any], tmp_path: Path) -> None:
    base = make_config(**settings | {"steps": 1})
    study = tmp_path / "study"
    assert compare(StudyRequest(base, ["head"], [0], sweep="freeze:step=2"), study, SilentStudy()) == RunCounts(
        finished=2, failed=0
    )
    assert json.loads((study / "study.json").read_text())["methods"] == ["full", "head"]
    with pytest.raises(RunError, match="other settings"):
        compare(StudyRequest(base.model_copy(update={"lr": 0.5}), [], [0], sweep="freeze"), study, SilentStudy())
