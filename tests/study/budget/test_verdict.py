"""What the verdict of a budget says of the arms: who leads, who ties, who left, and what would decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradgate.runs.state import Progress, RunState
from gradgate.study.budget import Allocator, FullGrid, RunKey
from gradgate.study.budget.evidence import deficits, pooled_noise
from support.simulated_runs import begun, full_grid, noisy, run

EVEN = np.arange(8.0)[::-1]  # a0 is the best, a7 the worst


def test_pairs_take_out_the_noise_that_seeds_share() -> None:
    """Known answer: 40 between seeds, 1 between arms, with residuals of -0.1 and 0.1."""
    shared = np.array([0.0, 40.0, 80.0, 120.0])
    step = np.array([0.1, -0.1, 0.1, -0.1])
    table = {"a": (shared + 1 + step).tolist(), "b": (shared - step).tolist()}
    noise = pooled_noise(table)
    assert noise is not None
    difference = np.array([1.2, 0.8, 1.2, 0.8])
    assert noise.freedom == 3
    assert noise.sd * 2**0.5 == pytest.approx(difference.std(ddof=1))
    from scipy import stats

    found = deficits(table, "a", ["b"], table)[0]
    assert found.behind == pytest.approx(1.0)
    assert found.p == pytest.approx(stats.ttest_rel(table["a"], table["b"]).pvalue)


def test_further_arms_add_degrees_of_freedom_and_partial_ones_bias_nothing() -> None:
    draw = np.random.default_rng(5)
    scores = draw.normal(size=(4, 3)) + 10 * draw.normal(size=(1, 3))
    whole = pooled_noise({str(arm): row.tolist() for arm, row in enumerate(scores)})
    residual = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
    assert whole is not None
    assert whole.freedom == 6
    assert whole.sd == pytest.approx(((residual**2).sum() / 6) ** 0.5)
    partial = {"0": scores[0].tolist(), "1": scores[1].tolist(), "2": scores[2, :2].tolist()}
    assert deficits(partial, "0", ["1"], partial)[0].behind == pytest.approx(scores[0].mean() - scores[1].mean())


def test_noisy_arms_do_not_gain_from_quiet_ones() -> None:
    quiet = {str(arm): [float(arm), arm + 0.01, arm - 0.01] for arm in range(6)}
    table = {"a": [9.0, 12.0, 6.0], "b": [8.0, 5.0, 9.5], **quiet}
    pooled, found = pooled_noise(table), deficits(table, "a", ["b"], table)[0]
    assert pooled is not None
    assert found.noise is not None
    assert found.noise.sd == pytest.approx(np.std([1.0, 7.0, -3.5], ddof=1) / 2**0.5)
    assert found.noise.sd > 1.5 * pooled.sd


@pytest.mark.parametrize("higher", [True, False])
def test_the_direction_of_the_metric_decides_who_leads(higher: bool) -> None:
    grid = full_grid(6, 5, higher=higher)
    means = EVEN[:6] * 100 if higher else -EVEN[:6] * 100
    observed: dict[RunKey, Progress] = {}
    allocator = Allocator(grid, grid.total_steps // 3)
    scores = noisy(means, 5, shared=1, seed=6)
    while batch := allocator.next(observed):
        for key, until in batch.items():
            progress = begun(key, until, scores if higher else -scores)
            dev = {step: value if higher else -value for step, value in progress.dev.items()}
            observed[key] = Progress(progress.step, dev)
    verdict = allocator.verdict(observed)
    assert (verdict.winners, verdict.decided) == (("a0",), True)
    assert all(left.behind is not None and left.behind >= 0 for left in verdict.departures)


@pytest.mark.parametrize(("seconds", "cheapest"), [(80.0, "a1"), (43.0, "a0")])
def test_equal_arms_tie_and_name_the_cheapest_or_a_better_one_of_about_its_cost(seconds: float, cheapest: str) -> None:
    grid = full_grid(2, 3)
    same = {
        RunKey(arm, "t0", seed): Progress(80, {80: 0.5 + seed}, seconds=seconds if arm == "a0" else 40.0)
        for arm in grid.arms
        for seed in grid.seeds
    }
    verdict = Allocator(grid, grid.total_steps).verdict(same)
    assert (verdict.winners, verdict.decided, verdict.cheapest) == (("a0", "a1"), False, cheapest)
    assert verdict.needed is None
    assert "no spread" in verdict.how


def test_lower_loss_breaks_equal_scores() -> None:
    """As at the floor of F1 early in a schedule, where each arm predicts one class; the grid's order says nothing."""
    grid = full_grid(6, 10)
    allocator = Allocator(grid, grid.total_steps // 10)
    known = {key: Progress(40, {40: 0.25}, losses={5: 9.0, 40: 2.0 - int(key.arm[1:])}) for key in allocator.next({})}
    assert {key.arm for key in allocator.next(known)} == {"a5", "a4", "a3", "a2"}
    assert [left.behind for left in allocator.verdict(known).departures] == [0.0, 0.0]


def test_short_runs_count_score_and_loss() -> None:
    """a0 has the best score and the worst loss, a1 the second best of both."""
    grid = full_grid(4, 3)
    dev, losses = (0.9, 0.8, 0.5, 0.4), (4.0, 1.1, 1.0, 4.0)

    def known(step: int, arms: int) -> dict[RunKey, Progress]:
        return {
            RunKey(f"a{arm}", "t0", seed): Progress(step, {10: dev[arm]}, losses={9: losses[arm], 10: losses[arm] + 1})
            for arm in range(arms)
            for seed in grid.seeds
        }

    allocator = Allocator(grid, grid.total_steps // 3)
    assert (allocator.stages[0].eighths, allocator.stages[1].arms) == (4, 2)
    assert set(allocator.verdict(known(40, 4)).winners) == {"a1", "a2"}
    left = allocator.verdict(known(40, 4)).departures
    assert [(each.arm, each.behind) for each in left] == [("a0", 0.0), ("a3", pytest.approx(0.5))]
    assert Allocator(grid, grid.total_steps).verdict(known(80, 4)).winners[0] == "a0"


def test_an_arm_that_left_with_the_better_score_is_not_beaten() -> None:
    table = {"leader": (1.0, 1.2, 1.1), "left": (9.0, 9.1, 9.3)}
    (test,) = deficits(table, "leader", ["left"], table)
    assert (test.p, test.behind < 0) == (1.0, True)


def test_siblings_tie_and_their_method_still_wins() -> None:
    grid = FullGrid(
        arms=("full lr=1", "full lr=2", "head lr=1"),
        seeds=tuple(range(4)),
        steps={"t0": 80},
        methods={"full lr=1": "full", "full lr=2": "full", "head lr=1": "head"},
    )
    means = {"full lr=1": 9.0, "full lr=2": 9.1, "head lr=1": 1.0}
    wobble = (0.3, -0.2, 0.1, -0.2)
    known = {
        RunKey(arm, "t0", seed): Progress(80, {80: mean + (wobble[seed] if arm == "full lr=2" else -wobble[seed])})
        for arm, mean in means.items()
        for seed in grid.seeds
    }
    verdict = Allocator(grid, grid.total_steps).verdict(known)
    assert (verdict.decided, set(verdict.winners)) == (False, {"full lr=1", "full lr=2"})
    assert verdict.method == "full"
    assert verdict.needed is not None
    assert verdict.needed.steps == 2 * 80 * verdict.needed.seeds


def test_an_undecided_verdict_says_what_would_decide() -> None:
    grid = full_grid(6, 10)
    verdict = Allocator(grid, grid.total_steps // 10).verdict({})
    assert (verdict.decided, verdict.pairs) == (False, 0)
    allocator = Allocator(grid, grid.total_steps // 4)
    verdict = allocator.verdict(run(allocator, noisy(np.array([0.3, 0, 0, 0, 0, 0]), 10, 1, 8)))
    assert not verdict.decided
    assert verdict.needed is not None
    assert verdict.needed.pairs > verdict.pairs
    assert f"{verdict.needed.seeds} more seeds" in verdict.summary
    assert verdict.record()["budget"] == {
        "steps_of_grid": 4800, "steps_allowed": 1200, "steps_spent": verdict.steps_spent
    }  # fmt: skip


def test_a_winner_is_not_said_to_beat_an_arm_that_failed() -> None:
    grid = full_grid(3, 5)
    allocator = Allocator(grid, grid.total_steps)
    observed: dict[RunKey, Progress] = {}
    while batch := allocator.next(observed):
        observed |= {key: begun(key, until, noisy(EVEN[:3] * 100, 5, 0, 0)) for key, until in batch.items()}
        observed[RunKey("a1", "t0", 0)] = Progress(7, state=RunState.FAILED)
    verdict = allocator.verdict(observed)
    assert (verdict.winners, verdict.decided, verdict.beaten) == (("a0",), True, ("a2",))
    assert verdict.headline == "a0 is better than every arm without a failed run; a1 is not compared."


def test_a_leader_that_beat_its_finalists_is_said_to_have_beaten_them() -> None:
    grid = full_grid(3, 4)
    verdict = Allocator(grid, grid.total_steps).verdict(
        run(Allocator(grid, grid.total_steps), noisy(EVEN[:3] * 100, 4, 0, 0))
    )
    open_ = replace(verdict, decided=False, uncompared=("a3",), beaten=("a1", "a2"))
    assert open_.headline == "Inconclusive: a0 is better than a1 and a2, but a3 is not settled."
    assert replace(open_, beaten=()).headline == "Inconclusive: a0 is the only remaining arm."


def test_parts_of_runs_are_ranked_by_scores_and_losses() -> None:
    grid = full_grid(4, 3)
    allocator = Allocator(grid, grid.total_steps // 6)
    verdict = allocator.verdict(run(allocator, noisy(EVEN[:4], 3, 0, 0)))
    assert verdict.step_share < 1
    assert "is first by scores and losses on dev" in verdict.headline
    assert "has the best mean on dev" in replace(verdict, step_share=1.0).headline
