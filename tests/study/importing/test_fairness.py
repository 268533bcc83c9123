"""What an import doubts about a comparison, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.imported_tables import LONG, imported, write_csv


def test_a_constant_rate_is_no_doubt(tmp_path: Path) -> None:
    rows = [{**row, "lr_highest_logged": 0.1, "lr_last_logged": 0.1} for row in LONG]
    assert not imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study").warnings
    rising = [{**row, "lr_highest_logged": rate, "lr_last_logged": rate} for row in LONG for rate in [len(row["arm"])]]
    (found,) = imported(write_csv(tmp_path / "s.csv", rising), tmp_path / "other").warnings
    assert found.kind == "rate_never_reached"


DOUBTED: dict[str, tuple[list[dict[str, Any]], set[str]]] = {
    "sound": (LONG, set()),
    "identical_arms": ([*LONG, *({**row, "arm": "copy"} for row in LONG[:4])], {"full", "copy"}),
    "one_seed": ([*LONG, {"arm": "once", "seed": 0, "score": 0.5}], {"once"}),
    "no_scores": ([*LONG, *({"arm": "big", "seed": seed, "score": score} for seed, score in enumerate(("nan", "oom")))],
                  {"big"}),
    "unequal_seeds": (LONG[:-1], {"ours (v2) + tricks"}),
    "one_sided_search": (
        [{**row, "lr": lr} for row in LONG[:8] for lr in ((1, 2, 3) if row["arm"] == "full" else (2,))], {"full"}
    ),
    "rate_at_edge": ([{**row, "score": row["score"] + lr / 10, "lr": lr} for row in LONG for lr in (1, 2)],
                     {"full", "lora:r=8", "ours (v2) + tricks"}),
    "rate_never_reached": ([{**row, "lr_highest_logged": 0.1, "lr_stated": 1} for row in LONG],
                           {"full", "lora:r=8", "ours (v2) + tricks"}),
    "small_dev": ([{**row, "split": "dev", "score": (30 + row["seed"] + 5 * len(row["arm"]) % 7) / 64} for row in LONG],
                  set()),
}  # fmt: skip


def test_an_arm_whose_runs_all_crashed_is_named(tmp_path: Path) -> None:
    rows = [
        {"Name": f"{row['arm']}-seed{row['seed']}", "State": state, "Runtime": 9, "test/accuracy": row["score"]}
        for row in LONG
        for state in ["crashed" if row["arm"] == "lora:r=8" else "finished"]
    ]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert found.left_out == {"the run's state is crashed": 4}
    assert [each.text for each in found.warnings] == ["lora:r=8: none of its 4 runs has a score, so it is not judged."]
    assert "lora:r=8" not in found.arms


def test_a_run_of_pefts_suite_that_failed_has_an_arm(tmp_path: Path) -> None:
    for name, status in (("full", "success"), ("lora", "failed"), ("full-again", "canceled")):
        run = {"experiment_name": name.removesuffix("-again"), "created_at": name, "train_config": {"seed": 0}}
        train = {"status": status, "metrics": [{"step": 9, "test accuracy": 0.5}]}
        (tmp_path / f"{name}.json").write_text(json.dumps({"run_info": run, "train_info": train}))
    found = imported(tmp_path, tmp_path / "study")
    assert (found.arms, found.seeds) == (("full",), (0,))
    assert found.left_out == {"the run's status is failed": 1, "the run's status is canceled": 1}
    texts = [each.text for each in found.warnings if each.kind == "no_scores"]
    assert texts == ["lora: its only run has no score, so it is not judged."]


@pytest.mark.parametrize("kind", DOUBTED)
def test_doubts(tmp_path: Path, kind: str) -> None:
    rows, arms = DOUBTED[kind]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    kinds = {warning.kind: set(warning.arms) for warning in found.warnings}
    if kind == "sound":
        assert kinds == {}
    else:
        assert kind in kinds
        assert not arms or kinds[kind] == arms


def test_other_seeds_are_no_doubt_where_nothing_pairs_the_runs(tmp_path: Path) -> None:
    found = imported(write_csv(tmp_path / "r.csv", LONG[:-1]), tmp_path / "study", pair="none")
    assert found.warnings == ()


@pytest.mark.parametrize(("dev", "at_edge"), [((0.5, 0.7, 0.6), False), ((0.5, 0.6, 0.7), True)])
def test_a_rate_is_at_the_edge_by_the_mean_on_dev(dev: Sequence[float], at_edge: bool, tmp_path: Path) -> None:
    """Neither test scores nor one lucky run count."""
    rows = [
        {
            "arm": arm,
            "seed": seed,
            "lr": lr,
            "dev_accuracy": value + 0.15 * (lr == 3 and seed == 0),
            "test_accuracy": (0.5, 0.9 - lr / 10)[at_edge] + (0.0, lr / 10)[not at_edge],
        }
        for arm in ("full", "lora")
        for seed in range(4)
        for lr, value in zip((1, 2, 3), dev, strict=True)
    ]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert ("rate_at_edge" in {warning.kind for warning in found.warnings}) is at_edge


def test_scores_with_two_decimals_say_nothing_of_the_rows(tmp_path: Path) -> None:
    rows = [{**row, "split": "dev", "score": round(0.5 + number / 50, 2)} for number, row in enumerate(LONG)]
    assert imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study").warnings == ()


def test_seeds_are_those_of_the_split_that_is_compared(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"method": arm, "seed": seed, "dev_accuracy": 0.5 + seed / 9, "test_accuracy": 0.4 + seed / 7}
        for arm in ("full", "lora")
        for seed in range(3)
    ]
    rows[-1]["test_accuracy"] = None
    (found,) = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study").warnings
    assert (found.kind, found.arms) == ("unequal_seeds", ("lora",))
    assert "at least 2 in common" in found.text
    for row in rows[:3]:
        row["test_accuracy"] = 0.5 if row["seed"] == 0 else None
    kinds = {each.kind: each.arms for each in imported(write_csv(tmp_path / "s.csv", rows), tmp_path / "t").warnings}
    assert kinds["one_seed"] == ("full",)
