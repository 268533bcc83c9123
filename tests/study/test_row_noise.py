"""Verdicts by seeds and rows: stored predictions give the recorded scores, or the verdict says why it is by seeds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

import gradgate as gg
from gradgate.cli import run
from gradgate.report.study_summary import summarize_study
from gradgate.report.verdict import cautions
from gradgate.report.verdict_table import verdict_table
from gradgate.statistics import Word
from gradgate.study.results import read_study
from gradgate.study.row_counts import counted_metric, row_counts
from gradgate.study.row_noise import row_verdicts, with_row_noise
from gradgate.study.verdicts import ArmVerdict
from support.study_folder import write_study

LABELS = ("no", "maybe", "yes")
ROWS = 60


def predictions(seed: int, right: float, rows: int = ROWS) -> list[dict[str, Any]]:
    gold = np.random.default_rng(99).integers(3, size=rows)
    draw = np.random.default_rng([seed, round(100 * right)])
    found = np.where(draw.random(rows) < right, gold, draw.integers(3, size=rows))
    return [
        {"index": i, "gold": LABELS[a], "predicted": LABELS[b]}
        for i, (a, b) in enumerate(zip(gold, found, strict=True))
    ]


def alike(seed: int, right: float, rows: int) -> list[dict[str, Any]]:
    """Return predictions that hardly differ between seeds."""
    found = predictions(0, right, rows)
    found[seed]["predicted"] = "maybe"
    return found


def study_of(
    folder: Path, seeds: int = 4, rows: int = ROWS, metric: str = "accuracy", predict: Any = predictions
) -> Path:
    """Write a study whose scores are those of its predictions."""
    arms = {"full": 0.6, "head": 0.5}
    stored = {arm: [predict(seed, right, rows) for seed in range(seeds)] for arm, right in arms.items()}
    scores = {arm: [accuracy(each) for each in own] for arm, own in stored.items()}
    write_study(folder, methods=tuple(arms), seeds=range(seeds), scores=scores, metric=metric, labels=list(LABELS))
    for number, own in enumerate(stored.values()):
        for seed, each in enumerate(own):
            file = folder / f"runs/method-{number}/seed-{seed}/predictions/test.jsonl"
            file.parent.mkdir(parents=True)
            file.write_text("".join(f"{json.dumps(row)}\n" for row in each))
    return folder


def accuracy(rows: list[dict[str, Any]]) -> float:
    return float(np.mean([row["gold"] == row["predicted"] for row in rows]))


def verdict(folder: Path) -> ArmVerdict:
    (found,) = row_verdicts(folder)
    return found


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "micro_f1", "weighted_f1", "matthews"])
def test_counts_give_the_metric(metric: str) -> None:
    rows = predictions(1, 0.4)
    gold, found = [row["gold"] for row in rows], [row["predicted"] for row in rows]
    expected = {
        "accuracy": metrics.accuracy_score(gold, found),
        "matthews": metrics.matthews_corrcoef(gold, found),
        **{
            f"{average}_f1": metrics.f1_score(gold, found, average=average)
            for average in ("macro", "micro", "weighted")
        },
    }
    score = counted_metric(metric, "classification", 3)
    assert score is not None
    assert float(score(row_counts(rows, metric, LABELS).sum(axis=0))) == pytest.approx(expected[metric])


def test_counts_of_tokens_and_numbers() -> None:
    tokens = row_counts([{"gold": ["a", "b", "c"], "predicted": ["a", "b", "a"]}], "accuracy", ("a", "b", "c"))
    assert tokens.tolist() == [[2.0, 3.0]]
    assert row_counts([{"gold": 1.0, "predicted": 3.0}], "mse", ()).tolist() == [[4.0, 1.0]]


def test_rows_stand_beside_the_verdict(tmp_path: Path) -> None:
    found = verdict(study_of(tmp_path / "study"))
    assert found.rows is not None
    assert (found.rows.seeds, found.rows.rows, found.rows_note) == (4, ROWS, None)
    record = found.record()
    low, high = record["rows"]["interval_t"]
    assert low < record["difference"] < high
    assert (low + high) / 2 == pytest.approx(record["difference"])
    assert json.dumps(record, allow_nan=False)
    table = verdict_table([found])
    (row,) = table.rows
    assert "% rows" in row[table.place("rows")].detail


def test_translations_of_one_test_set_say_no_more_than_one_of_them(tmp_path: Path) -> None:
    one = verdict(study_of(tmp_path / "one"))
    folder = study_of(tmp_path / "three")
    splits = {f"test.{language}": language for language in ("de", "fr", "zh")}
    study = json.loads((folder / "study.json").read_text())
    study["task"] |= {"languages": splits, "source": "en"}
    study["task"]["rows"] = {"train": 100, "dev": 20, **dict.fromkeys(splits, ROWS)}
    (folder / "study.json").write_text(json.dumps(study))
    for file in folder.glob("runs/*/*/scores.json"):
        scores = json.loads(file.read_text())
        scores["tests"] = dict.fromkeys(splits, scores["tests"]["test"])
        file.write_text(json.dumps(scores))
        rows = (file.parent / "predictions/test.jsonl").read_text()
        for split in splits:
            (file.parent / f"predictions/{split}.jsonl").write_text(rows)
    three = verdict(folder)
    assert three.split != one.split
    assert one.rows is not None
    assert three.rows is not None
    assert three.rows.interval_t == pytest.approx(one.rows.interval_t)


def _remove(file: Path) -> None:
    file.unlink()


def _damage(file: Path) -> None:
    file.write_text('{"gold": "no"}\n')


def _exchange(file: Path) -> None:
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row | {"predicted": "maybe"}) + "\n" for row in rows))


def _overflow(file: Path) -> None:
    file.write_text('{"gold": 1e999, "predicted": NaN}\n')


@pytest.mark.parametrize(
    "change", [_remove, _damage, _exchange, _overflow], ids=["absent", "damaged", "of other scores", "no numbers"]
)
def test_runs_without_their_rows_say_so(tmp_path: Path, change: Any) -> None:
    study = study_of(tmp_path / "study")
    change(study / "runs/method-1/seed-2/predictions/test.jsonl")
    found = verdict(study)
    assert found.rows is None
    assert found.rows_note == "Judged by seeds only: 1 of 4 pairs stored no predictions."
    assert found.record()["rows"] is None


def test_metrics_that_are_no_sums_say_so(tmp_path: Path) -> None:
    found = verdict(study_of(tmp_path / "study", metric="ndcg"))
    assert found.rows_note == "Judged by seeds only: ndcg is not computed from sums over rows."


def test_one_pair_and_imports_say_so(tmp_path: Path) -> None:
    assert str(verdict(study_of(tmp_path / "one", seeds=1)).rows_note).startswith(
        "Estimating the noise of seeds and rows needs two pairs"
    )
    rows = [{"arm": arm, "seed": seed, "accuracy": seed / 10} for arm in ("full", "head") for seed in range(3)]
    gg.import_results(rows, tmp_path / "study")
    assert verdict(tmp_path / "study").rows_note == "Judged by seeds only: imported scores have no rows."


def test_a_verdict_on_few_rows_is_qualified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = study_of(tmp_path / "study", predict=alike)
    found = verdict(study)
    assert found.verdict.word is Word.WORSE
    assert str(found.rows_note).startswith("Worse on these test rows only: ")
    assert run(["study", "verdicts", str(study)]) == 0
    assert "Worse on these test rows only: " in capsys.readouterr().out
    assert str(found.rows_note) in cautions(summarize_study(read_study(study)))


def test_missing_rows_are_told_from_missing_seeds(tmp_path: Path) -> None:
    study = study_of(tmp_path / "study", predict=alike)
    found = verdict(study)
    undecided = replace(found, verdict=replace(found.verdict, word=Word.INCONCLUSIVE))
    (again,) = with_row_noise(read_study(study), [undecided])
    assert str(again.rows_note).startswith("Rows more than seeds: ")


def test_squares_beyond_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="no usable gold"):
        row_counts([{"gold": 10**300, "predicted": 0}], "mse", ())
