"""A probe is a logistic regression that the model's own head computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sklearn.linear_model import LogisticRegression
from torch import nn

import gradgate as gg
from gradgate.errors import DataError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.settings.arms.adapter import read_adapter
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.run import make_config
from gradgate.study.arms import cross
from gradgate.study.grid import Grid
from gradgate.training.probe.linear_head import find_linear_head
from gradgate.training.probe.logistic_regression import best_fit
from gradgate.training.run import train

LABELS = 3
SMALL = {"vocab_size": 50, "num_labels": LABELS, "pad_token_id": 0}
BERT = SMALL | {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 40,
}
MODELS = {
    "bert": transformers.BertConfig(**BERT),
    "roberta": transformers.RobertaConfig(**BERT),
    "deberta": transformers.DebertaV2Config(**BERT, pooler_hidden_size=16),
    "electra": transformers.ElectraConfig(**BERT, embedding_size=16),
    "distilbert": transformers.DistilBertConfig(
        **SMALL, dim=16, n_layers=2, n_heads=2, hidden_dim=16, max_position_embeddings=40
    ),
    "gpt2": transformers.GPT2Config(**SMALL, n_embd=16, n_layer=2, n_head=2, n_positions=40),
    "modernbert": transformers.ModernBertConfig(
        **SMALL, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16, cls_token_id=1
    ),
}
HEAD = ("classifier.", "pre_classifier.", "pooler.", "score.", "head.")


def batches() -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        {
            "input_ids": torch.randint(3, 50, (4, 6), generator=generator),
            "attention_mask": torch.ones(4, 6, dtype=torch.long),
        }
        for _ in range(3)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_the_head_computes_the_logits_of_a_regression(name: str) -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(MODELS[name]).eval()
    fresh = frozenset(n for n, _ in model.named_parameters() if any(part in n for part in HEAD))

    def forward(batch: dict[str, Any]) -> Any:
        with torch.no_grad():
            return model(**batch)

    head = find_linear_head(model, LABELS, fresh, lambda: forward(batches()[0]))
    features = head.features(model, forward, batches())
    weight = torch.randn(LABELS, features.shape[1], dtype=torch.float64)
    bias = torch.randn(LABELS, dtype=torch.float64) if head.classifier.bias is not None else torch.zeros(LABELS)
    head.set(weight, bias)

    expected = features.double() @ weight.T + bias
    found = torch.cat([forward(batch)["logits"] for batch in batches()]).double()
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    assert features.shape == (12, 16)


@pytest.mark.parametrize("name", ["roberta", "deberta", "electra", "distilbert"])
def test_a_random_layer_below_the_classifier_is_passed(name: str) -> None:
    """The features are those of the pretrained layers, whatever the random layer was drawn as."""
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(MODELS[name]).eval()
    fresh = frozenset(n for n, _ in model.named_parameters() if any(part in n for part in HEAD))

    def forward(batch: dict[str, Any]) -> Any:
        with torch.no_grad():
            return model(**batch)

    head = find_linear_head(model, LABELS, fresh, lambda: forward(batches()[0]))
    inner = model.base_model(**batches()[0]).last_hidden_state[:, 0]
    torch.testing.assert_close(head.features(model, forward, batches()[:1]), inner.detach())
    assert head.random == ()


def test_a_head_without_a_linear_layer_is_refused() -> None:
    with pytest.raises(Exception, match="ends in none"):
        find_linear_head(nn.Sequential(nn.Linear(4, 5)), 3, frozenset(), lambda: None)


@pytest.mark.parametrize("labels", [2, 3])
def test_a_fit_is_that_of_scikit_learn(labels: int) -> None:
    rng = np.random.default_rng(0)
    features, gold = rng.normal(5, 3, (60, 4)), rng.integers(0, labels, 60)
    fit = best_fit(features, gold, labels, (0.5,), lambda fit: 0.0)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    reference = LogisticRegression(C=0.5, max_iter=1000).fit(scaled, gold)
    logits = fit.logits(features)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(chances, reference.predict_proba(scaled), atol=1e-6)


def test_an_absent_label_is_never_predicted_and_the_best_strength_counts() -> None:
    rng = np.random.default_rng(0)
    features, gold = rng.normal(size=(40, 4)), rng.choice([0, 2], 40)
    fit = best_fit(features, gold, 3, (0.1, 1.0, 10.0), lambda fit: -abs(fit.c - 1.0))
    assert fit.c == 1.0
    assert 1 not in fit.logits(features).argmax(axis=1)


PROBE: dict[str, Any] = {"method": "probe", "steps": 4, "train_size": 32}


@pytest.fixture(scope="module")
def probe(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> gg.Run:
    folder = tmp_path_factory.mktemp("probe") / "run"
    train(make_config(**settings | PROBE), folder)
    return gg.Run(folder)


def test_a_run_resumed_from_a_pause_is_the_run_that_was_not(
    settings: dict[str, Any], probe: gg.Run, tmp_path: Path
) -> None:
    config, whole = make_config(**settings | PROBE), probe.scores
    paused = train(config, tmp_path / "paused", until=2)
    assert (paused.step, paused.of_steps) == (2, 4)
    resumed = train(config, tmp_path / "paused")
    assert resumed["dev"] == whole["dev"]
    assert resumed["tests"] == whole["tests"]
    assert paused.score == whole["dev"][whole["metric"]]
    assert (RunFolder(probe.path).model / "config.json").is_file()


@pytest.mark.parametrize(
    "half",
    [
        pytest.param({"precision": "bf16"}, marks=pytest.mark.slow, id="passes"),
        pytest.param({"weights": "bfloat16"}, id="weights"),
    ],
)
def test_a_probe_computes_in_float32(
    settings: dict[str, Any], probe: gg.Run, half: dict[str, str], tmp_path: Path
) -> None:
    found = train(make_config(**settings | PROBE | half), tmp_path / "half")
    assert (found["dev"], found["tests"]) == (probe.scores["dev"], probe.scores["tests"])
    predicted = [each.predict(["a good film", "a bad one"]) for each in (probe, gg.Run(tmp_path / "half"))]
    assert predicted[0].equals(predicted[1])


def test_what_the_head_computed_once_is_read_from_the_shared_cache(settings: dict[str, Any], tmp_path: Path) -> None:
    """Both have the same frozen layers below, which the head leaves closed for two epochs."""
    shared = tmp_path / "cache"
    for method in ("head", "probe"):
        config = make_config(**settings | {"method": method, "steps": 8, "train_size": 32})
        scores = train(config, tmp_path / method, cache=shared)
    alone = train(config, tmp_path / "alone")
    rows = scores["cost"]["prefix_rows"]
    assert rows["read"] > 0
    assert rows["computed"] <= rows["read"], "dev alone is new"
    assert scores["dev"] == pytest.approx(alone["dev"], abs=1e-4)
    assert alone["cost"]["prefix_rows"] is None


@pytest.mark.parametrize("others", [{"adapter": "houlsby"}, {"tapt_steps": 2}])
def test_what_it_does_not_go_with_is_refused(settings: dict[str, Any], others: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="takes no training steps"):
        make_config(**settings | {"method": "probe"} | others)


@pytest.mark.parametrize("text", ["probe:lr=1e-3", "houlsby:size=4 + probe", "probe:c=1,clip=0.5"])
def test_an_arm_with_settings_that_have_no_effect_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"takes no training steps: .* would have no effect"):
        read_arm(text)


def test_settings_that_are_arms_make_one_arm_of_a_probe() -> None:
    found = cross([read_arm("full"), read_arm("probe:c=1")], [None], [{"lr": 1e-3}, {"lr": 1e-2}])
    assert [arm.name for arm in found] == ["full:lr=0.001", "full:lr=0.01", "probe:c=1"]


def test_a_probe_is_not_crossed_with_adapters(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trains no adapter"):
        Grid.of(tmp_path / "study", make_config(**settings), [read_arm("probe")], [0], [read_adapter("houlsby")])


def test_rows_of_one_label_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"All rows of train \(1\) have the label .* larger train_size="):
        train(make_config(**settings | {"method": "probe", "train_size": 1}), tmp_path / "run")


def test_other_kinds_of_tasks_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    config = make_config(**settings | {"task": "sample-pos", "method": "probe"})
    with pytest.raises(UsageError, match=r"'probe' .* classification"):
        train(config, tmp_path / "run")
