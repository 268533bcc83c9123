"""A budget goes on from what the folders of its runs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.budget.observe import observe
from gradgate.study.results import read_study
from support.study_folder import METRIC, fail, pause, write_study


def test_runs_are_seen_as_far_as_their_folders_say(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "study", methods=("full", "head"), scores={"full": [0.7]})
    pause(folder, "full", 1, score=0.6, step=12)
    fail(folder, "head", 0, step=7)
    known = observe([read_study(folder)])
    assert set(known) == {RunKey("full", "toy", 0), RunKey("full", "toy", 1), RunKey("head", "toy", 0)}
    done, paused, failed = known.values()
    assert (done.step, dict(done.dev), done.seconds) == (80, {40: 0.61, 80: 0.71}, 2.0)
    assert (paused.step, dict(paused.dev)) == (12, pytest.approx({10: 0.5, 12: 0.6}))
    assert (dict(done.losses), paused.lowest_loss(12), paused.lowest_loss(11)) == ({40: 0.5, 80: 0.4}, 0.8, 0.9)
    assert (failed.step, failed.has_failed) == (7, True)


def test_a_budget_asks_for_what_the_folders_lack(tmp_path: Path) -> None:
    """Six arms, four seeds: paused runs of the first stage are not asked for again, and better ones are resumed."""
    arms = tuple(f"freeze:layers={layers}" for layers in range(6))
    folder = write_study(tmp_path / "study", methods=arms, seeds=(0, 1, 2, 3))
    grid = FullGrid(arms=arms, seeds=(0, 1, 2, 3), steps={"toy": 80})
    allocator = Allocator(grid, grid.total_steps // 8)
    first = allocator.next(observe([read_study(folder)]))
    assert set(first.values()) == {20}
    *most, last = first
    for key in most:
        pause(folder, key.arm, key.seed, 0.5 + 0.01 * arms.index(key.arm), first[key])
    assert allocator.next(observe([read_study(folder)])) == {last: 20}
    pause(folder, last.arm, last.seed, 0.9, 20)
    observed = observe([read_study(folder)])
    later = allocator.next(observed)
    assert set(later.values()) == {40}
    assert {key.arm for key in later} == set(arms[-allocator.stages[1].arms :])
    assert allocator.verdict(observed).steps_spent == 20 * len(first)
    assert read_study(folder).study.task.metric == METRIC
