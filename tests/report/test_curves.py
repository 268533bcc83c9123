"""Learning curves on dev."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradgate.report.sections.curves import curve_table, draw_curves, find_curves
from gradgate.report.study_summary import summarize_study
from gradgate.study.results import read_study
from support.study_folder import write_study
from support.written_report import tables_of

FULL, GRADUAL = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
SCORES = {"full": FULL, "gradual:every=40": GRADUAL}


def test_curves_are_told_by_step_and_epoch(tmp_path):
    curves = tables_of(tmp_path, scores=SCORES)["curves"]
    assert [[entry.text for entry in row] for row in curves.rows] == [
        ["40", "1", "61.0 ± 2.0", "63.3 ± 2.1"],
        ["80", "2", "71.0 ± 2.0", "73.3 ± 2.1"],
    ]
    assert [(record["method"], record["step"], record["n"]) for record in curves.records][-1] == (
        "gradual:every=40",
        80,
        3,
    )


@pytest.mark.parametrize("noted", [True, False])
def test_curves_run_over_epochs_or_else_over_steps(tmp_path, noted):
    write_study(tmp_path, methods=("full",), seeds=(0,), scores={"full": [0.7]})
    file = next(tmp_path.glob("runs/*/*/history.jsonl"))
    file.write_text(file.read_text() if noted else file.read_text().replace('"epoch"', '"unknown"'))
    findings = summarize_study(read_study(tmp_path))
    drawing = draw_curves(findings, find_curves(findings))
    assert ("epochs" in drawing.svg, "optimizer steps" in drawing.svg) == (noted, True)


def test_arms_with_other_batch_sizes_share_epochs_alone(tmp_path):
    write_study(tmp_path, scores=SCORES)
    for file in tmp_path.glob("runs/method-1/*/history.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(line | {"step": 2 * line["step"]}) + "\n" for line in lines))
    findings = summarize_study(read_study(tmp_path))
    curves = find_curves(findings)
    drawing = draw_curves(findings, curves)
    assert ("epochs" in drawing.svg, "optimizer steps" in drawing.svg) == (True, False)
    assert [[entry.text for entry in row][:2] for row in curve_table(findings, curves).rows] == [
        ["40", "1"], ["80", "–"], ["160", "2"],
    ]  # fmt: skip


def later_by_seed(folder: Path, key: str, more: float) -> None:
    """Add seed times ``more`` to a number in each line of the histories of full fine-tuning."""
    for seed, file in enumerate(sorted(folder.glob("runs/method-0/*/history.jsonl"))):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(line | {key: line[key] + seed * more}) + "\n" for line in lines))


def test_seeds_whose_epochs_differ_in_length_meet_at_each_epoch(tmp_path):
    write_study(tmp_path, scores=SCORES)
    later_by_seed(tmp_path, "step", 1)
    findings = summarize_study(read_study(tmp_path))
    full, gradual = find_curves(findings)
    assert [(point.step, point.epoch, point.scores.n) for point in full.points] == [(41, 1.0, 3), (81, 2.0, 3)]
    assert [point.scores.mean for point in full.points] == pytest.approx([0.61, 0.71])
    assert [point.step for point in gradual.points] == [40, 80]


def test_seeds_that_share_steps_keep_them(tmp_path):
    write_study(tmp_path, methods=("full",), scores={"full": FULL})
    later_by_seed(tmp_path, "epoch", 0.01)
    findings = summarize_study(read_study(tmp_path))
    assert [(point.step, point.scores.n) for point in find_curves(findings)[0].points] == [(40, 3), (80, 3)]


def test_an_arm_with_batches_of_another_size_keeps_its_steps(tmp_path):
    write_study(tmp_path, scores=SCORES)
    for file in tmp_path.glob("runs/method-1/*/history.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(line | {"step": line["step"] // 2}) + "\n" for line in lines))
    full, gradual = find_curves(summarize_study(read_study(tmp_path)))
    assert [(point.step, point.epoch) for point in full.points] == [(40, 1.0), (80, 2.0)]
    assert [(point.step, point.epoch) for point in gradual.points] == [(20, 1.0), (40, 2.0)]
