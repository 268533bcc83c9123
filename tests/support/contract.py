"""Compare what gradgate says today with the records in tests/contract.

A change that is meant is recorded by running the tests once with ``GRADGATE_UPDATE_CONTRACT=1`` and reading the diff.
"""

from __future__ import annotations

import difflib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "contract"
UPDATE = "GRADGATE_UPDATE_CONTRACT"


def check_text(name: str, text: str) -> None:
    """Compare a text with the recorded one of this name."""
    path = FOLDER / name
    if os.environ.get(UPDATE):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    elif not path.is_file():
        pytest.fail(f"{name} is not recorded. {_advice()}", pytrace=False)
    elif (recorded := path.read_text(encoding="utf-8")) != text:
        _differs(name, recorded, text)


def check_json(name: str, value: Any, rel: float = 0.0) -> None:
    """Compare a value with the recorded one of this name; floats may differ by the relative tolerance ``rel``."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    path = FOLDER / name
    if rel and path.is_file() and _close(json.loads(path.read_text(encoding="utf-8")), json.loads(text), rel):
        return
    check_text(name, text)


def check_names(name: str, names: set[str]) -> None:
    """Compare the names of files in a folder of records with the expected ones, and remove others if updating."""
    for stale in sorted({path.name for path in (FOLDER / name).iterdir()} - names):
        if not os.environ.get(UPDATE):
            pytest.fail(f"{name}/{stale} is recorded, but is gone. {_advice()}", pytrace=False)
        (FOLDER / name / stale).unlink()


def key_tree(value: Any) -> Any:
    """Return the nested keys of a JSON value; a list has those of all its items, and anything else ``None``."""
    if isinstance(value, dict):
        return {key: key_tree(value[key]) for key in sorted(value)} or None
    if isinstance(value, list):
        return _merged([key_tree(item) for item in value])
    return None


def _merged(trees: list[Any]) -> Any:
    """Return the union of several key trees."""
    found = [tree for tree in trees if tree is not None]
    keys = sorted({key for tree in found for key in tree})
    return {key: _merged([tree[key] for tree in found if key in tree]) for key in keys} or None


def _close(recorded: Any, value: Any, rel: float) -> bool:
    if isinstance(recorded, dict) and isinstance(value, dict):
        return list(recorded) == list(value) and all(_close(recorded[key], value[key], rel) for key in value)
    if isinstance(recorded, list) and isinstance(value, list):
        return len(recorded) == len(value) and all(map(_close, recorded, value, [rel] * len(value)))
    if isinstance(recorded, float) and isinstance(value, float):
        return math.isclose(recorded, value, rel_tol=rel)
    return type(recorded) is type(value) and bool(recorded == value)


def _differs(name: str, recorded: str, text: str) -> None:
    lines = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm="", n=1)
    pytest.fail(f"{name} has changed. {_advice()}\n" + "\n".join(lines), pytrace=False)


def _advice() -> str:
    return f"If this is meant, record it: {UPDATE}=1 python -m pytest tests/contract, and read the diff."
