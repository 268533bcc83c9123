"""Forms of rows with tags, answers or choices, and forms that are named but not read."""

from __future__ import annotations

import re
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.forms.accepted import ACCEPTED
from gradgate.tasks.forms.answers import ANSWERS
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
from gradgate.tasks.forms.choices import CHOICES
from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.readers.sentences import TAG
from gradgate.tasks.written import parsed

TOKENS = "tokens|words"
TAGS = ("ner_tags", "tags", "pos_tags", "labels", "ner", "pos", "upos", "tag", "chunk_tags")
_WORDS, _TAG_WORDS = "text|sentence|tokens|words", "|".join((*TAGS, "label", "word_labels"))
_NEARLY_ALL = 0.9  # of the tags
_ID, _WORD, _TAG = "sentence #|sentence_id|sent_id|sentence|sentence_number", "word|token", "tag|ner|ner_tag|label|iob"


def tag_columns(table: SourceTable) -> list[str]:
    """Return the columns that have lists of tags, as long as the lists of tokens."""
    tokens = first_cells(table, TOKENS)
    found = []
    for name in TAGS:
        column = found_name(table, name)
        cells = first_cells(table, name)
        if column is not None and are_lists(cells, (str, int)) and len(cells) == len(tokens):
            found.append(column)
    return found


def _has_tags(table: SourceTable) -> bool:
    return are_lists(first_cells(table, TOKENS), str)


def _read_tags(table: SourceTable) -> SourceTable:
    columns = {"tokens": [parsed(cell) for cell in cells_of(table, TOKENS)]}
    found = tag_columns(table)
    if len(found) > 1:
        raise DataError(f"{table.source} has {len(found)} columns of tags: {', '.join(found)}. Name one with label=")
    if found:
        columns["tags"] = [parsed(cell) for cell in table.columns[found[0]]]
    return with_columns(table, columns, [TOKENS, *found])


def _has_tag_words(table: SourceTable) -> bool:
    """Return True if nearly all labels are tags such as B-PER and O, with spaces between them."""
    texts, labels = first_cells(table, _WORDS), first_cells(table, _TAG_WORDS)
    if not are_texts(texts) or (labels and not are_texts(labels)):
        return False
    words = [word for cell in labels for word in _tags_in(cell)]
    tagged = sum(TAG.fullmatch(word) is not None for word in words)
    return not labels or (len(words) > len(labels) and tagged >= _NEARLY_ALL * len(words))


def _read_tag_words(table: SourceTable) -> SourceTable:
    texts = cells_of(table, _WORDS)
    columns: dict[str, Any] = {"tokens": [cell.split() if isinstance(cell, str) else cell for cell in texts]}
    if found_name(table, _TAG_WORDS):
        columns["tags"] = [_tags_in(cell) if isinstance(cell, str) else cell for cell in cells_of(table, _TAG_WORDS)]
    return with_columns(table, columns, [_WORDS, _TAG_WORDS])


def _tags_in(cell: str) -> list[str]:
    return [tag for tag in re.split(r"[\s,]+", cell) if tag]


def _has_token_rows(table: SourceTable) -> bool:
    words, numbers = first_cells(table, _WORD), cells_of(table, _ID)[:50]
    filled = [cell for cell in numbers if is_there(cell)]
    repeated = len(set(map(str, filled))) < len(filled) or len(filled) < len(numbers)
    return are_texts(words) and repeated and all(" " not in word.strip() for word in words)


def _read_token_rows(table: SourceTable) -> SourceTable:
    """Collect the rows of each sentence; a row without a sentence's number continues the one before."""
    words, tags = cells_of(table, _WORD), cells_of(table, _TAG)
    groups: list[list[int]] = []
    before: object = MISSING
    for row, number in enumerate(cells_of(table, _ID)):
        if not groups or (is_there(number) and number != before):
            groups.append([])
        before = number if is_there(number) else before
        groups[-1].append(row)
        for name, cell in (("word", words[row]), ("tag", tags[row])):
            if not is_there(cell) and (name == "word" or found_name(table, _TAG)):
                raise DataError(f"{table.place(row)} has no {name}; each row needs one. Add it or remove the row")
    gone = {found_name(table, name) for name in (_WORD, _TAG)}
    columns: dict[str, Any] = {
        name: [cells[rows[0]] for rows in groups] for name, cells in table.columns.items() if name not in gone
    }
    columns["tokens"] = [[words[row] for row in rows] for rows in groups]
    if found_name(table, _TAG):
        columns["tags"] = [[tags[row] for row in rows] for rows in groups]
    lines = None if table.lines is None else [[table.lines[row] for row in rows] for rows in groups]
    return SourceTable(
        table.source,
        columns,
        None if lines is None else [own[0] for own in lines],
        lines,
        None if lines is not None else [rows[0] + 1 for rows in groups],
        None if table.sources is None else [table.sources[rows[0]] for rows in groups],
        (*table.notes, f"{len(table):,} rows of single tokens make {len(groups):,} sentences"),
    )


def _read_grades(table: SourceTable) -> SourceTable:
    columns = {"query": cells_of(table, "query"), "document": cells_of(table, "document|passage")}
    if found_name(table, "grade|relevance"):
        columns["grade"] = cells_of(table, "grade|relevance")
    return with_columns(table, columns)


def _are_spans(table: SourceTable) -> bool:
    for name in ("entities", "spans", "label", "labels", "annotations"):
        cells = first_cells(table, name)
        items = [item for cell in cells if isinstance(cell, list) for item in cell]
        if items and all(_is_span(item) for item in items):
            return True
    return False


def _is_span(item: Any) -> bool:
    if isinstance(item, dict):
        return bool({"start", "begin", "start_offset"} & set(item))
    return isinstance(item, list) and len(item) == 3 and all(isinstance(place, int) for place in item[:2])


def _is_text_alone(table: SourceTable) -> bool:
    return len(table.columns) == 1 and are_texts(first_cells(table, next(iter(table.columns))))


ROWS = (
    Form(
        "tags", "token-classification", (TOKENS,), ("|".join(TAGS),),
        "a list of tokens and one of their tags, by name, or by number where the file names them; BIOES becomes IOB2",
        {"tokens": ["Anna", "sings"], "ner_tags": ["B-PER", "O"]}, _read_tags, _has_tags,
    ),
    Form(
        "tags in a text", "token-classification", (_WORDS,), (_TAG_WORDS,),
        "a text with spaces between words, and a text of one tag per word, with spaces or commas between tags",
        {"text": "Anna sings", "labels": "B-PER O"}, _read_tag_words, _has_tag_words,
    ),
    Form(
        "CoNLL-U", "token-classification", ("form",), ("upos",), "the words of CoNLL-U and their parts of speech",
        {"form": ["Anna", "sings"], "upos": ["PROPN", "VERB"]},
        lambda table: with_columns(table, {"tokens": cells_of(table, "form"), "tags": cells_of(table, "upos")}),
        lambda table: are_lists(first_cells(table, "form"), str),
    ),
    Form(
        "token rows", "token-classification", (_ID, _WORD), (_TAG,),
        "one token per row, with the number of its sentence",
        {"sentence_id": 1, "word": "Anna", "tag": "B-PER"}, _read_token_rows, _has_token_rows,
    ),
    *ANSWERS,
    Form(
        "grades", "ranking", ("query", "document|passage"), ("grade|relevance",),
        "a query, a document, and how relevant it is, as a whole number from 0",
        {"query": "printer broken", "document": "How to repair printers", "grade": 2}, _read_grades,
    ),
    *CHOICES,
    *ACCEPTED,
    Form(
        "spans", None, ("text|content|data",), (),
        "spans of characters are not supported. Provide tokens and tags (B-PER, I-PER, O) for "
        "kind='token-classification', or "
        "questions with answers for kind='question-answering'",
        {"text": "Anna sings", "entities": [[0, 4, "PER"]]}, when=_are_spans,
    ),
    Form(
        "translations", None, ("translation",), (),
        "name the source and the target language by their paths: kind='generation', text='translation.en', "
        "label='translation.de'",
        {"translation": {"en": "a cat", "de": "eine Katze"}},
    ),
    Form(
        "triplets", None, ("anchor|query", "positive|pos"), (),
        "queries with similar texts are for training embeddings: attach gradgate to the trainer of "
        "sentence-transformers. For kind='ranking', provide a query, a document and a `grade`",
        {"anchor": "a query", "positive": "a document", "negative": "another"},
    ),
    Form(
        "Label Studio's export", None, ("annotations", "data"), (),
        "export as CONLL2003, or as CSV with one column for the text and one for the choice",
        {"data": {"text": "Anna sings"}, "annotations": [{"result": []}]},
    ),
    Form(
        "running text", None, (), (),
        "a single column of text leaves nothing to predict. Add a column of labels; provide prompt and response for "
        "kind='generation'; or train on the texts of a task with tapt_steps=",
        {"text": "Anna sings."}, when=_is_text_alone,
    ),
)  # fmt: skip
