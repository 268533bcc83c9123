"""Documentation as tests: the blocks of one page run in order, in one namespace and one folder.

What runs: ``python`` blocks, of which those that begin with ``>>>`` must print what they show, and ``console`` blocks,
line by line: of the lines that begin with ``$``, those with a command of :data:`SHELL` run in a shell, those with
``gradgate`` in this process, and others, such as ``pip``, are only shown. The lines below a command are what it prints,
with ``...`` for what varies; a command without such lines must only succeed. A block ``{code-block} yaml`` with a
``:caption:`` is a file of that name.

Comments, as ``<!-- skip: next -->`` or, in pages of the site, as ``% skip: next``: ``skip: next`` leaves the next block
out, and ``slow`` on the line before a block leaves it to the slow tests.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import NamedTuple

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser, SkipParser
from sybil.parsers.myst.lexers import DirectiveLexer

SHELL = ("cat", "cp", "head", "ls", "mkdir", "rm", "tail", "wc")
COLUMNS = 100
_SLOW = re.compile(r"(%|<!--)[ ]*slow\b[^\n]*\n\s*\Z")


class Line(NamedTuple):
    """A command of a console block, and what it prints by the page."""

    command: str
    printed: str


def lines_of(block: str) -> list[Line]:
    """The commands of a console block. A command goes on in the next line where a line ends in a backslash."""
    found: list[Line] = []
    for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        found.append(Line(command, printed))
    return found


class Page:
    """The blocks of one page.

    Args:
        path: of the Markdown file.
        capsys, monkeypatch: of the test.
    """

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch
        self._document = _sybil(self._console).parse(path)

    def run(self, *, slow: bool) -> None:
        """Evaluate the blocks in order, with or without those that are marked as slow."""
        from gradgate.cli.render import console, errors

        for each in (console, errors):
            self._monkeypatch.setattr(each, "width", COLUMNS)
        for example in self._document.examples():
            if slow or not is_slow(example.region, self._document.text):
                example.evaluate()

    def _console(self, example: Example) -> str | None:
        for line in lines_of(example.parsed):
            words = shlex.split(line.command, comments=True)
            if words[0] in SHELL:
                done = subprocess.run(line.command, shell=True, capture_output=True, text=True)
                code, out, err = done.returncode, done.stdout, done.stderr
            elif words[0] == "gradgate":
                code, out, err = self._gradgate(words)
            else:
                continue
            if code:
                return f"$ {line.command}\nended with {code}:\n{err or out}"
            if fault := difference(line.printed, out):
                return f"$ {line.command}\n{fault}\n{err}"
        return None

    def _gradgate(self, words: list[str]) -> tuple[int, str, str]:
        from gradgate import cli

        self._monkeypatch.setattr(sys, "argv", words)
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), *self._capsys.readouterr()


def difference(shown: str, printed: str) -> str:
    """How what a page shows differs from what was printed; empty where it does not, or where it shows nothing."""
    if not shown.strip():
        return ""
    want, got = ("\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n" for text in (shown, printed))
    if OutputChecker().check_output(want, got, ELLIPSIS):
        return ""
    return f"The page shows:\n{want}\nIt printed:\n{got}"


def is_slow(region: Region, text: str) -> bool:
    """Whether the line before a block marks it as slow."""
    return _SLOW.search(text[: region.start]) is not None


def has_slow_block(path: Path) -> bool:
    """Whether any block of a page is marked as slow."""
    return re.search(r"^(%|<!--)[ ]*slow\b", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def has_block(path: Path) -> bool:
    """Whether a page has anything to run."""
    return re.search(r"^\s*(`{3,}|:{3,})(python|console|pycon|\{)", path.read_text("utf-8"), re.MULTILINE) is not None


def _sybil(console: object) -> Sybil:
    return Sybil(
        [
            SkipParser(),
            PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
            CodeBlockParser("console", console),
            _files,
        ]
    )


def _files(document: Document) -> list[Region]:
    """Blocks with a caption, as the files that they are."""
    return [
        Region(lexed.start, lexed.end, (lexed.lexemes["options"]["caption"], lexed.lexemes["source"]), _write)
        for lexed in DirectiveLexer("code-block")(document)
        if "caption" in lexed.lexemes["options"]
    ]


def _write(example: Example) -> None:
    name, text = example.parsed
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
