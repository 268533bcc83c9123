"""Outputs replace files alone, under fresh temporary names: links, pipes and folders of people stay as they are."""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import gradgate as gg
from gradgate.csv_rows import CsvRows
from gradgate.deltas.safetensors_file import streamed
from gradgate.errors import DeltaError, RunError
from gradgate.files import append_text, below, take_lock, write_files, write_text
from gradgate.replacing import fresh_file, fresh_folder, replaced, share
from gradgate.report import write_report
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import Predictions
from gradgate.settings.run import make_config
from gradgate.study.replay.curve_rows import CurveRow
from gradgate.training.weight_history import write_weights
from gradgate.tuner.state import write_state
from support.study_folder import write_study


def write_tensors(path: Path) -> None:
    with streamed(path, {}, {}):
        pass


# What writes a file that a person may have named, or that is in a folder of theirs.
WRITERS: dict[str, Callable[[Path], object]] = {
    "text": lambda path: write_text(path, "new"),
    "several files": lambda path: write_files(path.parent, {"beside": "new", path.name: b"new"}),
    "appended text": lambda path: append_text(path, "new"),
    "rows": lambda path: CsvRows(CurveRow, "a test").write(path, []),
    "appended rows": lambda path: CsvRows(CurveRow, "a test").append(path, []),
    "predictions": lambda path: Predictions({"a": [{"predicted": 1}]}).write(path),
    "a delta": write_tensors,
    "weights": lambda path: write_weights(path, {"a": torch.zeros(2)}),
    "a lock": take_lock,
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The path of an output, in a folder that must keep no temporary file."""
    folder = tmp_path / "out"
    folder.mkdir()
    yield folder / "v.csv"
    assert not list(folder.glob(".v.csv.*.part")), "a temporary file was left"


def link(path: Path) -> None:
    (path.parent.parent / "precious").write_text("old")
    path.symlink_to(path.parent.parent / "precious")


def bind(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "link": (link, "it is a link, and only files are replaced"),
    "dangling link": (lambda path: path.symlink_to("nowhere"), "it is a link"),
    "pipe": (os.mkfifo, "it is a pipe"),
    "folder": (lambda path: path.mkdir(), "Is a directory"),
    "socket": (bind, "it is a socket"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with names")
@pytest.mark.parametrize(("make", "message"), OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_what_is_no_file_stays(place: Path, write: Callable[[Path], object], make: Any, message: str) -> None:
    make(place)
    before = place.lstat()
    with pytest.raises((RunError, DeltaError, OSError), match=message):
        write(place)
    assert place.lstat() == before
    assert sorted(path.name for path in place.parent.iterdir()) == ["v.csv"]
    if (place.parent.parent / "precious").exists():
        assert (place.parent.parent / "precious").read_text() == "old"
    assert not (place.parent / "nowhere").exists()


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_names_of_temporary_files_may_be_taken(place: Path, write: Callable[[Path], object]) -> None:
    taken = [place.parent / name for name in (".v.csv.part", "v.part", ".v.part", ".beside.part")]
    for path in taken:
        path.mkdir()
        (path / "precious").write_text("old")
    write(place)
    assert all((path / "precious").read_text() == "old" for path in taken)
    assert place.is_file()


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_files_have_the_mode_of_others(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "text", "a")
        write_weights(tmp_path / "weights", {"a": torch.zeros(2)})
        write_state(tmp_path, {"tensors": {"a": torch.zeros(2)}})
        save_file({"a": torch.zeros(2)}, tmp_path / "foreign.safetensors")
        share([tmp_path / "foreign.safetensors"])
        write_tensors(tmp_path / "delta")
        fresh_folder(tmp_path / "folder")
    finally:
        os.umask(before)
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.is_file()}
    assert set(files.values()) == {0o666 & ~mask}, files
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir() if path.is_dir()] == [0o777 & ~mask]


def test_fresh_names_are_never_those_of_others(tmp_path: Path) -> None:
    names = {fresh_file(tmp_path / ("é" * 120)).name for _ in range(20)}
    assert len(names) == 20


def test_a_failed_body_leaves_the_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with replaced(tmp_path / "a") as part:
            part.write_text("ne")
            raise KeyboardInterrupt

    (tmp_path / "a").write_text("old")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_standard_output_is_printed_to(capsys: pytest.CaptureFixture[str]) -> None:
    CsvRows(CurveRow, "a test").write(Path("/dev/stdout"), [])
    assert capsys.readouterr().out.startswith("task,")


def test_a_run_has_one_mode_for_all(tmp_path: Path, settings: dict[str, Any]) -> None:
    own = {**settings, "steps": 4, "train_size": 16, "save_every": 2}
    run = gg.train(**own, store="model", keep_checkpoints=True, out=tmp_path / "run", quiet=True)
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in run.path.rglob("*") if path.is_file()}
    assert any(name.endswith("model/model.safetensors") for name in modes)
    assert set(modes.values()) == {modes[str(run.path / "run.json")]}, modes


LINKS = {
    "tables": "tables",
    "figures": "figures",
    "page": "report.html",
    "table": "tables/main.csv",
}


@pytest.mark.parametrize("name", LINKS.values(), ids=LINKS)
def test_a_report_stays_in_its_study(tmp_path: Path, draw_only: Callable[..., None], name: str) -> None:
    if name != "figures":
        draw_only()
    write_study(tmp_path / "study", scores={"full": [0.5, 0.6, 0.7]})
    (tmp_path / "out").mkdir()
    (tmp_path / "study" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "study" / name).symlink_to(tmp_path / "out")
    with pytest.raises(RunError, match=r"Cannot write .* link"):
        write_report(tmp_path / "study")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_linked_study_is_reported_on(tmp_path: Path, draw_only: Callable[..., None]) -> None:
    draw_only()
    write_study(tmp_path / "study", scores={"full": [0.5, 0.6, 0.7]})
    (tmp_path / "link").symlink_to(tmp_path / "study")
    write_report(tmp_path / "link")
    assert (tmp_path / "study/tables/main.csv").is_file()


@pytest.mark.parametrize("name", ["model", "predictions", "best", "checkpoints", "tapt"])
def test_a_run_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").claim(make_config())
    (tmp_path / "run" / name).symlink_to(tmp_path / "out")
    with pytest.raises(RunError, match=f"{name} is a link, and nothing is written out of"):
        RunFolder(tmp_path / "run").locked().__enter__()


def test_an_analysis_stays_in_its_run(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "analyses").symlink_to(tmp_path / "out")
    with pytest.raises(RunError, match="analyses is a link"):
        below(tmp_path / "run", "analyses", "fisher")
