"""Parameters saved by sharing frozen layers: the printed values of the paper, and counts of real tensors."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AlbertConfig, AlbertForSequenceClassification, BertConfig, BertForMaskedLM

from gradgate.analysis.sharing import Sizes, model_sizes, saved_share
from gradgate.errors import UsageError
from gradgate.layers import map_layers


def groups(layers: int) -> dict[str, int]:
    return {"embeddings": 9, **{f"layers.{index}": 5 for index in range(layers)}, "head": 2}


@pytest.mark.parametrize(
    ("layers", "frozen", "tasks", "printed"),
    [
        (12, 9, 8, 0.72),
        (12, 12, 8, 0.87),
        (24, 17, 5, 0.60),
        (24, 24, 5, 0.80),
        (12, 8, 4, 0.58),
        (12, 12, 4, 0.75),
        (24, 19, 4, 0.61),
        (24, 24, 4, 0.75),
    ],
)
def test_the_printed_values_are_met(layers: int, frozen: int, tasks: int, printed: float) -> None:
    assert round(saved_share(model_sizes(groups(layers), "paper"), frozen, tasks), 2) == printed


def test_the_sizes_are_those_of_table_1(shared: Path) -> None:
    with (shared / "papers" / "tables" / "elsa_table01.csv").open(newline="") as file:
        rows = {(row["model"], row["method"]): float(row["value"]) for row in csv.DictReader(file)}
    for layers, shape in ((12, "RoBERTa-base shape"), (24, "RoBERTa-large shape")):
        sizes = model_sizes(groups(layers), "paper")
        assert sizes.embeddings == rows[shape, "embedding"]
        assert sizes.layers == (rows[shape, "per_layer"],) * layers
        assert sizes.total == rows[shape, "total"]


def test_the_limit_of_many_tasks_is_the_share_of_the_frozen_part() -> None:
    assert saved_share(model_sizes(groups(12), "paper"), 9, None) == pytest.approx(0.826, abs=5e-4)


def test_a_model_is_counted_by_its_tensors() -> None:
    config = BertConfig(vocab_size=50, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16)
    model = BertForMaskedLM(config)
    layer_map = map_layers(model)
    sizes = model_sizes({group.name: group.parameter_count for group in layer_map})
    embeddings = sum(p.numel() for p in model.bert.embeddings.parameters())
    layers = tuple(sum(p.numel() for p in layer.parameters()) for layer in model.bert.encoder.layer)
    # The output layer is tied to the word embeddings and counts there.
    total = sum({p.data_ptr(): p.numel() for p in model.parameters()}.values())
    assert any("decoder.weight" in name for tie in layer_map.ties for name in tie)
    assert sizes == Sizes(embeddings, layers, total)
    assert saved_share(sizes, 1, 3) == pytest.approx(2 * (embeddings + layers[0]) / (3 * total), rel=1e-12)


def test_layers_that_share_weights_count_once() -> None:
    config = AlbertConfig(
        vocab_size=50, embedding_size=8, hidden_size=8, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16
    )
    torch.manual_seed(0)
    model = AlbertForSequenceClassification(config)
    sizes = model_sizes({group.name: group.parameter_count for group in map_layers(model)})
    assert sizes.total == sum(p.numel() for p in model.parameters())
    assert 0 < saved_share(sizes, len(sizes.layers), None) < 1


def shares(sizes: Sizes, tasks: int) -> Iterator[float]:
    return (saved_share(sizes, frozen, tasks) for frozen in range(len(sizes.layers) + 1))


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=30), st.integers(1, 50))
def test_more_frozen_layers_and_more_tasks_save_more_and_never_all(layers: list[int], tasks: int) -> None:
    sizes = model_sizes({"embeddings": 7, **{f"layers.{i}": size for i, size in enumerate(layers)}, "head": 3})
    few, more = list(shares(sizes, tasks)), list(shares(sizes, tasks + 1))
    assert few == sorted(few)
    assert all(0 <= a < b < saved_share(sizes, n, None) < 1 for n, (a, b) in enumerate(zip(few, more, strict=True)))


def test_one_task_saves_nothing() -> None:
    assert saved_share(model_sizes(groups(3)), 3, 1) == 0


def test_the_paper_has_no_sizes_for_other_models() -> None:
    with pytest.raises(UsageError, match=r"models of 12 or 24 layers, and this one has 6\. Use param_counts='model'"):
        model_sizes(groups(6), "paper")


def test_everything_out_of_range_is_named_at_once() -> None:
    with pytest.raises(UsageError, match=r"frozen=4 \(expected 0 to 3\) and tasks=0 \(expected 1 or more\)"):
        saved_share(model_sizes(groups(3)), 4, 0)
