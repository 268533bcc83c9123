"""Learning curves on dev."""

from __future__ import annotations

import pytest

from gradgate.report.sections.curves import draw_curves, find_curves
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
