"""``gradgate recommend``: what it leaves out, what it prints, and that what it prints trains."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.state import RunState
from gradgate.settings.command_line import RECOMMENDED, train_command
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.best_run import recommended_arm
from gradgate.study.budget import FullGrid
from gradgate.study.budget.file import read_budget
from gradgate.study.progress import SilentStudy
from gradgate.study.recommend import fitting as fitting_arms
from gradgate.study.recommend.clock import RaceClock
from gradgate.study.recommend.costs import ArmCost, Costs
from gradgate.study.recommend.final_model import train_finals
from gradgate.study.recommend.portfolio import Portfolio
from gradgate.study.recommend.recommendation import recommend
from gradgate.study.recommend.record import RecommendRecord
from gradgate.study.recommend.time_plan import plan_time
from gradgate.study.results import read_study
from gradgate.tasks.types import DEV
from gradgate.training.preview import preview
from support.arms import arms, names
from support.command_line import Command
from support.run_folders import assert_same_run

TRIED = ("full", "head", "gradual:every=4")


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    """One file of a user's own, with a blank in its name."""
    file = tmp_path / "my tickets.csv"
    with file.open("w", newline="") as target:
        rows = csv.writer(target)
        rows.writerow(["text", "label"])
        rows.writerows([(f"good day {n}", "praise") if n % 2 else (f"bad day {n}", "blame") for n in range(80)])
    return file


@pytest.mark.slow
def test_a_new_user_is_given_a_command_and_lines_that_train(
    command: Command,
    draw_only: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tiny_model: Path,
    tickets: Path,
    tmp_path: Path,
) -> None:
    draw_only()
    flags = ["--steps", "8", "--batch-size", "8", "--max-length", "16", "--device", "cpu"]
    said = command(
        "recommend", "--model", str(tiny_model), "--task", str(tickets), *flags, "--minutes", "60", "--seeds", "1",
        "--out", str(tmp_path / "study"), "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert found["verdict"]["winners"]
    assert found["budget"]["steps_spent"] <= found["budget"]["steps_allowed"]
    assert found["verdict"]["final"] is True
    assert Path(found["report"]).is_file()
    assert [left["arm"] for left in found["left_out"]][:1] == ["lisa"]
    assert found["verdict"]["tested"] is False, "with one seed"
    results = read_study(tmp_path / "study")
    best = results.best_on_dev(run for arm in found["verdict"]["winners"] for run in results.of(arm))
    assert best is not None
    assert found["recommended"]["arm"] == best.arm.name
    assert RunFolder(Path(found["run"])).finished
    words = shlex.split(found["predict"])
    assert words[:2] == ["gradgate", "predict"]
    new = tmp_path / "new.csv"
    new.write_text("text\ngood day\nbad day\n")
    predicted = command(*words[1:-1], str(new))
    assert [json.loads(line)["predicted"] in ("praise", "blame") for line in predicted.out.splitlines()] == [True] * 2

    again = command(
        "recommend", "--model", str(tiny_model), "--task", str(tickets), *flags, "--minutes", "60", "--seeds", "1",
        "--out", str(tmp_path / "study"), "--json",
    )  # fmt: skip
    resumed = json.loads(again.out)
    assert {**resumed, "minutes": None} == {**found, "minutes": None}, "nothing is decided anew"
    text = command(
        "recommend", "--model", str(tiny_model), "--task", str(tickets), *flags, "--minutes", "60", "--seeds", "1",
        "--out", str(tmp_path / "study"),
    )  # fmt: skip
    assert "more --seeds would use more time" in text.out, "flags in the sentences of a command"
    assert all(line in text.out for line in found["python"]), "and Python in lines of Python"

    for folder in ("typed", "python"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "typed")
    words = shlex.split(found["command"])
    assert words[:2] == ["gradgate", "train"]
    assert command(*words[1:], "--quiet").code == 0
    monkeypatch.chdir(tmp_path / "python")
    assert len(found["python"]) == 3
    exec("\n".join(found["python"]), {})
    runs = [tmp_path / folder / "runs/recommended" for folder in ("typed", "python")]
    assert RunFolder(runs[0]).finished
    assert_same_run(*runs)


@pytest.mark.parametrize(
    "more",
    [
        {"method": "graddrop:p=0.2", "lr": 2e-4},
        {"adapter": "houlsby:size=64,lr=0.01", "epochs": 7 / 3, "precision": "bf16", "eval_every": 4},
        {"lr_scale": {"head": 10.0, "layers.0": 0.1}, "keep_model": False, "checkpointing": True},
    ],
)
def test_the_printed_command_has_the_same_settings(
    command: Command, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], more: dict[str, Any]
) -> None:
    given: list[RunConfig] = []
    monkeypatch.setattr("gradgate.training.run.train", lambda config, out, progress: given.append(config))
    config = make_config(**{**settings, "steps": None, **more})
    assert command(*shlex.split(train_command(config, RECOMMENDED))[1:], "--quiet").code == 0
    assert given[0].record() == config.record()


def test_what_the_device_has_no_room_for_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    config = make_config(**settings)
    seen = preview(config)
    sizes = {"full": 4 * 2**30, "freeze:layers=1": 2**30}
    monkeypatch.setattr(fitting_arms, "free_bytes", lambda config: 2 * 2**30)
    monkeypatch.setattr(fitting_arms, "peak_bytes", lambda arm, config, kind: sizes[arm.name])
    found = fitting_arms.fitting(Portfolio(1e-3, tuple(arms(sizes))), config, seen)
    assert names(found.arms) == ["freeze:layers=1"]
    assert "takes 4.0 GiB at its peak, but only 2.0 GiB are free" in str(found.left_out[0])


def test_one_arm_is_no_choice(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], tmp_path: Path) -> None:
    monkeypatch.setattr(fitting_arms, "free_bytes", lambda config: 0)
    monkeypatch.setattr(fitting_arms, "peak_bytes", lambda arm, config, kind: 2**30)
    with pytest.raises(UsageError, match=r"too few methods to choose from: .* full is left out: it takes 1.0 GiB"):
        recommend(make_config(**settings), 1.0, [0], tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


def test_an_adapter_that_the_architecture_lacks_and_too_many_layers_are_left_out(
    settings: dict[str, Any], tiny_gpt2: Path
) -> None:
    config = make_config(**settings | {"model": str(tiny_gpt2)})
    found = fitting_arms.fitting(
        Portfolio(1e-3, tuple(arms(["full", "freeze:layers=9", "houlsby:size=4"]))), config, preview(config)
    )
    assert names(found.arms) == ["full"]
    assert [left.arm for left in found.left_out] == ["freeze:layers=9", "houlsby:size=4"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("minutes", "finished"), [(60.0, 2), (0.5, 1)], ids=["as many as fit", "no time"])
def test_without_a_test_the_arms_that_may_be_the_best_are_finished_in_time(
    minutes: float, finished: int, raced: Path, tiny_task: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(raced, tmp_path / "study"))
    budget = read_budget(out)
    assert budget is not None
    assert (budget.verdict.tested, len(budget.verdict.winners)) == (False, 2)
    assert all(run.scores is None for run in read_study(out).cells)
    each = ArmCost(step=1.0, piece=1.0, scoring=0.0, once=0.0, tests=0.0)
    grid, costs = (
        FullGrid(arms=TRIED, seeds=(0, 1), steps={tiny_task.name: 16}),
        Costs(steps=16, arms=dict.fromkeys(TRIED, each)),
    )
    record = RecommendRecord(
        minutes=minutes, lr=1e-3, arms=TRIED, left_out=(), costs=costs, plan=plan_time(grid, costs, (), 3600.0),
        seconds_spent=27.0,
    )  # fmt: skip
    clock, shown = RaceClock(out, record, grid, time.monotonic(), SilentStudy()), _Counts()
    train_finals(out, budget.verdict, clock, shown)
    assert shown.last[RunState.FINISHED] == finished
    done = [run for run in read_study(out).runs if run.scores is not None]
    assert len(done) == finished
    scores = {run.arm.name: run.score(DEV) for run in done}
    assert scores[recommended_arm(out, budget.verdict) or ""] == max(filter(None, scores.values()))


class _Counts(SilentStudy):
    """Keeps the last numbers of runs in each state."""

    last: Mapping[RunState, int] = {}

    def count(self, states: Mapping[RunState, int]) -> None:
        self.last = states


@pytest.mark.parametrize("minutes", ["0", "-1", "nan"])
def test_wrong_minutes_are_refused(command: Command, minutes: str, tmp_path: Path) -> None:
    code, out, told = command("recommend", "--minutes", minutes, "--out", str(tmp_path / "study"))
    assert (code, out) == (2, "")
    assert "--minutes" in told
    assert not (tmp_path / "study").exists()
