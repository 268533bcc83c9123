"""Sentences with tagged entities, written as prompts and responses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from evidence.prompts import prompted_texts, write_prompts

SENTENCES = """\
-DOCSTART-\tX\tO\tO

The\tNN\tO\tO
colon\tNN\tO\tB-Disease
cancer\tNN\tO\tI-Disease
,\tNN\tO\tO
ataxia\tNN\tO\tI-Disease

No\tNN\tO\tO
name\tNN\tO\tO

far\tNN\tO\tO
too\tNN\tO\tO
long\tNN\tO\tO
to\tNN\tO\tO
be\tNN\tO\tO
kept\tNN\tO\tO
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Return a folder with prompts of sentences of at most five words."""
    source = tmp_path / "source"
    source.mkdir()
    for split in ("train", "dev", "test"):
        (source / f"{split}.txt").write_text(SENTENCES, encoding="utf-8")
    task = tmp_path / "task.yaml"
    task.write_text(yaml.safe_dump({"separator": "\nDiseases: "}), encoding="utf-8")
    return write_prompts(source, 5, task, tmp_path / "prompts")


def test_entities_are_the_response_and_long_sentences_are_left_out(written: Path) -> None:
    rows = [json.loads(line) for line in (written / "dev.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows == [
        {"prompt": "The colon cancer , ataxia", "response": "colon cancer ; ataxia"},
        {"prompt": "No name", "response": "none"},
    ]


def test_texts_are_all_that_a_model_reads(written: Path, tmp_path: Path) -> None:
    task, other = written / "task.yaml", tmp_path / "other.tsv"
    other.write_text("index\tsentence1\n0\tOther text.\n", encoding="utf-8")
    settings = {"task": str(task), "data": str(written), "forgetting": f"{other}:column=sentence1,tokens=9"}
    found = set(prompted_texts(settings))
    assert {"No name\nDiseases: ", "No name\nDiseases: none", "none", "Other text."} <= found
