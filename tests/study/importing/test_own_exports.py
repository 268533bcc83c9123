"""What gradgate exported is compared, when it is imported, as its study was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gradgate as gg
from gradgate.study.export import as_table
from gradgate.study.verdicts import study_verdicts
from support.imported_tables import imported

LANGUAGES = ("en", "de", "sw")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_export_is_compared_as_its_study_was(form: str, tmp_path: Path) -> None:
    rows = [
        {
            "task": "xnli",
            "model": "m",
            "train_size": None,
            "method": method,
            "adapter": None,
            "seed": seed,
            "status": "finished",
            "metric": "macro_f1",
            "split": "zero-shot",
            "score": better + 0.01 * seed,
            "scores": {
                **{f"test.{code}": {"accuracy": 0.9 - better, "macro_f1": better} for code in LANGUAGES},
                "dev": {"accuracy": 0.9 - better, "macro_f1": better},
                "zero-shot": {"accuracy": 0.9 - better, "macro_f1": better + 0.01 * seed},
                "all": {"accuracy": 0.9 - better, "macro_f1": better},
            },
            "cost": None,
            "error": None,
        }
        for method, better in (("full", 0.5), ("head", 0.6))
        for seed in range(4)
    ]
    file = tmp_path / f"runs.{form}"
    file.write_text(as_table(rows) if form == "csv" else json.dumps(rows))
    study = gg.import_results(file, tmp_path / "study")
    (found,) = study_verdicts(study.path)
    assert (found.metric, found.split) == ("macro_f1", "zero-shot")
    assert found.verdict.comparison.difference == pytest.approx(0.1)
    asked = gg.import_results(file, tmp_path / "asked", metric="accuracy")
    assert study_verdicts(asked.path)[0].metric == "accuracy"


@pytest.mark.parametrize("form", ["csv", "json"])
def test_an_arm_without_a_finished_run_is_named(form: str, tmp_path: Path) -> None:
    rows = [
        {
            "task": "t", "model": "m", "method": method, "adapter": "lora:r=8", "seed": seed, "metric": "accuracy",
            "split": "test", "status": status, "score": None,
            "scores": {"test": {"accuracy": 0.5}} if status == "finished" else {},
        }
        for method, status in (("full", "finished"), ("lisa", "failed"))
        for seed in range(2)
    ]  # fmt: skip
    file = tmp_path / f"runs.{form}"
    file.write_text(as_table(rows) if form == "csv" else json.dumps(rows))
    found = imported(file, tmp_path / "study")
    assert found.left_out == {"the run's state is failed": 2}
    texts = [each.text for each in found.warnings if each.kind == "no_scores"]
    assert texts == ["lora:r=8 + lisa: none of its 2 runs has a score, so it is not judged."]
