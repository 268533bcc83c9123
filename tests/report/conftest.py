"""The reports that several files read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gradgate.report import Report
from support.written_report import report

PLAIN = {"full": [0.68, 0.70, 0.72], "gradual:every=40": [0.70, 0.73, 0.74]}


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report, str]:
    """The whole report of a study of two methods: its folder, its files and its page. Not to be changed."""
    folder = tmp_path_factory.mktemp("plain")
    return folder, *report(folder, scores=PLAIN)


@pytest.fixture
def no_figures(draw_only: Callable[..., None]) -> None:
    draw_only()
