"""Train for an agent: run the commands in a process of their own, which a cancelled call stops after saving."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from gradgate.agents.planning import SETTINGS, joined
from gradgate.agents.tool import Answer
from gradgate.errors import RunError
from gradgate.places import typed_path
from gradgate.settings.base import CheckedSettings, checked_settings
from gradgate.settings.command_line import flags_of
from gradgate.settings.compare import CompareSettings, RecommendSettings

_EXAMPLE = "{'steps': 500, 'lr': 3e-5, 'batch_size': 16}"
_TASK = "name of a task, or a file or folder of data, such as tickets.csv"


class CompareArguments(CheckedSettings):
    """The arguments of ``compare``."""

    method: list[str] = Field(
        min_length=1, description="methods or adapters; the first is what others are compared with"
    )
    model: str = Field("sample", description="folder or hub name of a pretrained model, or 'sample'")
    task: str = Field("sample", description=_TASK)
    seeds: int = Field(3, ge=1, description="runs of each method")
    out: str = Field("studies/latest", description="folder of the study; the same call again resumes it")
    budget: float | None = Field(None, description="train at most this share of all steps, such as 0.2")
    settings: dict[str, Any] = Field({}, description=SETTINGS.format(example=_EXAMPLE))


def compare(asked: CompareArguments) -> Answer:
    """Train and compare methods over seeds."""
    from gradgate.agents.judging import StudyVerdictsArguments, study_verdicts

    values = _settings(asked)
    checked_settings(CompareSettings, values)
    out = typed_path(asked.out)
    _run("compare", values, out)
    judged = study_verdicts(StudyVerdictsArguments(study=str(out)))
    place = {"study": str(out), "report": str(out / "report.html")}
    return Answer(f"{judged.text}\nReport: {place['report']}", {**place, **judged.record})


class RecommendArguments(CheckedSettings):
    """The arguments of ``recommend``."""

    model: str = Field("sample", description="folder or hub name of a pretrained model, or 'sample'")
    task: str = Field("sample", description=_TASK)
    minutes: float = Field(30.0, gt=0, description="how long all of it may take, by the clock")
    train: bool = Field(True, description="train a model of the recommended arm to its end")
    out: str = Field("studies/recommended", description="folder of the study; the same call again resumes it")
    settings: dict[str, Any] = Field({}, description=SETTINGS.format(example="{'max_length': 128}"))


def recommend(asked: RecommendArguments) -> Answer:
    """Find the best way to train on some data, and train it."""
    values = _settings(asked)
    checked_settings(RecommendSettings, values)
    record = json.loads(_run("recommend", values, typed_path(asked.out)))
    lines = [record["advice"], f"Train it again with: {record['command']}", f"Report: {record['report']}"]
    return Answer("\n".join(lines), record)


def _settings(asked: CompareArguments | RecommendArguments) -> dict[str, Any]:
    own = {name: value for name, value in dict(asked).items() if name not in ("settings", "out") and value is not None}
    return joined(own, asked.settings)


_running: set[subprocess.Popen[str]] = set()


def stop_all() -> None:
    """Ask every training to save and stop, as when the agent has gone."""
    for process in list(_running):
        process.send_signal(signal.SIGTERM)


def _run(command: str, settings: dict[str, Any], out: Path) -> str:
    """Run a command, and return what it prints; its messages go to standard error.

    Raises:
        RunError: if it fails, with its message.
    """
    words = [sys.executable, "-m", "gradgate", command, "--json", "--out", str(out), *flags_of(settings)]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        _running.add(process)
        try:
            printed, said = process.communicate()
        finally:
            _running.discard(process)
    sys.stderr.write(said)
    if process.returncode:
        reason = said.strip().rpartition("gradgate: ")[2] or f"it ended with code {process.returncode}"
        raise RunError(f"gradgate {command} failed: {reason}")
    return printed
