"""The arms of committed runs: their scores, and whether a better rate may lie beyond those that were tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.arms import grid_arms, read_runs, runs_by_arm
from evidence.grids import read_grids


def test_a_run_without_a_score_is_named(tmp_path: Path) -> None:
    file = tmp_path / "study.csv"
    file.write_text("method,adapter,seed,status,score\nfull,,0,finished,0.5\nfull,houlsby,3,failed,\n")
    with pytest.raises(ValueError, match=r"study\.csv: houlsby, seed 3, is failed and has no score"):
        read_runs(file)


def test_settings_of_its_own_make_an_arm(tmp_path: Path) -> None:
    file = tmp_path / "study.csv"
    file.write_text(
        "method,adapter,train_size,seed,status,score,setting.tapt_steps\n"
        "full,,,0,finished,0.5,\nfull,,,0,finished,0.7,200\n"
    )
    assert {arm: [row["score"] for row in rows] for arm, rows in runs_by_arm(file)[""].items()} == {
        "full": ["0.5"],
        "full:tapt_steps=200": ["0.7"],
    }


def test_an_arm_of_a_grid_at_the_highest_of_three_rates_is_at_an_end() -> None:
    found = {arm.name: arm.at_an_end for arm in grid_arms(read_grids()["sample-nli"])}
    assert (found["lora:r=8"], found["full"]) == (True, False)
