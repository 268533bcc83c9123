"""Read lists and objects that were written as text into a cell: as JSON, by pandas as Python, or by NumPy."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

_QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_WORDS = re.compile(rf"\[\s*(?:{_QUOTED})(?:\s+(?:{_QUOTED}))+\s*\]")
_NUMBER = r"[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?"
_NUMBERS = re.compile(rf"\[\s*{_NUMBER}(?:\s+{_NUMBER})*\s*\]")
_LONGEST = 1_000_000  # characters


def parsed(cell: Any) -> Any:
    """Return the list or object that a text holds; the cell itself if it holds none.

    NumPy writes ``['a' 'b']`` without commas, which Python reads as one text.
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(("[", "{")) or len(cell) > _LONGEST:
        return cell
    text = cell.strip()
    if _WORDS.fullmatch(text):
        return [ast.literal_eval(word) for word in re.findall(_QUOTED, text)]
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return [_number(word) for word in text[1:-1].split()] if _NUMBERS.fullmatch(text) else cell


def _number(word: str) -> int | float:
    return int(word) if word.isdecimal() else float(word)
