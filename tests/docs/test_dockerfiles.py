"""Dockerfiles in the guides: known instructions, and commands whose Python compiles."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[2] / "docs/guides"
BLOCK = re.compile(r"^```\{code-block\} \w+\n:caption: Dockerfile\n\n(.*?)^```", re.MULTILINE | re.DOTALL)
KNOWN = {"FROM", "RUN", "COPY", "ENV", "ENTRYPOINT", "CMD", "WORKDIR", "ARG", "USER", "EXPOSE"}
FILES = [(path.stem, text) for path in sorted(GUIDES.glob("*.md")) for text in BLOCK.findall(path.read_text())]


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction with its arguments, continued lines joined as Docker joins them."""
    lines = [line for line in text.replace("\\\n", "").splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def test_the_guides_have_dockerfiles() -> None:
    assert [guide for guide, _ in FILES] == ["after-training", "clusters"]


@pytest.mark.parametrize("text", [text for _, text in FILES], ids=[guide for guide, _ in FILES])
def test_a_dockerfile_begins_with_an_image_and_its_commands_are_lists(text: str) -> None:
    found = instructions(text)
    assert found[0][0] == "FROM"
    assert {name for name, _ in found} <= KNOWN
    for name, words in found:
        if name in ("ENTRYPOINT", "CMD"):
            program, *arguments = json.loads(words)
            assert program == "python"
            compile(arguments[arguments.index("-c") + 1], name, "exec")
        elif name in ("FROM", "COPY"):
            assert "#" not in words, "Docker knows comments on lines of their own only"
