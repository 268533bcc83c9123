"""Small data sets of every kind of task but classification and regression, in folders with a task.yaml."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support.tiny_folders import BAD, GOOD, OTHER

SPLITS = {"train": 24, "dev": 10, "test": 10}


def save_tags(folder: Path, rows: dict[str, int] = SPLITS) -> Path:
    """Good words are entities of type GOOD, bad ones of BAD, neighbours of one type one entity, in IOB2."""
    for split, draw, count in _splits(rows):
        sentences = []
        for _ in range(count):
            words = draw.choices((*GOOD, *BAD, *OTHER), k=draw.randint(2, 9))
            kinds = ["GOOD" if word in GOOD else "BAD" if word in BAD else None for word in words]
            before = [None, *kinds]
            tags = [f"{'I' if before[i] == kind else 'B'}-{kind}" if kind else "O" for i, kind in enumerate(kinds)]
            sentences.append("".join(f"{word}\t{tag}\n" for word, tag in zip(words, tags, strict=True)))
        (folder / f"{split}.txt").write_text("\n".join(sentences))
    return _describe(
        folder,
        "kind: token-classification\nmetric: entity_f1\ntext: token\nlabel: tag\n"
        "format: {type: conll, columns: [token, tag]}\n",
        "txt",
    )


def save_questions(folder: Path, *, unanswered: bool = False, rows: dict[str, int] = SPLITS) -> Path:
    """Which is the good word? Where ``unanswered``, every third context has none."""
    for split, draw, count in _splits(rows):
        paragraphs = []
        for number in range(count):
            words = draw.choices(OTHER, k=draw.randint(10, 30))
            answers: list[dict[str, Any]] = []
            if not (unanswered and number % 3 == 2):
                place = draw.randrange(len(words))
                words[place] = draw.choice(GOOD)
                answers = [{"text": words[place], "answer_start": len(" ".join([*words[:place], ""]))}]
            question = {"id": f"{split}-{number}", "question": "the good day", "answers": answers}
            paragraphs.append({"context": " ".join(words), "qas": [question]})
        content = {"version": "1.1", "data": [{"title": "moods", "paragraphs": paragraphs}]}
        (folder / f"{split}.json").write_text(json.dumps(content))
    return _describe(folder, "kind: question-answering\n", "json")


def save_choices(folder: Path, rows: dict[str, int] = SPLITS) -> Path:
    """COPA's form, with its line ends in XCOPA: an effect has the premise's mood, a cause the other one."""
    for split, draw, count in _splits(rows):
        lines = []
        for number in range(count):
            mood, asked = draw.choice((GOOD, BAD)), draw.choice(("cause", "effect"))
            other = BAD if mood is GOOD else GOOD
            right, wrong = (mood, other) if asked == "effect" else (other, mood)
            label = draw.randrange(2)
            choices = [draw.choice(right), draw.choice(wrong)][:: 1 if label == 0 else -1]
            row = {"premise": f"the day was {draw.choice(mood)}", "choice1": choices[0], "choice2": choices[1]}
            lines.append(json.dumps({**row, "question": asked, "label": label, "idx": number}))
        (folder / f"{split}.jsonl").write_bytes("".join(f"{line}\r\n" for line in lines).encode())
    return _describe(folder, "kind: multiple-choice\n", "jsonl")


def save_ranking(folder: Path, rows: dict[str, int] = SPLITS) -> Path:
    """Five documents a query; the grade is the number of good words, 0 to 2."""
    for split, draw, count in _splits(rows):
        lines = ["query\ttitle\tsnippet\tgrade"]
        for number in range(count):
            for _ in range(5):
                words = [draw.choice((*GOOD, *BAD)) for _ in range(2)]
                grade = sum(word in GOOD for word in words)
                lines.append(f"{OTHER[number % len(OTHER)]} {number}\t{words[0]}\t{words[1]}\t{grade}")
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return _describe(folder, "kind: ranking\ntext: [query, title, snippet]\n", "tsv")


def save_label_sets(folder: Path, rows: dict[str, int] = SPLITS) -> Path:
    """A row has the labels good and bad if it has such a word, and dull if it is short; some have none."""
    for split, draw, count in _splits(rows):
        lines = []
        for _ in range(count):
            words = draw.choices((*GOOD, *BAD, *OTHER, *OTHER), k=draw.randint(4, 9))
            marks = {"good": set(GOOD) & set(words), "bad": set(BAD) & set(words), "dull": len(words) < 6}
            lines.append(json.dumps({"text": " ".join(words), "label": [label for label in marks if marks[label]]}))
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return _describe(folder, "kind: multi-label\n", "jsonl")


SAVE: dict[str, Callable[[Path], Path]] = {
    "multi-label": save_label_sets,
    "token-classification": save_tags,
    "question-answering": save_questions,
    "multiple-choice": save_choices,
    "ranking": save_ranking,
}


def _splits(rows: dict[str, int]) -> Iterator[tuple[str, random.Random, int]]:
    for seed, (split, count) in enumerate(rows.items()):
        yield split, random.Random(seed), count


def _describe(folder: Path, description: str, ending: str) -> Path:
    files = ", ".join(f"{split}: {split}.{ending}" for split in SPLITS)
    (folder / "task.yaml").write_text(f"{description}files: {{{files}}}\n")
    return folder
