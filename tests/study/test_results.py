"""Reading a study folder back, whatever state it is in."""

from __future__ import annotations

import json

import pytest

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import read_progress
from gradgate.runs.records import Failure
from gradgate.runs.state import RunState
from gradgate.study.results import read_study
from support.study_folder import begin, fail, finish, pause, write_study


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_cells_follow_the_order_of_the_study(tmp_path):
    write_study(tmp_path, methods=("head", "full"), seeds=(3, 1), scores={"full": [0.5, 0.6]})
    fail(tmp_path, "head", 3)
    results = read_study(tmp_path)
    assert [(c.arm.name, c.seed, c.state) for c in results.cells] == [
        ("head", 3, "failed"),
        ("head", 1, "missing"),
        ("full", 3, "finished"),
        ("full", 1, "finished"),
    ]
    assert results.reference == "head"
    assert [results.count(status) for status in (RunState.FINISHED, RunState.FAILED, RunState.MISSING)] == [2, 1, 1]
    assert results.problems == ()


def test_a_finished_cell_holds_what_its_files_say(tmp_path):
    write_study(tmp_path, scores={"full": [0.5]}, tests=("en", "de"))
    cell = read_study(tmp_path).of("full")[0]
    assert cell.score("en") == 0.5
    assert cell.score("de") == 0.4
    assert cell.score("dev") == pytest.approx(0.51)
    assert cell.score("fr") is None
    assert cell.metrics("en") == {"macro_f1": 0.5, "loss": 0.5}
    assert cell.scores.cost.seconds_per_step == 0.020
    assert [record.step for record in cell.history] == [40, 80]
    assert cell.history[-1].metrics["macro_f1"] == pytest.approx(0.51)


def test_a_failed_cell_says_why(tmp_path):
    fail(write_study(tmp_path), "full", 0, "too hot", step=12)
    assert read_study(tmp_path).of("full")[0].failure == Failure("NonFiniteError", "too hot", 12)


def test_a_run_that_began_and_has_neither_scores_nor_error_is_missing(tmp_path):
    begin(write_study(tmp_path), "full", 0)
    assert read_study(tmp_path).of("full")[0].state == "missing"


def test_a_paused_cell_says_how_far_it_is_and_what_it_scored(tmp_path):
    folder = RunFolder(pause(write_study(tmp_path), "full", 1, score=0.6))
    results = read_study(tmp_path)
    cell = results.of("full")[1]
    assert (cell.state, str(cell.paused), cell.paused.score) == ("paused", "step 12 of 80", 0.6)
    assert dict(cell.paused.dev) == {10: 0.5, 12: 0.6}
    assert [record.step for record in cell.history] == [10]
    assert cell.score("dev") is None
    assert [results.count(status) for status in ("finished", "paused", "failed", "missing")] == [0, 1, 0, 5]
    folder.pauses_file.write_text("{")
    cell = read_study(tmp_path).of("full")[1]
    assert (cell.state, cell.paused) == ("failed", None)
    assert "pauses.json" in cell.failure.message


def test_a_run_that_failed_or_finished_after_a_pause_is_not_paused(tmp_path):
    write_study(tmp_path)
    for end, status in ((fail, "failed"), (lambda *which: finish(*which, 0.5), "finished")):
        pause(tmp_path, "full", 0)
        end(tmp_path, "full", 0)
        cell = read_study(tmp_path).of("full")[0]
        assert (cell.state, cell.paused) == (status, None)
    assert list(cell.progress.dev) == [12, 40, 80], "the score of the pause stays"


def test_scores_count_although_an_earlier_try_failed(tmp_path):
    write_study(tmp_path)
    fail(tmp_path, "full", 0)
    finish(tmp_path, "full", 0, 0.5)
    assert read_study(tmp_path).of("full")[0].state == "finished"


def test_methods_match_whatever_options_are_written_out(tmp_path):
    # 50 is the default interval, so that a run writes its method as "gradual".
    path = begin(write_study(tmp_path, methods=("full", "gradual:every=50")), "gradual:every=50", 0)
    path.joinpath("run.json").write_text(json.dumps({"config": {"method": "gradual", "seed": 0}}))
    path.joinpath("error.json").write_text(json.dumps({"type": "E", "message": "m", "step": None}))
    assert read_study(tmp_path).of("gradual:every=50")[0].state == "failed"


def test_a_run_that_failed_before_its_configuration_was_written_is_found_by_its_folder(tmp_path):
    write_study(tmp_path)
    path = tmp_path / "runs" / "gradual-every=40" / "seed-2"
    path.mkdir(parents=True)
    path.joinpath("error.json").write_text(json.dumps({"type": "ProcessDied", "message": "killed", "step": None}))
    assert read_study(tmp_path).of("gradual:every=40")[2].failure == Failure("ProcessDied", "killed")


@pytest.mark.parametrize(
    ("splits", "main"), [(("en", "test"), "test"), (("en", "de"), "en"), ((), "dev")], ids=["test", "first", "dev"]
)
def test_the_main_split(tmp_path, splits, main):
    write_study(tmp_path, scores={"full": [0.5]}, tests=splits)
    results = read_study(tmp_path)
    assert results.main_split == main
    assert results.test_splits == splits


def test_before_anything_has_finished_the_task_names_the_splits(tmp_path):
    assert read_study(write_study(tmp_path, tests=("en", "de"))).test_splits == ("en", "de")


def test_a_paused_run_whose_last_line_was_cut_off_is_still_paused(tmp_path):
    folder = RunFolder(pause(write_study(tmp_path), "full", 0, step=12))
    with folder.history_file.open("a") as file:
        file.write('{"step": 12, "spl')
    cell = read_study(tmp_path).of("full")[0]
    assert (cell.state, [record.step for record in cell.history]) == (RunState.PAUSED, [10])
    assert read_progress(folder).step == 12


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("scores.json", "{", r"scores\.json is damaged"),
        ("scores.json", '{"metric": "macro_f1"}', r"scores\.json is damaged: best_step is missing"),
        ("history.jsonl", '{"step": 1, "split": "dev"}\n{"st', r"history\.jsonl is damaged in line 2"),
        ("history.jsonl", "[]", r"history\.jsonl is damaged in line 1"),
        ("history.jsonl", None, r"history\.jsonl is missing although the run has finished"),
    ],
)
def test_a_damaged_file_fails_its_cell_and_no_other(tmp_path, file, content, reason):
    write_study(tmp_path, scores={"full": [0.5, 0.6]})
    path = read_study(tmp_path).cells[0].folder / file
    path.unlink() if content is None else path.write_text(content)
    first, second, _ = read_study(tmp_path).of("full")
    assert (first.state, second.state) == ("failed", "finished")
    with pytest.raises(RunError, match=reason):
        raise RunError(first.failure.message)


def test_a_damaged_error_file_is_still_a_failure(tmp_path):
    fail(write_study(tmp_path), "full", 0).joinpath("error.json").write_text("oops")
    cell = read_study(tmp_path).of("full")[0]
    assert cell.state == "failed"
    assert "error.json is damaged" in cell.failure.message


def test_a_damaged_configuration_fails_the_cell_that_its_folder_belongs_to(tmp_path):
    write_study(tmp_path)
    path = tmp_path / "runs" / "full" / "seed-0"
    path.mkdir(parents=True)
    path.joinpath("run.json").write_text("{}")
    results = read_study(tmp_path)
    assert results.of("full")[0].state == "failed"
    assert "run.json is damaged: config is missing" in results.of("full")[0].failure.message
    assert results.problems == ()


def test_runs_that_cannot_be_told_or_do_not_belong_are_named(tmp_path):
    write_study(tmp_path, scores={"full": [0.5]})
    for place, config in (("x/seed-0", {"method": "full", "seed": 0}), ("y/seed-0", {"method": "head", "seed": 0})):
        (tmp_path / "runs" / place).mkdir(parents=True)
        (tmp_path / "runs" / place / "run.json").write_text(json.dumps({"config": config}))
    (tmp_path / "runs" / "z" / "seed-0").mkdir(parents=True)
    (tmp_path / "runs" / "z" / "seed-0" / "run.json").write_text("oops")
    results = read_study(tmp_path)
    assert results.of("full")[0].score("test") == 0.5
    twin, other, damaged = results.problems
    assert twin.startswith("runs/x/seed-0 is left out: ")
    assert twin.endswith("holds the same method and seed.")
    assert other == "runs/y/seed-0 is left out: head with seed 0 is not part of this study."
    assert damaged.startswith("runs/z/seed-0 is left out: ")


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_score_that_is_no_number_fails_the_cell(tmp_path, value):
    write_study(tmp_path, scores={"full": [0.5, 0.6]})
    file = read_study(tmp_path).cells[0].folder / "scores.json"
    edit(file, tests={"test": {"macro_f1": value}})
    cell = read_study(tmp_path).cells[0]
    assert cell.state == "failed"
    assert f"macro_f1 on test is {value}, expected a finite number" in cell.failure.message


def test_runs_of_different_versions_or_devices_are_named(tmp_path):
    write_study(tmp_path, scores={"full": [0.5, 0.6]})
    folder = read_study(tmp_path).cells[0].folder
    edit(folder / "run.json", versions={"torch": "2.6.0"})
    cost = json.loads((folder / "scores.json").read_text())["cost"]
    edit(folder / "scores.json", cost={**cost, "device": "cuda"})
    devices, versions = read_study(tmp_path).problems
    assert devices == "Runs used different devices, so times are not comparable: cuda (1 run), cpu (1 run)."
    assert versions == "Runs used different versions of torch: 2.6.0 (1 run), 2.13.0 (1 run)."


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"holds no study: .*study\.json is missing"):
        read_study(tmp_path)


@pytest.mark.parametrize("change", [{"methods": []}, {"seeds": []}, {"task": 3}], ids=["methods", "seeds", "task"])
def test_a_damaged_study_is_refused(tmp_path, change):
    edit(write_study(tmp_path) / "study.json", **change)
    with pytest.raises(RunError, match=r"study\.json is damaged"):
        read_study(tmp_path)
