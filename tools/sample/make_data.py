"""Write the sample's tasks: ``python -m tools.sample.make_data --out DIR``. The same files on every machine.

Train and dev are in English; test says the same in every language, row by row.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from gradgate.sample import DATA, OTHER_TEXT
from tools.sample.corpus import review as opinions
from tools.sample.draw import Dice, Draw
from tools.sample.frames import Clause, Event, Statement
from tools.sample.languages import GRAMMARS, SOURCE, Grammar
from tools.sample.lexicon import concepts
from tools.sample.tasks.answering import Puzzle, puzzle, realise
from tools.sample.tasks.describing import Description, description, prompt, response
from tools.sample.tasks.inference import LABELS as INFERENCES
from tools.sample.tasks.inference import Inference, inference
from tools.sample.tasks.sentiment import LABELS as SENTIMENTS
from tools.sample.tasks.sentiment import Review, review
from tools.sample.words import Word

Item = TypeVar("Item")
SPLITS = ("train", "dev", "test")
_OTHER_TEXTS = 200


@dataclass(frozen=True)
class Task(Generic[Item]):
    """One task of the sample.

    Args:
        name: its folder.
        ending: of its files.
        rows: of train, dev and test.
        seed: of train; dev and test take the next ones.
        draw: the next item of a split, by its number.
        sentences: an item's sentences in one language.
        content: of a file.
        languages: that test is in.
    """

    name: str
    ending: str
    rows: tuple[int, int, int]
    seed: int
    draw: Callable[[Draw, int], Item]
    sentences: Callable[[Grammar, Item], list[list[Word]]]
    content: Callable[[Grammar, Sequence[Item]], str]
    languages: tuple[str, ...] = tuple(GRAMMARS)

    def splits(self) -> dict[str, list[Item]]:
        """Draw the items of each split; none has the English text of another."""
        seen: set[str] = set()
        return {
            split: list(islice(self._fresh(split, self.seed + place, seen), self.rows[place]))
            for place, split in enumerate(SPLITS)
        }

    def _fresh(self, split: str, seed: int, seen: set[str]) -> Iterator[Item]:
        draw, english = Draw(Dice(seed), FAMILIAR if split == "train" else None), GRAMMARS[SOURCE]
        number = 0
        while True:
            item = self.draw(draw, number)
            text = english.join_sentences(self.sentences(english, item))
            if text not in seen:
                seen.add(text)
                number += 1
                yield item


def _familiar() -> frozenset[str]:
    """Return the names that train may use; every third one first occurs in dev and test."""
    words = concepts()
    names = (*words.genders, *words.surnames, *words.cities, *words.brands)
    return frozenset(name for place, name in enumerate(names) if place % 3 != 2)


FAMILIAR = _familiar()


def _json_lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _review_sentences(grammar: Grammar, item: Review) -> list[list[Word]]:
    return [grammar.statement(one) for one in item.statements]


def _reviews(grammar: Grammar, items: Sequence[Review]) -> str:
    return _json_lines(
        {"text": grammar.join_sentences(_review_sentences(grammar, item)), "label": item.label} for item in items
    )


def _inference_sentences(grammar: Grammar, item: Inference) -> list[list[Word]]:
    return [grammar.sentence([item.premise]), grammar.sentence([item.hypothesis])]


def _inferences(grammar: Grammar, items: Sequence[Inference]) -> str:
    return _json_lines(
        {
            "premise": grammar.text(grammar.sentence([item.premise])),
            "hypothesis": grammar.text(grammar.sentence([item.hypothesis])),
            "label": item.label,
        }
        for item in items
    )


def _statement(draw: Draw, number: int) -> Statement:
    """Draw an event, or an event and a quality."""
    clauses: tuple[Clause, ...] = (draw.event(),)
    if number % 3 == 0:
        clauses = (draw.event(), draw.quality(("positive", "negative", "neutral")))
    elif number % 9 == 1:
        clauses = (draw.quality(("positive", "negative", "neutral")),)
    return Statement(clauses, "and" if draw.dice.chance(0.5) else "but")


def _named(draw: Draw, number: int) -> Event:
    """Draw an event with a name in it, except for every tenth."""
    while True:
        event = draw.event()
        english = GRAMMARS[SOURCE].event(event)
        if number % 10 == 0 or any(word.entity != "O" for word in english):
            return event


def _columns(sentences: Iterable[list[Word]], label: Callable[[Word], str]) -> str:
    return "".join("".join(f"{word.text}\t{label(word)}\n" for word in sentence) + "\n" for sentence in sentences)


def _parts_of_speech(grammar: Grammar, items: Sequence[Statement]) -> str:
    return _columns((grammar.statement(item) for item in items), lambda word: word.tag)


def _entities(grammar: Grammar, items: Sequence[Event]) -> str:
    return _columns((grammar.sentence([item]) for item in items), lambda word: word.entity)


def _puzzle_sentences(grammar: Grammar, item: Puzzle) -> list[list[Word]]:
    asked = grammar.asking(item.events[item.about], item.asked)
    return [asked, *(grammar.sentence([event]) for event in item.events)]


def _questions(grammar: Grammar, items: Sequence[Puzzle]) -> str:
    """Write SQuAD's JSON, one paragraph per line."""
    paragraphs = []
    for number, item in enumerate(items):
        made = realise(grammar, item)
        answers = [{"text": made.answer, "answer_start": made.start}]
        question = {"id": f"{number:04}", "question": made.question, "answers": answers}
        paragraphs.append(json.dumps({"context": made.context, "qas": [question]}, ensure_ascii=False))
    return '{"version": "1.1", "data": [{"title": "sample", "paragraphs": [\n' + ",\n".join(paragraphs) + "\n]}]}\n"


def _descriptions(grammar: Grammar, items: Sequence[Description]) -> str:
    return _json_lines({"prompt": prompt(grammar, item), "response": response(grammar, item)} for item in items)


TASKS: dict[str, Task[Any]] = {
    task.name: task
    for task in (
        Task(
            "sentiment",
            "jsonl",
            (1600, 200, 200),
            101,
            lambda d, n: review(d, SENTIMENTS[n % 4]),
            _review_sentences,
            _reviews,
        ),
        Task(
            "nli",
            "jsonl",
            (1500, 180, 180),
            111,
            lambda d, n: inference(d, INFERENCES[n % 3]),
            _inference_sentences,
            _inferences,
        ),
        Task("pos", "tsv", (600, 100, 150), 121, _statement, lambda g, s: [g.statement(s)], _parts_of_speech),
        Task("ner", "tsv", (800, 100, 200), 131, _named, lambda g, e: [g.sentence([e])], _entities),
        Task("qa", "json", (1200, 120, 120), 141, lambda d, n: puzzle(d), _puzzle_sentences, _questions),
        Task(
            "generation",
            "jsonl",
            (1200, 150, 200),
            151,
            lambda d, n: description(d),
            lambda g, item: [g.sentence([item.event])],
            _descriptions,
            languages=(SOURCE,),
        ),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the embedded sample tasks.")
    parser.add_argument("--out", type=Path, default=DATA, help="folder to write to (default: the package's own)")
    out: Path = parser.parse_args().out
    for name, task in TASKS.items():
        (out / name).mkdir(parents=True, exist_ok=True)
        for file, content in files(task).items():
            (out / name / file).write_text(content, encoding="utf-8", newline="\n")
    (out / OTHER_TEXT.name).write_text(other_text(), encoding="utf-8", newline="\n")


def files(task: Task[Any]) -> dict[str, str]:
    """Return file name -> content: train and dev in the source language, test in all."""
    made = {}
    for split, items in task.splits().items():
        for code in task.languages if split == "test" else (SOURCE,):
            made[f"{split}.{code}.{task.ending}"] = task.content(GRAMMARS[code], items)
    return made


def other_text() -> str:
    """Write what a decoder may forget while it learns to describe events: opinions, one text per line."""
    draw, english, texts = Draw(Dice(161)), GRAMMARS[SOURCE], dict.fromkeys([""])
    while len(texts) <= _OTHER_TEXTS:
        texts[english.join_sentences([english.statement(one) for one in opinions(draw)])] = None
    return "\n".join(list(texts)[1:]) + "\n"


def sentences() -> set[str]:
    """Return every sentence of the tasks in every language that they have it in."""
    found: set[str] = set()
    for task in TASKS.values():
        for split, items in task.splits().items():
            for code in task.languages if split == "test" else (SOURCE,):
                grammar = GRAMMARS[code]
                for item in items:
                    found.update(grammar.text(words) for words in task.sentences(grammar, item))
    return found


if __name__ == "__main__":
    main()
