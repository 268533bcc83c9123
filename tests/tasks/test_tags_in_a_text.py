"""Tokens and tags that are written as two texts, with spaces or commas between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from support.ticket_rows import lines, queues, rows, table, texts

ROWS = 24
WRITTEN: dict[str, tuple[str, str, str]] = {
    "spaces": ("text", "labels", "B-PER O B-LOC"),
    "commas": ("sentence", "word_labels", "B-PER,O,B-LOC"),
    "one tag of BIOES": ("words", "ner_tags", "S-PER O S-LOC"),
    "a single column of labels": ("text", "label", "B-PER O B-LOC"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_texts_of_tags_are_tags(name: str, tmp_path: Path) -> None:
    text, label, tags = WRITTEN[name]
    own = [[f"Ada{n} visits Rome", tags] for n in range(ROWS)]
    (tmp_path / "t.csv").write_text(table([text, label], own))
    data = load_task(find_task(tmp_path / "t.csv"))
    row = data.train[0]
    assert (data.spec.kind, row["tokens"][1:]) == ("token-classification", ["visits", "Rome"])
    assert [(data.labels or ())[number] for number in row["label"]] == ["B-PER", "O", "B-LOC"]


@pytest.mark.parametrize("tags", ["B-PER O", "B-PER O O O", ""])
def test_another_number_of_tags_is_named(tags: str, tmp_path: Path) -> None:
    own = [[f"Ada{n} visits Rome", "B-PER O B-LOC" if n != 3 else tags] for n in range(ROWS)]
    (tmp_path / "t.tsv").write_text(table(["text", "labels"], own, "\t"))
    with pytest.raises(DataError, match=r"t\.tsv:5 has 3 tokens and \d tags"):
        load_task(find_task(tmp_path / "t.tsv"))


@pytest.mark.parametrize("labels", [["O", "B-PER"] * 12, queues(), ["very good", "quite bad"] * 12])
def test_classes_of_words_stay_classes(labels: list[str], tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(lines(rows(text=texts(), label=labels)))
    assert find_task(tmp_path / "t.jsonl").kind == "classification"
