"""Features, heads and metrics of the kinds of task."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertConfig, PreTrainedTokenizerFast

from gradgate.errors import DataError, NonFiniteError, RunError
from gradgate.tasks import TaskData, find_task, greater_is_better, kind_of, load_task, metrics

WORDS = ["[PAD]", "[UNK]", "a", "b", "c", "d"]


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=8)


def task(folder: Path, rows: str, **overrides: Any) -> TaskData:
    for split in ("train", "dev"):
        (folder / f"{split}.csv").write_text(rows)
    return load_task(find_task(str(folder), **overrides))


@pytest.fixture
def two(tmp_path: Path) -> TaskData:
    return task(tmp_path, "text,label\na b c d,yes\na,no\nb c,yes\n")


@pytest.fixture
def three(tmp_path: Path) -> TaskData:
    return task(tmp_path, "text,label\na,x\nb,y\nc,z\n")


@pytest.fixture
def scores(tmp_path: Path) -> TaskData:
    return task(tmp_path, "sentence1,sentence2,score\na b c,d,0.5\na,b,2.5\n")


def test_features_keep_order_length_and_types(two: TaskData, tokenizer: PreTrainedTokenizerFast) -> None:
    encoded = kind_of(two.spec).encode(two.train, tokenizer, max_length=3)
    assert encoded["input_ids"][:] == [[2, 3, 4], [2], [3, 4]]
    assert encoded["labels"][:] == [1, 0, 1]
    assert encoded.features["labels"].dtype == "int64"
    assert set(encoded.column_names) - {"token_type_ids"} == {"input_ids", "attention_mask", "labels"}
    assert len(kind_of(two.spec).encode(two.train, tokenizer, None)["input_ids"][0]) == 4


def test_pairs_and_scores_are_encoded(scores: TaskData, tokenizer: PreTrainedTokenizerFast) -> None:
    encoded = kind_of(scores.spec).encode(scores.train, tokenizer, max_length=3)
    assert encoded["input_ids"][:] == [[2, 3, 5], [2, 3]]
    assert encoded.features["labels"].dtype == "float32"
    batch = kind_of(scores.spec).collator(tokenizer)(list(encoded))
    assert (batch["labels"].dtype, batch["labels"].tolist()) == (torch.float32, [0.5, 2.5])


def test_batches_are_padded_to_their_longest_row(two: TaskData, tokenizer: PreTrainedTokenizerFast) -> None:
    kind = kind_of(two.spec)
    encoded = kind.encode(two.train, tokenizer, max_length=8)
    batch = kind.collator(tokenizer)([encoded[1], encoded[2]])
    assert batch["input_ids"].tolist() == [[2, 0], [3, 4]]
    assert batch["attention_mask"].tolist() == [[1, 0], [1, 1]]
    assert batch["labels"].dtype == torch.int64


def test_a_tokenizer_without_padding_is_refused(two: TaskData, tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.pad_token = None
    with pytest.raises(RunError, match=r"has no padding token\. Set tokenizer\.pad_token"):
        kind_of(two.spec).collator(tokenizer)


def test_a_real_tokenizer_separates_a_pair(shared: Path, scores: TaskData) -> None:
    from transformers import AutoTokenizer

    bert = AutoTokenizer.from_pretrained(shared / "models/all-MiniLM-L6-v2")
    encoded = kind_of(scores.spec).encode(scores.train, bert, max_length=16)
    assert bert.decode(encoded[1]["input_ids"]) == "[CLS] a [SEP] b [SEP]"
    assert encoded[1]["token_type_ids"] == [0, 0, 0, 1, 1]


def test_the_head_fits_the_labels(three: TaskData) -> None:
    kind = kind_of(three.spec)
    config = BertConfig(**kind.config_overrides(three))
    assert (config.num_labels, config.id2label, config.label2id) == (
        3,
        {0: "x", 1: "y", 2: "z"},
        {"x": 0, "y": 1, "z": 2},
    )
    assert config.problem_type == "single_label_classification"
    assert kind.num_outputs(three) == 3
    assert kind.auto_model.__name__ == "AutoModelForSequenceClassification"


def test_the_head_of_a_regression_has_one_output(scores: TaskData) -> None:
    kind = kind_of(scores.spec)
    config = BertConfig(**kind.config_overrides(scores))
    assert (config.num_labels, config.problem_type, kind.num_outputs(scores)) == (1, "regression", 1)


def logits(classes: list[int], width: int) -> np.ndarray[Any, Any]:
    return np.eye(width, dtype=np.float32)[classes]


def metrics_of(data: TaskData, outputs: Any, labels: np.ndarray[Any, Any]) -> dict[str, float]:
    rows = Dataset.from_dict({"label": labels})
    return kind_of(data.spec).score(rows, rows, outputs, data, "dev").metrics


def test_two_class_metrics_by_hand(two: TaskData) -> None:
    labels = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    predicted = logits([1, 1, 0, 1, 0, 0, 0, 0], 2)  # tp 2, fn 1, fp 1, tn 4
    assert metrics_of(two, predicted, labels) == pytest.approx(
        {
            "accuracy": 6 / 8,
            "f1": 2 / 3,
            "macro_f1": (2 / 3 + 4 / 5) / 2,
            "micro_f1": 6 / 8,
            "weighted_f1": (3 * 2 / 3 + 5 * 4 / 5) / 8,
            "matthews": (2 * 4 - 1 * 1) / (3 * 3 * 5 * 5) ** 0.5,
        }
    )


def test_three_class_metrics_by_hand(three: TaskData) -> None:
    labels = np.array([0, 0, 1, 1])  # the third class neither occurs nor is predicted: it does not count
    result = metrics_of(three, logits([0, 1, 1, 1], 3), labels)
    assert "f1" not in result
    assert result["macro_f1"] == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert result["micro_f1"] == result["accuracy"] == 0.75


def test_regression_metrics_by_hand(scores: TaskData) -> None:
    labels, predicted = np.array([1.0, 2.0, 3.0, 4.0]), np.array([[1.0], [3.0], [2.0], [6.0]])
    expected = {"pearson": 7 / (5 * 14) ** 0.5, "spearman": 0.8, "mse": (0 + 1 + 1 + 4) / 4}
    assert metrics_of(scores, predicted, labels) == pytest.approx(expected)
    assert metrics_of(scores, predicted[:, 0], labels) == pytest.approx(expected)


def test_constant_inputs_give_zero_without_a_warning(two: TaskData, three: TaskData, scores: TaskData) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ones = metrics_of(two, logits([0, 0, 0], 2), np.array([0, 1, 1]))
        assert (ones["matthews"], ones["f1"]) == (0.0, 0.0)
        same = metrics_of(two, logits([0, 0], 2), np.array([0, 0]))
        assert (same["accuracy"], same["matthews"], same["f1"]) == (1.0, 0.0, 0.0)
        for predicted, labels in (([1.0, 1.0], [0.0, 2.0]), ([0.0, 1.0], [2.0, 2.0]), ([1.0], [2.0])):
            flat = metrics_of(scores, np.array(predicted), np.array(labels))
            assert (flat["pearson"], flat["spearman"]) == (0.0, 0.0)
        nearly = metrics_of(scores, np.array([1.0, 1.0 + 1e-16, 1.0 + 2e-16]), np.arange(3.0))
        assert np.isfinite(list(nearly.values())).all()


def test_outputs_that_cannot_be_scored_are_refused(three: TaskData, scores: TaskData) -> None:
    with pytest.raises(DataError, match=r"shape \(2, 2\), expected \(2, 3\): is its head"):
        metrics_of(three, np.zeros((2, 2)), np.array([0, 1]))
    broken = np.array([[1.0], [np.nan]])
    with pytest.raises(NonFiniteError, match=r"1 of 2 rows are not finite \(row 1\)"):
        metrics_of(scores, broken, np.array([0.0, 1.0]))


def test_only_errors_are_better_when_lower() -> None:
    lower = [name for name in (*metrics.CLASSIFICATION, *metrics.REGRESSION) if not greater_is_better(name)]
    assert lower == ["mse"]
