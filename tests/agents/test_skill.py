"""SKILL.md is printed by its command, every command in it runs, and it has the form that agents read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gradgate.agents.skill import SKILL, skill_text
from gradgate.agents.tools import TOOLS
from gradgate.statistics import Word
from support.command_line import Command
from support.pages import Page, lines_of

_RUN = re.compile(r"(?<!skip: next -->\n)^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the file of results that the skill shows."""
    monkeypatch.chdir(tmp_path)
    table = re.search(r"^```csv\n(.*?)^```", skill_text(), re.MULTILINE | re.DOTALL)
    assert table is not None
    (tmp_path / "results.csv").write_text(table[1])
    return tmp_path


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fast", "slow"])
def test_every_command_runs(
    folder: Path, slow: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Page(SKILL, capsys, monkeypatch).run(slow=slow)
    assert (folder / "studies/theirs/study.json").is_file()
    assert (folder / "studies/mine/report.html").is_file() == slow


def test_every_command_that_is_not_run_is_one_of_audit() -> None:
    run = [line.command.split()[1] for block in _RUN.findall(skill_text()) for line in lines_of(block)]
    assert set(run) == {"study", "report", "methods", "layers", "plan", "memory", "compare"}


def test_the_heading_is_what_agents_read() -> None:
    _, heading, body = skill_text().split("---\n", 2)
    known = yaml.safe_load(heading)
    assert set(known) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9-]{1,64}", known["name"])
    assert len(known["description"]) <= 1024
    assert len(body.splitlines()) < 500


def test_every_word_of_a_verdict_is_explained() -> None:
    rows = re.findall(r"^\| ([a-z, -]+) \| \"", skill_text(), re.MULTILINE)
    assert {word for row in rows for word in row.split(", ")} == {word.value for word in Word}


def test_the_tools_that_it_names_are_there() -> None:
    assert {"is_better", "noise_floor", "study_verdicts"} <= {tool.name for tool in TOOLS}


def test_the_command_prints_it(command: Command) -> None:
    assert command("mcp", "--skill").out == skill_text()
