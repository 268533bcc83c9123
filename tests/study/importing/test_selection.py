"""Which setting of an arm is compared, where imported results have several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.imported_tables import imported, scores_of, write_csv


def test_a_search_keeps_the_best_on_dev(tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "seed": 0, "lr": lr, "dev_accuracy": dev, "test_accuracy": test}
        for arm in ("full", "lora")
        for lr, dev, test in ((1, 0.5, 0.9), (2, 0.7, 0.6), (3, 0.6, 0.8))
    ]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {"full": [0.6], "lora": [0.6]}


def test_one_setting_is_compared_on_all_seeds(tmp_path: Path) -> None:
    tried = {1: (0.80, 0.81, 0.82), 2: (0.81, 0.80, 0.79)}
    rows = [
        {"arm": arm, "seed": seed, "lr": lr, "dev_accuracy": dev, "test_accuracy": dev - 0.1}
        for arm in ("full", "lora")
        for lr, scores in tried.items()
        for seed, dev in enumerate(scores)
    ]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {arm: pytest.approx([0.7, 0.71, 0.72]) for arm in ("full", "lora")}
    assert any("the best mean over seeds: full (lr=1), lora (lr=1)" in note for note in found.notes)


def test_seeds_keep_their_own_best_where_no_setting_has_all(tmp_path: Path) -> None:
    rows = [
        {"arm": arm, "seed": seed, "lr": lr, "dev_accuracy": dev, "test_accuracy": dev}
        for arm in ("full", "lora")
        for seed, lr, dev in ((0, 1, 0.6), (0, 2, 0.7), (1, 3, 0.5), (1, 4, 0.4))
    ]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {"full": [0.7, 0.5], "lora": [0.7, 0.5]}
    assert any("none of them with every seed" in note for note in found.notes)


def test_a_seed_whose_settings_nothing_judges_is_left_out(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"arm": arm, "seed": seed, "lr": lr, "dev_accuracy": 0.1 * lr, "test_accuracy": 0.1 * lr}
        for arm in ("full", "lora")
        for seed in (0, 1)
        for lr in (1, 2)
    ]
    rows += [{"arm": "lora", "seed": 2, "lr": lr, "dev_accuracy": "", "test_accuracy": 0.9} for lr in (1, 2)]
    imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {"full": [0.2, 0.2], "lora": [0.2, 0.2]}


def test_an_arm_without_dev_is_kept_next_to_one_with_it(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"arm": "full", "seed": 0, "lr": lr, "dev_accuracy": dev, "test_accuracy": test}
        for lr, dev, test in ((1, 0.5, 0.9), (2, 0.7, 0.6))
    ]
    rows += [{"arm": "lora", "seed": 0, "lr": lr, "test_accuracy": test} for lr, test in ((1, 0.5), (2, 0.8))]
    found = imported(write_csv(tmp_path / "r.csv", rows), tmp_path / "study")
    assert scores_of(tmp_path / "study") == {"full": [0.6], "lora": [0.8]}
    assert "test_selected" in {warning.kind for warning in found.warnings}
