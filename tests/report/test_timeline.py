"""Which groups of a model were open when, as a table and as a figure."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

import gradgate as gg
from gradgate.errors import RunError
from gradgate.methods.plan_file import read_timeline
from gradgate.report import write_report
from gradgate.report.sections.timeline import TimelineSection
from gradgate.report.sections.timeline_figure import MethodPlan, draw_timeline
from support.study_folder import write_study
from support.written_report import rows, tables_of

FULL, GRADUAL = [0.68, 0.70, 0.72], [0.70, 0.73, 0.74]
SCORES = {"full": FULL, "gradual:every=40": GRADUAL}


def test_the_timeline_is_a_table_too(tmp_path):
    timeline = tables_of(tmp_path, scores=SCORES)["timeline"]
    # Of the bottom layer 0.8 learns from step 41 of 80 on; the embeddings never do.
    assert [[entry.line for entry in row] for row in timeline.rows] == [
        ["head", "100 %", "100 %"],
        ["layers.1", "100 %", "50 % (from step 41)"],
        ["layers.0", "100 %", "40 % (from step 41)"],
        ["embeddings", "100 %", "0 %"],
    ]


def test_groups_that_an_adapter_leaves_frozen_are_not_trained():
    plans = [MethodPlan(arm, 0, gg.plan(method=arm, steps=12)) for arm in ("lora:r=8", "lora:r=8 + gradual:every=4")]
    assert draw_timeline(plans).text == (
        "lora:r=8 trains 5 of 6 groups throughout; lora:r=8 + gradual:every=4 starts with 2 of 6 "
        "groups and trains 5 from step 12."
    )


def test_a_damaged_plan_costs_its_timeline_only(tmp_path, draw_only):
    draw_only(TimelineSection)
    write_study(tmp_path, scores=SCORES)
    (tmp_path / "runs" / "method-1" / "seed-0" / "plan.yaml").write_text("groups: [")
    written = write_report(tmp_path)
    assert "No timeline for gradual:every=40" in written.html.read_text()
    assert tmp_path / "figures" / "timeline.svg" in written.figures
    assert [row["finished"] for row in rows(tmp_path, "main")] == ["3", "3"]


def test_plans_become_shares_of_each_group(tmp_path):
    write_study(tmp_path, scores=SCORES)
    plan = read_timeline(tmp_path / "runs" / "method-1" / "seed-0" / "plan.yaml")
    # Embeddings closed, layer 0 with 0.8 from step 40 of 80, layer 1 open from then, head open from the start.
    np.testing.assert_allclose(plan.shares(4), [[0, 0, 0, 0], [0, 0, 0.8, 0.8], [0, 0, 1, 1], [1, 1, 1, 1]], rtol=1e-6)
    np.testing.assert_allclose(plan.shares(1)[:, 0], [0, 0.4, 0.5, 1], rtol=1e-6)
    assert plan.shares(1000).shape == (4, 80)


def test_a_plan_that_changes_at_every_step_stays_a_small_figure(tmp_path, draw_only):
    draw_only(TimelineSection)
    write_study(tmp_path, methods=("full",), scores={"full": FULL})
    phases = [{"step": step, "open": ["head"] if step % 2 else ["layers.0"]} for step in range(3000)]
    plan = {"groups": ["layers.0", "head"], "steps": 3000, "phases": phases}
    (tmp_path / "runs" / "method-0" / "seed-0" / "plan.yaml").write_text(yaml.safe_dump(plan))
    write_report(tmp_path)
    assert (tmp_path / "figures" / "timeline.svg").stat().st_size < 30_000


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"phases": [{"step": 0, "open": ["tail"]}]}, r"groups that the plan does not list: \['tail'\]"),
        ({"phases": []}, "expected phases in order"),
        ({"phases": [{"step": 5, "open": []}, {"step": 0, "open": []}]}, "expected phases in order"),
        ({"phases": [{"step": 80, "open": []}]}, "before step 80"),
        ({"steps": "many"}, "steps is 'many': expected a whole number"),
    ],
)
def test_damaged_plans_are_refused(tmp_path, change, reason):
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump({"groups": ["head"], "steps": 80, "phases": [{"step": 0, "open": []}], **change}))
    with pytest.raises(RunError, match=reason):
        read_timeline(path)
