"""``--dry-run``: what would be trained, for how long, and in how much memory and disk; and that nothing is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.settings.budget import Budget
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import compare
from gradgate.study.forecast import ArmForecast, Forecast, evaluations, forecast
from gradgate.study.planning import Execution, StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.search import read_space
from gradgate.training.first_steps import time_first_steps
from support.command_line import Command

GIB = 2**30


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 12, "threads": 1})


def told(base: RunConfig, out: Path, *methods: str, **more: Any) -> Forecast:
    asked = StudyRequest(base, methods, [0, 1], **more)
    return forecast(asked, out, SilentStudy(), Execution())


def test_every_arm_has_its_runs_and_steps_and_nothing_is_written(base: RunConfig, tmp_path: Path) -> None:
    found = told(base, tmp_path / "study", "full", "head", budget=Budget(steps=24))
    assert [(arm.label, arm.runs, arm.steps) for arm in found.arms] == [("full", 2, 12), ("head", 2, 12)]
    assert all(arm.step_seconds and arm.peak_bytes and arm.trouble is None for arm in found.arms)
    assert found.seconds > 0
    assert found.share == pytest.approx(24 / 48), "a number of steps is a share of those of the runs"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("here")
def test_finished_runs_do_not_count(base: RunConfig, tmp_path: Path) -> None:
    compare(StudyRequest(base, ["head"], [0]), tmp_path / "study", SilentStudy())
    found = told(base, tmp_path / "study", "head")
    assert [(arm.label, arm.runs) for arm in found.arms] == [("head", 1)]
    assert (found.finished, found.runs) == (1, 1)


def test_a_search_comes_before_the_runs_that_it_decides(base: RunConfig, tmp_path: Path) -> None:
    found = told(base, tmp_path / "study", "head", search=read_space(["lr=1e-4,1e-3,1e-2"]))
    assert [(arm.label, arm.runs) for arm in found.arms] == [("head", 3 + 2)]


def test_a_budget_takes_its_share_and_workers_divide_the_time() -> None:
    arms = (ArmForecast("full", 3, 100, 0.5, GIB), ArmForecast("head", 3, 100, 0.1, GIB))

    def seconds(share: float | None, workers: int) -> float:
        return Forecast(arms, 0, 20.0, workers, share, GIB, 0, GIB).seconds

    assert seconds(None, 1) == pytest.approx(150 + 30 + 20)
    assert seconds(0.1, 1) == pytest.approx(20)
    assert seconds(None, 2) == pytest.approx(100)


def test_pre_training_on_the_tasks_texts_is_named_as_left_out(
    settings: dict[str, Any], tmp_path: Path, command: Command
) -> None:
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    flags += ["-m", "full:tapt_steps=5", "--dry-run", "-o", str(tmp_path / "study")]
    code, out, _ = command("compare", *flags)
    assert code == 0
    assert "full:tapt_steps=5: the pretraining on the task's texts comes on top, in time and in memory." in out


def test_a_run_of_one_step_is_timed(base: RunConfig) -> None:
    found = time_first_steps(base.model_copy(update={"steps": 1}))
    assert found.total == 1
    assert found.seconds > 0


def test_an_arm_that_cannot_train_says_why(base: RunConfig, tmp_path: Path) -> None:
    found = told(base.model_copy(update={"lr": 1e30}), tmp_path / "study", "full", "head")
    assert "full" in {arm.label for arm in found.arms if arm.trouble}
    assert found.runs == sum(arm.runs for arm in found.arms if not arm.trouble)


def test_the_commands_print_it(settings: dict[str, Any], tmp_path: Path, command: Command) -> None:
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    code, out, _ = command("compare", *flags, "-m", "head", "--seeds", "2", "--dry-run", "-o", str(tmp_path / "study"))
    assert code == 0
    assert "2 runs would be trained." in out
    assert "Nothing was written." in out
    code, out, _ = command("train", *flags, "--dry-run", "--json", "-o", str(tmp_path / "run"))
    assert code == 0
    assert [arm["label"] for arm in json.loads(out)["arms"]] == ["full"]
    assert list(tmp_path.iterdir()) == []


def test_a_forecast_of_what_cannot_be_trained_fails(settings: dict[str, Any], tmp_path: Path, command: Command) -> None:
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    flags += ["--optim", "adafactr", "--dry-run"]
    said = command("train", *flags, "-o", str(tmp_path / "run"))
    assert (said.code, "has no such optimizer" in said.err) == (2, True)
    said = command("compare", *flags, "-m", "full", "-o", str(tmp_path / "study"))
    assert (said.code, "0 runs would be trained." in said.out) == (1, True)
    assert "Time:" not in said.out


def test_the_same_length_in_steps_and_epochs_has_as_many_evaluations() -> None:
    rows = {"train": 3200, "dev": 640}
    lengths = ({"steps": 1000}, {"epochs": 10}, {"steps": 1000, "accumulate": 2, "batch_size": 16})
    configs = [make_config(**{"batch_size": 32, **length}) for length in lengths]
    assert [evaluations(config, rows, 1000) for config in configs] == [10, 10, 10]
    assert evaluations(make_config(steps=1000, eval_every=300), rows, 1000) == 4
    assert evaluations(make_config(steps=1000, batch_size=32, train_size=320), rows, 1000) == 100
    assert evaluations(make_config(steps=1000, batch_size=32, train_size=9999), rows, 1000) == 10


def test_a_forecast_refuses_the_budget_that_the_comparison_refuses(
    settings: dict[str, Any], tmp_path: Path, command: Command
) -> None:
    flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    flags += ["-m", "full", "-m", "head", "--budget-steps", "1", "-o", str(tmp_path / "study")]
    forecast, real = command("compare", *flags, "--dry-run"), command("compare", *flags)
    assert (forecast.code, real.code) == (2, 2)
    assert forecast.err.splitlines()[-1] == real.err.splitlines()[-1]


def test_a_budget_for_arms_that_cannot_train_says_why_they_cannot(
    settings: dict[str, Any], tmp_path: Path, command: Command
) -> None:
    given = {**settings, "epochs": 1, "optim": "adafactr"}
    given.pop("steps", None)
    flags = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    said = command("compare", *flags, "-m", "full", "-m", "head", "--budget", "0.5", "--dry-run", "-o", str(tmp_path))
    assert "has no such optimizer" in said.out + said.err
    assert "cannot be allocated" not in said.out + said.err
