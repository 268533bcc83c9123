"""Power cuts: a run or a study that ends at once, with nothing saved on the way down."""

from __future__ import annotations

from gradgate.runs.progress import Silent
from gradgate.study.progress import SilentStudy


class PowerCutError(Exception):
    pass


class Falls(Silent):
    """A power cut after a step of a run."""

    def __init__(self, step: int) -> None:
        self.step = step

    def advance(self, step: int, loss: float | None) -> None:
        if step == self.step:
            raise PowerCutError


class StudyFalls(SilentStudy):
    """A power cut when so many runs of a study have ended."""

    def __init__(self, left: int) -> None:
        self.left = left

    def end_run(self, label: str, outcome: str, failed: bool) -> None:
        self.left -= 1
        if not self.left:
            raise PowerCutError
