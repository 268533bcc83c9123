"""Questions whose answers are written without their places, and questions that are answered by a label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import DataError
from gradgate.tasks import find_task, load_task
from support.ticket_rows import table

ROWS = 24


def context(number: int) -> str:
    return f"The bridge {number} near Lyon opened in {1900 + number}, and Lyon paid"


def write(folder: Path, header: list[str], answers: list[list[Any]]) -> Path:
    cells = [[context(number), "Which is it?", *own] for number, own in enumerate(answers)]
    (folder / "t.csv").write_text(table(header, cells))
    return folder / "t.csv"


FOUND: dict[str, tuple[list[str], list[list[Any]], str, str]] = {
    "once": (["context", "question", "answer"], [[str(1900 + n)] for n in range(ROWS)], "19", ""),
    "several times": (["passage", "question", "answer_text"], [["Lyon"]] * ROWS, "Lyon opened", "occur several times"),
    "with a place": (
        ["context", "question", "answer", "answer_start"],
        [["Lyon", context(n).rindex("Lyon")] for n in range(ROWS)],
        "Lyon paid",
        "",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_an_answer_is_found_in_its_context(name: str, tmp_path: Path) -> None:
    header, answers, begins, note = FOUND[name]
    data = load_task(find_task(write(tmp_path, header, answers)))
    row = data.train[0]
    assert data.spec.kind == "question-answering"
    assert row["context"][row["starts"][0] :].startswith(begins)
    assert note in " ".join(data.notes)


BROKEN: dict[str, tuple[str, list[Any], str]] = {
    "another place": ("once", ["Oslo"], r":5: the answer 'Oslo' is not in its context.*kind='generation'"),
    "nothing": ("several times", [""], r":5: the answer is empty; expected a part of the context"),
    "a wrong start": ("with a place", ["Lyon", 3], r":5 .*is not at character 3 of its context"),
    "a start in words": ("with a place", ["Lyon", "third"], r":5 .*third"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_elsewhere_is_named(name: str, tmp_path: Path) -> None:
    found, own, message = BROKEN[name]
    header, answers, _, _ = FOUND[found]
    with pytest.raises(DataError, match=message):
        load_task(find_task(write(tmp_path, header, [*answers[:3], own, *answers[4:]])))


@pytest.mark.parametrize("words", [("yes", "no"), ("True", "False"), ("supported", "refuted")])
def test_questions_with_verdicts_keep_both_texts(words: tuple[str, str], tmp_path: Path) -> None:
    path = write(tmp_path, ["passage", "question", "answer"], [[words[n % 2]] for n in range(ROWS)])
    spec = find_task(path)
    assert (spec.kind, spec.text_columns) == ("classification", ("question", "passage"))
