"""``dry_run=True`` returns a forecast of a run or a comparison, and writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradgate
from gradgate.errors import UsageError
from gradgate.study.forecast import Forecast
from support.generators import save_generator, save_prompts


def test_a_run_is_forecast_as_one_run(settings: dict[str, Any], tmp_path: Path) -> None:
    found = gradgate.train(**settings | {"method": "head", "out": tmp_path / "run"}, quiet=True, dry_run=True)
    assert isinstance(found, Forecast)
    assert [(arm.label, arm.runs, arm.steps) for arm in found.arms] == [("head", 1, settings["steps"])]
    assert found.arms[0].peak_bytes
    assert (found.workers, found.share, found.finished) == (1, None, 0)
    assert list(tmp_path.iterdir()) == []


def test_a_generating_run_searches_no_rates(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    model, task = save_generator(tmp_path / "model"), save_prompts(tmp_path / "data")
    own: dict[str, Any] = {"model": str(model), "task": str(task), "steps": 2, "device": "cpu"}
    own |= {"batch_size": 4, "max_length": 32, "max_new_tokens": 1}
    found = gradgate.train(**own, out=tmp_path / "run", quiet=True, dry_run=True)
    assert found.runs == 1


def test_a_finished_run_needs_nothing(settings: dict[str, Any], tmp_path: Path) -> None:
    own: dict[str, Any] = settings | {"steps": 2, "out": tmp_path / "run", "quiet": True}
    gradgate.train(**own)
    found = gradgate.train(**own, dry_run=True)
    assert (found.arms, found.finished, found.runs) == ((), 1, 0)


def test_a_comparison_is_forecast(settings: dict[str, Any], tmp_path: Path) -> None:
    own: dict[str, Any] = settings | {"method": "head", "seeds": 2, "workers": 2, "out": tmp_path / "study"}
    found = gradgate.compare(**own, quiet=True, dry_run=True)
    assert isinstance(found, Forecast)
    assert [(arm.label, arm.runs) for arm in found.arms] == [("head", 2)]
    assert found.workers == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dry_run", [False, True])
def test_parameters_are_named_in_python(dry_run: bool, tmp_path: Path) -> None:
    own: dict[str, Any] = {"method": "full", "budget": 2, "out": tmp_path / "study", "dry_run": dry_run}
    with pytest.raises(UsageError, match=r"^budget=2: expected a share"):
        gradgate.compare(**own)
