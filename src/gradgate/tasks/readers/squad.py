"""Read SQuAD's JSON (articles, paragraphs, and questions with answers) into one row per question."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.json_rows import line_of_key, strict_decoder
from gradgate.tasks.readers.rows import MISSING, SourceTable

_BEGINNING = re.compile(r'\s*\{\s*"(version|data)"\s*:')
COLUMNS = ("id", "article", "title", "context", "question", "answers")


def looks_like_squad(text: str) -> bool:
    """Return True if a JSON file has SQuAD's form and is not one of JSON lines."""
    return bool(_BEGINNING.match(text)) and '"paragraphs"' in text


def read_squad(path: Path, text: str) -> SourceTable:
    """Read the columns ``id``, ``article`` (its number from 0), ``title``, ``context``, ``question`` and ``answers``.

    Rows are in the order of the file. ``answers`` is a list of ``{"text": ..., "answer_start": ...}``, empty if the
    question has no answer, and missing if the file has no entry for it.

    Raises:
        DataError: text that is not JSON, or not of this form.
    """
    try:
        articles = strict_decoder(path, partial(line_of_key, text)).decode(text)["data"]
    except json.JSONDecodeError as error:
        raise DataError(
            f'{path}:{error.lineno} is not JSON: {error.msg}; expected the form of SQuAD, {{"data": [...]}}'
        ) from error
    except (KeyError, TypeError) as error:
        raise DataError(f'{path} is not in the form of SQuAD: expected {{"data": [...]}}') from error
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for number, article in enumerate(_listed(path, articles, "data")):
        for paragraph in _listed(path, _get(path, article, "paragraphs", f"article {number + 1}"), "paragraphs"):
            where = f"article {number + 1}"
            context = _get(path, paragraph, "context", f"a paragraph of {where}")
            for question in _listed(path, _get(path, paragraph, "qas", f"a paragraph of {where}"), "qas"):
                columns["id"].append(_get(path, question, "id", f"a question of {where}"))
                columns["article"].append(number)
                columns["title"].append(article.get("title", ""))
                columns["context"].append(context)
                columns["question"].append(_get(path, question, "question", f"a question of {where}"))
                columns["answers"].append(question.get("answers", MISSING))
    return SourceTable(str(path), columns)


def _get(path: Path, part: Any, name: str, what: str) -> Any:
    if not isinstance(part, dict) or name not in part:
        raise DataError(f"{path}: {what} has no {name!r}; SQuAD's format needs one")
    return part[name]


def _listed(path: Path, part: Any, name: str) -> list[Any]:
    if not isinstance(part, list):
        raise DataError(f"{path}: {name!r} is {type(part).__name__}, expected a list; is the file in SQuAD's form?")
    return part
