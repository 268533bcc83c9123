"""Columns that hold something other than one label per row: they are asked for, never read as classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from support.ticket_rows import at, lines, rows, table, texts

MIXED = ["sad", "sad;odd", "odd", "new;sad"]
JOINED: dict[str, tuple[str, Callable[[int], str]]] = {
    "bars": ("genre", lambda n: "|".join(["drama", "comedy", "noir"][: n % 3 + 1])),
    "semicolons": ("kind", lambda n: MIXED[n % 4]),
    "commas and spaces": ("label", lambda n: ", ".join(w for bit, w in enumerate("abc") if (n % 7 + 1) >> bit & 1)),
    "numbers": ("labels", lambda n: f"{n % 4},{n % 3 + 4}"),
    "three numbers": ("label", lambda n: f"{n % 4},{n % 3 + 4},{n % 5 + 7}"),
}


@pytest.mark.parametrize("name", JOINED)
def test_joined_labels_are_asked_for(name: str, tmp_path: Path) -> None:
    column, label = JOINED[name]
    (tmp_path / "t.tsv").write_text(table(["text", column], [[t, label(n)] for n, t in enumerate(texts())], "\t"))
    with pytest.raises(DataError, match=rf"'{column}'.*several labels joined by .*kind='multi-label', or kind="):
        find_task(tmp_path / "t.tsv")
    assert len(load_task(find_task(tmp_path / "t.tsv", kind="multi-label")).labels or ()) >= 3
    assert find_task(tmp_path / "t.tsv", kind="classification").kind == "classification"


ONE_LABEL = {
    "cities": ["Austin, TX", "Dallas, TX", "Bern, CH"],
    "levels": ["sport/ball", "sport/run", "art/oil"],
    "levels with bars": ["sport|ball", "sport|run", "art|oil"],
    "one of them": ["calm", "calm; odd", "new"],
}


@pytest.mark.parametrize("name", ONE_LABEL)
def test_names_with_separators_stay_classes(name: str, tmp_path: Path) -> None:
    own = [[text, ONE_LABEL[name][n % 3]] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(["text", "label"], own))
    assert load_task(find_task(tmp_path / "t.csv")).labels == tuple(sorted(ONE_LABEL[name]))


def test_decimal_commas_stay_scores(tmp_path: Path) -> None:
    own = [[text, f"{n % 4},{n % 3 + 4}"] for n, text in enumerate(texts())]
    (tmp_path / "t.tsv").write_text(table(["text", "score"], own, "\t"))
    assert find_task(tmp_path / "t.tsv").kind == "regression"


ODD: dict[str, tuple[list[Any], str]] = {
    "a list": (at(["calm", "busy"] * 12, 3, ["calm"]), r":4: 'label' is a list \(\['calm'\]\), but 23 of 24 rows"),
    "a list as text": (at(["calm", "busy"] * 12, 3, "['calm']"), r":4: 'label' is a list"),
    "a list among numbers": (at([0, 1] * 12, 3, [1]), r":4: 'label' is a list"),
    "a word among scores": (at([n + 0.5 for n in range(24)], 3, "free"), r":4: 'label' is 'free', and 23 of 24"),
    "an object": (
        at(["calm", "busy"] * 12, 3, {"name": "calm"}),
        r":4: the label is dict.*by its path, which ends in '\.name'",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_one_odd_cell_is_named(name: str, tmp_path: Path) -> None:
    labels, message = ODD[name]
    (tmp_path / "t.jsonl").write_text(lines(rows(text=texts(), label=labels)))
    with pytest.raises(DataError, match=message):
        load_task(find_task(tmp_path / "t.jsonl"))


def test_a_word_among_prices_is_named(tmp_path: Path) -> None:
    own = at([[text, f"{n}.50"] for n, text in enumerate(texts())], 3, ["the last one of them", "free"])
    (tmp_path / "t.csv").write_text(table(["description", "price"], own))
    with pytest.raises(DataError, match=r"t\.csv:5: 'price' is 'free', and 23 of 24 rows have numbers"):
        find_task(tmp_path / "t.csv")


def test_columns_of_marks_are_named_together(tmp_path: Path) -> None:
    own = [[text, n % 2, n // 2 % 2, n // 4 % 2] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(["text", "toxic", "rude", "loud"], own))
    with pytest.raises(DataError, match=r"all of them for kind='multi-label', as label=toxic,rude,loud"):
        find_task(tmp_path / "t.csv")
    assert load_task(find_task(tmp_path / "t.csv", label="toxic,rude,loud")).spec.kind == "multi-label"
