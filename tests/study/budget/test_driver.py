"""A comparison within a budget: what is trained, what the verdict is, and how it goes on after a kill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import read_progress
from gradgate.runs.records import Failure, write_record
from gradgate.settings.budget import Budget, parse_budget
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.budget import Allocator, Observed, Targets
from gradgate.study.budget.driver import BudgetedStudy
from gradgate.study.budget.file import BUDGET_FILE, BudgetRecord, read_budget
from gradgate.study.budget.observe import observe
from gradgate.study.compare import RunCounts, compare
from gradgate.study.conditions import Conditions
from gradgate.study.grid import Grid
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy, StudyProgress
from gradgate.study.results import read_study
from gradgate.study.status import open_queue, read_status
from support.arms import arms
from support.command_line import Command
from support.power_cuts import PowerCutError, StudyFalls
from support.run_folders import assert_same_run

METHODS = ("full", "head", "gradual:every=4")


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 16, "eval_every": 8, "threads": 1})


def race(base: RunConfig, out: Path, share: float = 0.6, progress: StudyProgress | None = None) -> BudgetRecord:
    asked = StudyRequest(base, METHODS, (0, 1), budget=Budget(share=share))
    compare(asked, out, progress or SilentStudy())
    found = read_budget(out)
    assert found is not None
    return found


def reached(study: Path) -> dict[str, int]:
    """Each run's folder to its steps."""
    runs = [RunFolder(file.parent) for file in sorted(study.rglob("run.json"))]
    known = {run.path.relative_to(study).as_posix(): read_progress(run) for run in runs}
    return {name: found.step for name, found in known.items() if found is not None}


def verdict(study: Path) -> dict[str, Any]:
    """What ``budget.json`` says, without what was measured of time."""
    record: dict[str, Any] = json.loads((study / BUDGET_FILE).read_text())
    del record["pace"], record["verdict"]["cheapest"]
    return record


@pytest.fixture
def study(raced: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(raced, tmp_path / "study"))


def test_a_budget_is_not_passed(raced: Path) -> None:
    steps, found = reached(raced), read_budget(raced)
    assert found is not None
    assert found.final
    assert found.verdict.steps_of_grid == 3 * 2 * 16
    assert found.steps_allowed == 57
    assert sum(steps.values()) == found.verdict.steps_spent <= 57
    assert {name for name in steps if name.endswith("seed-0")} == {f"runs/{arm}/seed-0" for arm in folders(METHODS)}
    assert max(steps.values()) == 8
    assert set(found.remaining) | {left.arm for left in found.verdict.departures} == set(METHODS)


def folders(methods: Sequence[str]) -> list[str]:
    return [method.replace(":", "-") for method in methods]


def test_runs_of_arms_that_left_keep_their_scores_alone(raced: Path) -> None:
    found = read_budget(raced)
    assert found is not None
    for arm in folders([left.arm for left in found.verdict.departures]):
        folder = RunFolder(raced / "runs" / arm / "seed-0")
        assert not folder.checkpoints.exists()
        assert not folder.finished
        assert read_progress(folder) is not None
    assert not list(raced.rglob("predictions/test.jsonl")), "test splits are of whole runs"


def test_the_same_command_trains_nothing_more(base: RunConfig, study: Path) -> None:
    before = (study / BUDGET_FILE).read_bytes()
    race(base, study, progress=StudyFalls(1))
    assert (study / BUDGET_FILE).read_bytes() == before


@pytest.mark.slow
def test_a_race_that_is_killed_twice_has_the_same_verdict_and_bits(
    base: RunConfig, raced: Path, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    for ended in (2, 3):
        with pytest.raises(PowerCutError):
            race(base, study, progress=StudyFalls(ended))
    race(base, study)
    assert verdict(study) == verdict(raced)
    assert reached(study) == reached(raced)
    for file in raced.rglob("scores.json"):
        assert_same_run(file.parent, study / file.parent.relative_to(raced))


@pytest.mark.usefixtures("here")
def test_a_larger_budget_goes_on_and_counts_the_verdict_before(base: RunConfig, study: Path) -> None:
    before = reached(study)
    found = race(base, study, share=1)
    after = reached(study)
    assert found.earlier_verdicts == 1
    assert sum(before.values()) < sum(after.values()) == 96
    assert set(after.values()) == {16}
    with pytest.raises(UsageError, match=r"allows 57 optimizer steps, and .* was given 96 before"):
        race(base, study)


class Patient:
    """A deadline that has time for the whole grid once a plan is trained."""

    def __init__(self, steps: dict[str, int]) -> None:
        self.steps = steps
        self.asked = 0

    def in_time(self, batch: Targets, observed: Observed) -> Targets:
        return batch

    def raised(self, allocator: Allocator, observed: Observed) -> int:
        self.asked += 1
        return allocator.grid.total_steps


@pytest.mark.slow
def test_time_that_is_left_raises_a_budget_before_its_verdict(base: RunConfig, tiny_task: Path, tmp_path: Path) -> None:
    deadline = Patient({tiny_task.name: 16})
    asked = StudyRequest(base, METHODS, (0, 1), budget=Budget(steps=40))
    compare(asked, tmp_path / "raised", SilentStudy(), deadline=deadline)
    found = read_budget(tmp_path / "raised")
    assert found is not None
    assert (found.final, found.steps_allowed, found.verdict.steps_spent) == (True, 96, 96)
    assert (found.earlier_verdicts, found.looks_early) == (0, False)
    whole = race(base, tmp_path / "whole", share=1.0).verdict
    assert found.verdict.winners == whole.winners
    assert found.verdict.tested
    again, times = StudyRequest(base, METHODS, (0, 1), budget=Budget(steps=96)), deadline.asked
    compare(again, tmp_path / "raised", SilentStudy(), deadline=deadline)
    assert deadline.asked == times, "the verdict was given"


def test_a_plain_comparison_of_a_budgeted_study_is_refused(base: RunConfig, study: Path) -> None:
    with pytest.raises(UsageError, match=r"has a budget of 57 of its grid's 96 .* budget=1 to train every run"):
        compare(StudyRequest(base, METHODS, [0, 1]), study, SilentStudy())


def test_a_worker_of_a_budgeted_study_without_its_store_queues_nothing(study: Path) -> None:
    (study / "study.db").unlink()
    queue = open_queue(study)
    assert queue.runs() == []
    queue.store.close()


def test_the_status_has_budget_and_verdict(raced: Path) -> None:
    record = json.loads(json.dumps(read_status(raced).record()))
    assert record["budget"]["steps_allowed"] == 57
    assert record["verdict"]["final"] is True
    assert record["verdict"]["winners"]
    assert isinstance(record["verdict"]["decided"], bool)


@pytest.mark.usefixtures("here")
def test_several_tasks_are_pairs(base: RunConfig, tiny_task: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_task, tmp_path / "other")
    parts = Conditions.of(base, [str(tiny_task), str(other)])
    counts = compare(
        StudyRequest(base, METHODS[:2], [0], conditions=parts, budget=Budget(share=0.25)),
        tmp_path / "study",
        SilentStudy(),
    )
    found = read_budget(tmp_path / "study")
    assert found is not None
    assert counts.failed == 0
    assert list(found.steps.values()) == [16, 16]
    assert sum(reached(tmp_path / "study").values()) == found.verdict.steps_spent <= 16


@pytest.mark.usefixtures("here")
def test_the_length_of_runs_is_learnt_from_the_first_step_where_it_is_not_said(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    base = make_config(**settings | {"steps": None, "epochs": 1, "threads": 1})
    counts = compare(StudyRequest(base, METHODS[:2], [0], budget=Budget(steps=10)), tmp_path / "study", SilentStudy())
    found = read_budget(tmp_path / "study")
    assert found is not None
    assert list(found.steps.values()) == [10]
    assert counts == RunCounts(finished=0, failed=0, paused=2)
    assert found.verdict.steps_spent == sum(reached(tmp_path / "study").values()) == 10


def test_rates_of_one_adapter_are_arms_of_one_method(base: RunConfig, tmp_path: Path) -> None:
    texts = ["full", "lora:r=8,lr=1e-3", "lora:lr=1e-4,r=8 + head", "peft:LORA,r=4,lr=1e-3"]
    race = BudgetedStudy(tmp_path, {"toy": Grid(tmp_path, base, tuple(arms(texts)), (0,))}, True, "accuracy")
    methods = race.full_grid({"toy": 8}).methods
    assert list(methods.values()) == ["full", "lora:r=8", "lora:r=8 + head", "peft:LORA,r=4"]


@pytest.mark.usefixtures("here")
def test_an_arm_with_a_failed_run_leaves_and_is_tried_again(base: RunConfig, study: Path) -> None:
    found = read_budget(study)
    assert found is not None
    winner = found.remaining[0]
    folder = RunFolder(study / "runs" / folders([winner])[0] / "seed-0")
    folder.pauses_file.unlink()
    write_record(folder.error_file, Failure("NonFiniteError", "The loss became nan.", 7))

    def failed() -> list[bool]:
        observed = observe([read_study(study)])
        return [each.has_failed for key, each in observed.items() if (key.arm, key.seed) == (winner, 0)]

    assert failed() == [True]
    again = race(base, study)
    assert failed() == [False]
    assert again.verdict.winners == found.verdict.winners


@pytest.mark.usefixtures("here")
def test_a_time_becomes_steps_once(base: RunConfig, tmp_path: Path) -> None:
    for seconds in (1e-3, 1e-3):
        compare(StudyRequest(base, METHODS[:2], [0], budget=Budget(seconds=seconds)), tmp_path / "study", SilentStudy())
        found = read_budget(tmp_path / "study")
        assert found is not None
        assert found.pace is not None
        assert found.steps_allowed == 4, "an eighth of one run of each"
        assert found.earlier_verdicts == 0


def test_one_method_alone_is_refused(base: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="full is the only one"):
        compare(StudyRequest(base, ["full"], [0, 1], budget=Budget(share=0.5)), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


def test_a_budget_that_is_too_small_says_what_is_needed(base: RunConfig, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"allows 4 optimizer steps; .* takes 6"):
        race(base, tmp_path / "study", share=0.05)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((0.0, None, None), "budget=0: expected a share"),
        ((2.0, None, None), "budget=2: expected a share"),
        ((float("nan"), None, None), "budget=nan: expected a share"),
        ((None, 0, None), "budget_steps=0: expected"),
        ((None, None, "soon"), "budget_time='soon': expected hours, minutes and seconds, as in 30m"),
        ((None, None, "0m"), "more than 0"),
        ((0.1, 10, None), "expected one, got 2"),
    ],
)
def test_wrong_budgets_are_refused(given: tuple[Any, Any, Any], expected: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_budget(*given)
    assert expected in str(refused.value)


@pytest.mark.parametrize("words", [["--budget", "2"], ["--budget", "much"], ["--budget", "0.1", "--budget-steps", "9"]])
def test_the_command_line_refuses_wrong_budgets(command: Command, words: list[str], tmp_path: Path) -> None:
    code, out, told = command("compare", "-m", "full", "--out", str(tmp_path / "study"), *words)
    assert (code, out) == (2, "")
    assert "--budget" in told
    assert not (tmp_path / "study").exists()


def test_a_budget_is_read() -> None:
    assert parse_budget(None, None, None) is None
    assert parse_budget(0.1, None, None) == Budget(share=0.1)
    assert parse_budget(None, None, "1h30m") == Budget(seconds=5400)
    assert Budget(share=0.1).steps_of(30, None) == 3
    assert Budget(steps=50).steps_of(30, None) == 30
    assert Budget(seconds=10).steps_of(30, 0.5) == 20


class Late(Patient):
    """A deadline that is up after the first seed."""

    def in_time(self, batch: Targets, observed: Observed) -> Targets:
        return {key: until for key, until in batch.items() if key.seed == 0}

    def raised(self, allocator: Allocator, observed: Observed) -> int:
        return allocator.steps_allowed


def test_a_budget_that_the_clock_ended_says_so(base: RunConfig, tiny_task: Path, tmp_path: Path) -> None:
    asked = StudyRequest(base, METHODS, (0, 1), budget=Budget(steps=96))
    compare(asked, tmp_path / "study", SilentStudy(), deadline=Late({tiny_task.name: 16}))
    found = read_budget(tmp_path / "study")
    assert found is not None
    assert (found.final, found.verdict.tested) == (True, False)
    assert found.verdict.how == "The time was up before the planned test, so nothing was tested."
