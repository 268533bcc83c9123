"""Differences on several tasks become one: by known answers, over runs or over runs and test rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evidence.effects import ArmEffect, with_row_noise
from evidence.pooling import random_effects
from evidence.row_noise import RowNoiseOfArm
from evidence.summaries import pool, summarize
from support.arm_effects import WHERE, effect


def test_the_random_effects_mean_is_that_of_statsmodels() -> None:
    # statsmodels 0.14: combine_effects(..., method_re="iterated", use_t=True)
    found = random_effects([-1.0, -3.2, 0.4, -6.0, -2.1], [0.3, 0.5, 0.2, 1.0, 0.4])
    assert found.mean == pytest.approx(-2.280619, abs=1e-6)
    assert (found.between or 0) ** 2 == pytest.approx(5.220787, abs=1e-5)
    assert found.interval == pytest.approx((-5.241881, 0.680643), abs=1e-5)


def test_tasks_that_agree_have_no_deviation_between_them_and_no_interval_below_their_error() -> None:
    found = random_effects([1.0, 1.0, 1.0], [0.3, 0.3, 0.3])
    assert (found.mean, found.between) == (1.0, 0.0)
    low, high = found.interval
    assert (high - low) / 2 == pytest.approx(4.302653 * (0.3 / 3) ** 0.5)


def test_options_of_a_study_are_averaged_before_tasks_are_pooled() -> None:
    many = [effect("a", 1.0), effect("a", 3.0), effect("b", 5.0)]
    assert pool(many).mean == pytest.approx(3.5)
    assert pool(many).tasks == 2
    independent = [effect("a", 1.0), replace(effect("a", 3.0), source="another")]
    assert pool(independent).tasks == 1
    assert pool(independent).mean == 2.0


def test_test_rows_count_if_those_of_all_tasks_are_known_so_that_none_weighs_more_for_lack_of_them() -> None:
    runs = [effect(task, difference, 0.5) for task, difference in (("a", 0.0), ("b", 1.0), ("c", 3.0))]
    counted = [replace(each, over_rows=(2.0, 30.0)) for each in runs]
    assert pool([*counted[:2], runs[2]]) == pool(runs) != pool(counted)
    said = {}
    for name, given in {"none": runs, "some": [*counted[:2], runs[2]], "all": counted}.items():
        found = summarize(WHERE, given)
        assert found is not None
        said[name] = found.arms[0].caveats
    assert said == {"none": ("test rows not counted",), "some": ("test rows not counted",), "all": ()}


def test_one_task_has_the_widest_of_the_intervals_over_runs_and_over_runs_and_rows() -> None:
    def half(effect_of_task: ArmEffect) -> float:
        low, high = pool([effect_of_task]).interval
        return (high - low) / 2

    over_runs = effect("a", 1.0, 0.04)
    assert half(over_runs) == pytest.approx(2.776445 * 0.2, abs=1e-5)  # 4 degrees of freedom
    assert half(replace(over_runs, over_rows=(0.09, 60.0))) == pytest.approx(2.000298 * 0.3, abs=1e-5)
    assert half(replace(over_runs, over_rows=(0.05, 60.0))) == pytest.approx(2.776445 * 0.2, abs=1e-5)


def test_two_tasks_have_intervals_that_hold_together() -> None:
    found = pool([effect("a", 1.0, 0.04), effect("b", 3.0, 0.04)])
    half = 3.495406 * 0.2  # 4 degrees of freedom, 97.5 %
    assert found.interval == pytest.approx((1 - half, 3 + half), abs=1e-5)


def test_what_is_left_without_collapsed_runs_is_pooled_too() -> None:
    steady = replace(effect("b", -9.0, 20.0), without_collapsed=effect("b", -2.0))
    found = summarize(WHERE, [effect("a", -1.0), steady, effect("c", -3.0)])
    assert found is not None
    (arm,) = found.arms
    assert arm.pooled.mean < -2.0
    assert arm.without_collapsed is not None
    assert arm.without_collapsed.mean == pytest.approx(-2.0)
    alone = summarize(WHERE, [effect("a", -1.0), effect("c", -3.0)])
    assert alone is not None
    assert alone.arms[0].without_collapsed is None


def test_seeds_that_were_added_later_take_the_noise_of_the_test_rows_of_the_first() -> None:
    noise = RowNoiseOfArm(
        arm="a",
        reference="full",
        split="test",
        seeds=6,
        rows=500,
        difference=2.0,
        low=1.0,
        high=3.0,
        low_with_rows=0.5,
        high_with_rows=3.5,
        error=2.0,
        freedom=9.0,
        share_of_rows=0.25,
    )
    added = replace(effect("a", 1.0, 3.0), runs=8)
    assert with_row_noise(added, noise).over_rows == pytest.approx((4.0, 7 * (4 / 3) ** 2))
    assert with_row_noise(replace(added, runs=6), noise).over_rows is None
    assert with_row_noise(replace(added, runs=6, difference=2.0), noise).over_rows == (4.0, 9.0)
