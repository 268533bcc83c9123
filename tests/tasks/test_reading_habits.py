"""What spreadsheets, pandas and people do to files: read as it is meant, or refused with what to do."""

from __future__ import annotations

import json
import pickle
import re
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from gradgate.tasks.local_numbers import is_local
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.types import FileFormat
from support.ticket_rows import lines, texts

AUTO = FileFormat()
Columns = dict[str, list[Any]]


def read(folder: Path, name: str, content: str | bytes, **fmt: Any) -> tuple[Columns, tuple[str, ...]]:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    found = read_table(folder / name, FileFormat(**fmt))
    return {column: list(cells) for column, cells in found.columns.items()}, found.notes


def viewed(*numbers: int, cut: int = -1, names: tuple[str, ...] = ("no", "yes")) -> dict[str, Any]:
    """A page of rows as the hub's viewer serves it; the text of one row may be cut."""
    types = {"text": {"dtype": "string", "_type": "Value"}, "label": {"names": names, "_type": "ClassLabel"}}
    features = [{"feature_idx": at, "name": name, "type": kind} for at, (name, kind) in enumerate(types.items())]
    found = [
        {
            "row_idx": number,
            "row": {"text": f"it is {number}", "label": number % 2},
            "truncated_cells": ["text"] * (number == cut),
        }
        for number in numbers
    ]
    return {"features": features, "rows": found}


HABITS: dict[str, tuple[str, str | bytes, Columns, str]] = {
    "sep= of tabs": ("a.csv", "sep=\t\r\na\tb\r\n1\t2\r\n", {"a": ["1"], "b": ["2"]}, "sets the delimiter"),
    "sep= in capitals": ("a.csv", "SEP=|\na|b\n1|2\n", {"a": ["1"], "b": ["2"]}, "'|'"),
    "empty columns at the end": ("a.csv", "a,b,,\n1,2,,\n3,4\n", {"a": ["1", "3"], "b": ["2", "4"]}, ""),
    "an index without a name": ("a.csv", ",a\n0,x\n1,y\n", {"column 1": ["0", "1"], "a": ["x", "y"]}, ""),
    "a column without a name": ("a.csv", "a,\nx,\ny,z\n", {"a": ["x", "y"], "column 2": ["", "z"]}, ""),
    "rows with empty cells behind": ("a.csv", "a,b\n1,2,,\n", {"a": ["1"], "b": ["2"]}, ""),
    "a quote after spaces": ("a.csv", 'a, b\n"x, y",  "z"\n', {"a": ["x, y"], "b": ["z"]}, "spaces before quotes"),
    "a separator within it": ("a.csv", 'a, b\nx, "y, z"\n', {"a": ["x"], "b": ["y, z"]}, "spaces before quotes"),
    "spaces that are text": ("a.csv", "a,b\n x, y\n", {"a": [" x"], "b": [" y"]}, ""),
    "doubled quotes in tabs": ("a.tsv", 'a\tb\n"x ""y"""\tz\n', {"a": ['x "y"'], "b": ["z"]}, "quotes enclose"),
    "quotes that are text": ("a.tsv", 'a\tb\n"x"\ty ""z""\n', {"a": ['"x"'], "b": ['y ""z""']}, ""),
    "quoted names in tabs": ("a.tsv", '"a"\t"b"\n"x"\t1\n', {"a": ["x"], "b": ["1"]}, "quotes enclose"),
    "a quoted break in tabs": ("a.tsv", 'a\tb\n"x\ny"\tz\n', {"a": ["x\ny"], "b": ["z"]}, "quotes enclose"),
    "comments": ("a.csv", "# one\n# two, three\na,b\n1,2\n", {"a": ["1"], "b": ["2"]}, "2 comment lines"),
    "a header with #": ("a.csv", "#a,b\n1,2\n", {"#a": ["1"], "b": ["2"]}, ""),
    "a header with #, quotes": ("a.csv", '#a,b\n1,"2, 3"\n', {"#a": ["1"], "b": ["2, 3"]}, ""),
    "backslashes before quotes": ("a.csv", 'a,b\n"say \\"x, y\\"",z\n"2\\"\n3",\n4\\",""\n',
                                  {"a": ['say "x, y"', '2"\n3', '4"'], "b": ["z", "", ""]},
                                  "a backslash before a quote"),
    "a backslash at an end": ("a.csv", 'a,b\n"x, C:\\",z\n', {"a": ["x, C:\\"], "b": ["z"]}, ""),
    "row names of R": ("a.csv", '"a","b"\n"1","x","y"\n"7","z","w"\n"8","u","v"\n',
                       {"column 1": ["1", "7", "8"], "a": ["x", "z", "u"], "b": ["y", "w", "v"]},
                       "as R writes row names"),
    "row names of R in tabs": ("a.tsv", '"a"\t"b"\n"1"\t"x"\t"y"\n"2"\t"z"\t3\n',
                               {"column 1": ["1", "2"], "a": ["x", "z"], "b": ["y", "3"]}, "as R writes row names"),
    "carriage returns": ("a.csv", "# one\ra;b\rx, y;2\r", {"a": ["x, y"], "b": ["2"]}, "1 comment lines"),
    "carriage returns, tabs": ("a.tsv", "a\tb\r1\t2\r\r3\t4\r", {"a": ["1", "3"], "b": ["2", "4"]}, ""),
    "carriage returns, JSON": ("a.jsonl", '{"a": 1}\r{"a": 2}\r', {"a": [1, 2]}, ""),
    "line ends of two kinds": ("a.jsonl", '{"a": 1}\r{"a": 2}\n\r{"a": 3}', {"a": [1, 2, 3]}, ""),
    "line ends twice": ("a.tsv", "a\tb\r\r\n1\t2\r\r\n", {"a": ["1"], "b": ["2"]}, ""),
    "carriage returns, tags": ("a.conll", "Anna B-PER\rsings O\r\rBo B-PER\r",
                               {"tokens": [["Anna", "sings"], ["Bo"]], "tags": [["B-PER", "O"], ["B-PER"]]}, ""),
    "carriage returns, fastText": ("a.txt", "__label__x one\r__label__y two",
                                   {"text": ["one", "two"], "label": ["x", "y"]}, ""),
    "a mark of UTF-16": ("a.csv", "a,b\nü,2\n".encode("utf-16"), {"a": ["ü"], "b": ["2"]}, "UTF-16"),
    "cp1252": ("a.csv", "a\nit’s 5 € “naïve”\n".encode("cp1252"), {"a": ["it’s 5 € “naïve”"]}, "cp1252"),
    "German": ("a.csv", "a\nStraße und Öl für Zoë\n".encode("cp1252"), {"a": ["Straße und Öl für Zoë"]}, "cp1252"),
    "objects over lines": ("a.jsonl", '{\n"a": 1\n}\n{\n"a": 2\n}\n', {"a": [1, 2]}, ""),
    "an array in lines": ("a.jsonl", '[{"a": 1},\n{"a": 2}]', {"a": [1, 2]}, ""),
    "lists as columns": ("a.json", '{"a": [1, 2], "b": [3, 4]}', {"a": [1, 2], "b": [3, 4]}, ""),
    "pandas' split": ("a.json", '{"columns": ["a"], "index": [0], "data": [[1]]}', {"a": [1]}, ""),
    "rows of the viewer": ("a.json", json.dumps(viewed(0, 1)), {"text": ["it is 0", "it is 1"], "label": ["no", "yes"]},
                           ""),
    "a page of the viewer": ("a.json", json.dumps(viewed(7) | {"num_rows_total": 9000}),
                             {"text": ["it is 7"], "label": ["yes"]}, "1 of the 9,000 rows that the hub's viewer has"),
    "first rows of the viewer": ("a.json", json.dumps(viewed(7) | {"truncated": True}),
                                 {"text": ["it is 7"], "label": ["yes"]}, "has served a part of the rows"),
    "an array of the viewer": ("a.json", json.dumps(viewed(3)["rows"]), {"text": ["it is 3"], "label": [1]}, ""),
    "lines of the viewer": ("a.jsonl", lines(viewed(3, 4)["rows"]), {"text": ["it is 3", "it is 4"], "label": [1, 0]},
                            ""),
    "columns like the viewer's": ("a.jsonl", '{"row_idx": 0, "row": "x"}', {"row_idx": [0], "row": ["x"]}, ""),
    "one chat in a line": ("a.json", '{"messages": [{"role": "user", "content": "a"}, {"role": "x", "content": "b"}]}',
                           {"messages": [[{"role": "user", "content": "a"}, {"role": "x", "content": "b"}]]}, ""),
}  # fmt: skip


@pytest.mark.parametrize("habit", HABITS)
def test_a_habit_is_read_as_it_is_meant(habit: str, tmp_path: Path) -> None:
    name, content, columns, note = HABITS[habit]
    found, notes = read(tmp_path, name, content)
    assert found == columns
    assert note in " ".join(notes)
    assert bool(notes) == bool(note)


@pytest.mark.parametrize("habit", HABITS)
def test_the_first_rows_are_read_alike(habit: str, tmp_path: Path) -> None:
    name, content, columns, _ = HABITS[habit]
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    head = read_table(tmp_path / name, AUTO, 1)
    assert [cells[0] for cells in head.columns.values()] == [cells[0] for cells in columns.values()][
        : len(head.columns)
    ]


@pytest.mark.parametrize(
    ("name", "page", "message"),
    [
        ("a.json", viewed(40, 41, cut=41), r"a\.json, row 2 \(row_idx 41\) is not whole: .* has cut 'text' .*Download"),
        ("a.jsonl", viewed(40, 41, cut=41)["rows"], r"a\.jsonl:2 \(row_idx 41\) is not whole"),
        ("a.json", viewed(0, 1, names=("no",)), r"a\.json: the classes cannot be named by its `features` \(Invalid"),
    ],
)
def test_rows_that_the_viewer_does_not_have_whole_are_refused(
    name: str, page: Any, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, name, lines(page) if isinstance(page, list) else json.dumps(page))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("привет мир", "cp1251"),
        ("zażółć gęślą jaźń", "cp1250"),
        ("the café’s “menu”", "mac_roman"),
        ("日本語の文章です", "shift_jis"),
        ("中文句子在这里", "gb18030"),
        ("καλημέρα κόσμε", "cp1253"),
    ],
)
def test_other_encodings_are_asked_for(text: str, encoding: str, tmp_path: Path) -> None:
    content = f"a,b\n{text},1\n".encode(encoding)
    with pytest.raises(DataError, match=r"a\.csv:2 is not UTF-8 .*format: \{encoding: cp1251\}.*iconv -f ENCODING"):
        read(tmp_path, "a.csv", content)
    assert read(tmp_path, "a.csv", content, encoding=encoding)[0]["a"] == [text]


def test_mixed_encodings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.csv:3 is not UTF-8.*the file mixes encodings"):
        read(tmp_path, "a.csv", "a\nnaïve\n".encode() + "naïve\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"encoding 'klingon' is not known"):
        read(tmp_path, "a.csv", "a\n1\n", encoding="klingon")


def workbook(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")


def archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("train.csv", "text,label\n")


def database(path: Path) -> None:
    link = sqlite3.connect(path)
    link.execute("create table t (a)")
    link.commit()
    link.close()


BINARY = {
    "t.xlsx": (workbook, r"an Excel workbook; save the sheet as 'CSV UTF-8'"),
    "t.zip": (archive, r"a zip archive \(train\.csv\); unpack it"),
    "t.csv.gz": (lambda path: path.write_bytes(b"\x1f\x8b\x08"), r"compressed by gzip; unpack it with `gunzip`"),
    "t.zst": (lambda path: path.write_bytes(b"\x28\xb5\x2f\xfd"), r"zstandard"),
    "t.pkl": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), r"a pickle, which could run code"),
    "t.npy": (lambda path: np.save(path, np.zeros(3)), r"a NumPy array"),
    "t.npz": (lambda path: np.savez(path, a=np.zeros(3)), r"a NumPy archive"),
    "t.db": (database, r"an SQLite database; export the table"),
    "t.csv": (lambda path: path.write_bytes(b"PAR1xxxx"), r"a Parquet file with another ending"),
    "page.csv": (lambda path: path.write_text("<!doctype html><html>"), r"a web page: a download may have failed"),
    "pointer.csv": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), r"git lfs pull"),
    "t.xml": (lambda path: path.write_text("<?xml version='1.0'?><a/>"), r"XML, which is not read"),
}


@pytest.mark.parametrize("name", BINARY)
def test_what_is_no_text_is_named(name: str, tmp_path: Path) -> None:
    make, message = BINARY[name]
    make(tmp_path / name)
    with pytest.raises(DataError, match=message):
        find_task(tmp_path / name)


def labelled(labels: list[str], delimiter: str = ";") -> str:
    return f"text{delimiter}label\n" + "".join(
        f"{text}{delimiter}{label}\n" for text, label in zip(texts(len(labels)), labels, strict=True)
    )


@pytest.mark.parametrize(
    ("labels", "first"),
    [
        ([f"{n // 2},{n % 10}" for n in range(40)], 0.0),
        ([f"0,{n:03}" for n in range(1, 41)], 0.001),
        ([f"{n}.000,5" for n in range(1, 41)], 1000.5),
        ([f"1'{n:03}.5" for n in range(1, 41)], 1001.5),
        ([f"{n}٫5" for n in range(40)], 0.5),
    ],
)
def test_local_numbers_are_scores(labels: list[str], first: float, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(labelled(labels, "\t"))
    data = load_task(find_task(tmp_path / "t.tsv"))
    every = [score for part in (data.train, data.dev, *data.tests.values()) for score in part["label"][:]]
    assert (data.spec.kind, min(every)) == ("regression", first)
    assert any("are read as points" in note for note in data.notes)


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("{n},500", r"t\.tsv:2: 'label' is '1,500', where the separator may be for thousands or decimals"),
        ("{n} %", r"t\.tsv:2: 'label' is '1 %', a number with a unit"),
        ("€{n}", r"t\.tsv:2: 'label' is '€1', a number with a unit"),
    ],
)
def test_local_numbers_that_are_unclear_are_refused(label: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(labelled([label.format(n=n % 9 + 1) for n in range(40)], "\t"))
    with pytest.raises(DataError, match=message):
        find_task(tmp_path / "t.tsv")
    assert load_task(find_task(tmp_path / "t.tsv", kind="classification")).spec.kind == "classification"


@pytest.mark.parametrize("odd", ["1.234", "12.500", "-3.125"])
def test_points_among_decimal_commas_are_refused(odd: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text(labelled(["0,5", "1,25", "2,5", odd] * 8, "\t"))
    with pytest.raises(DataError, match=rf"t\.tsv:5: 'label' is '{odd}', but other rows have decimal commas"):
        find_task(tmp_path / "t.tsv")


@pytest.mark.parametrize("word", ["ham", "3", "-1.5", "1e5", "a,b", "B-2", "2024-01-02", "v1.2.3", ""])
def test_other_words_are_no_local_numbers(word: str) -> None:
    assert not is_local(word)


@pytest.mark.parametrize("word", ["NaN", "nan", "#N/A", "<NA>", r"\N", "-", "--", "—"])
def test_missing_cells_among_words_are_refused(word: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(labelled(["ham", "spam", "ham", word] * 6))
    with pytest.raises(
        DataError, match=rf"t\.csv:5: 'label' is {re.escape(repr(word))}, which usually means a missing cell"
    ):
        load_task(find_task(tmp_path / "t.csv"))


def test_signs_are_labels_beside_each_other(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(labelled(["+", "-"] * 12))
    assert load_task(find_task(tmp_path / "t.csv")).labels == ("+", "-")


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        (["ham", "spam", "Ham"] * 8, r"labels 'Ham' \(\d rows\), 'ham' \(\d rows\) differ only in case"),
        (["very good", "very_good", "bad"] * 8, r"'very good' .*'very_good' .* differ only in case"),
        (["ham", "spam"] * 12 + ["hamm"], r"only one row of train has the label 'hamm': misspelt\?"),
        (["0", "1"] * 12 + ["maybe"], r"only one row of train has the label 'maybe'"),
    ],
)
def test_labels_that_may_be_misspelt_are_named(labels: list[str], note: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(labelled(labels))
    assert re.search(note, " ".join(load_task(find_task(tmp_path / "t.csv")).notes))


def test_the_header_is_named_only_where_files_have_one(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(lines([{"a": n, "b": n} for n in range(12)]))
    with pytest.raises(DataError) as caught:
        find_task(tmp_path / "t.jsonl")
    assert "no header" not in str(caught.value)
    (tmp_path / "t.csv").write_text("a,b\n" + "1,2\n" * 12)
    with pytest.raises(DataError, match=r"if the file has no header"):
        find_task(tmp_path / "t.csv")
