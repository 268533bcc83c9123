"""Adapters in a study: the grid, what existing studies keep, and what the table and the export say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForSequenceClassification

from gradgate import adapters
from gradgate.errors import AdapterError, MethodError, RunError, UsageError
from gradgate.report import write_report
from gradgate.report.sections.main_table import main_table
from gradgate.report.sections.scores import ScoresSection
from gradgate.report.study_summary import summarize_study
from gradgate.runs.records import ModelRecord, TaskRecord
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.export import records
from gradgate.study.forecast import forecast
from gradgate.study.grid import Grid
from gradgate.study.planning import Execution, StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from support.arms import adapters as read
from support.arms import arms, names
from support.run_folders import files
from support.study_folder import write_study
from support.trained_here import trained_here

TASK = TaskRecord(name="moods", kind="classification", metric="accuracy", fingerprint="abc")
SMALL = "houlsby:size=4,lr=1e-3"


def written(path: Path, methods: list[str], adapters: list[str | None]) -> Grid:
    grid = Grid.of(path, make_config(), arms(methods), [0, 1], read(adapters))
    grid.write(TASK, ModelRecord("tiny", 1), {})
    return grid


def test_the_grid_is_adapters_times_methods_times_seeds(tmp_path: Path) -> None:
    grid = written(tmp_path, ["full", "gradual:every=5"], ["none", "houlsby:size=64"])
    assert [run.label for run in grid.runs()][:4] == [
        "full seed 0",
        "gradual:every=5 seed 0",
        "houlsby:size=64 seed 0",
        "houlsby:size=64 + gradual:every=5 seed 0",
    ]
    assert len(grid.runs()) == 8
    places = {run.folder.path.relative_to(tmp_path).as_posix() for run in grid.runs()}
    assert {"runs/full/seed-0", "runs/houlsby-size=64__full/seed-1"} <= places
    assert len(places) == 8


def test_a_study_without_adapters_has_the_folders_it_always_had(tmp_path: Path) -> None:
    write_study(tmp_path, methods=("full", "head"), seeds=(0,))
    assert "adapters" not in json.loads((tmp_path / "study.json").read_text())
    results = read_study(tmp_path)
    assert results.study.adapters == (None,)
    assert [cell.arm.name for cell in results.cells] == ["full", "head"]


def test_texts_are_learned_by_the_adapters_of_a_study_or_by_the_model_alone(tmp_path: Path) -> None:
    base = make_config(tapt_steps=2)
    both = Grid.of(tmp_path / "both", base, arms(["full"]), [0], read(["none", "houlsby"]))
    assert [run.config.tapt_steps for run in both.runs()] == [None, 2]
    alone = Grid.of(tmp_path / "alone", base, arms(["full", "head"]), [0])
    assert [run.config.tapt_steps for run in alone.runs()] == [2, 2]
    alone.write(TASK, ModelRecord("tiny", 1), {})
    assert Grid.of(tmp_path / "alone", base, arms(["mixout"]), [0]).arms[-1].name == "mixout"
    with pytest.raises(RunError, match=r"pretrain the model itself.*got 'houlsby': use another out="):
        Grid.of(tmp_path / "alone", base, arms(["full"]), [0], read(["none", "houlsby"]))


def test_adapters_are_added_later_and_none_is_lost(tmp_path: Path) -> None:
    written(tmp_path, ["full"], [])
    assert written(tmp_path, ["full"], ["houlsby"]).adapters == tuple(read([None, "houlsby"]))
    # The same adapter in another spelling, and the model itself, are there already.
    assert written(tmp_path, ["head"], ["houlsby:size=64", "none"]).adapters == tuple(read([None, "houlsby"]))
    assert written(tmp_path, ["head"], ["houlsby:lr=1e-3"]).adapters == tuple(
        read([None, "houlsby", "houlsby:lr=1e-3"])
    )
    assert names(written(tmp_path, ["head"], []).methods) == ["full", "head"]


def test_a_study_of_adapters_alone_stays_one(tmp_path: Path) -> None:
    assert written(tmp_path, ["full"], ["pfeiffer"]).adapters == tuple(read(["pfeiffer"]))
    assert written(tmp_path, ["head"], []).adapters == tuple(read(["pfeiffer"]))


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 4, "keep_model": False})


@pytest.fixture(scope="module")
def done(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapted") / "study"
    with trained_here():
        compare(StudyRequest(base, ["full"], [0]), folder, SilentStudy())
        before = files(folder / "runs")
        assert compare(StudyRequest(base, ["full"], [0], adapters=[SMALL]), folder, SilentStudy()) == RunCounts(
            finished=2, failed=0
        )
    after = files(folder / "runs")
    assert {name: after[name] for name in before} == before
    return folder


@pytest.mark.slow
def test_fine_tuning_and_adapters_stand_side_by_side(done: Path) -> None:
    table = main_table(summarize_study(read_study(done)))
    assert [row["method"] for row in table.records] == ["full", SMALL]
    full, small = table.records
    assert full["reference"] == small["reference"] == "full"
    assert small["difference"] is not None
    assert isinstance(full["bytes_stored"], int)
    assert isinstance(small["bytes_stored"], int)
    assert small["bytes_stored"] < full["bytes_stored"] / 8
    titles = {column.key: column.title for column in table.columns}
    assert titles["stored"] == "Stored per task"
    shown = dict(zip(titles, table.rows[1], strict=True))
    assert shown["stored"].value == small["bytes_stored"]


def test_the_page_and_its_figures_name_the_adapter(done: Path, draw_only: Callable[..., None]) -> None:
    draw_only(ScoresSection)
    report = write_report(done)
    assert "houlsby:<wbr>size=4,<wbr>lr=1e-3" in report.html.read_text()
    assert any(SMALL in path.read_text() for path in report.figures)


def test_the_export_has_adapter_and_method_apart(done: Path) -> None:
    told = records(done)
    assert [(row["adapter"], row["method"], row["status"]) for row in told] == [
        (None, "full", "finished"),
        (SMALL, "full", "finished"),
    ]


def test_studies_from_before_bytes_were_counted_have_no_column_for_them(tmp_path: Path) -> None:
    write_study(tmp_path, scores={"full": [0.5, 0.6, 0.7]})
    table = main_table(summarize_study(read_study(tmp_path)))
    assert "stored" not in {column.key for column in table.columns}
    assert table.records[0]["bytes_stored"] is None


@pytest.mark.parametrize(
    ("adapter", "message"),
    [("houlsbi", r"Did you mean 'houlsby'"), ("pfeiffer:leave_out=7", "leave_out names layer 7, but the model has")],
)
def test_an_adapter_that_cannot_work_is_refused_before_anything_is_written(
    base: RunConfig, adapter: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises((AdapterError, UsageError), match=message):
        compare(StudyRequest(base, ["full"], [0], adapters=[adapter]), tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("text", "adapter", "method"),
    [
        ("pfeiffer+inv:reduction=2 + gradual:every=4", "pfeiffer+inv:reduction=2", "gradual:every=4"),
        ("pfeiffer+inv", "pfeiffer+inv", "full"),
        ("pfeiffer + head", "pfeiffer", "head"),
        ("lora:r=8,lr=1e-3+graddrop:p=0.2 + layerwise-lr", "lora:r=8,lr=1e-3", "graddrop:p=0.2+layerwise-lr"),
        ("graddrop:p=0.2 + layerwise-lr", None, "graddrop:p=0.2+layerwise-lr"),
    ],
)
def test_an_arm_is_an_adapter_and_a_method(text: str, adapter: str | None, method: str) -> None:
    arm = read_arm(text)
    assert (arm.adapter and str(arm.adapter), str(arm.method)) == (adapter, method)
    assert read_arm(arm.name) == arm


def test_a_method_with_an_adapter_of_its_own_is_not_crossed(tmp_path: Path) -> None:
    methods = ["full", "lora: r=8", "graddrop", "houlsby:size=4 + gradual:every=5", "lora:r=8+full"]
    grid = written(tmp_path, methods, [])
    labels = ["full", "graddrop", "lora:r=8", "houlsby:size=4 + gradual:every=5"]
    assert names(grid.arms) == labels
    assert names(Grid.read(tmp_path).arms) == labels
    assert grid.runs()[2].config.adapter == make_config(adapter="lora:r=8").adapter
    assert names(written(tmp_path, ["dora"], []).arms) == [*labels, "dora"]


def test_methods_and_their_own_adapters_stand_beside_those_that_are_crossed(tmp_path: Path) -> None:
    grid = written(tmp_path, ["full", "head", "ia3"], ["none", "pfeiffer"])
    assert names(grid.arms) == ["full", "head", "pfeiffer", "pfeiffer + head", "ia3"]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("lora:rank=8,size=3,r", AdapterError, "lora"),
        ("houlsby:size=4 + gradul", MethodError, "gradual"),
        ("loar:r=8", MethodError, "loar"),
    ],
)
def test_a_wrong_part_of_an_arm_is_named(text: str, error: type[Exception], message: str, tmp_path: Path) -> None:
    with pytest.raises((error, UsageError), match=message):
        written(tmp_path, ["full", text], [])


def test_a_study_of_methods_with_their_own_adapters_alone(tmp_path: Path) -> None:
    texts = ["lora:r=8", "dora:r=8"]
    assert names(written(tmp_path, texts, []).arms) == texts


@pytest.fixture
def english(settings: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """Settings with a language adapter for the source language, and with it alone."""
    model = AutoModelForSequenceClassification.from_pretrained(settings["model"])
    adapters.add(model, "lang", "pfeiffer+inv", train=False)
    adapters.save(model, "lang", tmp_path / "adapters/en", head=False)
    return settings | {"language_adapters": f"{tmp_path}/adapters/{{language}}", "steps": 2}


@pytest.mark.usefixtures("here")
def test_arms_with_an_adapter_are_trained_on_a_language_adapter(english: dict[str, Any], tmp_path: Path) -> None:
    comparison = StudyRequest(make_config(**english), ["full"], [0], adapters=["none", "pfeiffer"])
    assert compare(comparison, tmp_path / "study", SilentStudy()) == RunCounts(2, 0)
    own = {
        path.parts[-3]: json.loads(path.read_text())["config"]["language_adapters"]
        for path in (tmp_path / "study").glob("runs/*/*/run.json")
    }
    assert own == {"full": None, "pfeiffer__full": english["language_adapters"]}
    adapted = replace(comparison, adapters=["pfeiffer"])
    planned = forecast(adapted, tmp_path / "planned", SilentStudy(), Execution())
    assert [(arm.label, arm.trouble) for arm in planned.arms] == [("pfeiffer", None)]
    unstacked = replace(adapted, base=make_config(**english | {"language_adapters": None}))
    without = forecast(unstacked, tmp_path / "alone", SilentStudy(), Execution())
    stacked, alone = (each.arms[0].peak_bytes for each in (planned, without))
    assert stacked is not None
    assert alone is not None
    assert stacked > alone


@pytest.mark.usefixtures("here")
def test_a_study_does_not_go_on_with_other_language_adapters(english: dict[str, Any], tmp_path: Path) -> None:
    comparison = StudyRequest(make_config(**english), ["full"], [0], adapters=["pfeiffer"])
    assert compare(comparison, tmp_path / "study", SilentStudy()) == RunCounts(1, 0)
    (run_file,) = (tmp_path / "study").glob("runs/*/*/run.json")
    study = json.loads((tmp_path / "study/study.json").read_text())
    assert json.loads(run_file.read_text())["language_adapters"] == study["language_adapters"]
    assert list(study["language_adapters"]) == ["en"]
    assert compare(comparison, tmp_path / "study", SilentStudy()) == RunCounts(1, 0)
    model = AutoModelForSequenceClassification.from_pretrained(english["model"])
    adapters.add(model, "lang", "pfeiffer+inv", train=False, seed=1)
    adapters.save(model, "lang", tmp_path / "adapters/en", head=False)
    with pytest.raises(RunError, match=r"started with other language adapters: those for en in .* have changed since"):
        compare(replace(comparison, seeds=[0, 1]), tmp_path / "study", SilentStudy())


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        ([], {}, "there is no adapter="),
        (["pfeiffer", "par_bn"], {}, "cannot be combined with adapter=par_bn: it is a parallel adapter"),
        (["pfeiffer"], {"source": "de"}, r"nothing in .* says that its rows are in de"),
        (["pfeiffer"], {"task": "cola+sst2", "source": None}, r"task='cola\+sst2' is several"),
    ],
)
def test_a_comparison_without_a_stack_is_refused_before_its_runs(
    english: dict[str, Any], given: list[str | None], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    comparison = StudyRequest(make_config(**english | changes), ["full"], [0], adapters=given)
    with pytest.raises(UsageError, match=message):
        compare(comparison, tmp_path / "study", SilentStudy())
    assert not (tmp_path / "study").exists()


def test_a_length_that_adapters_share_makes_no_two_arms_of_the_model_equal(tmp_path: Path) -> None:
    methods = ["full", "full:tapt_steps=5", "houlsby"]
    grid = Grid.of(tmp_path, make_config(tapt_steps=5), arms(methods), [0])
    assert [arm.name for arm in grid.arms] == methods
    assert [run.config.tapt is not None for run in grid.runs()] == [False, True, True]


def test_a_length_of_pre_training_of_one_arm_is_for_this_arm_alone(tmp_path: Path) -> None:
    methods = ["full", "full:tapt_steps=7", "houlsby", "houlsby:tapt_steps=9"]
    base = make_config(tapt_epochs=2, tapt_batch=4)
    grid = Grid.of(tmp_path / "shared", base, arms(methods), [0])
    every = [run.config.tapt for run in grid.runs()]
    assert every == [
        None,
        {"steps": 7, "epochs": None, "batch_size": 4},
        {"steps": None, "epochs": 2, "batch_size": 4},
        {"steps": 9, "epochs": None, "batch_size": 4},
    ]
    assert [run.config.tapt_batch for run in grid.runs()] == [None, 4, 4, 4]
