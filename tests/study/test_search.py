"""Searching settings: what is tried, what is chosen, and that the test split is left alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError, UsageError
from gradgate.report import write_report
from gradgate.report.sections.search import search_notes
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.runs.progress import RunProgress
from gradgate.runs.state import RunState
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.grid import Grid
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.search import advance, all_runs, check, read_space
from gradgate.study.status import open_queue, read_status
from gradgate.study.study_file import SearchResult, read_study_file
from gradgate.study.workers.queue import Queue
from gradgate.study.workers.store import open_store
from support.trained_here import trained_here


class HeardStudy(SilentStudy):
    """Keeps what a user is told."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_lists_are_tried_in_every_combination() -> None:
    space = read_space(["lr=1e-5, 2e-5", "batch-size=8,16"])
    assert space.settings == (
        {"lr": 1e-5, "batch_size": 8},
        {"lr": 1e-5, "batch_size": 16},
        {"lr": 2e-5, "batch_size": 8},
        {"lr": 2e-5, "batch_size": 16},
    )
    assert space.seeds == (1000,)


def test_ranges_are_drawn_from_the_same_at_each_call() -> None:
    space = read_space(["lr=1e-5..1e-3", "warmup=0..0.5", "batch_size=4..64", "schedule=linear,cosine"], 40, seeds=2)
    assert space == read_space(["lr=1e-5..1e-3", "warmup=0..0.5", "batch_size=4..64", "schedule=linear,cosine"], 40, 2)
    assert space.settings[:8] == read_space(list(space.texts), 8).settings
    rates = sorted(setting["lr"] for setting in space.settings)
    assert rates[0] >= 1e-5
    assert rates[-1] <= 1e-3
    assert 5e-5 < rates[20] < 2e-4  # half of them below the middle of the logarithm
    assert {setting["schedule"] for setting in space.settings} == {"linear", "cosine"}
    assert all(4 <= setting["batch_size"] <= 64 for setting in space.settings)
    assert len(space.settings) == 40
    assert len(space.seeds) == 2


def test_no_setting_is_drawn_twice() -> None:
    assert {setting["batch_size"] for setting in read_space(["batch_size=8..10"], 3).settings} == {8, 9, 10}
    assert len(read_space(["batch_size=8..10"], 10).settings) == 3


@pytest.mark.parametrize(
    ("texts", "trials", "message"),
    [
        (["seed=1,2"], None, "'seed' cannot be searched"),
        (["lrate=1e-5"], None, "cannot be searched"),
        (["lr=1e-5", "lr=2e-5"], None, "gives 'lr' twice"),
        (["lr=fast"], None, "lr=fast"),
        (["lr=-1,1"], None, "lr=-1"),
        (["lr=1e-5..1e-4"], None, "needs trials="),
        (["lr=1e-5,1e-4"], 4, "lists are tried in full"),
        (["lr=1e-4..1e-5"], 4, "is not a range of numbers"),
        (["lr=1e-3,0.001"], None, "gives lr the value 0.001 twice"),
        (["lr="], None, "'lr=' has an empty value"),
        (["lr=1e-5..1e-4..1e-3"], 4, "has 3 ends. Expected two: 'lr=1e-5..1e-3'"),
        (["lr=1e-5..1e-4"], 0, "trials=0: expected 1 or more"),
    ],
)
def test_what_cannot_be_searched_is_wrong_usage(texts: list[str], trials: int | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_space(texts, trials)


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 4})


def searching(base: RunConfig, study: Path, rates: str, methods: list[str]) -> list[str]:
    """Compare methods with a search for a rate; return the notes."""
    heard = HeardStudy()
    request = StudyRequest(base, methods, [0], search=read_space([f"lr={rates}"]))
    with trained_here():
        assert compare(request, study, heard).failed == 0
    return heard.notes


@pytest.fixture(scope="module")
def lengthened(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A study whose search was given a second rate, and the notes on it. Files named mark were there before."""
    study = tmp_path_factory.mktemp("lengthened") / "study"
    searching(base, study, "5e-4", ["full", "head"])
    for run in ("search/full/lr=0.0005/seed-1000", "runs/full/seed-0", "runs/head/seed-0"):
        (study / run / "mark").touch()
    return study, searching(base, study, "1e-9,5e-4", ["full"])


def test_each_method_takes_its_best_setting_on_dev_and_no_search_looks_at_test(
    base: RunConfig, lengthened: tuple[Path, list[str]], draw_only: Callable[..., None]
) -> None:
    draw_only()
    study, _ = lengthened
    record = json.loads((study / "study.json").read_text())
    results = record["search"]["results"]["full"]
    searched = {rate: study / f"search/full/lr={rate}/seed-1000/scores.json" for rate in (1e-9, 5e-4)}
    scores = {rate: json.loads(file.read_text()) for rate, file in searched.items()}
    dev = {rate: found["dev"]["accuracy"] for rate, found in scores.items()}
    assert {result["setting"]["lr"]: result["dev"] for result in results} == dev
    assert len(set(dev.values())) == 2
    best = max(dev, key=lambda rate: dev[rate])
    assert results[0]["setting"] == record["search"]["chosen"]["full"] == {"lr": best}
    assert all(found["tests"] == {} for found in scores.values())
    assert json.loads((study / "runs/full/seed-0/run.json").read_text())["config"]["lr"] == best
    assert json.loads((study / "runs/full/seed-0/scores.json").read_text())["tests"]
    page = write_report(study).html.read_text()
    assert "Searched before the comparison: lr=1e-9,5e-4." in page
    assert "the search scored no test split" in page
    with pytest.raises(
        RunError, match=r"started with another search: lr=1e-9,5e-4, 1 seed each, without prune\. .*can be added"
    ):
        compare(StudyRequest(base, ["full"], [0], search=read_space(["lr=1e-9"])), study, SilentStudy())


@pytest.mark.usefixtures("here")
def test_a_method_whose_search_fails_is_a_failure_that_says_so(settings: dict[str, Any], tmp_path: Path) -> None:
    base = make_config(**settings | {"steps": 4})
    study = tmp_path / "study"
    assert compare(
        StudyRequest(base, ["full"], [0], search=read_space(["lr=1e30"])), study, SilentStudy()
    ) == RunCounts(0, 1)
    error = json.loads((study / "runs/full/seed-0/error.json").read_text())
    assert "No run of its search has finished" in error["message"]
    assert read_status(study).to_follow == 0


@pytest.mark.usefixtures("here")
def test_a_search_that_failed_is_decided_after_a_retry(settings: dict[str, Any], tmp_path: Path) -> None:
    request = StudyRequest(make_config(**settings | {"steps": 2}), ["head"], [0], search=read_space(["lr=1e-9"]))
    study = tmp_path / "study"
    assert compare(request, study, SilentStudy()) == RunCounts(1, 0)
    request = replace(request, methods=["head", "full"], search=None)  # a method that comes later is searched too
    blocked = study / "search/full/lr=1e-09/seed-1000"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("no folder, so that the run fails")
    assert compare(request, study, SilentStudy()) == RunCounts(1, 1)
    blocked.unlink()
    queue = open_queue(study)
    assert [run.label for run in queue.retry()] == ["full seed 1000, search lr=1e-09"]
    queue.store.close()
    assert compare(request, study, SilentStudy()) == RunCounts(2, 0)
    assert not (study / "runs/full/seed-0/error.json").exists()


@pytest.fixture(scope="module")
def searched(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one method after its search of two rates."""
    base, folder = make_config(**settings | {"steps": 2}), tmp_path_factory.mktemp("searched") / "study"
    with trained_here():
        compare(StudyRequest(base, ["full"], [0], search=read_space(["lr=1e-9,1e-8"])), folder, SilentStudy())
    return folder


@pytest.fixture
def ended(settings: dict[str, Any], searched: Path, tmp_path: Path) -> Grid:
    """A study whose search has ended, and whose choice is still to be made."""
    space = read_space(["lr=1e-9,1e-8"]).record()
    base = make_config(**settings | {"steps": 2})
    grid = Grid.of(tmp_path / "study", base, [read_arm("full")], [0]).with_search(space)
    made = read_study_file(searched)
    shutil.copytree(searched / "search", grid.path / "search")
    grid = grid.write(made.task, made.model, {})
    queue = Queue(open_store(grid.path))
    queue.add(all_runs([grid]))
    queue.store.close()
    return grid


def test_a_search_that_goes_on_says_so(ended: Grid) -> None:
    _, note = search_notes(read_study_file(ended.path))
    assert note == "full: its search continues; its runs, if any, have the setting that it had before."


@pytest.mark.parametrize(("dev", "is_noted"), [((0.9, 0.8), True), ((0.9, 0.9), False)])
def test_a_rate_at_an_end_is_noted_unless_others_are_as_good(
    ended: Grid, dev: tuple[float, float], is_noted: bool
) -> None:
    record = read_study_file(ended.path)
    assert record.search is not None
    results = tuple(SearchResult(setting, score) for setting, score in zip(record.search.settings, dev, strict=True))
    search = replace(record.search, results={"full": results}, chosen={"full": results[0].setting})
    notes = search_notes(replace(record, search=search))
    assert any("full: the lowest rate tried, 1e-09, was the best" in note for note in notes) is is_noted
    assert any(note.startswith("full: other settings reached the same on dev") for note in notes) is not is_noted


def test_a_probe_whose_settings_all_tie_is_not_noted(ended: Grid) -> None:
    record = read_study_file(ended.path)
    assert record.search is not None
    results = tuple(SearchResult(setting, 0.9) for setting in record.search.settings)
    tied = replace(record.search, results={"full": results, "probe": results}, chosen={})
    (note,) = (
        note
        for note in search_notes(replace(record, methods=("full", "probe"), search=tied))
        if "reached the same on dev" in note
    )
    assert note.startswith("full: ")


def waiting(queue: Queue) -> list[str]:
    return [run.label for run in queue.runs() if run.state is RunState.WAITING]


def test_status_counts_the_runs_that_wait_for_a_choice(ended: Grid) -> None:
    status = read_status(ended.path)
    assert (len(status.runs), status.to_follow) == (2, 1)
    assert status.record()["to_follow"] == 1
    queue = Queue(open_store(ended.path))
    assert advance(queue)
    status = read_status(ended.path)
    assert (len(status.runs), status.to_follow) == (3, 0)


def test_two_workers_that_decide_an_arm_together_lose_no_run(ended: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (Queue(open_store(ended.path)) for _ in range(2))
    read = Grid.read
    decided: list[bool] = []

    def read_late(path: Path) -> Grid:
        grid = read(path)
        if not decided:
            decided.append(False)
            decided[0] = advance(first)
        return grid

    monkeypatch.setattr(Grid, "read", read_late)
    advance(second)
    assert decided == [True]
    assert waiting(first) == ["full seed 0"]


def test_what_a_killed_worker_chose_is_queued_by_the_next(ended: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue(open_store(ended.path))
    with monkeypatch.context() as context:
        context.setattr(Queue, "add", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            advance(queue)
    assert Grid.read(ended.path).search.chosen.keys() == {"full"}
    assert waiting(queue) == []
    assert advance(queue)
    assert waiting(queue) == ["full seed 0"]
    assert not advance(queue)


@pytest.mark.slow
def test_a_search_may_end_poor_runs_early_and_still_chooses(
    settings: dict[str, Any], tmp_path: Path, draw_only: Callable[..., None]
) -> None:
    draw_only()
    base = make_config(**settings | {"steps": 12, "eval_every": 4})
    study, space = tmp_path / "study", read_space(["lr=2e-3,1e-3,1e-9,1e-10"], prune=True)
    assert compare(StudyRequest(base, ["full"], [0], search=space), study, SilentStudy()) == RunCounts(1, 0)
    states = {run.label: run.state for run in read_status(study).runs}
    assert len(states) == 5
    assert set(states.values()) <= {"finished", "pruned"}
    ended = json.loads((study / "study.json").read_text())["search"]["results"]["full"]
    assert len(ended) == list(states.values()).count("finished") - 1
    assert "were stopped early" in write_report(study).html.read_text()


def test_a_longer_search_keeps_what_is_there_and_sets_runs_at_a_worse_setting_aside(
    base: RunConfig, lengthened: tuple[Path, list[str]]
) -> None:
    study, notes = lengthened
    assert any("its earlier runs are kept in superseded/" in note for note in notes)
    chosen = json.loads((study / "study.json").read_text())["search"]["chosen"]
    assert {arm: setting["lr"] for arm, setting in chosen.items()} == {"full": 1e-9, "head": 5e-4}  # head is equal
    marked = [study / name for name in ("search/full/lr=0.0005/seed-1000", "runs/full/seed-0", "runs/head/seed-0")]
    assert [(folder / "mark").exists() for folder in marked] == [True, False, True]
    assert (study / "superseded/full/lr=0.0005/seed-0/mark").exists()
    assert json.loads((study / "runs/full/seed-0/run.json").read_text())["config"]["lr"] == 1e-9
    assert {run.state for run in read_status(study).runs} == {"finished"}
    assert json.loads((study / "study.json").read_text())["search"]["added"] == 1
    notes = search_notes(read_study_file(study))
    assert "Added after the study had begun: the last 1." in notes[0]
    before = (study / "study.json").read_bytes()
    assert searching(base, study, "1e-9,5e-4", ["full"]) == searching(base, study, "5e-4,1e-9", ["head"])
    assert (study / "study.json").read_bytes() == before


@pytest.mark.slow
def test_runs_that_wait_for_the_choice_of_a_longer_search_take_it(settings: dict[str, Any], tmp_path: Path) -> None:
    class StopsAt(HeardStudy):
        def begin_run(self, label: str) -> RunProgress:
            if label.endswith("seed 1"):
                os.kill(os.getpid(), signal.SIGINT)
            return super().begin_run(label)

    study = tmp_path / "study"
    base = make_config(**settings | {"steps": 20})
    request = StudyRequest(base, ["full"], [0, 1], search=read_space(["lr=5e-3"]))
    with pytest.raises(InterruptedRunError):
        compare(request, study, StopsAt())
    longer = replace(request, search=read_space(["lr=5e-3,1e-9"]))
    assert compare(longer, study, SilentStudy()) == RunCounts(2, 0)
    rates = {json.loads((study / f"runs/full/seed-{seed}/run.json").read_text())["config"]["lr"] for seed in (0, 1)}
    assert rates == {1e-9}
    assert (study / "superseded/full/lr=0.005/seed-0/scores.json").exists()


@pytest.mark.usefixtures("here")
def test_settings_count_by_the_seeds_that_finished_if_none_has_all(
    settings: dict[str, Any], searched: Path, tmp_path: Path
) -> None:
    study = Path(shutil.copytree(searched, tmp_path / "study"))
    request = StudyRequest(make_config(**settings | {"steps": 2}), ["full"], [0], search=read_space(["lr=1e-9,1e-8"]))
    before = json.loads((study / "study.json").read_text())["search"]["results"]
    for rate in ("1e-09", "1e-08"):
        (study / f"search/full/lr={rate}/seed-1001").write_text("no folder, so that the run fails")
    longer = replace(request, search=read_space(["lr=1e-9,1e-8"], seeds=2))
    assert compare(longer, study, SilentStudy()) == RunCounts(1, 0)
    assert json.loads((study / "study.json").read_text())["search"]["results"] == before


@pytest.mark.usefixtures("here")
def test_further_seeds_of_a_search_open_its_choice_again(
    settings: dict[str, Any], searched: Path, tmp_path: Path
) -> None:
    study = Path(shutil.copytree(searched, tmp_path / "study"))

    def found() -> tuple[int, int]:
        results = json.loads((study / "study.json").read_text())["search"]["results"]["full"]
        return len(list(study.glob("search/full/*/seed-*/scores.json"))), len(results)

    assert found() == (2, 2)
    space = read_space(["lr=1e-9,1e-8"], seeds=2)
    request = StudyRequest(make_config(**settings | {"steps": 2}), ["full"], [0], search=space)
    assert compare(request, study, SilentStudy()) == RunCounts(1, 0)
    assert found() == (4, 2)


@pytest.mark.parametrize("text", ["full:tapt_epochs=2", "houlsby:tapt_steps=5"])
def test_an_arm_with_a_length_of_pre_training_has_none_to_search(text: str, tmp_path: Path) -> None:
    grid = Grid.of(tmp_path, make_config(), [read_arm(text)], [0])
    with pytest.raises(UsageError, match="search='tapt_steps' has no effect on"):
        check(grid.with_search(read_space(["tapt_steps=2,4"]).record()))
