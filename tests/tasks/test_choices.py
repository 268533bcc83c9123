"""Multiple choice as people store it: a column per choice, passages, answers by number, letter or text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from gradgate.tasks.unlabelled import examples_of, load_unlabelled, read_file
from support.ticket_rows import lines, rows, table, texts


@dataclass(frozen=True)
class Stored:
    """How rows are stored: a header, the cells of row n, and what the first row becomes."""

    header: list[str]
    cells: Callable[[int], list[Any]]
    premise: str
    choices: list[str]
    labels: list[int]


def said(number: int) -> str:
    return texts()[number]


STORED = {
    "COPA": Stored(
        ["premise", "choice1", "choice2", "question", "label"],
        lambda n: [said(n), "it rained", "it snowed", ("cause", "effect")[n % 2], n % 2],
        f"{said(0)} What was the cause?",
        ["it rained", "it snowed"],
        [0, 1, 0],
    ),
    "letters": Stored(
        ["id", "question", "A", "B", "C", "answer"],
        lambda n: [n, said(n), "one", "two", "three", "ABC"[n % 3]],
        said(0),
        ["one", "two", "three"],
        [0, 1, 2],
    ),
    "numbers from 1": Stored(
        ["sentence", "option1", "option2", "answer"],
        lambda n: [said(n), "Ada", "Bob", n % 2 + 1],
        said(0),
        ["Ada", "Bob"],
        [0, 1, 0],
    ),
    "a passage": Stored(
        ["context", "question", "answerA", "answerB", "answerC", "label"],
        lambda n: [said(n), "Why?", "a bet", "a dare", "an error", n % 3 + 1],
        f"{said(0)} Why?",
        ["a bet", "a dare", "an error"],
        [0, 1, 2],
    ),
    "answers as texts": Stored(
        ["prompt", "option_a", "option_b", "answer"],
        lambda n: [said(n), f"yes {n}", f"no {n}", f"{('yes', 'no')[n % 2]} {n}"],
        said(0),
        ["yes 0", "no 0"],
        [0, 1, 0],
    ),
    "names of columns": Stored(
        ["goal", "sol1", "sol2", "label"],
        lambda n: [said(n), "push", "pull", ("sol1", "sol2")[n % 2]],
        said(0),
        ["push", "pull"],
        [0, 1, 0],
    ),
}


def write(folder: Path, stored: Stored, name: str = "t.csv", broken: bool = False) -> Path:
    cells = [stored.cells(n) for n in range(24)]
    if broken:
        cells[3][-1] = "Q"
    (folder / name).write_text(table(stored.header, cells))
    return folder / name


@pytest.mark.parametrize("name", STORED)
def test_a_column_per_choice_is_read(name: str, tmp_path: Path) -> None:
    stored = STORED[name]
    spec = find_task(write(tmp_path, stored))
    data = load_task(spec)
    by_premise = {row["premise"]: row for row in data.train}
    by_premise |= {row["premise"]: row for split in (data.dev, *data.tests.values()) for row in split}
    assert (spec.kind, spec.form) == ("multiple-choice", "columns of choices")
    assert by_premise[stored.premise]["choices"] == stored.choices
    labels = [row["label"] for n in range(3) for text, row in by_premise.items() if text.startswith(said(n))]
    assert labels == stored.labels


@pytest.mark.parametrize(
    ("choices", "answers", "labels"),
    [
        (["2", "4", "7", "9"], ["4", "9", "2"], [1, 3, 0]),
        (["1", "2", "3", "4"], ["4", "1", "3"], [3, 0, 2]),
        (["2", "4", "7", "9"], ["4", "1", "3"], [3, 0, 2]),
    ],
)
def test_numbers_in_columns_may_be_texts_of_choices(
    choices: list[str], answers: list[str], labels: list[int], tmp_path: Path
) -> None:
    header = ["question", "choice1", "choice2", "choice3", "choice4", "answer"]
    cells = [[text, *choices, answers[n % 3]] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(header, cells))
    train = load_task(find_task(tmp_path / "t.csv")).train
    expected = dict(zip(texts(), labels * 8, strict=True))
    assert [row["label"] for row in train] == [expected[row["premise"]] for row in train]


@pytest.mark.parametrize("name", STORED)
def test_an_answer_without_choice_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv:5: the answer 'Q' is not one of the \d choices"):
        load_task(find_task(write(tmp_path, STORED[name], broken=True)))


@pytest.mark.parametrize(
    ("choices", "answers", "labels"),
    [
        (["3", "4", "7"], ["4", "7", "3"], [1, 2, 0]),
        (["3", "4", "7"], ["1", "2", "0"], [1, 2, 0]),
        (["1", "2", "3"], [1, 2, 0], [1, 2, 0]),
        (["0", "1", "2"], ["1", "2", "0"], [1, 2, 0]),
        (["1", "2", "3"], ["1", "2", "3"], [0, 1, 2]),
    ],
)
def test_numbers_may_be_texts_of_choices(
    choices: list[str], answers: list[Any], labels: list[int], tmp_path: Path
) -> None:
    own = rows(question=texts(), choices=[choices] * 24, answer=answers * 8)
    (tmp_path / "t.jsonl").write_text(lines(own))
    train = load_task(find_task(tmp_path / "t.jsonl")).train
    expected = dict(zip(texts(), labels * 8, strict=True))
    assert [row["label"] for row in train] == [expected[row["premise"]] for row in train]


def test_numbers_that_may_be_either_are_named(tmp_path: Path) -> None:
    own = rows(question=texts(), choices=[["1", "2", "3"]] * 24, answer=["1", "2"] * 12)
    (tmp_path / "t.jsonl").write_text(lines(own))
    with pytest.raises(DataError, match=r"t\.jsonl:1: the answer '1' may be the number of a choice, from 0, or its te"):
        find_task(tmp_path / "t.jsonl")


def test_train_says_where_numbers_begin(tmp_path: Path) -> None:
    stored = STORED["numbers from 1"]
    write(tmp_path, stored, "train.csv")
    (tmp_path / "dev.csv").write_text(table(stored.header, [[said(n), "Ada", "Bob", 1] for n in range(4)]))
    data = load_task(find_task(tmp_path))
    assert set(data.dev["label"]) == {0}
    assert "answers count from 1: 1 is 'option1'" in data.notes


def test_choices_are_read_without_answers(tmp_path: Path) -> None:
    stored = STORED["letters"]
    spec = find_task(write(tmp_path, stored))
    (tmp_path / "new.csv").write_text(table(stored.header[:-1], [stored.cells(n)[:-1] for n in range(3)]))
    rows = examples_of(spec, read_file(tmp_path / "new.csv", spec))
    found = load_unlabelled(spec, load_task(spec).labels, rows).tests["test"]
    assert found["choices"][0] == stored.choices


@pytest.mark.parametrize("answer", ["busy", "late"])
def test_other_labels_beside_letters_are_classes(answer: str, tmp_path: Path) -> None:
    cells = [[text, "3", "4", (answer, "calm")[n % 2]] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(["question", "a", "b", "label"], cells))
    assert find_task(tmp_path / "t.csv").kind == "classification"


@pytest.mark.parametrize("cells", [["0.5", "12"], ["0", "1"], ["-3", "1e-5"]])
def test_numbers_in_columns_are_no_choices(cells: list[str], tmp_path: Path) -> None:
    own = [[text, *cells, n % 2] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(["text", "a", "b", "label"], own))
    assert find_task(tmp_path / "t.csv").kind == "classification"


def test_a_passage_stays_with_listed_choices(tmp_path: Path) -> None:
    own = rows(article=texts(), question=["Who is it?"] * 24, options=[["a b", "c d"]] * 24, answer=["A", "B"] * 12)
    (tmp_path / "t.jsonl").write_text(lines(own))
    assert load_task(find_task(tmp_path / "t.jsonl")).train[0]["premise"].endswith(" Who is it?")
