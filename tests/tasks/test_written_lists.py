"""Lists that programs write into a cell of a table as text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gradgate.tasks import find_task, load_task
from gradgate.tasks.written import parsed
from support.ticket_rows import table, texts

CELLS: list[tuple[str, Any]] = [
    ('["a", "b"]', ["a", "b"]),
    ("['a', 'b']", ["a", "b"]),
    ("['a' 'b']", ["a", "b"]),
    ("['a'\n 'it\\'s' \"b c\"]", ["a", "it's", "b c"]),
    ("['a']", ["a"]),
    ("[0 3  1]", [0, 3, 1]),
    ("[0. 1.5]", [0.0, 1.5]),
    ("[]", []),
    ("{'a': 1}", {"a": 1}),
    ("{'text': array(['a'], dtype=object), 'at': array([3, 4])}", {"text": ["a"], "at": [3, 4]}),
    ("[{'a': 'it\\'s'}\n {'a': \"b, c\"}]", [{"a": "it's"}, {"a": "b, c"}]),
    ("[list(['a' 'b'])]", "[list(['a' 'b'])]"),
    ("[array(['a', 'b'], dtype='<U1') array([], dtype=object)]", [["a", "b"], []]),
    ("[[1 2]\n [3 4]]", [[1, 2], [3, 4]]),
    ("['a' None True inf 1.e-03]", ["a", None, True, math.inf, 0.001]),
    ("[{'a': ['x', 'y']}]", [{"a": ["x", "y"]}]),
    ("[0 1 ... 8 9]", "[0 1 ... 8 9]"),
    ("['a' 'b'", "['a' 'b'"),
    ("[a b]", "[a b]"),
    ("['a' b]", "['a' b]"),
    ("[1 - 2]", "[1 - 2]"),
]


@pytest.mark.parametrize(("text", "value"), CELLS)
def test_a_list_in_a_cell_is_read(text: str, value: Any) -> None:
    assert parsed(text) == value


def test_tags_written_by_numpy_stay_apart(tmp_path: Path) -> None:
    cells = [[f"['Ada' 'met' 'Bob{n}']", "['B-PER' 'O' 'B-PER']"] for n in range(24)]
    (tmp_path / "t.csv").write_text(table(["tokens", "ner_tags"], cells))
    row = load_task(find_task(tmp_path / "t.csv")).train[0]
    assert (row["tokens"][:2], len(row["label"])) == (["Ada", "met"], 3)


def test_labels_written_by_numpy_stay_apart(tmp_path: Path) -> None:
    cells = [[text, ("['late' 'wet']", "['late']")[n % 2]] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(["text", "labels"], cells))
    assert load_task(find_task(tmp_path / "t.csv", kind="multi-label")).labels == ("late", "wet")


def test_chats_written_by_numpy_are_read(tmp_path: Path) -> None:
    turns = "[{'content': 'What is %d?', 'role': 'user'}\n {'content': \"It's a number.\", 'role': 'assistant'}]"
    (tmp_path / "t.csv").write_text(table(["messages"], [[turns % n] for n in range(24)]))
    row = load_task(find_task(tmp_path / "t.csv")).train[0]
    assert (row["roles"], row["contents"][1]) == (["user", "assistant"], "It's a number.")


def test_answers_written_by_numpy_are_read(tmp_path: Path) -> None:
    cells = [["Who?", text, f"{{'text': array(['{text[4:9]}'], dtype=object), 'answer_start': array([4])}}"]
             for text in texts()]  # fmt: skip
    (tmp_path / "t.csv").write_text(table(["question", "context", "answers"], cells))
    row = load_task(find_task(tmp_path / "t.csv")).train[0]
    assert row["answers"] == [row["context"][4:9]]
