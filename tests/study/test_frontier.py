"""The frontier of score, forgetting and cost: on known points, and what export says of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from gradgate.study.export import as_table, records
from gradgate.study.frontier import frontier, frontier_of, trades
from gradgate.study.pooled import pool
from gradgate.study.results import read_study
from support.study_folder import finish, forget, write_study

SCORES = {"full": [0.8, 0.9], "head": [0.5, 0.5], "bitfit": [0.6, 0.6], "gradual:every=40": [0.4, 0.4]}
LOST = {"full": [0.5, 0.7], "head": [0.0, 0.0], "bitfit": [0.1, 0.1], "gradual:every=40": [0.3, 0.3]}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """full trains for 2 s, the others for 1 s; gradual is worse than head and bitfit in score and forgetting."""
    write_study(tmp_path, tuple(SCORES), (0, 1), SCORES)
    forget(tmp_path, LOST)
    return tmp_path


def test_a_point_that_another_beats_is_not_on_the_frontier() -> None:
    points = {"a": (1.0, 3.0), "b": (2.0, 2.0), "c": (2.0, 3.0), "d": (3.0, 1.0), "e": (3.0, 1.0), "f": (1.0, 4.0)}
    assert frontier(points) == {"a", "b", "d", "e"}, "of equal points none beats the other"
    assert frontier({"alone": (1.0,)}) == {"alone"}
    assert frontier({}) == frozenset()


def test_a_third_value_can_save_a_point() -> None:
    points = {"good": (1.0, 1.0, 9.0), "worse, but cheaper": (2.0, 2.0, 1.0), "worse": (2.0, 2.0, 9.0)}
    assert frontier(points) == {"good", "worse, but cheaper"}


def test_methods_are_compared_by_their_means_over_seeds(study: Path) -> None:
    found = trades(read_study(study))
    assert found["full"].point == (pytest.approx(-0.85), pytest.approx(0.6), 2.0)
    assert frontier_of(read_study(study)) == {"full", "head", "bitfit"}


def test_a_metric_of_which_more_is_better_is_forgotten_downwards(tmp_path: Path) -> None:
    write_study(tmp_path, ("full", "head"), (0,), {"full": [0.8], "head": [0.8]})
    forget(tmp_path, {"full": [-0.2], "head": [0.1]}, metric="chrf", higher_is_better=True)
    found = trades(read_study(tmp_path))
    assert (found["full"].forgotten, found["head"].forgotten) == (0.2, -0.1)


def test_export_has_what_was_forgotten(study: Path) -> None:
    found = records(study)
    assert [record["on_frontier"] for record in found[::2]] == [True, True, True, False]
    scores = json.loads((read_study(study).cells[0].folder / "scores.json").read_text())  # type: ignore[operator]
    assert found[0]["forgetting"] == scores["forgetting"]
    first = next(csv.DictReader(io.StringIO(as_table(found))))
    assert (first["forgetting.difference"], first["on_frontier"]) == ("0.5", "True")


def test_export_of_a_study_without_forgetting_is_as_before(tmp_path: Path) -> None:
    write_study(tmp_path, scores={"full": [0.8]})
    assert not {"forgetting", "on_frontier"} & set(records(tmp_path)[0])


def test_parts_that_measured_the_same_are_pooled(study: Path, tmp_path: Path) -> None:
    part = read_study(study)
    pooled = pool(tmp_path, "model", [("a", part), ("b", part)])
    assert trades(pooled)["full"].forgotten == pytest.approx(0.6)
    without = read_study(write_study(tmp_path / "other", tuple(SCORES), (0, 1), SCORES))
    assert trades(pool(tmp_path, "model", [("a", part), ("b", without)])) == {}


def test_methods_are_compared_on_the_seeds_that_all_have(study: Path) -> None:
    """Without its better seed, head would look worse than gradual, which it equals on the other one."""
    finish(study, "full", 1, 0.1)
    forget(study, LOST)
    (study / "runs/method-2/seed-1/scores.json").unlink()
    found = trades(read_study(study))
    assert {label: trade.point[0] for label, trade in found.items()} == {
        label: pytest.approx(-scores[0]) for label, scores in SCORES.items()
    }
