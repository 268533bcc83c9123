"""Every form of an arm is compared, raced within a budget, trained by a worker, and read by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.methods import methods
from gradgate.runs.records import ModelRecord, TaskRecord
from gradgate.runs.state import RunState
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.base import checked_settings
from gradgate.settings.budget import Budget
from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.budget.file import read_budget
from gradgate.study.compare import RunCounts, compare
from gradgate.study.grid import Grid
from gradgate.study.planning import Execution, StudyRequest, plan
from gradgate.study.progress import SilentStudy
from gradgate.study.recommend.portfolio import Subject, portfolio
from gradgate.study.results import read_study
from gradgate.study.status import read_status
from gradgate.study.workers.worker import join
from support.every_method import example

PLAN = "phases:\n- {step: 0, open: [head]}\n- {step: 2, open: [layers.1, head]}\n"
AXOLOTL = "unfrozen_parameters:\n- ^classifier\n"
ON_TWO_LAYERS: dict[str, dict[str, object]] = {"spectrum": {"share": 0.5}}
OTHERS = (
    "full:tapt_steps=2",
    "freeze:layers=1+mixout:p=0.5",
    "gradual:every=1+layerwise-lr:decay=0.9",
    "full:lr=1e-2",
    "houlsby:size=4",
    "pfeiffer:size=4 + gradual:every=1",
    "houlsby:size=4,lr=1e-3 + graddrop:p=0.5",
)


pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 3, "train_size": 16, "keep_model": False, "threads": 1})


@pytest.fixture
def forms(tmp_path: Path) -> list[str]:
    """Each method of the catalogue, plan and axolotl files, combined methods, adapters with and without a method."""
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "axolotl.yaml").write_text(AXOLOTL)
    known = [str(example(entry, 2, **ON_TWO_LAYERS.get(entry.name, {}))) for entry in methods()]
    return [*known, *OTHERS, f"plan:{tmp_path / 'plan.yaml'}", f"axolotl:{tmp_path / 'axolotl.yaml'}"]


@pytest.fixture
def kinds(forms: list[str]) -> list[str]:
    """One form of each kind."""
    alike = ("gradual:every=1+layerwise-lr:decay=0.9", "pfeiffer:size=4 + gradual:every=1")
    return ["head", *(form for form in forms[-len(OTHERS) - 2 :] if form not in alike)]


@pytest.mark.slow
def test_every_form_is_compared(base: RunConfig, forms: list[str], tmp_path: Path) -> None:
    counts = compare(StudyRequest(base, forms, [0]), tmp_path / "study", SilentStudy())
    states = {run.label: run.error or run.state for run in read_status(tmp_path / "study").runs}
    assert counts == RunCounts(len(forms), 0), {label: said for label, said in states.items() if said != "finished"}
    assert {cell.arm for cell in read_study(tmp_path / "study").cells} == {read_arm(form) for form in forms}


@pytest.mark.slow
def test_every_kind_is_raced(base: RunConfig, kinds: list[str], tmp_path: Path) -> None:
    request = StudyRequest(base, kinds, [0, 1], budget=Budget(share=0.7))
    assert compare(request, tmp_path / "study", SilentStudy()).failed == 0
    found = read_budget(tmp_path / "study")
    assert found is not None
    assert found.final


def test_a_worker_trains_every_kind(base: RunConfig, kinds: list[str], tmp_path: Path) -> None:
    grid = Grid.of(tmp_path / "study", base, [read_arm(form) for form in kinds], [0])
    task = TaskRecord(name="toy", kind="classification", metric="macro_f1", fingerprint="f00d", rows={})
    grid.write(task, ModelRecord(name="toy", parameters=1), {})
    assert join(grid.path, None, SilentStudy()) == 0
    assert read_status(grid.path).count(RunState.FINISHED) == len(kinds)


def test_every_form_is_read_from_its_name(forms: list[str]) -> None:
    arms = [read_arm(form) for form in forms]
    assert [read_arm(arm.name) for arm in arms] == arms
    assert checked_settings(CompareSettings, {"method": [arm.name for arm in arms]}).method == tuple(arms)
    proposed = portfolio(Subject(layers=24, parameters=10**8, steps=100, installed=("peft",))).arms
    assert [read_arm(arm.name) for arm in proposed] == list(proposed)


def test_runs_are_read_as_the_arm_that_is_pre_trained(base: RunConfig, tmp_path: Path) -> None:
    methods = ["full", "full:tapt_steps=1", "houlsby", "houlsby:tapt_steps=1"]
    shared = base.model_copy(update={"tapt_steps": 2, "tapt_batch": 4})
    compare(StudyRequest(shared, methods, [0]), tmp_path / "study", SilentStudy())
    found = {cell.arm.name: cell.state for cell in read_study(tmp_path / "study").cells}
    assert found == dict.fromkeys(methods, RunState.FINISHED)
    alone = base.model_copy(update={"tapt_batch": 4})
    plan(StudyRequest(alone, methods, [0]), tmp_path / "other", SilentStudy(), Execution())
    with pytest.raises(UsageError, match="tapt_batch= has no effect without"):
        plan(StudyRequest(alone, ["full", "houlsby"], [0]), tmp_path / "other", SilentStudy(), Execution())
