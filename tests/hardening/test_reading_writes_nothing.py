"""Commands that read leave no file outside their outputs, and a folder does not say which database is opened."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from gradgate.cli import run
from gradgate.errors import StoreError
from gradgate.report.sections.scores import ScoresSection
from gradgate.study.workers.store import open_store, read_store
from support.study_folder import write_study

Listing = dict[str, bytes]
READING = {
    "status": (("study", "status", "STUDY"), ()),
    "status as json": (("study", "status", "STUDY", "--json"), ()),
    "failed": (("study", "failed", "STUDY"), ()),
    "export": (("study", "export", "STUDY"), ()),
    "verdicts": (("study", "verdicts", "STUDY"), ()),
    "curves": (("study", "export", "STUDY", "--curves", "OUT/curves.csv"), ("out/curves.csv",)),
    "report": (("report", "STUDY"), ("study/report.html", "study/tables/", "study/figures/")),
    "papers": (("papers", "STUDY"), ()),
    "replay": (("study", "replay", "STUDY", "--repeats", "1"), ()),
}


def listing(folder: Path) -> Listing:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = write_study(tmp_path / "study", scores={"full": [0.7, 0.8], "gradual:every=40": [0.6, 0.7]})
    (tmp_path / "out").mkdir()
    return folder


def plant_address(study: Path) -> None:
    place = study.parent / "elsewhere" / "planted.db"
    place.parent.mkdir()
    (study / "store.json").write_text(json.dumps({"url": f"sqlite:///{place}", "study": "planted"}))


def plant_server(study: Path) -> None:
    (study / "store.json").write_text(json.dumps({"url": "postgresql://127.0.0.1:9/x", "study": "planted"}))


def plant_log(study: Path) -> None:
    with sqlite3.connect(study / "study.db") as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE studies (study_name TEXT)")
    database.close()


PLANTED: dict[str, Callable[[Path], None]] = {
    "nothing": lambda study: None,
    "an address": plant_address,
    "a server": plant_server,
    "a database with a log": plant_log,
}


@pytest.mark.parametrize(
    ("command", "planted"),
    [
        pytest.param(command, planted, marks=() if planted == "an address" or command == "status" else pytest.mark.slow)
        for command in READING
        for planted in PLANTED
    ],
)
def test_reading_leaves_no_file(
    study: Path,
    command: str,
    planted: str,
    draw_only: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    draw_only(ScoresSection)
    called: list[object] = []

    def note(*where: object) -> None:
        called.append(where)
        raise ConnectionRefusedError("nobody is to be called")

    def open_engine(url: object, **options: Any) -> Any:
        if not str(url).startswith("sqlite"):
            called.append(url)  # a driver in C calls no function of Python's sockets
        return make_engine(url, **options)

    make_engine = sqlalchemy.create_engine
    monkeypatch.setattr(sqlalchemy, "create_engine", open_engine)
    monkeypatch.setattr(sqlalchemy.engine, "create_engine", open_engine)  # optuna takes it from there
    PLANTED[planted](study)
    monkeypatch.chdir(study.parent / "out")
    monkeypatch.setattr(socket.socket, "connect", note)
    words, written = READING[command]
    before = listing(study.parent)
    code = run([word.replace("STUDY", str(study)).replace("OUT", str(study.parent / "out")) for word in words])
    said = capsys.readouterr()
    fails = command == "replay"  # the runs of the toy study were never scored on dev
    assert (code, called) == (int(fails), []), said.err
    assert "Traceback" not in said.err
    after = listing(study.parent)
    assert {name for name in after if not name.startswith(written or ("\0",))} == set(before)
    assert all(after[name] == content for name, content in before.items() if not name.startswith(written or ("\0",)))


def test_an_address_comes_from_the_person(study: Path) -> None:
    plant_address(study)
    assert read_store(study) is None
    with pytest.raises(StoreError, match="is in another database"):
        open_store(study)
    with pytest.raises(StoreError):
        read_store(study, f"sqlite:///{study.parent / 'other.db'}")
    assert not (study.parent / "other.db").exists()
    assert not list((study.parent / "elsewhere").iterdir())


def test_status_says_that_the_queue_is_elsewhere(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plant_server(study)
    assert run(["study", "status", str(study)]) == 0
    assert "--queue" in "".join(capsys.readouterr())


def test_a_link_is_no_database_of_the_study(study: Path) -> None:
    elsewhere = study.parent / "elsewhere.db"
    open_store(study).close()
    shutil.move(study / "study.db", elsewhere)
    (study / "study.db").symlink_to(elsewhere)
    for opened in (open_store, read_store):
        with pytest.raises(StoreError, match=r"study\.db is a link to .*elsewhere\.db"):
            opened(study)


@pytest.mark.parametrize("content", ['{"url": 3, "study": "x"}', '{"url": "sqlite://"}', "[]", "{", '{"url": "a"}'])
def test_a_damaged_store_is_said(study: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "store.json").write_text(content)
    assert run(["worker", str(study)]) == 1
    said = capsys.readouterr().err
    assert "store.json" in said
    assert "Traceback" not in said
