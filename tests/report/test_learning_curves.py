"""Losses on train and dev, and test scores after each epoch, as the report shows them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gradgate.report import write_report
from gradgate.report.sections.from_papers.epoch_curves import EpochCurvesSection
from gradgate.report.sections.from_papers.losses import LossesSection, whole_windows
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.study_folder import METRIC, write_study

LANGUAGES = {"en.test": "en", "de.test": "de", "sw.test": "sw"}


@pytest.fixture(autouse=True)
def _own_figures_alone(draw_only: Callable[..., None]) -> None:
    draw_only(LossesSection, EpochCurvesSection)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two methods with two seeds. Test scores of German and Swahili are 0.1 and 0.3 below those of English."""
    methods, seeds = ("full", "gradual:every=40"), (0, 1)
    scores = {method: [0.6, 0.7] for method in methods}
    folder = write_study(tmp_path / "study", methods, seeds, scores, tuple(LANGUAGES), languages=LANGUAGES, source="en")
    for history in folder.glob("runs/*/*/history.jsonl"):
        seed = int(history.parent.name[-1])
        lines = [
            {"step": step, "epoch": step / 40, "split": split, "used_for_selection": False, METRIC: value, "loss": 1.0}
            for step, english in ((40, 0.8), (80, 0.7))
            for split, value in zip(LANGUAGES, (english, english - 0.1 - 0.1 * seed, english - 0.3), strict=True)
        ]
        with history.open("a") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
    return folder


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def test_a_window_that_an_epochs_end_cuts_short_is_joined_to_its_neighbour() -> None:
    noted = [(10, 3.0), (20, 2.0), (21, 9.0), (30, 1.0), (32, 5.0)]
    assert whole_windows(noted) == [(10, 3.0), (20, 2.0), (32, pytest.approx((9 + 9 * 1 + 2 * 5) / 12))]
    even = [(10, 3.0), (20, 2.0), (30, 1.0)]
    assert whole_windows(even) == even
    assert whole_windows([(5, 1.0)]) == [(5, 1.0)]
    assert whole_windows([]) == []


def test_the_csv_has_losses_that_are_drawn_with_their_neighbours(study: Path, draw_only: Callable[..., None]) -> None:
    for file in study.glob("runs/*/*/history.jsonl"):
        line = json.dumps({"step": 11, "epoch": 1.0, "split": "train", "loss": 12.0})
        file.write_text(f"{file.read_text()}{line}\n")
    section = LossesSection.find(summarize_study(read_study(study)))
    assert section is not None
    assert section.curves[0].windows == {11: [2.0, 2.0]}  # (10 * 1 + 12) / 11
    assert "full goes from 2.000 to 2.000 on train" in section.drawings()[0].text
    draw_only()
    write_report(study)
    found = {(row["step"], row["mean"]) for row in rows(study / "tables/losses.csv") if row["split"] == "train"}
    assert found == {("10", "1.0"), ("11", "12.0")}


def test_losses_of_train_and_dev_are_drawn_and_written(study: Path, draw_only: Callable[..., None]) -> None:
    section = LossesSection.find(summarize_study(read_study(study)))
    assert section is not None
    assert section.curves[0].train == {10: [1.0, 1.0]}
    assert section.curves[0].dev == {40: [0.5, 0.5], 80: [0.4, 0.4]}
    (drawing,) = section.drawings()
    assert "full goes from 1.000 to 1.000 on train and ends at 0.400 on dev, its lowest" in drawing.text
    draw_only()
    write_report(study)
    assert {(row["split"], row["step"], row["mean"]) for row in rows(study / "tables/losses.csv")} == {
        ("train", "10", "1.0"),
        ("dev", "40", "0.5"),
        ("dev", "80", "0.4"),
    }


def test_a_loss_that_rises_is_said(study: Path) -> None:
    for history in study.glob("runs/method-0/*/history.jsonl"):
        history.write_text(history.read_text().replace('"loss": 0.4', '"loss": 0.9'))
    section = LossesSection.find(summarize_study(read_study(study)))
    assert section is not None
    assert "ends at 0.900 on dev, after 0.500 at step 40" in section.drawings()[0].text


def test_test_scores_are_means_over_the_target_languages(study: Path) -> None:
    section = EpochCurvesSection.find(summarize_study(read_study(study)))
    assert section is not None
    assert section.splits == ("de.test", "sw.test")
    assert section.curves[0].scores[40] == [pytest.approx(0.6), pytest.approx(0.55)]
    (drawing,) = section.drawings()
    assert "full ends at 47.5, after 57.5 at step 40" in drawing.text
    assert "mean over 2 target languages" in drawing.caption
    assert "Nothing was selected by these scores." in drawing.caption
    page = write_report(study).html.read_text()
    assert "Test scores during training" in page
    written = rows(study / "tables/epoch-tests.csv")
    assert {row["split"] for row in written} == set(LANGUAGES)
    assert {row["metric"] for row in written} == {METRIC, "loss"}


def test_seeds_whose_epochs_differ_in_length_meet_at_each_epoch(study: Path, draw_only: Callable[..., None]) -> None:
    for history in study.glob("runs/*/*/history.jsonl"):
        lines = [json.loads(line) for line in history.read_text().splitlines()]
        seed = int(history.parent.name[-1])
        history.write_text("".join(f"{json.dumps(line | {'step': line['step'] + seed})}\n" for line in lines))
    summary = summarize_study(read_study(study))
    tests, losses = EpochCurvesSection.find(summary), LossesSection.find(summary)
    assert tests is not None
    assert losses is not None
    assert tests.curves[0].scores == {
        40: [pytest.approx(0.6), pytest.approx(0.55)],
        80: [pytest.approx(0.5), pytest.approx(0.45)],
    }
    assert {step: len(values) for step, values in losses.curves[0].dev.items()} == {40: 2, 80: 2}
    draw_only()
    assert {row["step"] for row in rows(write_report(study).html.parent / "tables/epoch-tests.csv")} == {"40", "80"}


def test_without_such_scores_there_is_no_section(tmp_path: Path) -> None:
    folder = write_study(tmp_path, scores={"full": [0.5]})
    assert EpochCurvesSection.find(summarize_study(read_study(folder))) is None
