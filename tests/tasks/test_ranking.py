"""Ranking: grades, queries, and what documents are ranked by."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradgate.errors import DataError
from gradgate.tasks import TaskData, kind_of, load_task
from gradgate.tasks.spec import build_spec

ROWS = "q\td\tg\nthe day\ta\t2\nthe day\tb\t0\nthe day\tc\t1\nroad\ta\t0\nroad\tb\t2\n"


def load(folder: Path, train: str = ROWS, dev: str = ROWS, **values: Any) -> TaskData:
    for split, content in (("train", train), ("dev", dev)):
        (folder / f"{split}.tsv").write_text(content)
    own = {"name": "r", "kind": "ranking", "text": ("q", "d"), "label": "g", "folder": folder}
    return load_task(build_spec({**own, "files": {"train": "train.tsv", "dev": "dev.tsv"}, **values}, "r"))


def test_grades_are_outputs_in_their_order(tmp_path: Path) -> None:
    data = load(tmp_path, ROWS + "road\tc\t10\n")
    assert data.labels == ("0", "1", "2", "10")
    assert data.train[0] == {"text": "the day", "text_pair": "a", "query": "the day", "label": 2}
    named = ROWS.replace("2\n", "Good\n").replace("1\n", "Fair\n").replace("0\n", "Bad\n")
    assert load(tmp_path, named, named, label_map={"Bad": 0, "Fair": 1, "Good": 2}).train["label"][:] == [2, 0, 1, 0, 2]


def test_three_columns_make_a_query_and_a_document(tmp_path: Path) -> None:
    rows = "q\ttitle\tsnippet\tid\tg\nthe day\ta\tb c\t7\t0\nthe day\ta\td\t8\t1\n"
    data = load(tmp_path, rows, rows, text=("q", "title", "snippet"), query="id")
    assert data.train[0] == {"text": "the day", "text_pair": "a b c", "query": "7", "label": 0}


@pytest.mark.parametrize(
    ("rows", "values", "message"),
    [
        ("q\td\tg\na\tb\tgood\n", {}, r"dev\.tsv:2: the grade 'good' is not a whole number from 0; .*label_map"),
        ("q\td\tg\na\tb\t-3\n", {}, r"dev\.tsv:2: the grade '-3' is not a whole number"),
        ("q\td\tg\na\tb\t7\n", {}, r"dev\.tsv:2: the dev split has the label '7', which train does not have"),
        (ROWS, {"text": "q"}, r"needs two text columns or three"),
        (ROWS, {"query": "id"}, r"has no column 'id'.*`query` of the task"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, rows: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, dev=rows, **values)


def test_documents_are_ranked_by_the_expected_grade(tmp_path: Path) -> None:
    data = load(tmp_path)
    shares = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.5, 0.25, 0.25], [0.9, 0.1, 0.0001], [0.1, 0.1, 0.8]])
    scored = kind_of(data.spec).score(data.dev, data.dev, np.log(shares), data, "dev")
    assert [row["score"] for row in scored.predictions[:3]] == pytest.approx([0.7, 0.5, 0.75])
    assert [row["predicted"] for row in scored.predictions] == [0, 0, 0, 0, 2]
    assert [row["query"] for row in scored.predictions] == ["the day"] * 3 + ["road"] * 2
    first = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))  # grades 1, 2, 0 in the order of scores
    assert scored.metrics["ndcg"] == pytest.approx((first + 1) / 2)
    tied = (1 + 1 / math.log2(3) + 1 / 2) * 3 / 3 / (2 + 1 / math.log2(3))  # one predicted grade for all three
    assert scored.metrics["xglue_ndcg"] == pytest.approx((tied + 1) / 2)
    assert scored.metrics["accuracy"] == 3 / 5
