"""Read and write ``recommend.json``: the minutes of a recommendation, its plan, and what was spent of them.

The plan follows from timings, which differ from call to call. It is made once and stored, so that a recommendation that
was killed resumes with the same decisions.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gradgate.runs.records import find_record, write_record
from gradgate.study.recommend.costs import Costs
from gradgate.study.recommend.portfolio import LeftOut
from gradgate.study.recommend.time_plan import TimePlan
from gradgate.study.study_file import RECOMMEND_FILE

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class RecommendRecord:
    """The content of ``recommend.json``.

    Attributes:
        minutes: that were asked for.
        lr: of arms without a learning rate of their own.
        steps: of each run, if the minutes pay for fewer than a run has by default; None otherwise.
        arms: that compete, as texts.
        left_out: what is not tried, and why.
        costs: of the arms, as measured at the start.
        plan: of the minutes.
        seconds_spent: of all calls so far, up to the latest run that began.
        stopped: whether the clock ended the race before its plan did.
        version: of this file's form.
    """

    minutes: float
    lr: float
    arms: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    costs: Costs
    plan: TimePlan
    seconds_spent: float
    steps: int | None = None
    stopped: bool = False
    version: int = VERSION


def read_recommend(folder: Path) -> RecommendRecord | None:
    """Read the record of a recommendation; return None if the folder has none.

    Raises:
        RunError: if the file is damaged, or of another version.
    """
    return find_record(folder / RECOMMEND_FILE, RecommendRecord, VERSION)


def write_recommend(folder: Path, record: RecommendRecord) -> None:
    """Write ``recommend.json``."""
    write_record(folder / RECOMMEND_FILE, record)
