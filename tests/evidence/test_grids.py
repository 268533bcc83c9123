"""The committed grids: whole, as their settings say, and readable by 'gradgate study replay'."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import evidence.grids_page
from evidence.grids import ReplayedGrid, add_seeds, read_grids
from evidence.grids_page import PAGE, grid_limits, grids_page
from evidence.replay.baselines import BASELINES, replay_all
from evidence.replay.squeezed import SQUEEZED
from gradgate.settings.arms.arm import read_arm
from gradgate.study.replay.curve_rows import WHOLE, read_rows
from gradgate.study.replay.curves import as_curves

GRIDS = [grid for grid in read_grids().values() if grid.curves.exists()]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
def test_every_arm_has_run_with_every_rate_and_seed(grid: ReplayedGrid) -> None:
    curves = as_curves(read_rows(grid.curves))
    arms = [read_arm(method.replace("{every}", str(grid.every))) for method in grid.compare["method"]]
    expected = (arm.with_settings({"lr": rate}).name for arm, rate in product(arms, grid.rates))
    assert sorted(curves.grid.arms) == sorted(expected)
    assert curves.grid.seeds == tuple(range(grid.compare["seeds"]))
    assert set(curves.grid.steps.values()) == {grid.compare["steps"]}
    assert not curves.notes


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
def test_short_runs_are_those_that_the_settings_name(grid: ReplayedGrid) -> None:
    rows = read_rows(grid.curves)
    assert {row.of_steps for row in rows if row.schedule == SQUEEZED} == set(grid.squeezed)
    assert len({row.arm for row in rows}) == len({row.arm for row in rows if row.schedule == WHOLE})


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
def test_nothing_of_the_machine_is_in_them(grid: ReplayedGrid) -> None:
    assert {row.model for row in read_rows(grid.curves)} == {str(grid.compare["model"]).rpartition("/")[2]}


def test_the_page_has_the_size_and_limits_of_every_grid_and_what_each_way_to_spend_finds_in_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for grid in GRIDS:
        arms, seeds = len(as_curves(read_rows(grid.curves)).grid.arms), grid.compare["seeds"]
        line = f"| `{grid.name}` | {grid.title} | {arms} × {seeds} | {grid.compare['steps']} | "
        (rest,) = (row.removeprefix(line) for row in text.splitlines() if row.startswith(line))
        assert rest.endswith(f"| {', '.join(grid_limits(grid)) or '–'} |")
        assert len(re.findall(rf"^\| `{grid.name}` \| 0\.[12] \| \w+ \|", text, re.MULTILINE)) == 2 * (
            1 + len(BASELINES)
        )


def test_the_page_is_made_from_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence.grids_page, "REPEATS", 3)
    grid = next(grid for grid in GRIDS if grid.name == "udpos")
    text = grids_page([grid])
    for score in replay_all(as_curves(read_rows(grid.curves)), 0.1, 3, list(BASELINES)).scores:
        assert f"| 0.1 | {score.name} | {score.within_one_sd:.0%} | {score.agreement:.0%} |" in text
    assert "None of these grids is decisive" in text
    assert re.findall(r"budget in (.*?) of 100 orders", text) == ["100", "100"]


def test_nothing_is_trained_again_if_no_seed_is_lacking(tmp_path: Path) -> None:
    asked = next(grid for grid in GRIDS if grid.squeezed)
    grid = asked.model_copy(update={"compare": asked.compare | {"seeds": 10}})
    assert add_seeds(grid, tmp_path).read_text() == grid.curves.read_text()
