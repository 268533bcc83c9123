"""Data files into tables: exact cells, and the line of every fault."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gradgate.errors import DataError
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.types import FileFormat

AUTO = FileFormat()


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, name: str, content: str | bytes, **fmt: Any) -> dict[str, list[Any]]:
    table = read_table(write(folder, name, content), FileFormat(**fmt))
    return {column: list(cells) for column, cells in table.columns.items()}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "a b", "label": "x"}\n\n{"text": "c", "label": "y"}\n'),
        ("a.txt", '\n{"text": "a b", "label": "x"}\n{"text": "c", "label": "y"}'),
        ("a.json", '{"text": "a b", "label": "x"}\n{"text": "c", "label": "y"}\n'),
        ("a.json", '[{"text": "a b", "label": "x"},\n {"text": "c", "label": "y"}]'),
        ("a.tsv", "text\tlabel\na b\tx\nc\ty\n"),
        ("a.txt", "text\tlabel\r\na b\tx\r\n\r\nc\ty\r\n"),
        ("a.csv", 'text,label\n"a b",x\nc,y\n'),
        ("a.txt", "text,label\na b,x\nc,y\n"),
        ("a.csv", b"\xef\xbb\xbftext,label\na b,x\nc,y\n"),
    ],
)
def test_the_type_is_found_by_ending_and_first_line(tmp_path: Path, name: str, content: str | bytes) -> None:
    assert read(tmp_path, name, content) == {"text": ["a b", "c"], "label": ["x", "y"]}


def test_parquet_keeps_types_and_missing_cells(tmp_path: Path) -> None:
    columns = {"text": ["a", None], "label": [1, 0], "__index_level_0__": [3, 7]}  # the last one is pandas' own
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet", AUTO)
    assert table.columns == {"text": ["a", None], "label": [1, 0]}
    with pytest.raises(DataError, match=r"a\.parquet, row 2 has no 'text'"):
        table.column("text", "--text")


def test_words_that_pandas_takes_for_missing_stay_words(tmp_path: Path) -> None:
    words = ["NA", "null", "None", "nan", "007", " padded ", ""]
    content = "text,label\n" + "".join(f"{word},1\n" for word in words)
    assert read(tmp_path, "a.csv", content)["text"] == words


def test_quotes_in_tsv_are_plain_characters_unless_told(tmp_path: Path) -> None:
    content = 'text\tlabel\n"a ""b"" c"\t1\nstray " quote\t0\n'
    assert read(tmp_path, "a.tsv", content)["text"] == ['"a ""b"" c"', 'stray " quote']
    assert read(tmp_path, "a.tsv", content, quoting=True)["text"] == ['a "b" c', 'stray " quote']


def test_unicode_line_separators_do_not_end_a_line(tmp_path: Path) -> None:
    text = "a\u2028b\x85c\x0bd"
    assert read(tmp_path, "a.tsv", f"text\tlabel\n{text}\t1\n")["text"] == [text]
    assert read(tmp_path, "a.jsonl", f'{{"text": {json.dumps("a" + chr(0x2028), ensure_ascii=False)}}}')["text"] == [
        "a\u2028"
    ]


def test_fields_of_any_length_are_read_and_the_csv_limit_is_put_back(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    long = "x" * 200_000
    assert read(tmp_path, "a.csv", f"text,label\n{long},1\n")["text"] == [long]
    assert csv.field_size_limit() == limit


def test_lines_are_those_where_rows_begin(tmp_path: Path) -> None:
    table = read_table(write(tmp_path, "a.csv", 'text,label\n"one\ntwo",x\n\nthree,y\n'), AUTO)
    assert [table.place(row).rsplit("/", 1)[1] for row in range(2)] == ["a.csv:2", "a.csv:5"]


@pytest.mark.parametrize(
    ("name", "content", "fmt", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": \n', {}, r"a\.jsonl:2 is not JSON: Expecting value"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', {}, r"a\.jsonl:2 is not a JSON object"),
        ("a.jsonl", '{"a": ' + "1" * 5000 + "}", {}, r"a\.jsonl:1 is not JSON"),
        ("a.jsonl", "[" * 100_000, {}, r"a\.jsonl:1 is not JSON"),
        ("a.json", '[{"text": "a"},\n {"text" "b"}]', {}, r"a\.json:2 is not JSON"),
        ("a.jsonl", '{"a": "b"}\n\n{"a": 1, "a": 2}\n', {}, r"a\.jsonl:3: an object has the key 'a' twice; expected"),
        ("a.json", '[{"a": "}"},\n {"a": {"b": 1},\n "c": 1,\n "a": 2}]', {}, r"a\.json:4: .* 'a' twice"),
        ("a.json", '{\n"a": "b"}\n{"é": 1,\n "é": "2"}', {}, r"a\.json:4: an object has the key 'é' twice"),
        ("a.json", '{"data": [{"paragraphs": [],\n "paragraphs": []}]}', {}, r"a\.json:2: .* 'paragraphs' twice"),
        ("a.json", "5", {}, r"a\.json is not a JSON array"),
        ("a.json", '[{"text": "a"}, 5]', {}, r"a\.json, row 2 is not a JSON object"),
        ("a.tsv", "text\tlabel\na\t1\nb\n", {}, r"a\.tsv:3 has 1 columns, expected 2 \(text, label\)"),
        ("a.tsv", "text\tlabel\na\t1\nb\t1\t2\n", {}, r"a\.tsv:3 has 3 columns, expected 2"),
        ("a.tsv", 'text\tlabel\n"a\tb"\t1\n', {}, r"a\.tsv:2 has 3 columns.*quoting: true"),
        ("a.csv", "text:label\na,b:1\n", {}, r"a\.csv:2 has 2 columns, expected 1 \(text:label\)"),
        ("a.csv", 'text,label\nx,1\n"never closed,1\ny,0\n', {}, r"a\.csv:3 is malformed.*quoting: false"),
        ("a.csv", 'text,label\n"a"b,1\n', {}, r"a\.csv:2 is malformed"),
        (
            "a.csv",
            'text,label\n"C:\\dir \\"x\\"",1\n',
            {},
            r"a\.csv:2 is malformed.*backslash.*other backslashes or faults.*in Spark",
        ),
        ("a.csv", "text,label\nx\\, y,1\n", {}, r"a\.csv:2 has 3 columns.*OPTIONALLY ENCLOSED BY"),
        ("a.csv", 'text,label\n"r1","x","y"\n', {}, r"a\.csv:2 has 3 columns.*row name of R.*row\.names=FALSE"),
        ("a.csv", "text,label\n7,x,1\n7,y,0\n", {}, r"a\.csv:2 has 3 columns, expected 2"),
        ("a.txt", '"text" "label"\n"1" "x" "y"\n', {}, r"a\.txt:1 is malformed.*Spaces separate.*write\.csv"),
        ("a.tsv", "text\tlabel\ra\t1\rb\t1\nc\t2\n", {}, r"a\.tsv:2 has 2 columns.*end in a carriage return alone"),
        ("a.csv", "text,text\na,b\n", {}, r"'text' occurs twice"),
        ("a.tsv", "text\tlabel\nпривет мир\t0\n".encode("cp1251"), {}, r"a\.tsv:2 is not UTF-8 \(byte 0xef\).*iconv"),
        ("a.tsv", "", {}, r"a\.tsv is empty"),
        ("a.jsonl", "\n \n", {}, r"a\.jsonl is empty"),
        ("a.json", "[]", {}, r"a\.json is empty"),
        ("a.csv", "text,label\n", {}, r"a\.csv is empty"),
        ("a.parquet", "text", {}, r"a\.parquet cannot be read as a Parquet file"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(
    tmp_path: Path, name: str, content: str | bytes, fmt: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, name, content, **fmt)


def test_every_text_of_a_class_is_read_and_other_entries_are_told(tmp_path: Path) -> None:
    for name in ("pos/1.txt", "pos/2.TXT", "pos/more/3.txt", "pos/notes.md", "neg/1.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path, name, name)
    table = read_table(tmp_path, AUTO)
    assert list(table.columns["text"]) == ["neg/1.txt", "pos/1.txt", "pos/2.TXT"]
    told = "pos has 2 other entries that no row is read from, as texts are .txt files: more, notes.md"
    assert table.notes == (f"{tmp_path.name}/{told}",)


def test_a_missing_file_names_what_is_there(tmp_path: Path) -> None:
    write(tmp_path, "a.tsv", "x")
    with pytest.raises(DataError, match=r"b\.tsv is missing; .* holds a\.tsv"):
        read_table(tmp_path / "b.tsv", AUTO)
    with pytest.raises(DataError, match=r"there is no folder"):
        read_table(tmp_path / "no" / "b.tsv", AUTO)


def test_extra_columns_are_dropped_only_where_the_format_says_so(tmp_path: Path) -> None:
    content = "a\t1\tsource\nb\t2\n"
    fmt = {"header": False, "columns": ("text", "label")}
    assert read(tmp_path, "a.tsv", content, **fmt, extra_columns=True) == {"text": ["a", "b"], "label": ["1", "2"]}
    numbered = read(tmp_path, "a.tsv", "id\ttext\n1\ta\tx\n2\tb\ty\n", extra_columns=True)
    assert numbered == {"id": ["1", "2"], "text": ["a", "b"]}
    with pytest.raises(DataError, match=r"a\.tsv:1 has 3 columns"):
        read(tmp_path, "a.tsv", content, **fmt)


anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
one_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t"), max_size=20)
fast = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@fast
@given(rows=st.lists(st.tuples(anything, anything), min_size=1))
def test_json_lines_and_quoted_csv_round_trip_any_text(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    texts, labels = [row[0] for row in rows], [row[1] for row in rows]
    objects = "".join(json.dumps({"t": t, "l": label}, ensure_ascii=False) + "\n" for t, label in rows)
    assert read(tmp_path, "a.jsonl", objects) == {"t": texts, "l": labels}
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("t", "l"), *rows])
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        out = io.StringIO(newline="")
        csv.writer(out, quoting=csv.QUOTE_ALL, delimiter=delimiter).writerows([("t", "l"), *rows])
        assert read(tmp_path, name, out.getvalue(), quoting=True) == {"t": texts, "l": labels}


@fast
@given(rows=st.lists(st.tuples(one_line, one_line), min_size=1))
def test_plain_tsv_round_trips_any_text_without_tabs_and_line_ends(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    content = "t\tl\n" + "".join(f"{text}\t{label}\n" for text, label in rows)
    assert read(tmp_path, "a.tsv", content) == {"t": [row[0] for row in rows], "l": [row[1] for row in rows]}


ROWS = [{"text": f"a text, number {n}", "label": "ab"[n % 2]} for n in range(6)]
OBJECTS: dict[str, object] = {
    "ids": {f"doc{n}": row for n, row in enumerate(ROWS)},
    "an index of pandas": {str(n): row for n, row in enumerate(ROWS)},
    "ids of which one row is short": {
        f"doc{n}": row if n else {"text": "a text, number 0"} for n, row in enumerate(ROWS)
    },
    "columns": {name: [row[name] for row in ROWS] for name in ("text", "label")},
    "columns with their rows in any order": {
        "text": {str(n): row["text"] for n, row in enumerate(ROWS)},
        "label": {str(n): ROWS[n]["label"] for n in (5, 1, 0, 3, 2, 4)},
    },
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_rows_are_rows(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(OBJECTS[name], indent=1))
    table = read_table(tmp_path / "t.json", AUTO)
    assert list(table.columns["text"]) == [row["text"] for row in ROWS]
    assert list(table.columns["label"])[1:] == [row["label"] for row in ROWS][1:]


COLUMNS: dict[str, tuple[object, str]] = {
    "lists of different lengths": (
        {"text": ["a", "b"], "label": ["x"]},
        r"different numbers of cells: 'text' 2, 'label' 1",
    ),
    "a cell is missing in the first": (
        {"text": {"0": "a", "2": "c"}, "label": {"0": "x", "1": "y", "2": "z"}},
        r"'text' and 'label' have cells of different rows: 'text' has no '1'\. Each row needs a cell",
    ),
    "as many cells of other rows": (
        {"id": {"0": 1, "1": 2}, "text": {"0": "a", "1": "b"}, "label": {"0": "x", "2": "y"}},
        r"'id' and 'label' have cells of different rows: 'label' has no '1'; 'id' has no '2'",
    ),
    "one cell": ({"text": {"0": "a", "1": "b"}, "label": {"1": "y"}}, r"'label' has no '0'"),
    "no cell": ({"text": {str(row): "a" for row in range(9)}, "label": {}}, r"no '0', '1', '2', '3', '4' and 4 more"),
    "a short row": (
        {"columns": ["text", "label"], "data": [["a", "x"], ["b"]]},
        r"row 2 of `data` has 1 cells, expected 2",
    ),
    "a long row": ({"columns": ["text"], "data": [["a", "x"]]}, r"row 1 of `data` has 2 cells, expected 1 \(text\)"),
    "a name twice": ({"columns": ["a", "a"], "data": [[1, 2]]}, r"the column 'a' occurs twice in `columns`"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_without_the_same_rows_are_refused(name: str, tmp_path: Path) -> None:
    value, message = COLUMNS[name]
    (tmp_path / "t.json").write_text(json.dumps(value))
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.json", AUTO)


@pytest.mark.parametrize(
    "value",
    [
        {"train": {"text": ["a"], "label": ["x"]}, "dev": {"text": ["b"]}, "test": {"text": ["c"]}},
        {split: {"text": ["a", "b"], "label": ["x", "y"]} for split in ("train", "test", "ood")},
        {"info": {"text": "about"}, "rows": {"a": 1}, "more": {"b": 2}},
    ],
)
def test_other_objects_of_objects_are_refused(value: object, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(value, indent=1))
    with pytest.raises(DataError, match=r"is a JSON object without a list of rows"):
        read_table(tmp_path / "t.json", AUTO)


def test_one_line_of_objects_is_one_row(tmp_path: Path) -> None:
    row = {name: {"text": f"the {name}"} for name in ("input", "output", "note")}
    (tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    assert list(read_table(tmp_path / "t.jsonl", AUTO).columns) == ["input", "output", "note"]
