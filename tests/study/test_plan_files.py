"""A plan file is an arm of a study like any other: compared, raced within a budget, and queued again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError
from gradgate.settings.budget import Budget
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.budget.file import read_budget
from gradgate.study.compare import compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study

PLAN = "phases:\n- {step: 0, open: [head]}\n- {step: 2, open: [layers.1, head]}\n"

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 8, "eval_every": 4, "threads": 1})


def plan(folder: Path) -> str:
    (folder / "plan.yaml").write_text(PLAN)
    return f"plan:{folder / 'plan.yaml'}"


def test_a_plan_file_is_compared_and_none_that_has_changed_since(base: RunConfig, tmp_path: Path) -> None:
    arms, study = [plan(tmp_path), "head"], tmp_path / "study"
    assert compare(StudyRequest(base, arms[:1], [0]), study, SilentStudy()).finished == 1
    assert compare(StudyRequest(base, arms, [0]), study, SilentStudy()).finished == 2
    assert [run.arm.name for run in read_study(study).cells] == arms
    (tmp_path / "plan.yaml").write_text(PLAN.replace("step: 2", "step: 4"))
    with pytest.raises(RunError, match=r"was started with another plan: the file of .* has changed since"):
        compare(StudyRequest(base, arms, [0, 1]), study, SilentStudy())


def test_a_plan_file_is_raced(base: RunConfig, tmp_path: Path) -> None:
    study = tmp_path / "study"
    compare(StudyRequest(base, ["head", plan(tmp_path)], (0, 1), budget=Budget(share=0.75)), study, SilentStudy())
    found = read_budget(study)
    assert found is not None
    assert found.final
