"""Forms of multiple choice: a list of choices in each row, or one column per choice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.forms.base import (
    Form,
    are_lists,
    are_texts,
    cells_of,
    first_cells,
    found_name,
    is_there,
    with_columns,
)
from gradgate.tasks.readers.rows import MISSING, SourceTable, as_text, noted
from gradgate.tasks.written import parsed

LISTS = "endings|choices|options"
_MOST = 10
_LETTERS = "abcdefghij"
_FAMILIES = (
    *(
        [f"{stem}{number}" for number in range(begin, begin + _MOST)]
        for begin in (0, 1)
        for stem in ("choice", "choice_", "option", "option_", "ending", "ending_", "sol", "answer", "opt", "op")
    ),
    *(
        [f"{stem}{letter}" for letter in _LETTERS]
        for stem in ("", "choice", "choice_", "option", "option_", "option ", "answer", "answer_", "op", "opt")
    ),
)
"""Names of the columns of choices, in lower case and in their order."""
_PASSAGE = "context|passage|article|support|story|premise"
_ASKED = "question|startphrase|ctx|prompt|stem|goal|premise|context|sentence|text"
_ANSWER = "answer|answerkey|label|gold|correct|correct_answer|answer_key|cop"
_CAUSES = ("cause", "effect")


def choice_columns(table: SourceTable) -> list[str]:
    """Return the columns of choices, one per choice, in their order; empty for a table without them."""
    for family in _FAMILIES:
        named = [found_name(table, name) for name in family]
        width = next((place for place, name in enumerate(named) if name is None), len(named))
        if width > 1:
            return [name for name in named[:width] if name is not None]
    return []


def has_choices(table: SourceTable) -> bool:
    """Return True if rows have choices, in a list or in columns."""
    return _has_lists(table) or _has_columns(table)


def _has_lists(table: SourceTable) -> bool:
    return are_lists([_texts_of(cell) for cell in first_cells(table, LISTS)], str)


def _has_columns(table: SourceTable) -> bool:
    """Return True if there are columns of choices, and most answers name one of them."""
    columns = choice_columns(table)
    if not columns or not are_texts(first_cells(table, _ASKED)):
        return False
    choices = [first_cells(table, name) for name in columns]
    if not all(choices) or found_name(table, _ANSWER) in columns:
        return False
    answers = [as_text(cell) for cell in first_cells(table, _ANSWER)]
    if columns[0].lower() in _LETTERS and not _name_choices(answers, choices):
        return False
    known = {*map(str, range(len(columns) + 1)), "-1", *_LETTERS[: len(columns)], *(name.lower() for name in columns)}
    texts = {as_text(cell) for cells in choices for cell in cells}
    return 2 * sum(word.lower() in known or word in texts for word in answers) >= len(answers)


def _name_choices(answers: Sequence[str], choices: Sequence[Sequence[Any]]) -> bool:
    """Return False if columns such as ``a`` and ``b`` have numbers, and answers are numbers too: these are features."""
    cells = [as_text(cell) for column in choices for cell in column]
    numbers = all(re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?|true|false|", cell) for cell in cells)
    return not numbers or any(word.isalpha() for word in answers)


def _texts_of(cell: Any) -> Any:
    """Return the choices of a row, of which some data sets name each."""
    cell = parsed(cell)
    return cell.get("text") if isinstance(cell, dict) else cell


def _asks_causes(table: SourceTable) -> str | None:
    """Return the column that asks for ``cause`` or ``effect``, as COPA's; None without one."""
    name = found_name(table, "question")
    cells = first_cells(table, "question")
    asked = sum(cell in _CAUSES for cell in cells)
    return name if found_name(table, "premise") and asked and 2 * asked >= len(cells) else None


def _list_options(table: SourceTable) -> dict[str, Any]:
    width = len(_texts_of(first_cells(table, LISTS)[0]))
    return {"choices": [f"choice {place}" for place in range(1, width + 1)], "question": None}


def _column_options(table: SourceTable) -> dict[str, Any]:
    names = choice_columns(table)
    found: dict[str, Any] = {"choices": names, "question": _asks_causes(table)}
    if _count_from_one(table):
        found["label_map"] = {str(place): str(place - 1) for place in range(1, len(names) + 1)}
    return found


def _count_from_one(table: SourceTable) -> bool:
    """Return True if answers are numbers of which the largest is the number of choices, and not texts of choices."""
    answers = cells_of(table, _ANSWER)
    words = {as_text(cell) for cell in answers}
    if "0" in words or str(len(choice_columns(table))) not in words or not all(word.isdecimal() for word in words):
        return False
    return not _are_texts_of_choices(table, answers, *_in_columns(table))


def _in_columns(table: SourceTable) -> tuple[list[list[Any]], list[list[str]]]:
    """Return the choices of each row, and the names of their columns in lower case."""
    names = choice_columns(table)
    rows = [list(cells) for cells in zip(*(table.columns[name] for name in names), strict=True)]
    return rows, [[name.lower() for name in names]] * len(rows)


def _premises(table: SourceTable) -> Sequence[Any]:
    """Return what is asked in each row, after the passage that it is about."""
    if _asks_causes(table):
        return cells_of(table, "premise")
    asked = found_name(table, _ASKED)
    passage = found_name(table, _PASSAGE)
    if asked is None or passage is None or passage == asked:
        return cells_of(table, _ASKED)
    pairs = zip(table.columns[passage], table.columns[asked], strict=True)
    return [f"{text} {question}" if is_there(text) and is_there(question) else question for text, question in pairs]


def _read_lists(table: SourceTable) -> SourceTable:
    """Make a column of each choice, and a number from 0 of each answer, which may be a number, a letter or the text."""
    width = len(_texts_of(first_cells(table, LISTS)[0]))
    rows = [_texts_of(cell) for cell in cells_of(table, LISTS)]
    for row, choices in enumerate(rows):
        if not isinstance(choices, list) or len(choices) != width:
            found = f"{len(choices)} choices" if isinstance(choices, list) else f"{choices!r:.60} as choices"
            raise DataError(
                f"{table.place(row)} has {found}, but the first row has {width}; every row needs the same number. "
                f"Remove the "
                "rows that differ, or train on them as another task"
            )
    columns: dict[str, Any] = {f"choice {place + 1}": [choices[place] for choices in rows] for place in range(width)}
    columns["premise"] = _premises(table)
    if found_name(table, _ANSWER):
        cells = [parsed(cell) for cell in cells_of(table, LISTS)]
        columns["label"] = _numbers(table, rows, [_names_in(cell) for cell in cells])
    return with_columns(table, columns, [LISTS, _ANSWER])


def _read_columns(table: SourceTable) -> SourceTable:
    """Make a number of each answer. Numbers stay as they are: the ``label_map`` of the task says whether they count
    from 1, as train shows it.
    """
    names = choice_columns(table)
    columns: dict[str, Any] = {"premise": _premises(table)}
    if not found_name(table, _ANSWER):
        return with_columns(table, columns)
    from_one = _count_from_one(table)
    table = with_columns(table, {**columns, "label": _numbers(table, *_in_columns(table))}, [_ANSWER])
    return noted(table, f"answers count from 1: 1 is {names[0]!r}") if from_one else table


def _numbers(table: SourceTable, rows: list[list[Any]], named: list[list[str]]) -> list[Any]:
    answers = cells_of(table, _ANSWER)
    are_texts = _are_texts_of_choices(table, answers, rows, named)
    return [_number(cell, rows[row], named[row], table.place(row), are_texts) for row, cell in enumerate(answers)]


def _are_texts_of_choices(
    table: SourceTable, answers: Sequence[Any], rows: list[list[Any]], named: list[list[str]]
) -> bool:
    """Return True if answers such as "3" are the text of a choice, as in sums; False if they are its number.

    Raises:
        DataError: if they may be either, and it makes a difference.
    """
    words = {row: cell.strip() for row, cell in enumerate(answers) if isinstance(cell, str)}
    digits = {row: word for row, word in words.items() if word.isdecimal() and word not in named[row]}
    texts = {row: [as_text(choice) for choice in rows[row]] for row in digits}
    if not digits or any(word not in texts[row] for row, word in digits.items()):
        return False
    if any(int(word) >= len(rows[row]) for row, word in digits.items()):
        return True
    for row, word in digits.items():
        if texts[row].index(word) != int(word):
            raise DataError(
                f"{table.place(row)}: the answer {word!r:.60} may be the number of a choice, from 0, or its text, and "
                "so may all others. Write letters from A in place of it"
            )
    return False


def _names_in(cell: Any) -> list[str]:
    return [str(name) for name in cell.get("label", [])] if isinstance(cell, dict) else []


def _number(answer: Any, texts: list[Any], names: list[str], place: str, are_texts: bool) -> Any:
    """Return the number of the right choice from 0; the cell itself if a row has no answer."""
    word = as_text(answer)
    if word in ("", "-1") or answer is MISSING:
        return answer
    if word in names or word.lower() in names:
        return names.index(word if word in names else word.lower())
    if word.isdecimal() and not are_texts:
        return int(word)
    if word in (written := [as_text(text) for text in texts]):
        return written.index(word)
    if len(word) == 1 and word.isalpha() and ord(word.upper()) - ord("A") < len(texts):
        return ord(word.upper()) - ord("A")
    raise DataError(
        f"{place}: the answer {word!r:.60} is not one of the {len(texts)} choices; expected a number from 0, a letter "
        "from A, or the text of a choice. Correct it"
    )


CHOICES = (
    Form(
        "choices", "multiple-choice", ("question|ctx|context|prompt|stem", LISTS), (_ANSWER,),
        "a question after its passage, a list of choices, and the right one by number from 0, letter or text",
        {"question": "2+2?", "choices": ["3", "4"], "answer": 1}, _read_lists, _has_lists, _list_options,
        optional=(_PASSAGE,),
    ),
    Form(
        "columns of choices", "multiple-choice", (_ASKED,), (_ANSWER,),
        "a question after its passage, a column per choice (`choice1`, `choice2` or `A`, `B`), and the right "
        "one by number, letter or text; `question` may be `cause` or `effect`, as in COPA",
        {"question": "2+2?", "A": "3", "B": "4", "answer": "B"}, _read_columns, _has_columns, _column_options,
        optional=(_PASSAGE,), further=choice_columns,
    ),
)  # fmt: skip
