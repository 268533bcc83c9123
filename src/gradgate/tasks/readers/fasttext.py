"""Read fastText's lines: labels that begin with ``__label__``, and the text after them."""

from __future__ import annotations

from pathlib import Path

from gradgate.errors import DataError
from gradgate.tasks.readers.rows import SourceTable

PREFIX = "__label__"


def looks_like_fasttext(text: str) -> bool:
    """Return True if most of the first lines have a label of fastText."""
    lines = [line for line in text[: 1 << 14].split("\n")[:20] if line.strip()]
    return 2 * sum(any(word.startswith(PREFIX) for word in line.split()) for line in lines) > len(lines)


def read_fasttext(path: Path, text: str, most: int | None = None) -> SourceTable:
    """Read the columns ``text`` and ``label``: a word, or a list of words if a line has several labels.

    Raises:
        DataError: a line without a label, or with nothing else.
    """
    texts: list[str] = []
    labels: list[list[str]] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        if len(lines) == most:
            break
        words = line.split()
        own = [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
        rest = " ".join(word for word in words if not word.startswith(PREFIX))
        if not own or not all(own) or not rest:
            raise DataError(
                f"{path}:{number} has no {'text' if own and all(own) else 'label'}: {line!r:.60}; expected "
                f"'{PREFIX}NAME some text' on each line. Correct it or remove it"
            )
        texts.append(rest)
        labels.append(own)
        lines.append(number)
    several = any(len(own) > 1 for own in labels)
    return SourceTable(str(path), {"text": texts, "label": labels if several else [own[0] for own in labels]}, lines)
