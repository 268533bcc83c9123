"""Test that pages, help texts, messages and docstrings use plain English: phrases that read as translated stay out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PHRASES = {
    r"(?<!there )\bis no (?!longer|more|better|worse|lower|higher|other)\w+": "is not a …",
    r"\btold (from|apart)\b": "distinguished, significantly different",
    r"\bgo(es)? on\b": "continue, resume",
    r"\bso many\b": "n, this number of",
    r"\bbeside\b(?!:)": "next to, with, in addition to",
    r"\bare no \w+s of\b": "are not …",
    r"\b[Ww]here (nothing|none) (is|was)\b": "if no … is",
    r"\b(is|are) of (?!(type|kind|different|interest|use|the|it|its)\b)": "belongs to, comes from, has",
    r"\banew\b": "again, from scratch",
    r"\bby lot\b": "at random",
    r"\btold by\b": "recognized by",
    r"\b(held|hold) against\b": "compared with",
    r"\bfor want of\b": "for lack of",
    r"\b(which|that) (is|are) not there\b": "that does not exist",
    r"\bcannot be had\b": "is not available",
    r"\bone (JSON object|text|row|value) an? (line|row|run|claim|method|arm|task|seed|layer)\b": "one … per …",
    r"\b(and|or) (its|their) like\b": "and similar ones",
    r"\bwhat is said\b": "the message, the note",
    r"\b[Mm]end (that|this|it)\b": "fix, repair",
    r"\bwhere there is one\b": "if there is one",
    r"\b(was|were) begun\b": "was started",
    r"\bthat nothing pairs\b": "unpaired",
    r"\ba folder each that\b": "one folder per …",
    r"\bdefault all there are\b": "by default all",
}
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "evidence").rglob("*.md"),
        *(ROOT / "src").rglob("*.md"),
        *(ROOT / "src/gradgate/papers/presets").glob("*.yaml"),
        *(ROOT / "src/gradgate/report/templates").glob("*.j2"),
        *(ROOT / "docs/extensions").rglob("*.yaml"),
    )
    if not {"_build", "evidence"}
    & set(path.relative_to(ROOT / "docs").parts if path.is_relative_to(ROOT / "docs") else ())
)
HELP = sorted((ROOT / "tests/contract/help").glob("*.txt"))
MODULES = sorted(
    path for folder in ("src/gradgate", "docs/extensions", "docs/gallery") for path in (ROOT / folder).rglob("*.py")
)


def faults(text: str) -> list[str]:
    """Return each phrase of a text that reads as translated, with what to write instead."""
    plain = " ".join(text.split())
    found = ((re.search(pattern, plain, re.IGNORECASE), better) for pattern, better in PHRASES.items())
    return [f"{match[0]!r}: write {better!r}" for match, better in found if match]


def texts_of(module: Path) -> Iterator[str]:
    """Yield the docstrings and messages of a module."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


@pytest.mark.parametrize(
    "text",
    [
        "'foo' is no term.",
        "The study goes on.",
        "It is beside the table.",
        "told apart",
        "A batch is of one task.",
        "drawn anew",
        "one JSON object a row",
        "a file that is not there",
    ],
)
def test_a_translated_phrase_is_found(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text", ["There is no dev split.", "It is no longer there.", "It is not a term.", "ago once", "It is of type int."]
)
def test_plain_english_passes(text: str) -> None:
    assert not faults(text)


@pytest.mark.parametrize("page", [*PAGES, *HELP], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_plain_english(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


def test_docstrings_and_messages_are_plain_english() -> None:
    found = {
        f"{module.relative_to(ROOT)}: {fault}"
        for module in MODULES
        for text in texts_of(module)
        for fault in faults(text)
    }
    assert sorted(found) == []
