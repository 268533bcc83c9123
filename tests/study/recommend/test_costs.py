"""What arms cost is measured on their first steps, and runs are made shorter only if their length is the default."""

from __future__ import annotations

from typing import Any

import pytest

from gradgate.errors import AdapterError
from gradgate.runs.records import TaskRecord
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.progress import SilentStudy
from gradgate.study.recommend.costs import measure_costs
from gradgate.study.recommend.portfolio import Subject, portfolio
from gradgate.study.recommend.race import _lengths, _renamed
from gradgate.training import first_steps
from gradgate.training.first_steps import FirstSteps
from support.arms import arms

SECONDS = {"full": 2.0, "head": 0.5, "freeze": 1.0}
TASK = TaskRecord(
    name="toy",
    kind="classification",
    metric="accuracy",
    metric_higher_is_better=True,
    labels=("no", "yes"),
    fingerprint="f00d",
    rows={"train": 320, "dev": 20, "test": 60},
)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for the training of first steps; returns the arms that were timed."""
    found: list[str] = []

    def first(config: RunConfig, steps: int, *, pauses: bool = False) -> FirstSteps:
        found.append(config.arm.name)
        if config.adapter is not None:
            raise AdapterError("This model takes no adapter.")
        return FirstSteps(30, SECONDS[config.method.name], start=3.0, pause=1.0 if pauses else None)

    monkeypatch.setattr(first_steps, "time_first_steps", first)
    return found


def measured(names: list[str], seconds: float) -> Any:
    return measure_costs(arms(names), make_config(model="m", task="t"), TASK, seconds, SilentStudy())


def test_arms_that_change_later_count_as_the_slowest_and_a_probe_as_its_features(timed: list[str]) -> None:
    found = measured(["full", "probe", "head", "gradual:every=5", "houlsby:size=4"], 1e9)
    assert timed == ["full", "head", "houlsby:size=4"]
    assert {name: cost.step for name, cost in found.arms.items()} == {
        "full": 2.0,
        "probe": 0.0,
        "head": 0.5,
        "gradual:every=5": 2.0,
    }
    assert [left.arm for left in found.left_out] == ["houlsby:size=4"]
    assert found.arms["probe"].once == pytest.approx(2 / 3 * 2.0 * 10)
    assert found.arms["full"].tests == pytest.approx(3.0), "three times the rows of dev"
    assert found.steps == 30


def test_an_arm_that_is_not_timed_counts_as_the_slowest_wherever_it_stands(timed: list[str]) -> None:
    found = measured(["head", "gradual:every=5", "full"], 1e9)
    assert timed == ["head", "full"]
    assert found.arms["gradual:every=5"].step == 2.0


def test_without_time_for_all_the_others_count_as_the_slowest(timed: list[str]) -> None:
    found = measured(["full", "head", "freeze:layers=1"], 0.0)
    assert timed == ["full"]
    assert {cost.step for cost in found.arms.values()} == {2.0}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, ((90, 4), (60, 4), (30, 4), (30, 2), (15, 2))),
        ({"steps": 90}, ((90, 2),)),
        ({"epochs": 3.0}, ((90, 2),)),
    ],
)
def test_runs_are_made_shorter_only_if_their_length_is_the_default_and_arms_leave_before_they_are_very_short(
    given: dict[str, Any], found: tuple[tuple[int, int], ...]
) -> None:
    assert _lengths(make_config(model="m", task="t", **given), 90) == found


def test_shorter_runs_have_the_same_families_of_arms() -> None:
    subject = Subject(layers=6, parameters=22_000_000, steps=90)
    measured_arms = [arm.name for arm in portfolio(subject).arms]
    renamed = _renamed(measured_arms, subject, 30, portfolio(subject).lr)
    assert list(renamed.values()) == measured_arms
    assert "gradual:every=2" in renamed
    assert renamed["gradual:every=2"] == "gradual:every=8"
