"""A budget picks the arm that the full grid would, spends no more than it may, and names no winner by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradgate.errors import DataError, UsageError
from gradgate.runs.state import Progress, RunState
from gradgate.study.budget import Allocator, RunKey
from gradgate.study.budget.evidence import LEVEL, plan_looks
from gradgate.study.budget.stages import Stage, plan_stages
from support.simulated_runs import batches, begun, full_grid, noisy, run

EVEN = np.arange(8.0)[::-1]  # a0 is the best, a7 the worst


def test_arms_stop_at_half_then_fewer_get_more_seeds() -> None:
    grid = full_grid(8, 10)
    scores = noisy(EVEN * 100, 10, shared=0, seed=0)
    allocator = Allocator(grid, grid.total_steps // 10)
    assert allocator.stages == (Stage(8, 4, 1), Stage(5, 4, 2), Stage(3, 4, 3))
    asked = [batch for batch, _ in batches(allocator, scores)]
    assert [sorted({key.arm for key in batch}) for batch in asked] == [
        [f"a{arm}" for arm in range(8)],
        ["a0", "a1", "a2", "a3", "a4"],
        ["a0", "a1", "a2"],
    ]
    assert [set(batch.values()) for batch in asked] == [{40}, {40}, {40}]
    verdict = allocator.verdict(run(allocator, scores))
    assert (verdict.winners[0], verdict.decided, verdict.p, verdict.within) == ("a0", False, None, ())
    assert verdict.uncompared == ("a5", "a6", "a7", "a3", "a4")
    assert set(verdict.tied) == set(grid.arms)
    assert verdict.steps_spent == 40 * (8 + 5 + 3)
    assert [(left.arm, left.step_share, left.place) for left in verdict.departures] == [
        ("a5", 0.5, 6), ("a6", 0.5, 7), ("a7", 0.5, 8), ("a3", 0.5, 4), ("a4", 0.5, 5)
    ]  # fmt: skip
    assert verdict.departures[0].behind == pytest.approx(scores[0, 0] - scores[5, 0])


def test_whole_runs_are_tested_and_bounded() -> None:
    grid = full_grid(8, 10)
    scores = noisy(EVEN * 100, 10, shared=0, seed=0)
    allocator = Allocator(grid, grid.total_steps // 5)
    assert allocator.can_name_a_winner
    assert {stage.eighths for stage in allocator.stages} == {8}
    verdict = allocator.verdict(run(allocator, scores))
    assert (verdict.winners, verdict.decided, verdict.uncompared) == (("a0",), True, ())
    assert verdict.headline == "a0 is better than every other arm."
    bounds = {each.arm: each.behind for each in verdict.within}
    assert bounds.keys() == set(grid.arms)
    assert (verdict.within[0].arm, bounds["a0"]) == ("a0", 0.0)
    assert all(bounds[f"a{arm}"] >= 100 * arm - 20 for arm in range(1, 8))


def test_an_arm_that_alone_is_left_has_won_nothing() -> None:
    """The runs of all others failed."""
    grid = full_grid(2, 3)
    scores = noisy(EVEN[:2], 3, shared=0, seed=0)
    allocator = Allocator(grid, grid.total_steps * 3 // 10)
    observed: dict[RunKey, Progress] = {}
    while batch := allocator.next(observed):
        observed |= {
            key: begun(key, until, scores) if key.arm == "a0" else Progress(0, state=RunState.FAILED)
            for key, until in batch.items()
        }
    verdict = allocator.verdict(observed)
    assert (verdict.winners, verdict.decided, verdict.tested, verdict.confidence) == (("a0",), False, False, None)
    assert verdict.headline == "Inconclusive: nothing was tested. a0 is the only remaining arm."


@pytest.mark.parametrize(
    ("arms", "seeds", "share", "plan"),
    [
        (12, 5, 0.1, [(12, 2, 1), (6, 4, 1), (3, 4, 2)]),
        (6, 10, 0.1, [(6, 4, 1), (4, 4, 2), (2, 4, 3)]),
        (18, 10, 0.1, [(18, 4, 1), (6, 4, 3), (3, 4, 5)]),
        (6, 5, 0.3, [(6, 8, 1), (3, 8, 2)]),
        (3, 1, 0.5, [(3, 2, 1), (2, 4, 1)]),
    ],
)
def test_the_late_cut(arms: int, seeds: int, share: float, plan: list[tuple[int, int, int]]) -> None:
    grid = full_grid(arms, seeds)
    stages = plan_stages(grid, round(share * grid.total_steps))
    assert [(stage.arms, stage.eighths, stage.seeds) for stage in stages] == plan


@settings(max_examples=80, deadline=None)
@given(
    arms=st.integers(1, 24), seeds=st.integers(1, 12), tasks=st.integers(1, 3), share=st.floats(0.02, 1),
)  # fmt: skip
def test_nobody_leaves_early_if_whole_runs_are_paid(arms: int, seeds: int, tasks: int, share: float) -> None:
    grid = full_grid(arms, seeds, tasks=tasks)
    allowed = int(share * grid.total_steps)
    whole = arms * grid.seed_steps(8)
    if allowed < arms * grid.seed_steps(1):
        return
    stages = plan_stages(grid, allowed)
    assert stages[0].arms == arms
    if 2 * allowed >= 3 * whole:
        assert {stage.eighths for stage in stages} == {8}
    elif arms > 2 and share < 1:
        assert stages[0].seeds == 1
        assert stages[0].eighths <= 2 or 2 * arms * grid.seed_steps(stages[0].eighths) <= allowed


def test_the_plan_says_what_it_can_decide() -> None:
    grid = full_grid(6, 5)
    assert Allocator(grid, grid.total_steps // 5).promise == (
        "With 6 arms and 5 seeds this budget ranks the arms but cannot test them; a budget of 0.3 can. All arms first "
        "stop at 4/8 of the schedule, and those dropped there are not compared."
    )
    assert Allocator(grid, round(0.3 * grid.total_steps)).promise == (
        "With 6 arms and 5 seeds this budget trains each arm in full and tests the leader against all others."
    )
    assert "no budget can: add seeds" in Allocator(full_grid(4, 1), 200).promise


def test_a_budget_of_the_whole_grid_is_the_whole_grid() -> None:
    grid = full_grid(5, 4)
    allocator = Allocator(grid, grid.total_steps)
    assert allocator.stages == (Stage(5, 8, 4),)
    scores = noisy(EVEN[:5] * 100, 4, shared=1, seed=1)
    verdict = allocator.verdict(run(allocator, scores))
    assert (verdict.winners, verdict.decided) == (("a0",), True)


@settings(max_examples=60, deadline=None)
@given(
    arms=st.integers(1, 20),
    seeds=st.integers(1, 8),
    tasks=st.integers(1, 2),
    share=st.floats(0.02, 1.0),
    seed=st.integers(0, 99),
    broken=st.sets(st.tuples(st.integers(0, 19), st.integers(0, 7)), max_size=4),
)
def test_no_budget_is_ever_passed(
    arms: int, seeds: int, tasks: int, share: float, seed: int, broken: set[tuple[int, int]]
) -> None:
    grid = full_grid(arms, seeds, tasks=tasks)
    allowed = int(share * grid.total_steps)
    try:
        allocator = Allocator(grid, allowed)
    except UsageError:
        assert allowed < arms * tasks * 10
        return
    scores = noisy(np.zeros(arms), seeds, shared=1, seed=seed)
    observed: dict[RunKey, Progress] = {}
    while batch := allocator.next(observed):
        for key, until in batch.items():
            known = observed.get(key, Progress())
            assert known.step < until
            assert not known.has_failed
            fails = (int(key.arm[1:]), key.seed) in broken
            observed[key] = Progress(until, state=RunState.FAILED) if fails else begun(key, until, scores)
        assert allocator.spent(observed) <= allowed
    verdict = allocator.verdict(observed)
    assert verdict.steps_spent <= verdict.steps_allowed <= verdict.steps_of_grid
    gone = {key.arm for key, progress in observed.items() if progress.has_failed}
    assert not gone & set(verdict.winners)
    assert bool(verdict.winners) == (len(gone) < arms)


def test_a_killed_budget_resumes_as_if_never() -> None:
    grid = full_grid(12, 6)
    scores = noisy(np.linspace(1, 0, 12), 6, shared=2, seed=3)
    whole = Allocator(grid, grid.total_steps // 5)
    asked = list(batches(whole, scores))
    for number in range(len(asked)):
        known = dict(asked[number - 1][1]) if number else {}
        half = list(asked[number][0].items())[::2]  # killed while the batch was under way
        known |= {key: begun(key, until, scores) for key, until in half}
        again = Allocator(grid, grid.total_steps // 5)
        rest = list(batches(again, scores, known))
        end = rest[-1][1] if rest else known
        assert end == asked[-1][1]
        assert again.verdict(end) == whole.verdict(asked[-1][1])


def test_a_raised_budget_uses_existing_runs() -> None:
    grid = full_grid(12, 8)
    scores = noisy(np.linspace(2, 0, 12), 8, shared=2, seed=4)
    small = Allocator(grid, grid.total_steps // 10)
    known = run(small, scores)
    raised = Allocator(grid, grid.total_steps // 4, earlier_verdicts=1)
    last = known
    for batch, later in batches(raised, scores, known):
        assert all(until > known.get(key, Progress()).step for key, until in batch.items())
        last = dict(later)
    assert small.spent(known) < raised.spent(last) <= grid.total_steps // 4
    assert sum(look.level for look in raised.looks) == pytest.approx(0.2 * sum(look.level for look in small.looks))


def test_a_failed_arm_leaves() -> None:
    alone = Allocator(full_grid(1, 3), 200)
    assert alone.next({}) == {}
    assert alone.verdict({}).winners == ("a0",)
    grid = full_grid(4, 3)
    allocator = Allocator(grid, grid.total_steps // 3)
    first = allocator.next({})
    known = {key: begun(key, until, noisy(EVEN[:4], 3, 0, 0)) for key, until in first.items()}
    known[RunKey("a0", "t0", 0)] = Progress(7, state=RunState.FAILED)
    verdict = allocator.verdict(run_from(allocator, known))
    assert "a0" not in verdict.winners
    assert verdict.departures[0].reason == "a0 was dropped because one of its runs failed."
    lost = {key: Progress(10, {10: float("nan")}) for key in known}
    assert allocator.verdict(lost).winners == ()
    assert "No arm is left" in allocator.verdict(lost).summary


def run_from(allocator: Allocator, known: dict[RunKey, Progress]) -> dict[RunKey, Progress]:
    later = dict(known)
    for _, later_ in batches(allocator, noisy(EVEN, 8, 0, 0), known):
        later = dict(later_)
    return later


def test_impossible_budgets_are_refused() -> None:
    with pytest.raises(UsageError, match=r"allows 79 optimizer steps; an eighth of one run of each of 8 arms takes 80"):
        Allocator(full_grid(8, 5), 79)
    with pytest.raises(UsageError, match="0 seeds"):
        full_grid(3, 0)
    late = {RunKey("a0", "t0", 0): Progress(60, {50: 0.1})}
    with pytest.raises(DataError, match=r"no score on dev up to step 40.*Evaluate every 40 steps"):
        Allocator(full_grid(8, 5), 800).verdict(late)
    with pytest.raises(DataError, match="training was never scored there"):
        Allocator(full_grid(8, 5), 800).verdict({RunKey("a0", "t0", 0): Progress(60, {})})


def test_looks_share_one_level_however_often_a_study_is_extended() -> None:
    levels = [look.level for earlier in range(12) for look in plan_looks(Stage(2, 8, 10), 1, earlier)]
    assert sum(levels) < LEVEL
    assert [look.seeds for look in plan_looks(Stage(2, 8, 10), 1, 0)] == [5, None]
    assert [look.seeds for look in plan_looks(Stage(2, 8, 4), 1, 0)] == [None]
    before, raised = plan_looks(Stage(2, 8, 10), 1, 0), plan_looks(Stage(2, 8, 20), 1, 0, early=False)
    assert [look.seeds for look in raised] == [None]
    assert sum(look.level for look in (before[0], *raised)) <= LEVEL, "the early look of the plan before counts"


def test_arms_without_a_difference_rarely_have_a_winner() -> None:
    """The full race on 300 null grids: the share of winners is at most 5 % within three standard errors."""
    grid = full_grid(6, 10)
    allocator = Allocator(grid, grid.total_steps // 4)
    won = sum(
        allocator.finding(run(allocator, noisy(np.zeros(6), 10, shared=2, seed=seed))).decided for seed in range(300)
    )
    assert won <= 300 * (0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5)


def test_a_lead_of_one_and_a_half_sd_is_found_with_a_tenth_of_the_grid() -> None:
    """95 of 100 where the gap is 1.5 sd of the unshared noise, within three standard errors."""
    grid = full_grid(18, 20)
    allocator = Allocator(grid, grid.total_steps // 10)
    means = np.array([1.5, *-0.3 * np.arange(17)])
    draws = [noisy(means, 20, shared=2, seed=seed) for seed in range(100)]
    leaders = [allocator.finding(run(allocator, scores)).winners[0] for scores in draws]
    agreed = sum(leader == f"a{scores.mean(1).argmax()}" for leader, scores in zip(leaders, draws, strict=True))
    assert agreed >= 100 * (0.95 - 3 * (0.95 * 0.05 / 100) ** 0.5)
