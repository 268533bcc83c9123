"""Damaged studies and hostile studies: each ends with a message, and nothing is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError, StoreError, UsageError
from gradgate.runs.progress import RunProgress, Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.compare import RunCounts, compare
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.export import records
from gradgate.study.grid import Grid
from gradgate.study.planning import StudyRequest
from gradgate.study.pooled import read_pooled
from gradgate.study.progress import SilentStudy
from gradgate.study.results import read_study
from gradgate.study.search import read_space
from gradgate.study.status import open_queue, read_status
from gradgate.study.workers.worker import join
from support.arms import arms, names
from support.crossed import some_fast
from support.run_folders import assert_same_run
from support.study_folder import fail, write_study
from support.trained_here import trained_here

Study = Callable[[Path], object]


class Notes(SilentStudy):
    """Keeps what a person would read."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def queued(folder: Path, **settings: Any) -> Path:
    """A study with a database and nothing trained, as its study.json makes it."""
    write_study(folder, methods=("full", "head"), seeds=(0,))
    edit(folder / "study.json", settings=make_config(**settings).record() if settings else {})
    open_queue(folder).store.close()
    return folder


# study.json


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"methods": None}, "methods"),
        ({"task": None}, "task"),
        ({"model": None}, "model"),
        ({"seeds": None}, "seeds"),
        ({"seeds": "all"}, "seeds"),
        ({"settings": None}, "settings"),
        ({"settings": [1]}, "settings"),
        ({"adapters": None}, "adapters"),
        ({"adapters": []}, "adapter"),
        ({"search": 3}, "search"),
        ({"search": {"space": [], "settings": [], "seeds": [], "chosen": None}}, "search.chosen"),
        ({"methods": [None]}, "methods.0"),
        ({"task": {"name": "toy"}}, "task.kind"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else value,
)
@pytest.mark.parametrize(
    "read",
    [
        lambda folder: Grid.of(folder, make_config(), arms(["full"]), [0]),
        Grid.read,
        read_study,
        read_status,
        records,
        lambda folder: join(folder, None, SilentStudy()),
    ],
    ids=["compare", "worker", "report", "status", "export", "join"],
)
def test_a_damaged_study_file_is_named_with_the_field(
    change: dict[str, Any], field: str, read: Study, tmp_path: Path
) -> None:
    edit(write_study(tmp_path) / "study.json", **change)
    before = (tmp_path / "study.json").read_bytes()
    with pytest.raises(RunError, match=rf"study\.json is damaged: .*{field}"):
        read(tmp_path)
    assert (tmp_path / "study.json").read_bytes() == before
    assert not (tmp_path / "study.db").exists()


def test_settings_that_do_not_exist_are_named_with_their_file(tmp_path: Path) -> None:
    edit(write_study(tmp_path) / "study.json", settings={"lr": 1e-5, "speed": 3})
    with pytest.raises(RunError, match=r"study\.json has settings that cannot be used: There is no setting 'speed'"):
        open_queue(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "scores.json", "history.jsonl", "error.json"])
@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "\x00", '{"config": {"method": 3, "seed": 0}}', '{"config": null}', "[" * 50_000, "1e999", None],
    ids=["empty", "list", "no field", "null byte", "number for a method", "no config", "deep", "infinite", "folder"],
)
def test_one_bad_run_is_shown_with_its_reason_and_the_others_are_read(
    name: str, content: str | None, tmp_path: Path
) -> None:
    study = write_study(tmp_path, methods=("full", "head"), seeds=(0, 1), scores={"full": [0.5, 0.6], "head": [0.6]})
    fail(study, "head", 1)
    _use_the_folders_of_methods(study)
    file = study / "runs" / ("head/seed-1" if name == "error.json" else "full/seed-0") / name
    file.unlink()
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    cells = {(cell.arm.name, cell.seed): cell for cell in read_study(study).cells}
    bad = cells["head", 1] if name == "error.json" else cells["full", 0]
    if (name, content) == ("history.jsonl", ""):  # a history without a line is one
        assert (bad.state, bad.history) == ("finished", ())
        return
    assert bad.state in ("failed", "missing")
    if bad.failure is not None:
        assert name in bad.failure.message
    else:  # a folder in the place of a file is no file
        assert content is None
    assert (cells["full", 1].state, cells["head", 0].state) == ("finished", "finished")
    assert len(records(study)) == 4


def test_a_part_with_a_damaged_study_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    parts = Conditions((TaskChoice("a"), TaskChoice("b")), ("toy",))
    (tmp_path / "parts.json").write_text(json.dumps({"tasks": [{"task": "a"}, {"task": "b"}], "models": ["toy"]}))
    for path, name in zip(parts.paths(tmp_path), "ab", strict=True):
        write_study(path, scores={"full": [0.5]}, name=name)
    edit(parts.paths(tmp_path)[0] / "study.json", task=None)
    results = read_pooled(tmp_path)
    assert [name for name, _ in results.parts] == ["b"]
    assert results.problems[0].startswith("A part of this study is left out: ")
    assert "study.json is damaged: task" in results.problems[0]


# what is asked for


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([99999999999], r"Seed 99999999999 is out of range: expected 0 to 4294967295"),
        ([-1], r"Seed -1 is out of range"),
        (range(99_999), r"2 methods with 99999 seeds are 199,998 runs, more than the 10,000 that a study can hold"),
    ],
    ids=["a seed beyond 32 bits", "a negative seed", "too many seeds"],
)
def test_seeds_beyond_the_limit_are_refused(seeds: list[int], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        Grid.of(tmp_path / "study", make_config(), arms(["full", "head"]), seeds)
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("texts", "trials", "seeds"),
    [(["lr=1e-5..1e-4"], 99_999_999, 1), (["lr=1e-5,1e-4"], None, 99_999_999)],
    ids=["trials", "seeds"],
)
def test_a_search_beyond_the_limit_is_refused(texts: list[str], trials: int | None, seeds: int) -> None:
    with pytest.raises(UsageError, match=r"more than the 10,000 runs that a study can hold\. Pass fewer"):
        read_space(texts, trials, seeds)


def test_a_plan_file_is_a_method_of_a_study(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("method: full\nphases:\n- step: 0\n  open: [head]\n")
    methods = [f"plan:{plan}", "full", f"plan:{plan}"]
    grid = Grid.of(tmp_path / "study", make_config(), arms(methods), [0])
    assert names(grid.methods) == [f"plan:{plan}", "full"]


# code that comes with a model


def test_a_study_cannot_allow_its_own_code_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[str] = []
    monkeypatch.setattr(
        "gradgate.study.workers.worker.run_in_process", lambda *given: trained.append(given[0]["method"])
    )
    study = queued(tmp_path, model="evil/model", trust_remote_code=True)
    with pytest.raises(UsageError, match=r"code from the model evil/model.* Pass trust_remote_code=True"):
        join(study, None, SilentStudy())
    assert trained == []
    assert [run.state for run in read_status(study).runs] == ["waiting", "waiting"]


def test_a_run_that_is_queued_later_cannot_allow_its_own_code_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[str] = []
    monkeypatch.setattr(
        "gradgate.study.workers.worker.run_in_process", lambda *given: trained.append(given[0]["method"])
    )
    monkeypatch.setattr("gradgate.study.workers.worker.check_trust", _after_the_first(join.__globals__["check_trust"]))
    study = queued(tmp_path, model="evil/model", trust_remote_code=True)
    with pytest.raises(UsageError, match="Pass trust_remote_code=True"):
        join(study, None, SilentStudy())
    assert trained == []
    assert [run.state for run in read_status(study).runs] == ["waiting", "waiting"]


def _after_the_first(check: Callable[..., None]) -> Callable[..., None]:
    calls: list[Any] = []

    def checked(*given: Any) -> None:
        calls.append(given)
        if len(calls) > 1:
            check(*given)

    return checked


# scores.json

DAMAGED = {
    "empty": "",
    "cut": '{"metric": "macro',
    "no object": "[]",
    "nothing in it": "{}",
    "no tests": '{"metric": "macro_f1", "best_step": 1, "dev": {"macro_f1": 0.5}}',
    "a list for dev": '{"metric": "macro_f1", "best_step": 1, "dev": [], "tests": {}, "cost": {}}',
    "very deep": "[" * 100_000,
    "no text": b"\xff\xfe\x00",
}


@some_fast("case", list(DAMAGED), ["cut", "a list for dev", "no text"])
def test_damaged_scores_are_a_failure_that_every_reader_sees(case: str, tmp_path: Path) -> None:
    content = DAMAGED[case]
    study = write_study(tmp_path, methods=("full", "head"), seeds=(0,), scores={"full": [0.5], "head": [0.6]})
    _use_the_folders_of_methods(study)
    open_queue(study).store.close()
    scores = study / "runs/full/seed-0/scores.json"
    scores.write_bytes(content if isinstance(content, bytes) else content.encode())
    named = rf"{scores} is damaged"
    assert [run.state for run in read_status(study).runs] == ["failed", "finished"]
    assert named in (read_status(study).runs[0].error or "")
    assert [record["status"] for record in records(study)] == ["failed", "finished"]
    assert named in records(study)[0]["error"]
    queue = open_queue(study)
    assert [run.label for run in queue.retry()] == ["full seed 0"]
    queue.store.close()


def _use_the_folders_of_methods(study: Path) -> None:
    for place, method in enumerate(("full", "head")):
        (study / f"runs/method-{place}").rename(study / f"runs/{method}")


@pytest.fixture(scope="module")
def base(settings: dict[str, Any]) -> RunConfig:
    return make_config(**settings | {"steps": 2, "threads": 1})


@pytest.fixture(scope="module")
def done(base: RunConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies") / "done"
    with trained_here():
        assert compare(StudyRequest(base, ["full", "head"], [0]), folder, SilentStudy()) == RunCounts(2, 0)
    return folder


@pytest.fixture
def study(done: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(done, tmp_path / "study"))


def test_a_run_with_damaged_scores_is_trained_again_and_its_file_is_kept(
    study: Path, done: Path, base: RunConfig
) -> None:
    run, progress = study / "runs/full/seed-0", Notes()
    (run / "scores.json").write_text("{}")
    with trained_here():
        assert compare(StudyRequest(base, ["full", "head"], [0]), study, progress) == RunCounts(2, 0)
    assert f"{run / 'scores.json'} is damaged" in progress.texts[0]
    assert "the run is trained again" in progress.texts[0]
    assert [file.read_text() for file in run.glob("scores.json.damaged-*")] == ["{}"]
    assert_same_run(run, done / "runs/full/seed-0")


def test_a_score_that_is_no_number_fails_the_comparison(study: Path, base: RunConfig) -> None:
    file = study / "runs/full/seed-0/scores.json"
    edit(file, tests={"test": {"accuracy": float("nan")}})
    assert compare(StudyRequest(base, ["full", "head"], [0]), study, SilentStudy()) == RunCounts(finished=1, failed=1)


# study.db


def flip(file: Path, old: bytes, new: bytes) -> None:
    content = file.read_bytes()
    assert old in content
    assert len(old) == len(new)
    file.write_bytes(content.replace(old, new))


FLIPPED = {
    "text that is no UTF-8": (b"full seed 0", b"full\xff\xfeeed 0"),
    "JSON that cannot be read": (b'{"model"', b'{"model\x01'),
    "a state that does not exist": (b"WAITING", b"WAXTING"),
    "another configuration": (b'"lr": 0.001', b'"lr": 0.009'),
    "a folder elsewhere": (b'"runs/full/seed-0"', b'"../../../seed-00"'),
}


@some_fast(  # test_flipped_bytes_are_mended_by_compare has the others
    "place", list(FLIPPED), ["JSON that cannot be read", "a state that does not exist", "a folder elsewhere"]
)
def test_flipped_bytes_in_the_database_are_told(place: str, tmp_path: Path) -> None:
    study = queued(tmp_path, lr=0.001)
    flip(study / "study.db", *FLIPPED[place])
    trusted = place in ("another configuration", "a folder elsewhere")  # until a worker would train it
    read: Study = (lambda folder: join(folder, None, SilentStudy())) if trusted else read_status
    with pytest.raises(StoreError, match=r"study\.db is damaged \((?s:.*)\)\. 'gradgate compare' rebuilds it"):
        read(study)


@pytest.mark.parametrize("place", ["text that is no UTF-8", "another configuration"])
def test_flipped_bytes_are_mended_by_compare(place: str, study: Path, base: RunConfig) -> None:
    progress = Notes()
    flip(study / "study.db", *FLIPPED[place])
    assert compare(StudyRequest(base, ["full", "head"], [0]), study, progress) == RunCounts(2, 0)
    assert "study.db is damaged" in progress.texts[0]
    assert "is rebuilt from the run folders" in progress.texts[0]
    assert [run.state for run in read_status(study).runs] == ["finished", "finished"]


def test_random_damage_to_the_database_never_is_a_traceback(tmp_path: Path) -> None:
    study = queued(tmp_path / "study")
    whole = (study / "study.db").read_bytes()
    draw = random.Random(0)
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(draw.choice((1, 30, 3000))):
            content[draw.randrange(len(content))] = draw.randrange(256)
        (study / "study.db").write_bytes(content)
        for read in (read_status, lambda folder: open_queue(folder).store.close()):
            with suppress(StoreError):
                read(study)


# processes


class KillsTheForkServer(SilentStudy):
    """Kills the server that starts the runs, once a run has begun."""

    def __init__(self) -> None:
        self.killed = False

    def begin_run(self, label: str) -> RunProgress:
        outer = self

        class Steps(Silent):
            def advance(self, step: int, loss: float | None) -> None:
                if not outer.killed:
                    outer.killed = True
                    os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]

        return Steps()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork server")
def test_a_study_outlives_its_fork_server(base: RunConfig, done: Path, tmp_path: Path) -> None:
    progress = KillsTheForkServer()
    assert compare(StudyRequest(base, ["full", "head"], [0]), tmp_path / "study", progress) == RunCounts(2, 0)
    assert progress.killed
    assert [run.state for run in read_status(tmp_path / "study").runs] == ["finished", "finished"]
    assert_same_run(tmp_path / "study/runs/full/seed-0", done / "runs/full/seed-0")


def test_a_run_that_cannot_be_started_has_failed_and_says_so(
    base: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*given: Any) -> None:
        raise EOFError

    monkeypatch.setattr("multiprocessing.context.ForkServerProcess.start", killed)
    assert compare(StudyRequest(base, ["full"], [0]), tmp_path, SilentStudy()) == RunCounts(0, 1)
    (run,) = read_status(tmp_path).runs
    assert run.state == "failed"
    assert "could not be started: the server that starts processes was killed" in (run.error or "")


def test_whatever_stops_a_worker_no_run_stays_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> None:
        raise EOFError

    monkeypatch.setattr("gradgate.study.workers.worker.run_in_process", broken)
    study = queued(tmp_path)
    with pytest.raises(EOFError):
        join(study, None, SilentStudy())
    assert [run.state for run in read_status(study).runs] == ["waiting", "waiting"]
