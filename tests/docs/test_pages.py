"""Every block of README.md and of the documentation runs and prints what it shows; one test a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.methods import catalog
from support.pages import Page, difference, has_block, has_slow_block, lines_of

ROOT = Path(__file__).resolve().parents[2]
MADE = ("_build", "generated", "examples", "methods", "papers")  # by the build, but for their index pages
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if (page.name == "index.md" or not {*MADE} & {*page.parts}) and "_build" not in page.parts and has_block(page)
]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


BLOCKS = [
    *(pytest.param(page, False, id=name(page)) for page in PAGES),
    *(
        pytest.param(page, True, id=f"{name(page)}, slow blocks too", marks=pytest.mark.slow)
        for page in PAGES
        if has_slow_block(page)
    ),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder that a page works in. Methods that it registers go with it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "_CATALOG", dict(catalog._CATALOG))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("page", "slow"), BLOCKS)
def test_the_blocks_of_a_page_run(
    page: Path, slow: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Page(page, capsys, monkeypatch).run(slow=slow)


def write(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text.replace("'''", "```"), encoding="utf-8")
    return page


def test_what_a_page_shows_is_compared_with_what_is_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write(folder, "'''console\n$ pip install x\n$ gradgate --version\ngradgate 99\n'''\n")
    with pytest.raises(AssertionError, match="The page shows:\ngradgate 99"):
        Page(page, capsys, monkeypatch).run(slow=False)


def test_a_captioned_block_is_a_file_and_a_slow_block_waits(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = write(
        folder,
        "'''{code-block} yaml\n:caption: made/x.yaml\na: 1\n'''\n\n% slow\n'''python\n1 / 0\n'''\n\n"
        "'''console\n$ cat made/x.yaml  # what was written\na: ...\n'''\n",
    )
    Page(page, capsys, monkeypatch).run(slow=False)
    with pytest.raises(ZeroDivisionError):
        Page(page, capsys, monkeypatch).run(slow=True)


def test_commands_may_go_on_in_the_next_line() -> None:
    assert lines_of("$ gradgate plan \\\n    --steps 4\nplan\n$ ls\n") == [
        ("gradgate plan      --steps 4", "plan\n"),
        ("ls", ""),
    ]


def test_dots_stand_for_what_varies() -> None:
    assert not difference("took ... s\n", "took 3.1 s  \n")
    assert not difference("", "anything\n")
    assert difference("took 3 s\n", "took 4 s\n")
