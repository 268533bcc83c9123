"""What is safe to open and to print: no file of tables holds a formula or a control character, numbers stay."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate.csv_rows import CsvRows
from gradgate.printable import cell_text, csv_text, visible
from gradgate.runs.predictions import Predictions
from gradgate.study.export import as_table
from gradgate.study.replay.curve_rows import CurveRow
from support.command_line import Command
from support.study_folder import write_study

SOURCE = Path(csv_text.__code__.co_filename).parent
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
HOSTILE = {
    "a formula": "=cmd()|' /C calc'!A0",
    "a plus": "+1+1",
    "a minus": "-1+1",
    "an at sign": "@SUM(1)",
    "a tab": "\t=1",
    "a carriage return": "\r=1",
    "a wide equals": "＝1+1",
    "an escape sequence": "\x1b[31mred",
    "a C1 control": "a\x9b31m",
    "an override": "a\u202egpj.exe",
    "a guarded formula": "'=1+1",
}
NUMBERS = ["-1.5", "+3", "-1e-5", "-.5", "-1,5", "-5%", "-0", "3", "1.5", ""]
PLAIN = ["gut", "'s morgens", "a=b", "a-b", "it's", "(=1)", "' quoted'"]


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_cell_is_defused(text: str) -> None:
    ((cell,),) = rows_of(csv_text([[text]]))
    assert cell[0] not in "=+-@\t\r＝"
    assert not CONTROLS.search(cell)
    assert cell_text(cell) == visible(text)


@pytest.mark.parametrize("text", [*NUMBERS, *PLAIN])
def test_numbers_and_words_stay(text: str) -> None:
    assert rows_of(csv_text([[text, "x"]])) == [[text, "x"]]
    assert cell_text(text) == text


def test_values_that_are_no_text_stay() -> None:
    assert csv_text([[-1.5, -3, None, True, -1e-300]]) == "-1.5,-3,,True,-1e-300\n"


def test_one_place_alone_writes_csv() -> None:
    writes = re.compile(r"csv\.(writer|DictWriter)\(|\w\.to_csv\(\w")
    found = {file.name for file in SOURCE.rglob("*.py") if writes.search(file.read_text(encoding="utf-8"))}
    assert found == {"printable.py"}


def predictions(text: str) -> str:
    kept = {f"{text} kept": text}
    return Predictions({text: [{"predicted": text}], "b": [{"predicted": "no"}]}, [kept]).as_csv()


def curves(text: str, folder: Path) -> str:
    row: Any = {"task": text, "model": text, "arm": "full", "seed": 0, "step": 1, "of_steps": 2, "score": -0.5}
    known = {name: value for name, value in row.items() if name in CurveRow.__dataclass_fields__}
    others = {name: None for name, field in CurveRow.__dataclass_fields__.items() if name not in known}
    CsvRows(CurveRow, "a test").write(folder / "curves.csv", [CurveRow(**known, **others)])
    return (folder / "curves.csv").read_text()


WRITERS: dict[str, Callable[[str, Path], str]] = {
    "predict": lambda text, folder: predictions(text),
    "export": lambda text, folder: as_table([{"task": text, "scores": {text: {text: -0.5}}, "error": text}]),
    "curves": curves,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_every_writer_defuses_cells(tmp_path: Path, write: Callable[[str, Path], str], text: str) -> None:
    written = write(text, tmp_path)
    assert not CONTROLS.search(written)
    cells = [cell for row in rows_of(written) for cell in row]
    assert any(visible(text) in cell for cell in cells)
    assert all(cell == "-0.5" or cell[:1] not in ("=", "+", "-", "@", "\t", "\r", "＝") for cell in cells), cells


def test_rows_read_back_what_was_written(tmp_path: Path) -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Row:
        text: str

    texts = [text for text in HOSTILE.values() if not CONTROLS.search(text)] + NUMBERS[:-1] + PLAIN
    rows = CsvRows(Row, "a test")
    rows.write(tmp_path / "a.csv", map(Row, texts))
    assert [row.text for row in rows.read(tmp_path / "a.csv")] == texts


def test_an_export_on_screen_is_harmless(tmp_path: Path, command: Command) -> None:
    write_study(tmp_path, scores={"full": [0.5, 0.6, 0.7]}, name="=1+1\x1b[2J")
    said = command("study", "export", str(tmp_path), "--csv")
    assert "'=1+1␛[2J" in said.out
    assert not CONTROLS.search(said.out)
