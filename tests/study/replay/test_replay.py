"""A finished grid is replayed: the same runs, spent in parts, against what all of them say."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from gradgate.errors import DataError, UsageError
from gradgate.study.budget import RunKey
from gradgate.study.replay.curve_rows import CurveRow, read_rows, write_curves
from gradgate.study.replay.curves import as_curves
from gradgate.study.replay.replay import replay, seed_orders, truth_of
from gradgate.study.replay.table import truth_line
from support.command_line import Command
from support.study_folder import fail, finish, write_study


def rows_of(
    finals: np.ndarray[tuple[int, int], np.dtype[np.float64]], better: Literal["higher", "lower"] = "higher"
) -> list[CurveRow]:
    """Runs of 80 steps, evaluated every 10, whose curves rise alike to the given final scores (arm, seed)."""
    return [
        CurveRow(
            task="toy", model="m", arm=f"a{arm}", method=f"a{arm // 2}", adapter=None, lr=0.1 * (1 + arm % 2),
            seed=seed, step=step, of_steps=80, dev=float(final + (step - 80 if better == "higher" else 80 - step)),
            test=float(final) if step == 80 else None, seconds=1.0 if step == 80 else None, better=better,
        )
        for (arm, seed), final in np.ndenumerate(finals)
        for step in range(10, 81, 10)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def clear() -> list[CurveRow]:
    """Ten arms, ten seeds: a0 leads by four sd of what seeds do not share; seeds differ by much more."""
    draw = np.random.default_rng(0)
    means = np.array([4.0, *-np.arange(9.0)])[:, None]
    return rows_of(means + 20 * draw.normal(size=(1, 10)) + draw.normal(size=(10, 10)))


def test_a_decisive_grid_is_found_again(clear: list[CurveRow]) -> None:
    curves = as_curves(clear)
    found = replay(curves, 0.2, repeats=20)
    assert (found.truth.best, found.truth.decisive, found.truth.method) == ("a0", True, "a0")
    (score,) = found.scores
    assert (score.name, score.agreement) == ("budget", 1.0)
    assert (score.false_winners, score.regret, score.same_best) == (0.0, 0.0, 1.0)
    assert 0 < score.steps <= 0.2
    assert not replay(curves, 0.1, repeats=1).can_name_a_winner
    assert replay(curves, 0.1, repeats=3) == replay(curves, 0.1, 3)


def test_a_grid_without_dev_has_no_replay(clear: list[CurveRow]) -> None:
    unscored = [replace(row, dev=None) for row in clear]
    with pytest.raises(
        DataError, match="None of the 100 runs has a score on dev, which a budget needs to compare them"
    ):
        as_curves(unscored)


def test_a_whole_grid_agrees_with_itself(clear: list[CurveRow]) -> None:
    (score,) = replay(as_curves(clear), 1.0, repeats=5).scores
    assert (score.agreement, score.named) == (1.0, 1.0)
    assert score.steps == 0.5  # the look at half of the seeds decides


def test_lower_scores_can_be_better() -> None:
    finals = np.array([[1.0, 2.0, 1.5, 1.2], [5.0, 6.1, 5.4, 5.3], [9.0, 9.9, 9.6, 9.1]])
    truth = truth_of(as_curves(rows_of(finals, better="lower")))
    assert (truth.best, truth.decisive) == ("a0", True)


def test_without_a_difference_no_winner_is_named() -> None:
    draw = np.random.default_rng(3)
    curves = as_curves(rows_of(draw.normal(size=(1, 6)) + draw.normal(size=(8, 6))))
    found = replay(curves, 0.3, repeats=60)
    assert not found.truth.decisive
    assert len(found.truth.tied) > 1
    assert found.scores[0].agreement > found.scores[0].same_best
    assert found.scores[0].false_winners == found.scores[0].named
    assert found.scores[0].named is not None
    assert found.scores[0].named <= 0.05


def test_one_method_is_better_than_no_other() -> None:
    rows = [replace(row, method="full") for row in rows_of(np.random.default_rng(0).normal(size=(3, 5)))]
    curves = as_curves(rows)
    truth = truth_of(curves)
    assert (truth.decisive, truth.method_p, truth.method_decisive) == (False, None, False)
    assert "method" not in truth_line(curves, truth)


def test_a_failed_arm_is_never_the_best(clear: list[CurveRow]) -> None:
    broken = [row for row in clear if (row.arm, row.seed) != ("a0", 3)]
    broken.append(
        CurveRow(task="toy", model="m", arm="a0", method="a0", adapter=None, lr=0.1, seed=3, step=7, of_steps=80)
    )
    curves = as_curves(broken)
    assert curves.runs[RunKey("a0", "toy", 3)].has_failed
    assert truth_of(curves).best == "a1"
    assert "1 arm with a failed run not compared (a0)" in truth_line(curves, truth_of(curves))


def test_training_sets_of_two_sizes_are_two_tasks(clear: list[CurveRow]) -> None:
    both = [replace(row, train_size=size) for size in (100, None) for row in clear]
    assert set(as_curves(both).grid.steps) == {"toy, 100 rows", "toy, all rows"}


def test_curves_go_through_csv_unchanged(clear: list[CurveRow], tmp_path: Path) -> None:
    write_curves(clear, tmp_path / "grid.csv")
    assert read_rows(tmp_path / "grid.csv") == clear


def test_studies_of_rates_become_one_grid(tmp_path: Path, command: Command) -> None:
    """Two studies of different rates; their fixture has an evaluation at 40 and 80 of 80 steps."""
    folders = []
    for rate, scores in ((2e-5, {"full": [0.7, 0.8], "gradual:every=40": [0.6, 0.7]}), (1e-3, {"full": [0.1, 0.2]})):
        folders.append(write_study(tmp_path / str(rate), seeds=(0, 1), scores=scores))
        file = folders[-1] / "study.json"
        file.write_text(file.read_text().replace("2e-05", str(rate)))
    fail(folders[1], "gradual:every=40", 0)
    finish(folders[1], "gradual:every=40", 1, 0.3)
    out = tmp_path / "curves.csv"
    code, told, _ = command("study", "export", *map(str, folders), "--curves", str(out))
    assert code == 0
    assert "15 evaluations of 8 runs" in told
    lines = list(csv.DictReader(out.open()))
    assert lines[1] == {
        "task": "toy", "model": "toy-bert", "arm": "full:lr=2e-05", "method": "full", "adapter": "", "lr": "2e-05",
        "seed": "0", "step": "80", "of_steps": "80", "dev": "0.71", "test": "0.7", "seconds": "2.0", "schedule": "cut",
        "metric": "macro_f1", "better": "higher", "dev_loss": "0.4", "train_size": "",
    }  # fmt: skip
    curves = as_curves(read_rows(out))
    assert curves.grid.arms == (
        "full:lr=2e-05",
        "gradual:every=40,lr=2e-05",
        "full:lr=0.001",
        "gradual:every=40,lr=0.001",
    )
    assert curves.grid.method_of("full:lr=0.001") == "full"
    assert curves.runs[RunKey("gradual:every=40,lr=0.001", "toy", 0)].has_failed
    assert "7 runs of toy have no score at step 10" in curves.notes[0]
    assert truth_of(curves).best == "full:lr=2e-05"


def test_the_command_prints_table_or_json(clear: list[CurveRow], tmp_path: Path, command: Command) -> None:
    file = tmp_path / "grid.csv"
    write_curves(clear, file)
    words = ["study", "replay", str(file), "--budget", "0.1", "--budget", "0.2", "--repeats", "5"]
    code, out, told = command(*words)
    assert code == 0
    assert "Agrees: how often the arm ranked first is not significantly worse than the full grid's best;" in told
    assert "The full grid is decisive: a0 has the best mean on dev" in " ".join(out.split())
    assert [line.split()[:2] for line in out.splitlines()[2:]] == [
        ["0.1", "budget"],
        ["0.2", "budget"],
    ]
    record = json.loads(command(*words, "--json")[1])
    assert [each["budget"] for each in record] == [0.1, 0.2]
    keys = ("budget", "spent", "decisive", "agreement", "false_winners", "within_one_sd", "regret", "can_name_a_winner")
    assert all(set(keys) <= set(each) for each in record)
    assert record[0]["truth"]["decisive"] is record[0]["decisive"] is True
    assert record[0]["spent"] <= 0.1


def test_few_orders_are_taken_once_each() -> None:
    draw = np.random.default_rng(3)
    curves = as_curves(rows_of(draw.normal(size=(8, 4))))
    found = replay(curves, 0.4, repeats=1000)
    assert (found.repeats, len(set(seed_orders(curves, 1000, 0)))) == (24, 24)
    assert found.scores == replay(curves, 0.4, repeats=24, seed=7).scores
    assert replay(curves, 0.4, repeats=23).repeats == 23


def test_agreement_stands_beside_its_chance_level() -> None:
    draw = np.random.default_rng(3)
    found = replay(as_curves(rows_of(draw.normal(size=(8, 3)))), 0.4, repeats=6)
    record = found.record()
    assert record["agreement_by_chance"] == len(found.truth.tied) / 8 > 0.25


def test_without_a_test_no_winner_is_counted() -> None:
    draw = np.random.default_rng(3)
    found = replay(as_curves(rows_of(draw.normal(size=(8, 3)))), 0.13, repeats=6)
    record = found.record()
    assert (record["can_name_a_winner"], record["false_winners"], record["named"]) == (False, None, None)


def test_one_standard_deviation_is_that_of_whole_runs(clear: list[CurveRow]) -> None:
    truth = truth_of(as_curves(clear))
    finals = np.array(
        [[row.dev or 0.0 for row in clear if row.arm == f"a{arm}" and row.step == 80] for arm in range(10)]
    )
    rest = finals - finals.mean(0) - finals.mean(1, keepdims=True) + finals.mean()
    assert truth.noise == pytest.approx((np.square(rest).sum() / 81) ** 0.5)
    (score,) = replay(as_curves(clear), 0.1, repeats=5).scores
    assert score.within_one_sd == 1.0


def test_an_arm_that_stopped_early_is_left_out_by_name(clear: list[CurveRow]) -> None:
    short = [replace(row, of_steps=50) for row in clear if row.arm == "a3" and row.seed == 4 and row.step <= 50]
    rest = [row for row in clear if (row.arm, row.seed) != ("a3", 4)]
    curves = as_curves([*rest, *short])
    assert curves.grid.arms == tuple(f"a{arm}" for arm in range(10) if arm != 3)
    assert len(curves.grid.seeds) == 10
    assert curves.notes == ("left out: a3; a run on toy has 50 steps, and most runs have 80",)


def test_lengths_without_a_majority_are_refused(clear: list[CurveRow]) -> None:
    halves = [replace(row, of_steps=80 if row.seed % 2 else 90) for row in clear]
    with pytest.raises(DataError, match="Runs of toy differ in of_steps: 80, 90"):
        as_curves(halves)


def test_one_seed_ranks_and_tests_nothing(clear: list[CurveRow]) -> None:
    curves = as_curves([row for row in clear if row.seed == 0])
    found = replay(curves, 0.3, repeats=3)
    assert (found.repeats, found.truth.decisive, found.can_name_a_winner) == (1, False, False)
    assert found.scores[0].false_winners is None
    line = truth_line(curves, found.truth)
    assert "One seed can rank arms but not test them" in line
    assert "significant" not in line


def test_rows_that_are_not_a_grid_are_refused(clear: list[CurveRow], tmp_path: Path) -> None:
    curves = as_curves(clear)
    with pytest.raises(UsageError, match=r"^budget=1\.5: expected a share above 0 and at most 1, such as 0\.1\.$"):
        replay(curves, 1.5)
    with pytest.raises(UsageError, match=r"^repeats=0: expected 1 or more\.$"):
        replay(curves, 0.5, repeats=0)
    with pytest.raises(DataError, match="two rows at one step"):
        as_curves([*clear, clear[0]])
    with pytest.raises(DataError, match="No seed was run with every one of the 2 arms"):
        as_curves([row for row in clear if (row.arm, row.seed) in (("a0", 0), ("a1", 1))])
    assert as_curves([row for row in clear if (row.arm, row.seed) != ("a0", 9)]).notes == (
        "seed 9 is left out, because not every arm has it",
    )
    file = tmp_path / "grid.csv"
    file.write_text("task,arm\n")
    with pytest.raises(DataError, match="has no column model"):
        read_rows(file)
    write_curves(clear[:2], file)
    file.write_text(file.read_text().replace(",10,80,", ",90,80,"))
    with pytest.raises(DataError, match=r"line 2: step 90 of 80"):
        read_rows(file)


def test_scores_of_two_metrics_are_no_grid(clear: list[CurveRow]) -> None:
    mixed = [replace(row, metric="accuracy" if row.seed else "macro_f1") for row in clear]
    with pytest.raises(DataError, match=r"2 metrics: accuracy, macro_f1\. Expected one\. Replay them separately"):
        as_curves(mixed)
    tasks = [replace(row, task=task, metric=f"metric of {task}") for row in clear for task in ("a", "b")]
    with pytest.raises(DataError, match="2 metrics"):
        as_curves(tasks)
