"""Forms of questions whose answers are parts of a context."""

from __future__ import annotations

from gradgate.errors import DataError
from gradgate.tasks.forms.base import (
    LOOKED_AT,
    Form,
    are_texts,
    cells_of,
    first_cells,
    found_name,
    is_there,
    with_columns,
)
from gradgate.tasks.readers.rows import SourceTable, as_text, noted
from gradgate.tasks.written import parsed

_CONTEXT, _SPOKEN, _BEGIN = "context|passage", "answer|answer_text", "answer_start|start"
_VERDICTS = frozenset({"yes", "no", "maybe", "true", "false"})


def _has_answers(table: SourceTable) -> bool:
    answers = first_cells(table, "answers")
    return are_texts(first_cells(table, "context")) and all(isinstance(cell, dict | list) for cell in answers)


def _read_answers(table: SourceTable) -> SourceTable:
    if found_name(table, "answers") is None:
        return table
    return with_columns(table, {"answers": [parsed(cell) for cell in cells_of(table, "answers")]})


def _has_answer_words(table: SourceTable) -> bool:
    """Return True if most answers are parts of their contexts."""
    if found_name(table, _SPOKEN) is None:
        return are_texts(first_cells(table, _CONTEXT))
    pairs = list(zip(cells_of(table, _CONTEXT)[:LOOKED_AT], cells_of(table, _SPOKEN)[:LOOKED_AT], strict=True))
    texts = [(text, answer) for text, answer in pairs if isinstance(text, str) and isinstance(answer, str)]
    if {answer.strip().lower() for _, answer in texts} <= _VERDICTS:
        return False
    return 2 * sum(bool(answer.strip()) and answer.strip() in text for text, answer in texts) > len(pairs)


def _read_answer_words(table: SourceTable) -> SourceTable:
    """Find each answer in its context: where ``answer_start`` says, else where it occurs first."""
    table = with_columns(table, {"context": cells_of(table, _CONTEXT)}, [_CONTEXT])
    if found_name(table, _SPOKEN) is None:
        return table
    begins, several, answers = cells_of(table, _BEGIN), 0, []
    for row, (context, answer) in enumerate(zip(table.columns["context"], cells_of(table, _SPOKEN), strict=True)):
        if not isinstance(context, str) or not isinstance(answer, str) or not answer.strip():
            found = repr(answer) if is_there(answer) else "empty"
            raise DataError(
                f"{table.place(row)}: the answer is {found:.60}; expected a part of the context. "
                'Questions without an answer need the column `answers`, with {"text": [], '
                '"answer_start": []}'
            )
        word, begin = answer.strip(), as_text(begins[row])
        if not begin and word not in context:
            raise DataError(
                f"{table.place(row)}: the answer {word!r:.60} is not in its context. Write it exactly as in the "
                f"context, or remove the row; free-form answers need kind='generation' with text= and label="
            )
        several += not begin and context.count(word) > 1
        place = int(begin) if begin.isdecimal() else begin or context.index(word)
        answers.append({"text": [answer if begin else word], "answer_start": [place]})
    table = with_columns(table, {"answers": answers}, [_SPOKEN, _BEGIN])
    note = f"{several:,} answers occur several times in their context: the first occurrence counts"
    return noted(table, note) if several else table


ANSWERS = (
    Form(
        "answers", "question-answering", ("question", "context"), ("answers",),
        "a question, a context, and answers with the characters at which they begin",
        {"question": "Who sings?", "context": "Anna sings.", "answers": {"text": ["Anna"], "answer_start": [0]}},
        _read_answers, _has_answers,
    ),
    Form(
        "answers as texts", "question-answering", ("question", _CONTEXT), (_SPOKEN,),
        "a question, a context, and the answer as a part of it, at `answer_start` or where it occurs first",
        {"question": "Who sings?", "context": "Anna sings.", "answer": "Anna"},
        _read_answer_words, _has_answer_words, optional=(_BEGIN,),
    ),
)  # fmt: skip
