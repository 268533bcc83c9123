"""CSV files of a dataclass's rows: what was written is there again, and damage is said with its line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gradgate.csv_rows import CsvRows
from gradgate.errors import DataError, RunError


@dataclass(frozen=True)
class Point:
    arm: str
    step: int
    value: float | None
    unit: str = "points"


def refuse_negative(point: Point) -> None:
    if point.step < 0:
        raise ValueError(f"step {point.step} is below 0")


FORMAT = CsvRows(Point, "gradgate points", may_lack=("unit",), check=refuse_negative)
POINTS = [Point("full", 0, 1 / 3), Point('a "b",\nc', 7, None, "shares")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    FORMAT.write(tmp_path / "points.csv", POINTS)
    return tmp_path / "points.csv"


def test_rows_are_read_as_they_were_written(file: Path) -> None:
    assert FORMAT.read(file) == FORMAT.resume(file) == POINTS
    assert file.read_text(encoding="utf-8").splitlines()[0] == "arm,step,value,unit"


def test_appending_creates_the_file_with_its_heading(tmp_path: Path) -> None:
    for point in POINTS:
        FORMAT.append(tmp_path / "new.csv", [point])
    assert FORMAT.read(tmp_path / "new.csv") == POINTS


def test_a_line_that_was_cut_off_is_resumed_before(file: Path) -> None:
    file.write_text(f"{file.read_text()}full,8,0.")
    assert FORMAT.resume(file) == POINTS
    with pytest.raises(DataError, match="line 5: it has 3 cells; expected 4"):
        FORMAT.read(file)


def test_nothing_so_far_is_no_row(tmp_path: Path) -> None:
    assert FORMAT.resume(tmp_path / "points.csv") == []
    (tmp_path / "points.csv").write_text("arm,st")
    assert FORMAT.resume(tmp_path / "points.csv") == []


def test_columns_may_stand_in_any_order_or_be_left_out(file: Path) -> None:
    file.write_text("value,note,step,arm\n0.5,hello,3,full\n\n")
    assert FORMAT.read(file) == [Point("full", 3, 0.5)]
    assert not FORMAT.has_columns(file)
    FORMAT.write(file, [])
    assert FORMAT.has_columns(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column arm, step, value. Expected what 'gradgate points' writes"),
        ("arm,step\nfull,1\n", "has no column value"),
        ("arm,step,value\nfull,1\n", "line 2: it has 2 cells; expected 3"),
        (
            "arm,step,value\nfull,0,1\nfull,one,1\n",
            "line 3: step: expected a whole number, got 'one'.*Expected a row as 'gradgate points' writes it",
        ),
        ("arm,step,value\nfull,-1,1\n", "line 2: step -1 is below 0"),
        ("arm,step,value\n,0,1\n", "line 2: arm: expected text, got None"),
        (b"\xff\xfe\n", "Cannot read .*points.csv"),
    ],
)
def test_damage_is_named_with_its_line(file: Path, text: str | bytes, message: str) -> None:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=message):
        FORMAT.read(file)


def test_an_absent_file_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nothing.csv", "pipe"):
        with pytest.raises(DataError, match=f"Cannot read .*{name}.*check the path"):
            FORMAT.read(tmp_path / name)


def test_what_cannot_be_written_leaves_the_file(file: Path) -> None:
    with pytest.raises(RunError, match="Cannot write"):
        FORMAT.write(file / "below.csv", POINTS)
    assert FORMAT.read(file) == POINTS
