"""Read files with one token per line and a blank line after each sentence: CoNLL-U, and columns of CoNLL's tasks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable, unnamed

_CONLLU_COLUMNS = ("form", "lemma", "upos", "xpos")
_CONLLU_WIDTH = 10
_DOCUMENT = "-DOCSTART-"
_HEAD = 1 << 16  # characters that are looked at
_MOST_TAGGED = 0.9  # share of the lines that end in a tag
TAG = re.compile(r"O|[BIESLU]-\S+")
"""A tag of named entities, in IOB or BIOES."""

Lines = list[tuple[int, str]]


def read_conllu(path: Path, text: str, most: int | None = None) -> SourceTable:
    """Read the columns ``form``, ``lemma``, ``upos`` and ``xpos``, each cell a sentence's list.

    Lines of multiword tokens (``3-4``) and of empty nodes (``8.1``) are left out, as tags belong to words.

    Raises:
        DataError: a line that is not CoNLL-U.
    """
    whole = (lines for lines in _sentences(text) if any(not line.startswith("#") for _, line in lines))
    sentences = list(islice(whole, most))
    columns: dict[str, list[list[str]]] = {name: [] for name in _CONLLU_COLUMNS}
    item_lines = []
    for lines in sentences:
        words = [(number, token) for number, token in _tokens(path, lines) if isinstance(token["id"], int)]
        if not words:
            raise DataError(
                f"{path}:{lines[0][0]}: the sentence has no words, only multiword tokens or empty nodes; "
                f"expected a line with a whole number as ID"
            )
        for name, cells in columns.items():
            cells.append([token[name] for _, token in words])
        item_lines.append([number for number, _ in words])
    return SourceTable(str(path), columns, [numbers[0] for numbers in item_lines], item_lines)


def read_columns(path: Path, text: str, names: Sequence[str] | None, most: int | None = None) -> SourceTable:
    """Read one column of lists per name; fields are separated by a tab if the line has one, else by spaces.

    ``-DOCSTART-`` lines are left out, and comment lines: those that begin with ``#`` and have another number of fields,
    or spaces where the others have tabs.

    Args:
        path, text: the file.
        names: of the columns; None takes the first for ``tokens`` and the last for ``tags``.
        most: sentences to read; None for all.

    Raises:
        DataError: a line with fewer or more fields than names, or with an empty one.
    """
    columns: dict[str, list[list[str]]] = {name: [] for name in names or ()}
    item_lines: list[list[int]] = []
    comments = 0
    for lines in _sentences(text):
        if len(item_lines) == most:
            break
        kept = [(number, line) for number, line in lines if re.split("[\t ]", line, maxsplit=1)[0] != _DOCUMENT]
        if names is None and (width := _width(line for _, line in kept)):
            names = usual_columns(width)
            columns = {name: [] for name in names}
        tabbed = any("\t" in line for _, line in kept)
        told = [(number, line) for number, line in kept if not _is_comment(line, names, tabbed)]
        comments += len(kept) - len(told)
        if not told:
            continue
        assert names is not None
        rows = [_fields(path, number, line, names) for number, line in told]
        for cells, column in zip(columns.values(), zip(*rows, strict=True), strict=True):
            cells.append(list(column))
        item_lines.append([number for number, _ in told])
    notes = (f"{comments} comment lines of {path.name} are skipped",) if comments else ()
    return SourceTable(str(path), columns, [numbers[0] for numbers in item_lines], item_lines, notes=notes)


def usual_columns(width: int) -> tuple[str, ...]:
    """Return names for the columns of a file of tokens and tags, with numbers for those between."""
    return ("tokens", *(unnamed(place) for place in range(2, width)), "tags")[:width]


def looks_like_columns(text: str) -> bool:
    """Return True if the first lines are tokens with tags as of named entities, and blank lines end sentences."""
    head = text[:_HEAD].split("\n")[: 400 if len(text) <= _HEAD else -1]
    lines = [line for line in head if line.strip() and not line.startswith(("#", _DOCUMENT))]
    if len(lines) < 2 or "\n\n" not in text.replace("\r", ""):
        return False
    fields = [_split(line) for line in lines]
    width = Counter(map(len, fields)).most_common(1)[0][0]
    tags = [own[-1] for own in fields if len(own) == width]
    tagged = sum(TAG.fullmatch(tag) is not None for tag in tags)
    return 2 <= width <= 12 and tagged >= _MOST_TAGGED * len(lines) and any(tag != "O" for tag in tags)


def _width(lines: Iterable[str]) -> int | None:
    """Return the number of fields of the first line that is not a comment."""
    return next((len(_split(line)) for line in lines if not line.startswith("#") or "\t" in line), None)


def _is_comment(line: str, names: Sequence[str] | None, tabbed: bool) -> bool:
    """Return True for a comment among the lines of a sentence, whose fields are separated by tabs if it is tabbed."""
    if not line.startswith("#"):
        return False
    other_form = names is None or len(_split(line)) != len(names) or (tabbed and "\t" not in line)
    return other_form or line.startswith("# id ")


def _sentences(text: str) -> Iterator[Lines]:
    """Yield the numbered lines between blank ones."""
    sentence: Lines = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if line.strip(" \t"):
            sentence.append((number, line))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def _split(line: str) -> list[str]:
    """Return the fields of a line, separated by tabs if it has one, else by spaces."""
    return line.rstrip("\r").split("\t") if "\t" in line else re.split(" +", line.strip(" \r"))


def _fields(path: Path, number: int, line: str, names: Sequence[str]) -> list[str]:
    fields = _split(line)
    if len(fields) != len(names):
        raise DataError(
            f"{path}:{number} has {len(fields)} columns, expected {len(names)} ({', '.join(names)}): {line[:60]!r}"
        )
    for name, field in zip(names, fields, strict=True):
        if not field:
            raise DataError(
                f"{path}:{number}: the column {name!r} is empty; expected a value in each of {len(names)} "
                f"columns: {line[:60]!r}"
            )
    return fields


def _tokens(path: Path, lines: Lines) -> list[tuple[int, Any]]:
    """Return the numbered tokens of a sentence, without its comments."""
    import conllu
    from conllu.exceptions import ParseException

    kept = [(number, line) for number, line in lines if not line.startswith("#")]
    for number, line in kept:
        width = line.count("\t") + 1
        if width != _CONLLU_WIDTH:
            raise DataError(
                f"{path}:{number} has {width} tab-separated columns, expected CoNLL-U's {_CONLLU_WIDTH}: {line[:60]!r}"
            )
    try:
        (sentence,) = conllu.parse("\n".join(line for _, line in kept))
    except ParseException as error:
        raise DataError(
            f"{path}:{_first_fault(kept)} is not CoNLL-U: {error}; expected ten columns with tabs between them "
            f"for each token"
        ) from error
    return [(number, token) for (number, _), token in zip(kept, sentence, strict=True)]


def _first_fault(lines: Lines) -> int:
    """Return the first line that cannot be parsed alone, as the parser does not report it."""
    import conllu
    from conllu.exceptions import ParseException

    for number, line in lines:
        try:
            conllu.parse(line)
        except ParseException:
            return number
    return lines[0][0]
