"""Read lists and objects that were written as text into a cell: as JSON, by pandas as Python, or by NumPy."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
    r"|(?P<number>[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?)(?=[\s,\]}):]|$)"
    r"|(?P<word>True|False|None|nan|inf|-inf)\b"
    r"|(?P<array>array\()|(?P<type>,\s*dtype=[^,()]+\))|(?P<open>[\[{])|(?P<close>[\]}])|(?P<sign>[,:])|(?P<end>\)))"
)
_WORDS = {"True": "true", "False": "false", "None": "null", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_LONGEST = 1_000_000  # characters


def parsed(cell: Any) -> Any:
    """Return the list or object that a text holds; the cell itself if it holds none.

    NumPy writes ``['a' 'b']`` without commas, which Python reads as one text.
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(("[", "{")) or len(cell) > _LONGEST:
        return cell
    text = cell.strip()
    for read in (json.loads, _by_numpy, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return cell


def _by_numpy(text: str) -> Any:
    """Return what NumPy wrote: items without commas between them, and ``array([...], dtype=object)`` within objects.

    Raises:
        ValueError: text that is none of this.
    """
    written: list[str] = []
    place, is_value, is_numpy = 0, False, False
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"no value at character {place}")
        place, kind = found.end(), str(found.lastgroup)
        begins = kind in ("text", "number", "word", "array", "open")
        is_numpy = is_numpy or kind == "array" or (begins and is_value)
        if begins and is_value:
            written.append(",")
        written.append(_in_json(kind, found[kind]))
        is_value = kind in ("text", "number", "word", "close", "type", "end")
    if not is_numpy:
        raise ValueError("Python wrote it, which has commas between items")
    return json.loads("".join(written))


def _in_json(kind: str, token: str) -> str:
    if kind == "text":
        return json.dumps(ast.literal_eval(token))
    if kind == "number":
        return token if token.lstrip("-").isdecimal() and (token == "0" or token[:1] != "0") else repr(float(token))
    return "" if kind in ("array", "type", "end") else _WORDS.get(token, token)
