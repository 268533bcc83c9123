"""Short runs with schedules of their own stand for early scores of a grid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evidence.replay.early_scores import early_lines, early_scores, rank_correlation
from evidence.replay.squeezed import SQUEEZED, as_squeezed, squeezed_curves
from gradgate.errors import DataError
from gradgate.study.budget import RunKey
from gradgate.study.replay.curve_rows import CurveRow, read_rows, study_rows, write_curves
from gradgate.study.replay.curves import as_curves
from gradgate.study.replay.replay import replay
from support.study_folder import finish, write_study

FINALS = np.array([[4.0, 4.5], [3.0, 3.5], [2.0, 2.5], [1.0, 1.5]])


def whole(early: float) -> list[CurveRow]:
    """Four arms, two seeds, 80 steps; at 10 and 20 steps an arm has ``early`` times its final score."""
    return [
        CurveRow(
            task="toy", model="m", arm=f"a{arm} lr=0.1", method=f"a{arm}:every=8", adapter=None, lr=0.1, seed=seed,
            step=step, of_steps=80, dev=float(final if step == 80 else final * early - 10 + step / 80), seconds=1.0,
        )
        for (arm, seed), final in np.ndenumerate(FINALS)
        for step in (10, 20, 40, 80)
    ]  # fmt: skip


def short(steps: int, times: float) -> list[CurveRow]:
    return [
        replace(
            row, arm=row.method, method=row.method.replace("8", "1"), step=steps, of_steps=steps, dev=times * row.dev
        )
        for row in whole(1)
        if row.step == 80 and row.dev is not None
    ]


def test_squeezed_scores_replace_early_ones() -> None:
    rows = whole(-1)  # cut runs order the arms the wrong way round
    rows += as_squeezed([*short(10, 1), *short(20, 9)], rows)
    cut, squeezed = as_curves(rows), squeezed_curves(rows)
    run = squeezed.runs[RunKey("a1 lr=0.1", "toy", 0)]
    assert [run.best(step, True) for step in (10, 20, 40, 80)] == [3.0, 27.0, -12.5, 3.0]
    assert run.best(80, True) == cut.runs[RunKey("a1 lr=0.1", "toy", 0)].best(80, True)
    assert [each.correlation for each in early_scores(cut)] == pytest.approx([-1, -1, -1])
    assert [each.correlation for each in early_scores(squeezed)] == pytest.approx([1, 1, -1])
    assert [each.best_kept for each in early_scores(squeezed)] == [1, 1, 0]
    assert "toy at 1/8, 2/8 of the schedule are of squeezed runs" in squeezed.notes[0]
    every = squeezed_curves([*rows, *as_squeezed(short(40, 1), rows)])
    assert replay(every, 0.4, repeats=4).scores[0].same_best == 1
    assert replay(cut, 0.4, repeats=4).scores[0].same_best == 0


def test_squeezed_runs_that_do_not_fit_are_refused() -> None:
    rows = whole(1)
    with pytest.raises(DataError, match=r"have no steps\. Expected 10 or 20 or 40"):
        squeezed_curves(rows)
    with pytest.raises(DataError, match="have 12 steps"):
        squeezed_curves([*rows, *as_squeezed(short(12, 1), rows)])
    with pytest.raises(DataError, match=r"a0 lr=0\.1 on toy with seed 0 has no squeezed run of 10 steps"):
        squeezed_curves([*rows, *as_squeezed(short(10, 1)[1:], rows)])
    with pytest.raises(DataError, match="lora of the squeezed runs is not an arm of the grid"):
        as_squeezed([replace(rows[0], arm="lora", method="full", adapter="lora")], rows)


def test_equal_scores_share_their_rank() -> None:
    assert rank_correlation(np.array([1.0, 1, 2]), np.array([5.0, 6, 7])) == pytest.approx(0.75**0.5)
    assert rank_correlation(np.array([1.0, 1, 1]), np.array([5.0, 6, 7])) is None


def test_squeezed_studies_join_the_file(tmp_path: Path) -> None:
    """The fixture's runs have 80 steps; those of the short study are rewritten to have 40."""
    full = write_study(tmp_path / "full", seeds=(0, 1), scores={"full": [0.8, 0.9], "gradual:every=40": [0.6, 0.7]})
    half = write_study(tmp_path / "half", ["full", "gradual:every=20"], seeds=(0, 1))
    for method in ("full", "gradual:every=20"):
        for seed in (0, 1):
            _shorten(finish(half, method, seed, 0.5))
    out = tmp_path / "grid.csv"
    whole_rows = study_rows(full)
    write_curves([*whole_rows, *as_squeezed(study_rows(half), whole_rows)], out)
    rows = read_rows(out)
    assert {(row.arm, row.method) for row in rows if row.schedule == SQUEEZED} == {
        ("full:lr=2e-05", "full"), ("gradual:every=40,lr=2e-05", "gradual:every=20")
    }  # fmt: skip
    curves = squeezed_curves(rows)
    assert curves.runs[RunKey("full:lr=2e-05", "toy", 1)].dev == pytest.approx({40: 0.41, 80: 0.91})
    assert "4/8 of the schedule" in curves.notes[-1]
    assert as_curves(rows).runs == as_curves(whole_rows).runs


def test_early_scores_have_a_line_per_length() -> None:
    rows = whole(-1)
    rows += as_squeezed(short(10, 1), rows)
    assert [line.split()[:2] for line in early_lines(rows)[1:]] == [
        ["cut", "0.125"],
        ["cut", "0.25"],
        ["cut", "0.5"],
        ["squeezed", "0.125"],
    ]


def _shorten(folder: Path) -> None:
    scores = json.loads((folder / "scores.json").read_text())
    scores["cost"]["steps"] = 40
    (folder / "scores.json").write_text(json.dumps(scores))
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line.get("step", 0) <= 40]
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
