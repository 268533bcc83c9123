"""Runs of a study report to trackers from the processes that train them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.runs.records import RunRecord, read_record
from support.tracked import tensorboard_points


@pytest.mark.slow
def test_each_run_of_a_study_reports_to_its_folder(settings: dict[str, Any], tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed")
    asked = {**settings, "steps": 4, "method": ["full", "freeze:layers=1"], "quiet": True, "keep_model": False}
    model, task, methods = asked.pop("model"), asked.pop("task"), asked.pop("method")
    study = tmp_path / "study"
    gg.compare(model, task, methods, seeds=[0], out=study, workers=2, report_to="tensorboard", **asked)
    for arm in ("full", "freeze*"):
        (run,) = study.glob(f"runs/{arm}/seed-0")
        points = tensorboard_points(run / "tensorboard")
        assert [step for step, _ in points["loss"]] == [1, 2, 3, 4]
        share = gg.Run(run).scores["cost"]["trainable_share"]
        assert [each for _, each in points["gradgate/open_share"]] == pytest.approx([share] * 4)
    # Where runs are logged is not what they compute: the study takes more seeds without it.
    gg.compare(model, task, methods, seeds=[0, 1], out=study, **asked)
    later = study / "runs/full/seed-1"
    assert not (later / "tensorboard").exists()
    assert read_record(later / "run.json", RunRecord).config["report_to"] is None
