"""Train for an agent: which command a tool runs, and what the agent is told when it has ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from gradgate.agents.judging import StudyVerdictsArguments, study_verdicts
from gradgate.agents.planning import SETTINGS, joined
from gradgate.agents.tool import Tool, ToolAnswer
from gradgate.api.shown import PAGE
from gradgate.places import typed_path
from gradgate.runs.state import RunState
from gradgate.settings.arms.adapter import NONE
from gradgate.settings.base import CheckedSettings, checked_settings
from gradgate.settings.command_line import flags_of
from gradgate.settings.values import ALL

_EXAMPLE = "{'steps': 500, 'lr': 3e-5, 'batch_size': 16}"
_TASK = "name of a task, or a file or folder of data, such as tickets.csv"


@dataclass(frozen=True)
class TrainingTool(Tool):
    """A tool that runs the command of its name, which trains and writes.

    Attributes:
        settings: what the command is asked for.
        answer: answers from the study's folder and what the command printed.
    """

    settings: type[CheckedSettings]
    answer: Callable[[Path, str], ToolAnswer]

    def command(self, arguments: Mapping[str, Any]) -> tuple[list[str], Path]:
        """Return the command line that trains, and the folder of its study.

        Raises:
            UsageError: for arguments or settings that are wrong regardless of the data.
        """
        asked = self.checked(arguments)
        own = {name: each for name, each in dict(asked).items() if name not in ("settings", "out") and each is not None}
        settings = joined(own, asked.settings)
        checked_settings(self.settings, settings)
        settings = {name: _on_command_line(name, each) for name, each in settings.items() if each is not None}
        out = typed_path(asked.out)
        words = [sys.executable, "-m", "gradgate", self.name, "--json", "--out", str(out), *flags_of(settings)]
        return words, out


_REPEATED = ("method", "adapter", "model", "task", "train_size", "search", "lr_scale")

_WORD_OF_NONE = {"train_size": ALL, "adapter": NONE}
"""What a flag takes for None, which a list may have: every row, and no adapter."""


def _on_command_line(name: str, value: Any) -> Any:
    """Return a setting as its flag takes it: lists as one value, but for flags that are repeated."""
    if not isinstance(value, list):
        return value
    if name not in _REPEATED:
        joined_values = ",".join(map(str, value))
        return f"{joined_values}," if name == "seeds" else joined_values  # without a comma, 7 is a number of seeds
    return [_WORD_OF_NONE.get(name) if each is None else each for each in value]


class CompareArguments(CheckedSettings):
    """The arguments of ``compare``."""

    method: list[str] = Field(
        min_length=1, description="methods or adapters; the first is what others are compared with"
    )
    model: str = Field("sample", description="folder or hub name of a pretrained model, or 'sample'")
    task: str = Field("sample", description=_TASK)
    seeds: int = Field(5, ge=1, description="runs of each method")
    out: str = Field("studies/latest", description="folder of the study; the same call again resumes it")
    budget: float | None = Field(None, description="train at most this share of all steps, such as 0.2")
    settings: dict[str, Any] = Field({}, description=SETTINGS.format(example=_EXAMPLE))


def compared(study: Path, printed: str) -> ToolAnswer:
    """Judge the study that was trained; the verdict of a budget comes first, as only it counts the arms that left."""
    from gradgate.errors import counted
    from gradgate.study.budget.file import read_budget
    from gradgate.study.status import read_status

    judged, budget = study_verdicts(StudyVerdictsArguments(study=str(study))), read_budget(study)
    place = {"study": str(study), "report": str(study / PAGE)}
    spent, answer = ({}, []) if budget is None else (budget.record(), [budget.headline, budget.details])
    failed = [run for run in read_status(study).runs if run.state is RunState.FAILED]
    lost = f"{counted(len(failed), 'run')} failed; the first, {failed[0].label}: {failed[0].error}" if failed else ""
    text = "\n".join(filter(None, [*answer, judged.text, lost, f"Report: {place['report']}"]))
    record = {**place, **spent, **judged.record}
    return ToolAnswer(text, record | {"failed": [run.label for run in failed]} if failed else record)


class RecommendArguments(CheckedSettings):
    """The arguments of ``recommend``."""

    model: str = Field("sample", description="folder or hub name of a pretrained model, or 'sample'")
    task: str = Field("sample", description=_TASK)
    minutes: float = Field(30.0, gt=0, description="how long all of it may take, by the clock")
    train: bool = Field(True, description="train a final model with the recommended method")
    out: str = Field("studies/recommended", description="folder of the study; the same call again resumes it")
    settings: dict[str, Any] = Field({}, description=SETTINGS.format(example="{'max_length': 128}"))


def recommended(study: Path, printed: str) -> ToolAnswer:
    """Return what was recommended."""
    record = json.loads(printed)
    lines = [record["advice"], f"Train it again with: {record['command']}", f"Report: {record['report']}"]
    return ToolAnswer("\n".join(lines), record)
