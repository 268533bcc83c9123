"""Lists that programs write into a cell of a table as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.tasks import find_task, load_task
from gradgate.tasks.written import parsed
from support.data_forms import table, texts

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
