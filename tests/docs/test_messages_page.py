"""The page on messages quotes messages that gradgate still has."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guides/messages.md"
QUOTED = re.findall(r'^## "(.+)"$', PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def messages() -> str:
    """Return all texts of the package, one per line, with ``…`` for what a message fills in."""
    found = []
    for module in (ROOT / "src/gradgate").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(" ".join(text.split()) for text in found)


def test_the_page_quotes_several_messages() -> None:
    assert len(QUOTED) >= 8


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_message_exists(quoted: str) -> None:
    texts = messages()
    for part in (part.strip(" ,") for part in re.split(r"…|, so it", quoted)):
        assert part.removeprefix("but ") in texts, f"No message has {part!r}. Change the heading in {PAGE.name}."
