"""Make a task in several languages of rows that name theirs in a column."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.language_codes import IN_ENGLISH
from gradgate.tasks.languages import INDO_EUROPEAN
from gradgate.tasks.readers.rows import SourceTable, as_text, noted, select_rows
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.types import DEV, TRAIN, base_of

NAMES = ("language", "lang", "locale", "language_code", "lang_code", "lang_id")
"""Common names of the column, in lower case."""
_LOOKED_AT = 5000  # rows
_NEARLY_ALL = 0.9  # of the rows
_OTHERS = (
    "am ar eu fi et hu id ja ka kk ko mi ml ms my ha ig rw lg sn sw ta te th tl tr uz vi wo xh yo zh zu jv su he qu"
)
_CODE = re.compile(r"([a-z]{2,3})([-_][A-Za-z]{2,4})?")


def may_name_languages(table: SourceTable) -> bool:
    """Return True if a column is called as one of languages usually is."""
    return any(name.lower() in NAMES for name in table.columns)


def find_language_column(tables: Sequence[SourceTable]) -> str | None:
    """Return the column of the first table with a language in each row, if the tables have several; None without one.

    Raises:
        DataError: a row without a language, or with something else, if nearly all rows name one.
    """
    for name in tables[0].columns:
        own = [table for table in tables if name in table.columns]
        looked_at = [cell for table in own for cell in table.columns[name][:_LOOKED_AT]]
        if name.lower() not in NAMES or not _are_languages(looked_at):
            continue
        for table in own:
            _check_languages(table, name)
        return name
    return None


def _check_languages(table: SourceTable, name: str) -> None:
    for row, cell in enumerate(table.columns[name]):
        if not isinstance(cell, str) or not (_is_language(cell.strip()) or _CODE.fullmatch(cell.strip())):
            raise DataError(
                f"{table.place(row)}: {name!r} is {as_text(cell)!r:.60}, but other rows have the name or code of a "
                f"language, such as 'de'. Correct it, remove the row, or rename the column if it should not be used"
            )


def languages_in(tables: Iterable[SourceTable], column: str) -> list[str]:
    """Return the languages in a column of some tables, most rows first.

    Raises:
        DataError: a row without a language, or with a cell that is not the name of one; or one code in two spellings.
    """
    counts: Counter[str] = Counter()
    for table in tables:
        for row, cell in enumerate(table.column(column, "`language_column` of the task")):
            word = as_text(cell)
            if not re.fullmatch(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*", word) or len(word) > 40:
                raise DataError(
                    f"{table.place(row)}: {column!r} is {word!r:.60}; expected the code of a language, such as "
                    f"'de', in each row. Correct it, or leave `language_column` out"
                )
            counts[word] += 1
    spelled: dict[str, str] = {}
    for word in counts:
        other = spelled.setdefault(word.lower(), word)
        if other != word:
            raise DataError(
                f"The column {column!r} has {other!r} and {word!r}, which are one language. Write it in one way"
            )
    return [language for language, _ in counts.most_common()]


def choose_source(languages: Sequence[str], source: str | None, where: str) -> str:
    """Return the language to train in: the one that was asked for, else English.

    Raises:
        DataError: no row in it.
    """
    wanted = ("en", "english", "en-us", "en_us", "en-gb", "en_gb") if source is None else (source.lower(),)
    found = next((language for code in wanted for language in languages if language.lower() == code), None)
    if found is None:
        none = f"none in {source}" if source else "no English"
        raise DataError(
            f"{where} has rows in {', '.join(sorted(languages))}, and {none}. "
            f"Choose the language to train in, as with source={languages[0]}"
        )
    return found


def by_language(spec: TaskSpec, tables: dict[str, SourceTable]) -> dict[str, SourceTable]:
    """Return train and dev in the task's source language, and a split per language for each other one.

    Without test splits, dev has one for each other language.
    """
    column = spec.language_column
    if column is None:
        return tables
    tested = any(base_of(split) not in (TRAIN, DEV) for split in tables)
    found: dict[str, SourceTable] = {}
    for split, table in tables.items():
        if column not in table.columns:
            found[split] = table
            continue
        rows = _rows_by_language(table, column)
        if split in (TRAIN, DEV):
            own = select_rows(table, rows.pop(spec.source, []))
            left_out = {language: len(places) for language, places in rows.items()}
            found[split] = _with_note(own, split, spec.source, left_out) if split == TRAIN or tested else own
        if split != TRAIN and (split != DEV or not tested):
            for language in (language for language in spec.languages if language in rows):
                found[f"{split}.{language}"] = select_rows(table, rows[language])
    order = [split for split in (TRAIN, DEV) if split in found]
    return {split: found[split] for split in (*order, *(split for split in found if split not in order))}


def _with_note(table: SourceTable, split: str, source: str, left_out: dict[str, int]) -> SourceTable:
    if not left_out:
        return table
    others = ", ".join(f"{count:,} in {language}" for language, count in left_out.items())
    why = "training is" if split == TRAIN else "checkpoints are selected"
    return noted(
        table,
        f"{split} has the {len(table):,} rows in {source}; {others} are left out, as {why} in {source}. source= "
        f"selects another language",
    )


def _rows_by_language(table: SourceTable, column: str) -> dict[str, list[int]]:
    rows: dict[str, list[int]] = {}
    for row, cell in enumerate(table.columns[column]):
        rows.setdefault(as_text(cell), []).append(row)
    return rows


def _are_languages(cells: Sequence[Any]) -> bool:
    """Return True if there are several languages, and nearly all cells name one."""
    words = [cell.strip() for cell in cells if isinstance(cell, str) and _is_language(cell.strip())]
    return len(set(words)) > 1 and len(words) >= _NEARLY_ALL * len(cells)


def _is_language(word: str) -> bool:
    code = _CODE.fullmatch(word)
    return word.lower() in _named() or (code is not None and code[1] in _named())


@cache
def _named() -> frozenset[str]:
    return INDO_EUROPEAN | frozenset(_OTHERS.split()) | IN_ENGLISH.keys()
