"""Each flag is made from a setting, and the help groups flags by subject."""

from __future__ import annotations

import re
from typing import Any

import pytest
import typer

from gradgate.cli import app
from gradgate.settings.base import SECTIONS, CheckedSettings
from gradgate.settings.compare import CompareSettings, RecommendSettings, WorkerSettings
from gradgate.settings.finished import EvaluateSettings, PredictSettings
from gradgate.settings.memory import MemorySettings
from gradgate.settings.run import RunConfig
from support.command_line import Command

REQUESTS: dict[str, type[CheckedSettings]] = {
    "train": RunConfig,
    "compare": CompareSettings,
    "recommend": RecommendSettings,
    "memory": MemorySettings,
    "evaluate": EvaluateSettings,
    "predict": PredictSettings,
    "worker": WorkerSettings,
}
OWN = {"out", "push-to-hub", "public", "quiet", "json", "config", "help", "dry-run", "file"}


@pytest.mark.parametrize("name", REQUESTS)
def test_flags_are_the_fields(name: str) -> None:
    root: Any = typer.main.get_command(app)
    flags = {flag[2:] for option in root.commands[name].params for flag in option.opts if flag.startswith("--")}
    assert flags - OWN == {field.replace("_", "-") for field in REQUESTS[name].model_fields}


@pytest.mark.parametrize("name", ["train", "compare", "recommend"])
def test_help_has_subjects(command: Command, name: str) -> None:
    text = command(name, "--help").out
    headings = re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)
    expected = [section.capitalize() for section in SECTIONS if name != "train" or section != "study"]
    assert headings == [*expected, "Options"]
    parts = re.split(r"^[A-Z][a-z ]+:$", text, flags=re.MULTILINE)[1:]
    own = dict(zip(headings, parts, strict=True))
    assert "--task " in own["Data"]
    assert "--lr " in own["Optimization"]
    assert "--master " in own["Precision and memory"]
    assert "--eval-every " in own["Evaluation"]
    assert "--out" in own["Output"]
    assert "--dry-run" not in own["Data"]


def test_every_setting_of_a_run_has_a_subject() -> None:
    assert set(RunConfig.sections()) == set(RunConfig.model_fields)
    assert set(RunConfig.sections().values()) == {*SECTIONS} - {"study"}
