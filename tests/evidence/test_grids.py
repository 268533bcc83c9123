"""The committed grids: whole, as their settings say, and readable by 'gradgate study replay'."""

from __future__ import annotations

from itertools import product

import pytest

from evidence.grids import Grid, read_grids
from evidence.replay.squeezed import SQUEEZED
from gradgate.settings.arm import read_arm
from gradgate.study.replay.curve_rows import WHOLE, read_rows
from gradgate.study.replay.curves import as_curves

GRIDS = [grid for grid in read_grids().values() if grid.curves.exists()]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
def test_every_arm_has_run_with_every_rate_and_seed(grid: Grid) -> None:
    curves = as_curves(read_rows(grid.curves))
    arms = [read_arm(method.replace("{every}", str(grid.every))) for method in grid.compare["method"]]
    expected = (arm.with_settings({"lr": rate}).name for arm, rate in product(arms, grid.rates))
    assert sorted(curves.grid.arms) == sorted(expected)
    assert curves.grid.seeds == tuple(range(grid.compare["seeds"]))
    assert set(curves.grid.steps.values()) == {grid.compare["steps"]}
    assert not curves.notes


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
def test_short_runs_are_those_that_the_settings_name(grid: Grid) -> None:
    rows = read_rows(grid.curves)
    assert {row.of_steps for row in rows if row.schedule == SQUEEZED} == set(grid.squeezed)
    assert len({row.arm for row in rows}) == len({row.arm for row in rows if row.schedule == WHOLE})


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: grid.name)
def test_nothing_of_the_machine_is_in_them(grid: Grid) -> None:
    assert {row.model for row in read_rows(grid.curves)} == {str(grid.compare["model"]).rpartition("/")[2]}
