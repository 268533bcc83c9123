"""Write the sample task: ``python -m gradgate.sample.make_data --out DIR``. The same files on every machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from gradgate.sample import TASK
from gradgate.sample.grammar import Dice
from gradgate.sample.lexicon import Split, for_split, load
from gradgate.sample.reviews import LABELS, Review, labelled

# Rows and seed of each split, in the order of writing: a later split never repeats a text of an earlier one.
SPLITS: dict[Split, tuple[int, int]] = {"train": (1400, 101), "dev": (300, 102), "test": (600, 103)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the embedded sample task.")
    parser.add_argument("--out", type=Path, default=TASK, help="folder to write to (default: the package's own)")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (out / name).write_text(content, encoding="utf-8", newline="\n")


def files() -> dict[str, str]:
    """The content of train.jsonl, dev.jsonl and test.jsonl, by file name."""
    return {f"{split}.jsonl": _lines(reviews) for split, reviews in splits().items()}


def splits() -> dict[Split, list[Review]]:
    """The labelled reviews of each split: labels in equal numbers, and no text twice."""
    lexicon = load()
    seen: set[str] = set()
    made: dict[Split, list[Review]] = {}
    for split, (rows, seed) in SPLITS.items():
        dice, words = Dice(seed), for_split(lexicon, split)
        made[split] = []
        while len(made[split]) < rows:
            review = labelled(dice, words, LABELS[len(made[split]) % len(LABELS)])
            if review.text not in seen:
                seen.add(review.text)
                made[split].append(review)
    return made


def _lines(reviews: list[Review]) -> str:
    return "".join(json.dumps({"text": review.text, "label": review.label}) + "\n" for review in reviews)


if __name__ == "__main__":
    main()
