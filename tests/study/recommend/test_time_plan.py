"""What minutes pay for: the arms, the steps, and a clock that starts nothing that would not end in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gradgate.errors import UsageError
from gradgate.runs.state import Progress
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.progress import SilentStudy
from gradgate.study.recommend import clock as clocks
from gradgate.study.recommend.clock import RaceClock
from gradgate.study.recommend.costs import ArmCost, Costs
from gradgate.study.recommend.dev_limit import dev_limit
from gradgate.study.recommend.evidence import family_of, leaving_order, mean_gaps
from gradgate.study.recommend.record import RecommendRecord, read_recommend
from gradgate.study.recommend.time_plan import larger_plan, plan_time, played

ARMS = ("full", "probe", "head", "freeze:layers=2", "lora:r=8", "houlsby:size=64")
GRID = FullGrid(arms=ARMS, seeds=(0, 1, 2, 3, 4), steps={"toy": 80})


def costs(step: float = 1.0, piece: float = 5.0) -> Costs:
    each = ArmCost(step=step, piece=piece, scoring=0.1, once=0.0, tests=2.0)
    cheap = replace(each, step=0.0)
    return Costs(steps=80, arms={arm: cheap if arm == "probe" else each for arm in ARMS})


@pytest.mark.parametrize("minutes", [20, 40, 90, 600])
def test_a_plan_takes_no_longer_than_its_minutes(minutes: int) -> None:
    plan = plan_time(GRID, costs(), leaving_order(ARMS, "classification"), 60 * minutes)
    assert plan.seconds <= 60 * minutes
    assert plan.seconds == played(Allocator(replace(GRID, arms=plan.arms), plan.steps_allowed), costs())
    assert plan.steps_allowed <= len(plan.arms) * 5 * 80
    assert plan.can_test == Allocator(replace(GRID, arms=plan.arms), plan.steps_allowed).can_name_a_winner


def test_more_minutes_pay_for_more_arms_and_at_last_for_a_test() -> None:
    order = leaving_order(ARMS, "classification")
    plans = [plan_time(GRID, costs(), order, 60 * minutes) for minutes in (6, 10, 30, 600)]
    counts = [len(plan.arms) for plan in plans]
    assert counts == sorted(counts)
    assert counts[-1] == len(ARMS)
    assert plans[-1].can_test
    assert "may find a winner" in plans[-1].said
    assert not plans[0].can_test
    assert "there will be no winner" in plans[0].said


def trained(allocator: Allocator) -> dict[RunKey, Progress]:
    """What has been observed when a plan has trained all its runs, with cheap arms in the lead."""
    ranked, observed = sorted(ARMS, key=lambda arm: (arm != "probe", arm != "head", arm)), dict[RunKey, Progress]()
    while batch := allocator.next(observed):
        for key, until in batch.items():
            scores = observed.get(key, Progress()).dev
            observed[key] = Progress(until, {**scores, until: 0.9 - 0.1 * ranked.index(key.arm)})
    return observed


def test_what_the_plan_leaves_over_pays_for_further_runs() -> None:
    own = costs()
    plan = plan_time(GRID, own, (), 1500.0)
    allocator = Allocator(GRID, plan.steps_allowed)
    observed = trained(allocator)
    larger = larger_plan(allocator, observed, own, 600.0)
    assert larger > plan.steps_allowed
    assert played(allocator.raised_to(larger), own, observed) <= 600.0
    assert allocator.raised_to(larger).next(observed)
    assert larger_plan(allocator, observed, own, 1.0) == plan.steps_allowed
    whole = Allocator(GRID, GRID.total_steps)
    assert larger_plan(whole, trained(whole), own, 6000.0) == GRID.total_steps


def test_a_race_that_stays_within_its_plan_takes_less_time_from_where_it_is() -> None:
    allocator = Allocator(GRID, 1200)
    assert played(allocator, costs(), trained(allocator)) < played(allocator, costs())


def test_minutes_that_are_used_up_are_not_negative() -> None:
    with pytest.raises(UsageError, match="minutes= leaves no time after timing the first steps"):
        plan_time(GRID, costs(), leaving_order(ARMS, "classification"), -24.0)


def test_what_leaves_first_is_what_was_furthest_behind_on_like_tasks() -> None:
    order = leaving_order(ARMS, "classification")
    assert set(order) == {"freeze:layers=2", "lora:r=8", "houlsby:size=64"}, "full, probe and head stay"
    gaps = mean_gaps("classification")
    assert [gaps[family_of(arm)] for arm in order] == sorted((gaps[family_of(arm)] for arm in order), reverse=True)
    short = plan_time(GRID, costs(), order, 400.0)
    assert short.dropped == tuple(reversed(order[: len(short.dropped)]))
    assert mean_gaps("generation") == mean_gaps("a kind without a record")


def test_minutes_that_pay_for_no_race_are_refused_with_what_it_takes() -> None:
    with pytest.raises(UsageError, match=r"take about .* on this machine"):
        plan_time(GRID, costs(), leaving_order(ARMS, "classification"), 60.0)


@pytest.mark.parametrize(
    ("rows", "metric", "kind", "found"),
    [
        (60, "accuracy", "classification", "60 dev rows: one run of each arm cannot show differences below 10 points"),
        (200, "macro_f1", "classification", "below about 3 points"),
        (601, "accuracy", "classification", None),
        (60, "entity_f1", "token-classification", None),
        (60, "rmse", "regression", None),
    ],
)
def test_few_dev_rows_are_said_to_be_the_limit(rows: int, metric: str, kind: str, found: str | None) -> None:
    said = dev_limit(rows, metric, kind)
    assert (said is None) == (found is None)
    assert found is None or (said is not None and found in said)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock."""
    times = [0.0]
    monkeypatch.setattr(clocks.time, "monotonic", lambda: times[0])

    def passes(seconds: float) -> None:
        times[0] += seconds

    return passes


def race(folder: Path, minutes: float = 10.0, own: Costs | None = None) -> RaceClock:
    plan = plan_time(GRID, costs(), (), 3600.0)
    record = RecommendRecord(
        minutes=minutes, lr=1e-3, arms=ARMS, left_out=(), costs=own or costs(), plan=plan, seconds_spent=0.0
    )
    return RaceClock(folder, record, GRID, 0.0, SilentStudy())


def test_runs_start_only_if_they_and_the_final_model_end_in_time(tmp_path: Path, now: Callable[[float], None]) -> None:
    clock = race(tmp_path)
    batch = {RunKey(arm, "toy", 0): 40 for arm in ARMS}
    first = clock.in_time(batch, {})
    assert first
    assert list(first) == list(batch)[: len(first)], "in the order of the budget"
    now(500.0)
    assert clock.in_time(batch, {}) == {}
    record = read_recommend(tmp_path)
    assert record is not None
    assert record.stopped
    assert record.seconds_spent == 500.0


def test_what_the_first_run_of_an_arm_computes_counts_once(tmp_path: Path, now: Callable[[float], None]) -> None:
    probe = replace(costs().arms["probe"], once=400.0)
    own = replace(costs(), arms={**costs().arms, "probe": probe})
    first, second = RunKey("probe", "toy", 0), RunKey("probe", "toy", 1)
    assert race(tmp_path / "short", 6.0, own).in_time({first: 80}, {}) == {}
    assert race(tmp_path / "begun", 6.0, own).in_time({second: 80}, {first: Progress(80)}) == {second: 80}
    assert race(tmp_path / "long", 40.0, own).in_time({first: 80, second: 80}, {}) == {first: 80, second: 80}


def test_time_that_earlier_calls_spent_counts(tmp_path: Path, now: Callable[[float], None]) -> None:
    clock = race(tmp_path)
    batch = {RunKey(arm, "toy", 0): 40 for arm in ARMS}
    assert clock.in_time(batch, {})
    now(300.0)
    clock.note()
    stored = read_recommend(tmp_path)
    assert stored is not None
    resumed = RaceClock(tmp_path, stored, GRID, clocks.time.monotonic(), SilentStudy())
    assert resumed.spent == 300.0
    now(200.0)
    assert resumed.in_time(batch, {}) == {}


def test_runs_that_take_longer_than_measured_make_the_next_ones_count_as_longer(
    tmp_path: Path, now: Callable[[float], None]
) -> None:
    quick, slow = race(tmp_path / "quick", 60.0), race(tmp_path / "slow", 60.0)
    batch = {RunKey(arm, "toy", seed): 80 for seed in range(5) for arm in ARMS}
    assert quick.in_time(batch, {}) == slow.in_time(batch, {})
    expected = quick._started[1] if quick._started else 0.0
    now(expected)
    usual = quick.in_time(batch, {})
    now(4 * expected)
    slow.record = replace(slow.record, minutes=slow.record.minutes + 4 * expected / 60)  # as much time is left
    assert 0 < len(slow.in_time(batch, {})) < len(usual)


def test_time_that_is_left_raises_the_plan_that_is_written(tmp_path: Path, now: Callable[[float], None]) -> None:
    clock = race(tmp_path, 200.0)
    small = Allocator(GRID, 300)
    observed = trained(small)
    raised = clock.raised(small, observed)
    stored = read_recommend(tmp_path)
    assert stored is not None
    assert 300 < raised == stored.plan.steps_allowed
    assert stored.plan.can_test == Allocator(GRID, raised).can_name_a_winner
    now(200 * 60.0)
    assert clock.raised(small, observed) == 300, "no time is left"
    clock.record = replace(clock.record, stopped=True, minutes=900.0)
    assert clock.raised(small, observed) == 300, "the clock ended the race"


def test_an_arm_is_finished_only_in_time(tmp_path: Path, now: Callable[[float], None]) -> None:
    clock, key = race(tmp_path, 3.0), RunKey("full", "toy", 0)
    assert clock.can_finish("full", {key: Progress(20)})
    now(100.0)
    assert not clock.can_finish("full", {key: Progress(20)})
    assert clock.can_finish("full", {key: Progress(60)})
    assert clock.can_finish("full", {key: Progress(80)}), "it has finished"


def test_a_race_that_the_clock_stopped_stays_stopped(tmp_path: Path, now: Callable[[float], None]) -> None:
    clock = race(tmp_path)
    clock.record = replace(clock.record, stopped=True)
    observed = {RunKey("full", "toy", 0): Progress(40, {40: 0.5})}
    assert clock.in_time({RunKey("full", "toy", 0): 80}, observed) == {}
