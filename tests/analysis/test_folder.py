"""The CSV file of an analysis: what was measured is there again, and damage is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gradgate.analysis.folder import AnalysisFolder
from gradgate.errors import FolderLockedError, RunError


@dataclass(frozen=True)
class Point:
    arm: str
    step: int
    value: float | None


POINTS = [Point("full", 0, 1 / 3), Point("houlsby:size=4,lr=1e-3 + full", 7, None)]


@pytest.fixture
def folder(tmp_path: Path) -> AnalysisFolder[Point]:
    folder = AnalysisFolder.of(tmp_path, "points", Point)
    folder.claim({"seed": 0})
    folder.append(POINTS[:1])
    folder.append(POINTS[1:])
    return folder


def test_rows_are_read_as_they_were_written(folder):
    assert folder.read() == POINTS
    assert folder.csv_file.read_text().splitlines()[0] == "arm,step,value"


def test_a_line_that_was_cut_off_is_left_out_and_removed(folder):
    whole = folder.csv_file.read_text()
    folder.csv_file.write_text(whole + "full,8,0.1")
    assert folder.read() == POINTS
    assert folder.keep(lambda point: point.step < 5) == POINTS[:1]
    assert folder.csv_file.read_text() == "".join(whole.splitlines(keepends=True)[:2])


def test_other_settings_are_refused_and_nothing_is_lost(folder):
    with pytest.raises(RunError, match=r"other settings \(seed: 0 there, 1 here\)\. Pass another out="):
        folder.claim({"seed": 1})
    assert folder.read() == POINTS
    folder.csv_file.unlink()
    folder.claim({"seed": 1})
    assert folder.settings() == {"seed": 1}


def test_two_processes_do_not_measure_into_one_folder(folder):
    with folder.locked():
        with pytest.raises(FolderLockedError, match="Another process measures points in"), folder.locked():
            pass
        folder.claim({"seed": 0})
    with folder.locked():
        assert folder.read() == POINTS
    assert {file.name for file in folder.path.iterdir()} == {"points.csv", "settings.json"}


def test_a_folder_of_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(RunError, match="not empty and has no points"):
        AnalysisFolder(tmp_path, "points", Point).claim({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arm,step\nfull,1\n", "has no column value. Expected what 'gradgate analyze points' writes. Remove"),
        ("arm,step,value\nfull,1\n", "line 2: it has 2 cells; expected 3"),
        ("arm,step,value\nfull,0,1\nfull,one,1\n", "line 3: step: expected a whole number, got 'one'"),
        (b"\xff\xfe\n", "Cannot read .*points.csv"),
    ],
)
def test_damage_is_named_with_its_line(folder, text, message):
    folder.csv_file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RunError, match=message):
        folder.read()
