"""Scores by the size of the training set, against folders whose every number is known."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

import pytest

from gradgate.papers.check import check_studies
from gradgate.report import write_report
from gradgate.report.sections.from_papers.training_sizes import TrainingSizesSection, caption
from gradgate.report.sections.gains import GainsSection
from gradgate.report.study_summary import summarize_study
from gradgate.study.conditions import Conditions, TaskChoice
from gradgate.study.pooled import read_pooled
from support.study_folder import finish, write_study

METHOD = "freeze:layers=1"
SCORES = {
    50: {"full": (0.50, 0.52, 0.54), METHOD: (0.56, 0.59, 0.59)},
    None: {"full": (0.80, 0.81, 0.82), METHOD: (0.79, 0.80, 0.80)},
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    sizes = tuple(SCORES)
    parts = Conditions((TaskChoice("toy"),), ("toy-bert",), sizes)
    (tmp_path / "parts.json").write_text(
        json.dumps({"tasks": [{"task": "toy", "data": None}], "models": ["toy-bert"], "train_sizes": sizes})
    )
    for path, size in zip(parts.paths(tmp_path), sizes, strict=True):
        write_study(path, ("full", METHOD), scores=SCORES[size])
        record = json.loads((path / "study.json").read_text())
        record["settings"]["train_size"] = size
        (path / "study.json").write_text(json.dumps(record))
    return tmp_path


def test_the_scores_of_each_size_are_in_the_report(study: Path, draw_only: Callable[..., None]) -> None:
    draw_only(TrainingSizesSection, GainsSection)
    written = write_report(study)
    assert {"training-sizes.svg", "training-sizes.pdf", "gains.svg"} <= {path.name for path in written.figures}
    rows = list(csv.DictReader((study / "tables" / "training-sizes.csv").read_text().splitlines()))
    assert [(row["method"], row["rows"], row["n"]) for row in rows] == [
        ("full", "50", "3"), ("full", "100", "3"), (METHOD, "50", "3"), (METHOD, "100", "3"),
    ]  # fmt: skip
    assert float(rows[2]["mean"]) == pytest.approx(fmean(SCORES[50][METHOD]))
    assert float(rows[2]["sd"]) == pytest.approx(stdev(SCORES[50][METHOD]))
    page = written.html.read_text(encoding="utf-8")
    assert f"Differences to full with 50 and with 100 rows: {METHOD} +6.0 and −1.3." in page
    assert "Training sizes share their rows" in page


def test_a_size_that_has_not_finished_everywhere_is_no_end_of_the_comparison(
    study: Path, draw_only: Callable[..., None]
) -> None:
    draw_only(TrainingSizesSection)
    part = read_pooled(study).parts[1][1].folder
    for scores in part.glob("runs/method-1/*/scores.json"):
        scores.unlink()
    section = TrainingSizesSection.find(summarize_study(read_pooled(study)))
    assert section is not None
    assert caption(section) == "No two sizes are finished for every method yet."
    write_report(study)


def test_each_size_is_a_place_of_its_own_for_claims(study: Path) -> None:
    (verdict,) = [found for found in check_studies([study], "adaptereff") if found.claim.id == "A5"]
    assert verdict.outcome.state == "cannot tell"  # no adapter was trained
    assert "training sets of two sizes" in verdict.outcome.findings[0].text


def test_one_size_has_no_section(tmp_path: Path) -> None:
    write_study(tmp_path, scores={"full": (0.5, 0.6)})
    assert TrainingSizesSection.find(summarize_study(read_pooled(tmp_path))) is None


def test_methods_are_compared_on_the_seeds_that_both_have(study: Path) -> None:
    """Seed 2 of full is the best by far; where the method lacks it, means of all seeds would say that it lost."""
    small = next(
        path for path in sorted(study.glob("parts/*/study.json")) if '"train_size": 50' in path.read_text()
    ).parent
    finish(small, "full", 2, 0.99)
    (small / "runs/method-1/seed-2/scores.json").unlink()
    section = TrainingSizesSection.find(summarize_study(read_pooled(study)))
    assert section is not None
    gap = fmean(SCORES[50][METHOD][seed] - SCORES[50]["full"][seed] for seed in (0, 1))
    assert f"{METHOD} +{100 * gap:.1f} and" in caption(section)
