"""What a number of seeds can decide before they are run: from recorded runs of like tasks, or from the study's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.statistics import detectable, pairs_needed
from gradgate.study.spreads import FILE, SPREADS, Decidable, decidable
from support.study_folder import write_study


def asked(folder: Path, **changed: object) -> Decidable:
    given = {"label": "", "task": "cola", "metric": "matthews", "model": "bert-base-uncased", "seeds": 5, "tests": 2}
    return decidable(**(given | changed), folder=folder)  # type: ignore[arg-type]


def test_like_tasks_of_the_same_model_count(tmp_path: Path) -> None:
    (row,) = [row for row in SPREADS.read(FILE) if (row.task, row.model) == ("CoLA", "bert-base")]
    found = asked(tmp_path)
    assert found.sd == pytest.approx(100 * row.sd)
    assert found.difference == pytest.approx(100 * row.sd * detectable(5, 0.8, 0.025))
    assert found.seeds_margin == pairs_needed(0.01 / row.sd, 0.8, 0.025)
    assert "with bert-base" in found.sentence


def test_other_models_count_if_none_is_like(tmp_path: Path) -> None:
    found = asked(tmp_path, model="some/electra-small")
    assert found.sd_range is not None
    assert found.sd_range[0] < found.sd_range[1]
    assert "roberta-large" in str(found.basis)


@pytest.mark.parametrize("changed", [{"task": "xnli"}, {"metric": "loss"}, {"task": "toy"}])
def test_no_like_task_is_said(tmp_path: Path, changed: dict[str, object]) -> None:
    found = asked(tmp_path, **changed)
    assert (found.basis, found.difference, found.seeds_margin) == (None, None, None)
    assert "is unknown, because no similar task is recorded" in found.sentence


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    found = asked(tmp_path, seeds=1)
    assert found.difference is None
    assert "1 seed decides nothing" in found.sentence


def test_runs_of_the_study_come_first(tmp_path: Path) -> None:
    scores = {"full": [0.70, 0.71, 0.72], "head": [0.69, 0.72, 0.71]}
    study = write_study(tmp_path / "study", methods=tuple(scores), scores=scores, name="cola")
    found = asked(study, metric="macro_f1", tests=1)
    assert found.sd == pytest.approx(1.1547, rel=1e-4)
    assert found.basis == f"the 1 comparison that {study} has"


def test_recorded_spreads_are_ordered() -> None:
    rows = SPREADS.read(FILE)
    assert all(0 < row.low <= row.sd <= row.high <= 0.1 and row.seeds >= 3 for row in rows)
    assert len({(row.task, row.model, row.metric, row.source) for row in rows}) == len(rows)
