"""Runs of every kind of task: what they score and write, and that parts of batches do not change them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from sklearn.metrics import f1_score, ndcg_score

from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.predict import predict
from gradgate.settings.run import make_config
from gradgate.tasks import find_task, kind_of
from gradgate.tasks.kinds import KINDS
from gradgate.tasks.types import KindName
from gradgate.training.run import train
from support.crossed import some_fast
from support.kind_folders import SAVE, save_questions
from support.run_folders import assert_same_run, history


def predictions(run: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"predictions/{split}.jsonl").read_text().splitlines()]


def scored_again(kind: str, rows: list[dict[str, Any]]) -> float:
    """The task's metric from a prediction file, without the package."""
    if kind == "token-classification":
        gold, found = ([tag for row in rows for tag in row[name]] for name in ("gold", "predicted"))
        return float(f1_score(gold, found, average="macro", zero_division=0))
    if kind == "multi-label":
        marks = (
            [[label in row[name] for label in ("bad", "dull", "good")] for row in rows]
            for name in ("gold", "predicted")
        )
        return float(f1_score(*map(np.array, marks), average="macro", zero_division=0))
    if kind == "question-answering":
        return float(np.mean([row["predicted"] in row["gold"] for row in rows]))
    if kind == "multiple-choice":
        return float(np.mean([row["predicted"] == row["gold"] for row in rows]))
    by_query: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        by_query.setdefault(row["query"], []).append((row["gold"], row["score"]))
    return float(np.mean([ndcg_score(*np.array(pairs).T[:, None]) for pairs in by_query.values()]))


METRICS = {
    "multi-label": "macro_f1",
    "token-classification": "macro_f1",
    "question-answering": "exact_match",
    "multiple-choice": "accuracy",
    "ranking": "ndcg",
}


@pytest.fixture(scope="module", params=SAVE)
def run(
    request: pytest.FixtureRequest, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Two epochs of each kind, its top layer first."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "data").mkdir()
    task = SAVE[request.param](folder / "data")
    own = {"task": str(task), "steps": 8, "lr": 3e-3, "method": "gradual:every=4"}
    train(make_config(**settings | own, eval_every=4), folder / "run")
    return request.param, folder / "run"


def test_the_configuration_takes_every_kind() -> None:
    assert get_args(KindName) == tuple(KINDS)


def test_scores_can_be_computed_again_from_the_prediction_files(run: tuple[str, Path]) -> None:
    kind, folder = run
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["metric"] == json.loads((folder / "run.json").read_text())["task"]["metric"]
    for split, held in (("dev", scores["dev"]), ("test", scores["tests"]["test"])):
        rows = predictions(folder, split)
        assert len(rows) == (50 if kind == "ranking" else 10)
        assert scored_again(kind, rows) == pytest.approx(held[METRICS[kind]])
    assert history(folder, "dev")[-1].keys() >= scores["dev"].keys()


def without_gold(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "gold"} for row in rows]


def test_rows_get_the_same_predictions_when_their_labels_are_unknown(run: tuple[str, Path]) -> None:
    _, folder = run
    (test,) = (folder.parent / "data").glob("test.*")
    found = predict([folder], test)
    assert found.records() == without_gold(predictions(folder, "test"))


def test_the_saved_model_loads_with_its_head(run: tuple[str, Path]) -> None:
    kind, folder = run
    model, loading = KINDS[kind].auto_model.from_pretrained(folder / "model", output_loading_info=True)
    assert not loading["missing_keys"]
    assert model.config.model_type == "bert"


@some_fast(
    "kind",
    ["multi-label", "token-classification", "question-answering", "multiple-choice"],
    ["token-classification"],
)
def test_accumulated_batches_train_as_one(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    own = {"task": str(SAVE[kind](tmp_path / "data")), "steps": 3, "dropout": 0.0}
    for name, size, parts in (("whole", 8, 1), ("parts", 4, 2)):
        train(make_config(**settings | own | {"batch_size": size, "accumulate": parts}), tmp_path / name)
    lines = zip(history(tmp_path / "whole", "train"), history(tmp_path / "parts", "train"), strict=True)
    for whole, parts in lines:
        assert (parts["loss"], parts["grad_norm"]) == pytest.approx((whole["loss"], whole["grad_norm"]), rel=1e-3)


def test_a_score_of_minus_100_counts(settings: dict[str, Any], tmp_path: Path) -> None:
    """Among classes, -100 marks what is not in the loss."""
    rows = "".join(f"a good day,{-100 if number % 2 else number}\n" for number in range(24))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.csv").write_text(f"text,score\n{rows}")
    own = {"task": str(tmp_path), "steps": 3, "dropout": 0.0}
    for name, size, parts in (("whole", 6, 1), ("parts", 1, 6)):
        train(make_config(**settings | own | {"batch_size": size, "accumulate": parts}), tmp_path / name)
    losses = [[line["loss"] for line in history(tmp_path / name, "train")] for name in ("whole", "parts")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_the_activation_cache_keeps_the_choices_of_a_row_together(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    own = {"task": str(SAVE["multiple-choice"](tmp_path / "data")), "dropout": 0.0, "method": "freeze:layers=1"}
    for name, cache in (("without", "off"), ("with", str(tmp_path / "cache"))):
        train(make_config(**settings | own | {"steps": 6}, activation_cache=cache), tmp_path / name)
    assert_same_run(tmp_path / "with", tmp_path / "without")
    rows = json.loads((tmp_path / "with/scores.json").read_text())["cost"]["prefix_rows"]
    assert rows["read"] > 0


def test_questions_may_be_left_unanswered_as_those_of_train(settings: dict[str, Any], tmp_path: Path) -> None:
    """Whether questions may have none is learned from train, not from the rows that are scored."""
    (tmp_path / "with").mkdir()
    (tmp_path / "without").mkdir()
    task = save_questions(tmp_path / "with", unanswered=True)
    answered = save_questions(tmp_path / "without") / "test.json"
    (task / "test.json").write_text(answered.read_text())
    run = tmp_path / "run"
    scores = train(make_config(**settings | {"task": str(task), "steps": 2}), run)
    assert evaluate(run)["tests"] == scores["tests"]
    assert predict([run], answered).records() == without_gold(predictions(run, "test"))
    # Questions of dev may be left unanswered.
    rows = predictions(run, "dev")
    assert all("no_answer_score" in row for row in rows)
    right = [(row["predicted"] in row["gold"]) if row["gold"] else row["predicted"] == "" for row in rows]
    assert scores["dev"]["exact_match"] == pytest.approx(np.mean(right))
    assert predict([run], task / "dev.json").records() == without_gold(rows)


def test_a_kind_needs_no_columns_where_they_have_its_own_names(tmp_path: Path) -> None:
    spec = find_task(SAVE["question-answering"](tmp_path))
    assert (spec.text_columns, spec.label_column) == (("question", "context"), "answers")
    assert kind_of(spec) is KINDS["question-answering"]
