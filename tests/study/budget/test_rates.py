"""A budget on rates: each method with each rate is an arm, through kills, parts, the report and the exports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError, UsageError
from gradgate.report import write_report
from gradgate.report.sections import find_sections
from gradgate.report.study_summary import summarize_study
from gradgate.settings.budget import Budget
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.budget.driver import BudgetedStudy, check_budgeted
from gradgate.study.budget.file import BudgetRecord, read_budget
from gradgate.study.compare import compare
from gradgate.study.conditions import Conditions
from gradgate.study.export import as_table, exported, records
from gradgate.study.grid import Grid
from gradgate.study.planning import Execution, StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.replay.curve_rows import study_rows
from gradgate.study.results import read_study
from gradgate.study.search import read_space
from gradgate.study.workers.ray import RayCluster
from support.arms import arms
from support.power_cuts import PowerCutError, StudyFalls
from support.run_folders import assert_same_run
from support.trained_here import trained_here

RATES = read_space(["lr=1e-4,1e-2"])
METHODS = ("full", "lora:r=2")
ARMS = ("full:lr=0.0001", "full:lr=0.01", "lora:r=2,lr=0.0001", "lora:r=2,lr=0.01")


class Listens(SilentStudy):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    without = {name: value for name, value in settings.items() if name != "lr"}
    return make_config(**without | {"steps": 8, "eval_every": 4, "threads": 1})


def race(base: RunConfig, out: Path, share: float = 0.6, methods: Sequence[str] = METHODS, **more: Any) -> BudgetRecord:
    progress, execution = more.pop("progress", SilentStudy()), more.pop("execution", None)
    asked = StudyRequest(base, methods, (0, 1), budget=Budget(share=share), **{"search": RATES, **more})
    compare(asked, out, progress, execution)
    found = read_budget(out)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def done(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft")
    folder = tmp_path_factory.mktemp("races") / "done"
    with trained_here():
        assert race(base, folder).final
    return folder


def test_each_method_with_each_rate_is_an_arm(done: Path) -> None:
    found = read_budget(done)
    assert found is not None
    assert found.arms == ARMS
    assert found.verdict.steps_of_grid == 4 * 2 * 8
    assert found.verdict.steps_spent <= 38
    grid = BudgetedStudy.read(done, [done]).full_grid({"toy": 8})
    assert [grid.method_of(arm) for arm in ARMS] == ["full", "full", "lora:r=2", "lora:r=2"]
    assert found.remaining[0] in found.verdict.summary


def test_runs_are_told_apart_by_their_rate(done: Path) -> None:
    cells = [cell for cell in read_study(done).cells if cell.folder is not None]
    assert {cell.arm.name for cell in cells if cell.seed == 0} == set(ARMS)
    for cell in cells:
        assert cell.folder is not None
        config = json.loads((cell.folder / "run.json").read_text())["config"]
        assert config["lr"] == cell.arm.overrides["lr"]
        assert cell.folder.parent.name == cell.arm.folder
    assert read_study(done).problems == ()


def test_the_report_and_the_exports_have_the_rate(done: Path, tmp_path: Path) -> None:
    study = Path(shutil.copytree(done, tmp_path / "study"))
    (table,) = [
        table
        for section in find_sections(summarize_study(read_study(study)))
        for table in section.tables()
        if table.name == "race"
    ]
    assert {row[0].text for row in table.rows} == set(ARMS)
    page = write_report(study).html.read_text()
    assert "Each method is compared with lr=0.0001 and with lr=0.01" in page
    assert "share the learning rate" not in page
    record = exported(study)
    assert isinstance(record, dict)
    assert [run["setting"] for run in record["runs"][:4:2]] == [{"lr": 0.0001}, {"lr": 0.01}]
    assert "setting.lr" in as_table(records(study)).splitlines()[0]
    assert {row.arm for row in study_rows(study)} <= set(ARMS)


@pytest.mark.slow
def test_a_race_over_rates_that_is_killed_goes_on_without_the_search_being_said_again(
    base: RunConfig, done: Path, here: None, tmp_path: Path
) -> None:
    study = tmp_path / "study"
    with pytest.raises(PowerCutError):
        race(base, study, progress=StudyFalls(3))
    again, before = race(base, study, search=None), read_budget(done)
    assert before is not None
    assert (again.verdict.winners, again.verdict.steps_spent) == (before.verdict.winners, before.verdict.steps_spent)
    for file in done.rglob("scores.json"):
        assert_same_run(file.parent, study / file.parent.relative_to(done))


@pytest.mark.slow
def test_rates_are_arms_on_each_of_several_tasks_with_two_workers(
    base: RunConfig, tiny_task: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(tiny_task, tmp_path / "other")
    parts = Conditions.of(base, [str(tiny_task), str(other)])
    found = race(base, tmp_path / "study", 0.3, ["full", "head"], conditions=parts, execution=Execution(workers=2))
    assert found.arms == ("full:lr=0.0001", "full:lr=0.01", "head:lr=0.0001", "head:lr=0.01")
    assert 0 < found.verdict.steps_spent <= int(0.3 * 4 * 2 * 2 * 8)
    assert "full:<wbr>lr=0.01" in write_report(tmp_path / "study").html.read_text()


@pytest.mark.slow
def test_a_budget_on_ray_trains_the_same(base: RunConfig, done: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs gradgate[ray]")
    found, before = race(base, tmp_path / "study", execution=Execution(ray=RayCluster("local"))), read_budget(done)
    assert before is not None
    assert (found.verdict.winners, found.verdict.steps_spent) == (before.verdict.winners, before.verdict.steps_spent)


def test_other_rates_and_what_belongs_to_a_search_are_refused(base: RunConfig, done: Path, tmp_path: Path) -> None:
    study = Path(shutil.copytree(done, tmp_path / "study"))
    with pytest.raises(
        RunError, match=r"other settings as arms: lr=0\.0001; lr=0\.01\. Expected the same, got lr=0\.5"
    ):
        race(base, study, search=read_space(["lr=0.5"]))
    with pytest.raises(UsageError, match=r"prune=True and search_seeds=2: with a budget"):
        race(base, tmp_path / "new", search=read_space(["lr=1e-4,1e-2"], seeds=2, prune=True))
    with pytest.raises(UsageError, match=r"search='lr' has no effect on 'lora:r=2,lr=1e-3'"):
        race(base, tmp_path / "new", methods=["full", "lora:r=2,lr=1e-3"])
    assert not (tmp_path / "new").exists()


def test_a_study_that_searched_before_it_compared_takes_no_budget(base: RunConfig, tmp_path: Path) -> None:
    grid = Grid(tmp_path / "study", base, tuple(arms(["full", "head"])), (0,)).with_search(RATES.record())
    with pytest.raises(UsageError, match="was started with a search for settings before the comparison"):
        check_budgeted([grid], [])


def test_a_budget_without_a_rate_says_which_one_all_arms_have(base: RunConfig, tmp_path: Path) -> None:
    heard = Listens()
    with pytest.raises(UsageError, match="full is the only one"):
        race(base, tmp_path / "study", methods=["full"], search=None, progress=heard)
    (note,) = heard.notes
    assert note.startswith("lr= is not set, so arms without their own rate train with 5e-05")
    given = Listens()
    with pytest.raises(UsageError, match="full is the only one"):
        race(
            make_config(**base.model_dump(exclude_unset=True) | {"lr": 1e-3}),
            tmp_path / "study",
            methods=["full"],
            search=None,
            progress=given,
        )
    assert given.notes == []
