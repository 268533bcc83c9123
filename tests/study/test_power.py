"""The seeds that comparisons need: known answers, and an honest sentence where there is no number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.cli import run
from gradgate.report.power_table import notes_of, power_table
from gradgate.statistics import compare_paired, detectable, pairs_for_equivalence, pairs_needed
from gradgate.study.power import ArmPower, study_power
from support.study_folder import write_study

FULL = [0.70, 0.71, 0.72, 0.73, 0.71]
ONES = {
    "full": FULL,
    "gradual:every=40": [0.72, 0.70, 0.74, 0.76, 0.70],
    "head": [0.69, 0.72, 0.71, 0.74, 0.72],
}


def powers(folder: Path, scores: dict[str, list[float]], margin: float | None = None) -> dict[str, ArmPower]:
    study = write_study(folder, methods=tuple(scores), seeds=range(5), scores=scores)
    return {each.verdict.arm: each for each in study_power(study, margin)}


def test_numbers_are_those_of_the_statistics(tmp_path: Path) -> None:
    found = powers(tmp_path / "study", ONES)["gradual:every=40"]
    versus = compare_paired(dict(enumerate(ONES["gradual:every=40"])), dict(enumerate(FULL)))
    assert versus.sd is not None
    assert versus.difference is not None
    assert found.level == 0.025
    assert found.detectable == pytest.approx(versus.sd * detectable(5, 0.8, 0.025))
    assert found.seeds.difference == pairs_needed(versus.difference / versus.sd, 0.8, 0.025)
    assert found.seeds.margin == pairs_needed(0.01 / versus.sd, 0.8, 0.025)
    assert found.seeds.non_inferior == pairs_needed(0.01 / versus.sd, 0.8, 0.1)
    assert found.seeds.equivalent == pairs_for_equivalence(0.01 / versus.sd)


def test_records_are_in_the_unit_of_the_page(tmp_path: Path) -> None:
    found = powers(tmp_path / "study", ONES, 2.0)["head"]
    record, low_high = found.record(), found.sd_interval
    assert low_high is not None
    assert record["margin"] == pytest.approx(2.0)
    assert record["detectable"] == pytest.approx(100 * (found.detectable or 0))
    assert record["sd_interval"] == pytest.approx([100 * end for end in low_high])
    low, high = record["seeds_margin_interval"]
    assert low <= record["seeds_margin"] <= high


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        ({"full": FULL, "head": [0.69]}, "1 common seed: too few to know the spread"),
        ({"full": FULL, "head": FULL}, "The scores equal the reference's for all 5 seeds"),
        (
            {"full": FULL, "head": [each + 0.02 for each in FULL]},
            "The same difference for all 5 seeds: the spread is 0",
        ),
    ],
    ids=["one seed", "identical", "no spread"],
)
def test_no_spread_is_said(tmp_path: Path, scores: dict[str, list[float]], said: str) -> None:
    found = powers(tmp_path / "study", scores)["head"]
    assert found.note is not None
    assert found.note.startswith(said)
    assert {found.detectable, *vars(found.seeds).values()} == {None}
    assert json.dumps(found.record(), allow_nan=False)


def test_collapsed_runs_are_named(tmp_path: Path) -> None:
    found = powers(tmp_path / "study", {"full": FULL, "head": [0.69, 0.72, 0.71, 0.30, 0.72]})["head"]
    without = found.without_collapsed
    assert without is not None
    assert found.seeds.margin is not None
    assert without.margin is not None
    assert without.margin < found.seeds.margin / 100
    assert found.note is not None
    assert "1 of 5 runs and 0 of 5 of the reference collapsed" in found.note
    assert f"Without these runs: {without.margin:,} for the margin" in found.note


def imported(folder: Path, scores: dict[str, list[float]], **asked: Any) -> list[ArmPower]:
    rows = [{"arm": arm, "seed": seed, **score} for arm, own in scores.items() for seed, score in _rows(own, asked)]
    asked.pop("metric", None)
    gg.import_results(rows, folder, **asked)
    return study_power(folder)


def _rows(own: list[float], asked: dict[str, Any]) -> list[tuple[int, dict[str, float]]]:
    return [(seed, {asked.get("metric", "accuracy"): score}) for seed, score in enumerate(own)]


def test_unpaired_imports_count_runs_of_each_arm(tmp_path: Path) -> None:
    (found,) = imported(tmp_path / "study", {"full": FULL, "head": ONES["head"][:4]}, pair="none")
    assert (found.pairs, found.is_paired, found.sd_interval) == (4, False, None)
    assert found.seeds.margin == pairs_needed(0.01 / (found.sd or 0))
    assert found.note is not None
    assert found.note.startswith("These runs are not paired")


def test_losses_have_no_margin(tmp_path: Path) -> None:
    scores = {"full": [1.0, 1.2, 1.1], "head": [1.3, 1.25, 1.2]}
    (found,) = imported(tmp_path / "study", scores, metric="loss")
    assert found.seeds.difference is not None
    assert (found.seeds.margin, found.seeds.equivalent, found.margin_interval) == (None, None, None)
    assert "There is no margin" in " ".join(notes_of([found]))


def test_the_command_prints_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    powers(tmp_path / "study", ONES)
    assert run(["study", "power", str(tmp_path / "study"), "--margin", "2"]) == 0
    said = capsys.readouterr().out
    assert "gradual:every=40" in said
    assert "(the first step of Holm's correction for 2 tests)" in " ".join(said.split())
    assert run(["study", "power", str(tmp_path / "study"), "--json"]) == 0
    assert [each["arm"] for each in json.loads(capsys.readouterr().out)] == ["gradual:every=40", "head"]


def test_equal_notes_stand_once(tmp_path: Path) -> None:
    found = list(powers(tmp_path / "study", ONES).values())
    lines = notes_of(found)
    assert [line for line in lines if "uncertain" in line] == [
        "The spread of 5 pairs is uncertain: its 95 % interval is 0.6 to 2.9 times the estimate."
    ]
    assert len(power_table(found).rows) == 2


def test_nothing_compared_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_study(tmp_path / "study")
    assert run(["study", "power", str(tmp_path / "study")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "No comparison is possible yet."
