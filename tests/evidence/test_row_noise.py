"""What the pages say of a study's test rows as a sample."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence import studies
from evidence.row_noise import ROWS, row_noise, row_noise_table
from evidence.studies import Study
from gradgate.study.row_noise import row_verdicts
from support.study_folder import write_study

COUNT = 40
RIGHT = {"full": (32, 30, 31), "head": (26, 27, 22)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study of two arms and three seeds with its predictions: the first rows are right."""
    scores = {arm: [right / COUNT for right in own] for arm, own in RIGHT.items()}
    path = write_study(
        tmp_path / "study", methods=list(RIGHT), seeds=range(3), scores=scores, metric="accuracy", labels=["no", "yes"]
    )
    for number, own in enumerate(RIGHT.values()):
        for seed, right in enumerate(own):
            file = path / f"runs/method-{number}/seed-{seed}/predictions/test.jsonl"
            file.parent.mkdir(parents=True)
            rows = ({"index": i, "gold": "yes", "predicted": "yes" if i < right else "no"} for i in range(COUNT))
            file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_both_intervals_of_an_arm_are_kept_in_points(folder: Path) -> None:
    (found,) = row_noise(folder)
    (verdict,) = row_verdicts(folder)
    assert verdict.rows is not None
    assert (found.arm, found.reference, found.split, found.seeds, found.rows) == ("head", "full", "test", 3, COUNT)
    assert found.difference == pytest.approx(100 * (75 - 93) / 3 / COUNT)
    assert (found.low, found.high) == pytest.approx(
        tuple(100 * end for end in verdict.verdict.comparison.interval or ()), abs=1e-4
    )
    assert found.low_with_rows == pytest.approx(100 * verdict.rows.interval_t[0], abs=1e-4)
    assert (found.error, found.freedom) == pytest.approx((100 * verdict.rows.error, verdict.rows.freedom), abs=0.01)
    assert 0 < found.share_of_rows < 1


def test_a_study_without_predictions_has_none(folder: Path) -> None:
    for file in folder.rglob("predictions/test.jsonl"):
        file.unlink()
    assert list(row_noise(folder)) == []


def test_the_page_has_a_row_per_arm(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "RUNS", tmp_path)
    study = Study(name="one", title="", data="real", differs="", compare={})
    assert row_noise_table(study) == ""
    ROWS.write(study.row_noise, row_noise(folder))
    head, _, row = row_noise_table(study).splitlines()
    assert head == "| 3 seeds, 40 rows of test | minus `full` | over seeds | over seeds and rows | due to rows |"
    assert row == "| `head` | −15.0 | −33.6 to +3.6 | −33.6 to +3.6 | 57 % |"
