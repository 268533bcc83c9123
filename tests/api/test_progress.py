"""Progress: nothing, a terminal's or a notebook's."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from gradgate.api.notebook import NotebookBar, NotebookStudy
from gradgate.api.progress import run_progress, study_progress
from gradgate.runs.progress import Bar, Silent
from gradgate.study.progress import SilentStudy, StudyBars


def test_a_terminal_has_bars_and_quiet_has_none() -> None:
    with run_progress(quiet=True) as run, study_progress(quiet=True) as study:
        assert isinstance(run, Silent)
        assert isinstance(study, SilentStudy)
    with run_progress(quiet=False) as run:
        assert isinstance(run, Bar)
    with study_progress(quiet=False) as study:
        assert isinstance(study, StudyBars)


def test_a_notebook_has_its_own(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", ModuleType("ipykernel.zmqshell"))
    with run_progress(quiet=False) as run:
        assert isinstance(run, NotebookBar)
        run.begin(10, 2)
        run.scored("dev", "accuracy", 0.5)
        run.advance(10, 0.25)
    with study_progress(quiet=False) as study:
        assert isinstance(study, NotebookStudy)
        study.begin_study(3, 1)
        study.begin_run("full seed 0").begin(4, 0)
        study.begin_run("full seed 0").advance(1, None)  # given back, and claimed again
        study.end_run("full seed 0", "dev accuracy 0.5\x1b[31m", failed=False)
        study.begin_run("head seed 0")
        study.end_run("head seed 0", "no memory", failed=True)
        study.count({"finished": 2, "failed": 1, "waiting": 0})
    captured = capsys.readouterr()
    assert "10/10" in captured.err
    assert "loss=0.250" in captured.err
    assert "3/3" in captured.err
    said = captured.out.splitlines()
    assert said == [
        "1 of 3 runs had finished before.",
        "done: full seed 0: dev accuracy 0.5␛[31m",
        "failed: head seed 0: no memory",
    ]
