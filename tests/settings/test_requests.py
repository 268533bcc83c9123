"""Requests share the settings of a run, and check them together before anything is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import UsageError
from gradgate.settings.base import CheckedSettings, checked_settings, passed
from gradgate.settings.command_line import train_command
from gradgate.settings.compare import CompareSettings, RecommendSettings
from gradgate.settings.memory import MemorySettings, head_of
from gradgate.settings.plan import PlanSettings
from gradgate.settings.run import EstimatedSettings, RunConfig, SharedSettings, make_config
from gradgate.study.arms import estimated_arms

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("of", [CompareSettings, RecommendSettings, MemorySettings, PlanSettings])
def test_defaults_are_those_of_a_run(of: type[CheckedSettings]) -> None:
    shared = EstimatedSettings if of is MemorySettings else SharedSettings
    theirs = {name: of.model_fields[name].default for name in shared.model_fields}
    ours = {name: RunConfig.model_fields[name].default for name in theirs}
    length = {"steps", "epochs"} if of in (MemorySettings, PlanSettings) else set()
    assert {name for name in theirs if theirs[name] != ours[name]} == length


def test_keywords_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import write_keywords as w; print(w.written() == w.FILE.read_text())"],
        cwd=ROOT / "tools", capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == "True", done.stderr


def test_one_value_is_one_of_several() -> None:
    asked = checked_settings(CompareSettings, {"method": "full", "task": "sample", "seeds": 2, "train_size": 8})
    assert (tuple(map(str, asked.method)), asked.task, asked.seeds, asked.train_size) == (
        ("full",),
        ("sample",),
        (0, 1),
        (8,),
    )
    assert (asked.run.task, asked.run.train_size) == ("sample", 8)


def test_passed_settings_reach_the_runs() -> None:
    asked = checked_settings(CompareSettings, {"method": ["full", "head"], "lr": 1e-3})
    assert passed(asked.run) == {"lr": 1e-3}
    assert "lr" not in checked_settings(CompareSettings, {"method": "full"}).run.model_fields_set


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epochs": 1, "steps": 1}, "pass epochs= or steps=, not both"),
        ({"release_gradients": True}, "set clip=0"),
        ({"budget": 0.1, "budget_steps": 4}, "budget=, budget_steps= and budget_time="),
        ({"budget": 2}, "^budget=2: expected a share"),
        ({"trials": 2}, "^trials=2 says how search= tries settings"),
        ({"prune": True}, "^prune=True says how"),
        ({"seeds": "x"}, "^seeds='x': expected a number of seeds"),
        ({"queue": "here"}, "^queue='here': expected the address"),
        ({"store": "sqlite:///q.db"}, "address of a study's queue as queue='sqlite:///q.db'"),
        ({"workers": 0}, "^workers=0: expected"),
        ({"gpus_per_run": 0.5}, "^gpus_per_run= is for a Ray cluster"),
        ({"ray": "auto", "workers": 4}, "^workers=4 and ray= cannot be combined"),
        ({"precision": "bfloat16"}, "goes to weights="),
        ({"search": "lr=1e-4", "lr": 1e-3}, r"^search='lr' tries its own values .* so that lr=0\.001 has no effect"),
        ({"search": "tapt-steps=4,8", "tapt_epochs": 1}, r"so that tapt_epochs=1\.0 has no effect"),
        ({"master": "none"}, "^master='none' has no effect on weights in float32"),
        ({"activation_cache": "off", "activation_cache_size": 3}, r"^activation_cache_size=3\.0 has no effect"),
        ({"store": "delta", "keep_model": False}, "^store='delta' has no effect with keep_model=False"),
    ],
)
def test_wrong_requests_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked_settings(CompareSettings, {"method": "full", **values})


@pytest.mark.parametrize("name", ["lr", "epochs"])
def test_a_probe_is_refused_settings_of_steps(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"^{name}=0\.5 has no effect on 'probe', which takes no training steps"):
        gg.train(method="probe", out=tmp_path, quiet=True, **{name: 0.5})  # type: ignore[arg-type]
    command = train_command(make_config(method="probe", batch_size=4, **{name: 0.5}), "out")
    assert command == "gradgate train --model sample --task sample -m probe --batch-size 4 --out out"


def test_memory_describes_the_same_training() -> None:
    words: dict[str, Any] = {"precision": "bf16", "master": "float32", "batch_size": 4, "accumulate": 2}
    asked = checked_settings(MemorySettings, words)
    run = asked.run()
    assert {name: getattr(run, name) for name in words} == words
    assert run.weights is None  # float32 weights under autocast, as of train
    again = MemorySettings.of(RunConfig(**words), "classification")
    assert {name: getattr(again, name) for name in words} == words


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("classification", "sequence"),
        ("regression", "sequence"),
        ("token-classification", "token"),
        ("generation", "auto"),
    ],
)
def test_the_kind_decides_the_head(kind: str, head: str) -> None:
    assert head_of(kind) == head


def test_what_is_not_counted_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^open_new_tokens=True is not in the estimate"):
        checked_settings(MemorySettings, {"open_new_tokens": True})
    with pytest.raises(UsageError, match=r"^tapt_steps=10 is not in the estimate: that training comes first"):
        checked_settings(MemorySettings, {"tapt_steps": 10})


@pytest.mark.parametrize("text", ["full:tapt_steps=10", "houlsby:tapt_epochs=1"])
def test_pre_training_of_an_arm_is_not_counted_either(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not in the estimate: that training comes first"):
        estimated_arms(checked_settings(MemorySettings, {"method": text}))
