"""Call ``gg.train`` again, with objects and texts, and with wrong values, as ``gg.compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import GradgateError, UsageError


@pytest.fixture
def quick(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of a run of two steps that shows nothing."""
    return {**settings, "steps": 2, "keep_model": False, "quiet": True}


def times_of(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*.json*")}


def test_finished_run_is_returned_untrained(quick: dict[str, Any], tmp_path: Path) -> None:
    first = gg.train(method="head", out=tmp_path / "run", **quick)
    before = times_of(first.path)
    again = gg.train(method="head", out=tmp_path / "run", **quick)
    assert again.scores == first.scores
    assert times_of(first.path) == before


def test_other_settings_do_not_overwrite_a_run(quick: dict[str, Any], tmp_path: Path) -> None:
    first = gg.train(method="head", out=tmp_path / "run", **quick)
    with pytest.raises(GradgateError, match="lr"):
        gg.train(method="head", out=tmp_path / "run", **{**quick, "lr": 5e-4})
    assert gg.Run(first.path).scores == first.scores


@pytest.mark.parametrize(
    ("method", "text"), [(gg.Freeze(layers=1), "freeze:layers=1"), (gg.method("head"), "head"), ("bitfit", "bitfit")]
)
def test_method_is_an_object_or_text(method: Any, text: str, quick: dict[str, Any], tmp_path: Path) -> None:
    run = gg.train(method=method, out=tmp_path / "run", **quick)
    assert run.config.method.spec == text
    assert 0 < run.scores["cost"]["trainable_share"] < 1


def test_equal_seeds_give_equal_scores(quick: dict[str, Any], tmp_path: Path) -> None:
    one, other, third = (
        gg.train(method="full", seed=seed, out=tmp_path / name, **quick)
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert one.scores["dev"] == other.scores["dev"]
    assert one.scores["dev"] != third.scores["dev"]
    assert json.loads((one.path / "scores.json").read_text())["dev"] == one.scores["dev"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lr": -1}, "lr=-1"),
        ({"steps": 0}, "steps=0"),
        ({"batch_size": 2.5}, "batch_size=2.5"),
        ({"precision": "fp8"}, "precision='fp8'"),
        ({"learning_rate": 1e-3}, "no setting 'learning_rate'"),
        ({"method": "gradul"}, "Did you mean 'gradual'"),
        ({"method": "freeze:layrs=1"}, "Did you mean 'layers'"),
        ({"adapter": "houlsbi"}, "Did you mean 'houlsby'"),
        ({"lr": 0.1, "precision": "fp8", "dropout": 2}, "precision='fp8'.*dropout=2|dropout=2.*precision='fp8'"),
    ],
)
@pytest.mark.parametrize("function", [gg.train, gg.compare], ids=["train", "compare"])
def test_wrong_values_are_refused_by_name(
    function: Callable[..., Any], values: dict[str, Any], message: str, quick: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        function(**{"method": "full", **quick, **values}, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_method_of_a_comparison_is_refused(quick: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="method"):
        gg.compare(out=tmp_path / "study", **quick)
    assert not (tmp_path / "study").exists()
