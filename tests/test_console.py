"""What a narrow terminal and a pipe show: names and numbers whole, no padding, no codes."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest
from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.progress import Progress
from rich.table import Column, Table

from gradgate.console import PlainConsole
from gradgate.runs.progress import Bar, bars

NAME = "gradual:every=50,order=bottom-up,freeze_embeddings=with_bottom"


def printed(width: int, *things: object) -> str:
    file = io.StringIO()
    PlainConsole(file=file, width=width).print(*things)
    return file.getvalue()


def table() -> Table:
    found = Table("method", *(Column(part, justify="right") for part in ("weights", "peak", "share")), box=SIMPLE_HEAD)
    found.add_row(NAME, "1,234.56", "12,345.67", "100.0%")
    return found


@pytest.mark.parametrize("width", [20, 50, 80, 160])
def test_a_table_breaks_names_over_lines_and_no_number(width: int) -> None:
    text = printed(width, table())
    assert "…" not in text
    assert {"1,234.56", "12,345.67", "100.0%"} <= set(text.split())
    pieces = [line[2:].split("  ")[0].strip() for line in text.splitlines()[3:]]
    assert "".join(pieces) == NAME


def test_a_table_fits_into_the_width_that_it_can_have() -> None:
    assert max(map(len, printed(50, table()).splitlines())) <= 50
    assert NAME in printed(160, table())


def test_columns_share_what_is_left_of_a_narrow_terminal() -> None:
    found = Table("Method", Column("macro-F1 × 100, test", justify="right"), Column("Difference", justify="right"))
    found.add_row(NAME, "75.0 ± 7.1", "reference")
    assert {len(line) for line in printed(50, found).splitlines()} == {50}


def test_no_line_of_a_pipe_ends_in_blanks() -> None:
    for text in (printed(160, table()), printed(160, Padding("options: none", (0, 0, 0, 4)))):
        assert re.search(r"[ \t]$", text, re.MULTILINE) is None


def test_a_long_line_is_not_cut() -> None:
    assert NAME in printed(20, NAME).replace("\n", "")


def test_a_bar_is_printed_once_at_its_end() -> None:
    file = io.StringIO()
    with Progress(console=PlainConsole(file=file, width=60)) as bars:
        bars.console.print("a note   ")
        bars.update(bars.add_task("runs", total=2), completed=2)
    assert file.getvalue().startswith("a note\n")
    assert file.getvalue().count("runs") == 1


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_a_pipe_is_as_wide_as_columns_says(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "50", "TERM": terminal, "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run([sys.executable, "-m", "gradgate", "methods"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 50
    assert "\x1b" not in done.stdout
    assert not [line for line in lines if line != line.rstrip()]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_bar_shows_its_counts_at_any_width(width: int) -> None:
    file = io.StringIO()
    shown = bars(PlainConsole(file=file, width=width, force_terminal=True, color_system=None))
    with shown:
        latest = "loss 0.123  dev accuracy 0.4567"
        shown.add_task("freeze:layers=9 seed 3", total=1234, completed=567, unit="steps", latest=latest)
    last = file.getvalue().splitlines()[-2]
    assert "567/1234 steps" in last
    assert (latest in last) == (width > 100)


@pytest.mark.parametrize("done", [0, 1])
def test_a_bar_stays_after_an_error_only_if_something_was_done(done: int) -> None:
    file = io.StringIO()

    def fail() -> None:
        with Bar(PlainConsole(file=file, width=80), "predicting", "runs") as bar:
            bar.begin(2, 0)
            bar.advance(done, None)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (f"{done}/2 runs" in file.getvalue()) == bool(done)
