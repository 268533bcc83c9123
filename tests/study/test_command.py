"""The command that repeats a study, read by the command line again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradgate.settings.arms.arm import read_arm
from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import make_config
from gradgate.study.command import compare_command
from gradgate.study.grid import Grid
from gradgate.study.search import GENERATION_RATES, read_space
from support.command_line import Command

SETTINGS: dict[str, Any] = {"model": "sample", "task": "sample", "lr": 2e-4, "epochs": 2.5, "languages": "en,de"}
METHODS = ("full", "gradual:every=40,order=top-down", "lora:r=4,lr=0.001")


def grid_of(folder: Path, **changes: Any) -> Grid:
    config = make_config(**{**SETTINGS, **changes})
    return Grid(folder, config, tuple(map(read_arm, METHODS)), (0, 1, 7))


@pytest.fixture
def asked(command: Command, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Type a command; return the settings that the comparison was asked for."""
    found: list[CompareSettings] = []
    monkeypatch.setattr("gradgate.cli.studies.compare_in", lambda settings, out, quiet: found.append(settings))
    monkeypatch.setattr("gradgate.cli.studies._show", lambda *_: None)

    def read(line: str) -> CompareSettings:
        said = command(*shlex.split(line)[1:])
        assert said.code == 0, said.err
        return found.pop()

    return read


def test_the_command_asks_for_the_study_it_is_of(asked: Any, tmp_path: Path) -> None:
    grid = grid_of(tmp_path)
    settings = asked(compare_command([grid], "again"))
    assert [arm.name for arm in settings.method] == [arm.name for arm in grid.methods]
    assert tuple(settings.seeds) == grid.seeds
    again = settings.run_with(model="sample", task="sample")
    assert again.record() == grid.base.record()


def test_what_is_crossed_is_listed_once(asked: Any, tmp_path: Path) -> None:
    crossed = [(task, size) for task in ("sample", "cola") for size in (100, None)]
    grids = [grid_of(tmp_path / f"{task}-{size}", task=task, train_size=size) for task, size in crossed]
    settings = asked(compare_command(grids, "again"))
    assert tuple(settings.train_size) == (100, None)
    assert [Path(str(place)).name for place in settings.task] == ["sample", "cola"]


@pytest.mark.parametrize("seeds", [(0,), (7,), (0, 1), (3, 9)])
def test_seeds_are_read_as_they_were(asked: Any, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    grid = replace(grid_of(tmp_path), seeds=seeds)
    assert tuple(asked(compare_command([grid], "again")).seeds) == seeds


def test_several_tasks_share_the_folder_above_theirs(asked: Any, tmp_path: Path) -> None:
    grids = [grid_of(tmp_path / task, task=task, data=f"glue/{task}") for task in ("sst2", "rte")]
    settings = asked(compare_command(grids, "again"))
    assert str(settings.run.data) == "glue"


def test_default_rates_stay_open(asked: Any, tmp_path: Path) -> None:
    grid = replace(grid_of(tmp_path), search=read_space([GENERATION_RATES]).record())
    settings = asked(compare_command([grid], "again"))
    assert not settings.search
    assert "lr" not in settings.run.model_fields_set


def test_a_search_is_repeated(asked: Any, tmp_path: Path) -> None:
    space = read_space(("lr=1e-5..1e-4", "weight_decay=0,0.1"), trials=3, seeds=2, prune=True)
    settings = asked(compare_command([replace(grid_of(tmp_path), search=space.record())], "again"))
    assert settings.search == ("lr=1e-5..1e-4", "weight_decay=0,0.1")
    assert (settings.trials, settings.search_seeds, settings.prune) == (3, 2, True)
    assert not {"lr", "weight_decay"} & settings.run.model_fields_set  # refused next to a search of them


def test_no_folder_of_this_machine_is_named(tmp_path: Path) -> None:
    model = tmp_path / "models" / "tiny"
    line = compare_command([grid_of(tmp_path, model=str(model), threads=2)], "again")
    assert str(tmp_path) not in line
    assert "--model tiny" in line
    assert "threads" not in line
