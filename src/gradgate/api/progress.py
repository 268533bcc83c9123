"""Choose how progress is shown: not at all, as bars on a terminal, or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gradgate.console import errors
from gradgate.runs.progress import Bar, RunProgress, Silent
from gradgate.study.progress import SilentStudy, StudyBars, StudyProgress


def in_notebook() -> bool:
    """Return True if a Jupyter kernel runs this code."""
    return "ipykernel.zmqshell" in sys.modules


@contextmanager
def run_progress(quiet: bool) -> Iterator[RunProgress]:
    """Show the progress of one run."""
    if quiet:
        yield Silent()
    elif in_notebook():
        from gradgate.api.notebook import NotebookBar

        with NotebookBar() as shown:
            yield shown
    else:
        with Bar(errors) as bar:
            yield bar


@contextmanager
def study_progress(quiet: bool) -> Iterator[StudyProgress]:
    """Show the progress of a study."""
    if quiet:
        yield SilentStudy()
    elif in_notebook():
        from gradgate.api.notebook import NotebookStudy

        with NotebookStudy() as shown:
            yield shown
    else:
        with StudyBars(errors) as bars:
            yield bars
