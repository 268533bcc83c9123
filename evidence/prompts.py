"""Write sentences tagged with entities as prompts and responses, for a decoder that writes out the entities."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_SPLITS = ("train", "dev", "test")
_NOTHING = "none"
_BETWEEN = " ; "


def write_prompts(source: Path, most_words: int, task: Path, target: Path) -> Path:
    """Write ``train``, ``dev`` and ``test`` of a folder as JSON lines, with a response of ``none`` without an entity.

    Args:
        source: folder of files in the CoNLL format, with the word first in a line and its BIO tag last.
        most_words: longer sentences are left out.
        task: the file that describes the prompts; it is copied to their folder, so that an analysis can name it.
        target: folder of the JSON lines.
    """
    target.mkdir(parents=True, exist_ok=True)
    for split in _SPLITS:
        sentences = _sentences((source / f"{split}.txt").read_text(encoding="utf-8"))
        rows = (_row(words, tags) for words, tags in sentences if len(words) <= most_words)
        (target / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    shutil.copyfile(task, target / task.name)
    return target


def prompted_texts(settings: dict[str, Any]) -> Iterator[str]:
    """Yield all that a model reads in a study: prompts with and without responses, and the text that is forgotten."""
    separator = yaml.safe_load(Path(settings["task"]).read_text(encoding="utf-8"))["separator"]
    for split in _SPLITS:
        for line in Path(settings["data"], f"{split}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            yield from (f"{row['prompt']}{separator}", f"{row['prompt']}{separator}{row['response']}", row["response"])
    other = Path(settings["forgetting"].split(":")[0]).read_text(encoding="utf-8")
    yield from (field for line in other.splitlines() for field in line.split("\t"))


def _sentences(text: str) -> Iterator[tuple[list[str], list[str]]]:
    for block in text.split("\n\n"):
        fields = [line.split("\t") for line in block.splitlines() if line and not line.startswith("-DOCSTART-")]
        if fields:
            yield [columns[0] for columns in fields], [columns[-1] for columns in fields]


def _row(words: list[str], tags: list[str]) -> dict[str, str]:
    entities: list[str] = []
    before = "O"
    for word, tag in zip(words, tags, strict=True):
        if tag.startswith("I-") and before != "O":
            entities[-1] += f" {word}"
        elif tag != "O":
            entities.append(word)
        before = tag
    return {"prompt": " ".join(words), "response": _BETWEEN.join(entities) or _NOTHING}
