"""Files of one token a line, and SQuAD's: rows, and the line of every fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks.readers.files import read_table
from gradgate.tasks.readers.rows import SourceTable
from gradgate.tasks.types import FileFormat

CONLLU = FileFormat(type="conllu")
COLUMNS = FileFormat(type="conll", columns=("token", "tag"))


def word(number: int | str, form: str, upos: str) -> str:
    return "\t".join([str(number), form, form.lower(), upos, *["_"] * 6]) + "\n"


def read(folder: Path, content: str | bytes, fmt: FileFormat, name: str = "a.txt") -> SourceTable:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_table(folder / name, fmt)


def test_conllu_keeps_words_and_leaves_out_ranges_and_empty_nodes(tmp_path: Path) -> None:
    first = "# text = vámonos\n" + word("1-2", "vámonos", "_") + word(1, "vamos", "VERB") + word(2, "nos", "PRON")
    second = word(1, "It", "PRON") + word("1.1", "is", "AUX") + word(2, "so", "ADV")
    table = read(tmp_path, f"{first}\n\n{second}", FileFormat(), "a.conllu")
    assert table.columns["form"] == [["vamos", "nos"], ["It", "so"]]
    assert table.columns["upos"] == [["VERB", "PRON"], ["PRON", "ADV"]]
    assert (table.place(0), table.place(1, 1)) == (f"{tmp_path}/a.conllu:3", f"{tmp_path}/a.conllu:9")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (word(1, "a", "DET") + "2\tb\tb\tNOUN\n", r":2 has 4 tab-separated columns, expected CoNLL-U's 10"),
        (word(1, "a", "DET") + word("x", "b", "NOUN"), r":2 is not CoNLL-U: .*'x' is not a valid ID"),
        (word("1-2", "am", "_"), r":1: the sentence has no words"),
        ("# only = a comment\n", r" is empty: it has no rows"),
        (word(1, "é", "NOUN").encode() + word(2, "é", "NOUN").encode("latin-1"), r":2 is not UTF-8 \(byte 0xe9\)"),
    ],
)
def test_faults_of_conllu_are_named_with_their_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, content, CONLLU)


def test_columns_are_split_at_tabs_or_spaces(tmp_path: Path) -> None:
    tabs = "-DOCSTART- (7)\n\nNew York\tB-LOC\n\u3000\tO\n\n\n-DOCSTART-\tO\nb\tO\r\n"
    table = read(tmp_path, tabs, COLUMNS)
    assert table.columns == {"token": [["New York", "\u3000"], ["b"]], "tag": [["B-LOC", "O"], ["O"]]}
    assert (table.lines, table.place(0, 1)) == ([3, 8], f"{tmp_path}/a.txt:4")
    four = FileFormat(type="conll", columns=("token", "pos", "chunk", "tag"))
    spaces = read(tmp_path, "-DOCSTART- NN O O\n\nThis DT  O O\nNATO NN O I-ORG\n", four)
    assert spaces.columns["tag"] == [["O", "I-ORG"]]
    assert read_table(tmp_path / "a.txt", four, 1).columns["token"] == [["This", "NATO"]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a\tO\nb\n", r":2 has 1 columns, expected 2 \(token, tag\): 'b'"),
        ("a O\nb O O\n", r":2 has 3 columns, expected 2"),
        ("a\tO\n\tO\n", r":2: the column 'token' is empty"),
        ("-DOCSTART- O\n\n", r" is empty: it has no rows"),
    ],
)
def test_faults_of_columns_are_named_with_their_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, content, COLUMNS)


def test_columns_without_names_have_usual_ones(tmp_path: Path) -> None:
    table = read(tmp_path, "# text = a b\na DET O\n# PUNCT O\n\nb N B-X\n", FileFormat(type="conll"))
    assert table.columns == {
        "tokens": [["a", "#"], ["b"]],
        "column 2": [["DET", "PUNCT"], ["N"]],
        "tags": [["O", "O"], ["B-X"]],
    }
    assert table.notes == ("1 comment lines of a.txt are skipped",)


def squad(*paragraphs: dict[str, Any]) -> str:
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": list(paragraphs)}]})


def test_squad_has_a_row_for_each_question(tmp_path: Path) -> None:
    answers = [{"text": "b", "answer_start": 2}]
    qas = [{"id": "1", "question": "q?", "answers": answers}, {"id": "2", "question": "r?", "answers": []}]
    table = read(tmp_path, squad({"context": "a b", "qas": qas}), FileFormat(), "a.json")
    assert table.columns["id"] == ["1", "2"]
    assert table.columns["context"] == ["a b", "a b"]
    assert table.columns["answers"] == [answers, []]
    assert table.place(1) == f"{tmp_path}/a.json, row 2"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"data": [\n{"title" 1}]}', r":2 is not JSON"),
        ('{"rows": []}', r'not in the form of SQuAD: expected \{"data"'),
        ('{"data": {}}', r"'data' is dict, expected a list"),
        ('{"data": []}', r" is empty: it has no rows"),
        (squad({"qas": []}), r"a paragraph of article 1 has no 'context'"),
        (squad({"context": "a", "qas": [{"id": "1"}]}), r"a question of article 1 has no 'question'"),
    ],
)
def test_faults_of_squad_files_are_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, content, FileFormat(type="squad"))
