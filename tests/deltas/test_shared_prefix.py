"""Models of several tasks on one backbone, which runs once: the outputs are those of each model by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, BertConfig, BertModel

from gradgate import deltas
from gradgate.errors import DeltaError, UsageError

INPUTS = {
    "input_ids": torch.tensor([[2, 5, 6, 7, 3], [2, 8, 3, 0, 0]]),
    "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of four layers."""
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


def trained(factory: Any, base: Path, labels: int, opened: int) -> nn.Module:
    """A model with a fresh head whose layers from ``opened`` on were trained."""
    torch.manual_seed(labels)
    model = factory.from_pretrained(base, num_labels=labels).eval()
    with torch.no_grad():
        for layer in model.bert.encoder.layer[opened:]:
            for parameter in layer.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture
def models(base: Path) -> list[nn.Module]:
    return [
        trained(AutoModelForSequenceClassification, base, 2, 3),
        trained(AutoModelForSequenceClassification, base, 5, 2),
        trained(AutoModelForTokenClassification, base, 3, 4),
    ]


def runs_of(module: nn.Module) -> list[int]:
    """A list that grows with each forward pass of a module."""
    seen: list[int] = []
    module.register_forward_hook(lambda *_: seen.append(1))
    return seen


@torch.no_grad()
def test_outputs_are_those_of_the_models_and_the_prefix_runs_once(
    base: Path, models: list[nn.Module], tmp_path: Path
) -> None:
    files = [deltas.create(model, base, tmp_path / f"{n}.safetensors").path for n, model in enumerate(models)]
    alone = [model(**INPUTS).logits for model in models]
    shared = deltas.SharedPrefix(base, files)
    assert shared.depth == 2
    first = shared.models[0].bert.encoder.layer
    below, above = runs_of(first[1].output.dense), runs_of(first[2].output.dense)
    for output, logits in zip(shared(**INPUTS), alone, strict=True):
        assert torch.equal(output.logits, logits)
    assert (len(below), len(above)) == (1, 1)
    assert torch.equal(shared.models[1](**INPUTS).logits, alone[1])  # by itself it runs all of its layers again


def test_what_is_equal_is_in_memory_once(models: list[nn.Module]) -> None:
    shared = deltas.SharedPrefix.of(models)
    held = {parameter.data_ptr(): parameter.numel() for model in shared.models for parameter in model.parameters()}
    layer = sum(parameter.numel() for parameter in models[0].bert.encoder.layer[0].parameters())
    one = sum(parameter.numel() for parameter in models[2].parameters())
    heads = sum(
        p.numel() for model in models[:2] for p in (*model.classifier.parameters(), *model.bert.pooler.parameters())
    )
    assert sum(held.values()) == one + heads + (1 + 2) * layer - models[0].bert.pooler.dense.weight.numel() - 16


@torch.no_grad()
def test_a_model_that_learned_at_the_bottom_shares_nothing_and_is_still_right(
    base: Path, models: list[nn.Module]
) -> None:
    models.append(trained(AutoModelForSequenceClassification, base, 4, 0))
    alone = [model(**INPUTS).logits for model in models]
    shared = deltas.SharedPrefix.of(models)
    assert shared.depth == 0
    assert all(torch.equal(output.logits, logits) for output, logits in zip(shared(**INPUTS), alone, strict=True))


@torch.no_grad()
@pytest.mark.parametrize(("changed", "depth"), [("activation", 0), ("buffer", 1)])
def test_layers_that_compute_something_else_are_not_shared(base: Path, changed: str, depth: int) -> None:
    own = {"hidden_act": "relu"} if changed == "activation" else {}
    models = [
        AutoModelForSequenceClassification.from_pretrained(base, num_labels=2, **each).eval() for each in ({}, own)
    ]
    if changed == "buffer":
        for number, model in enumerate(models):
            model.bert.encoder.layer[1].register_buffer("mean", torch.full((1,), float(number)))
    with torch.no_grad():
        alone = [model(**INPUTS).logits for model in models]
    shared = deltas.SharedPrefix.of(models)
    assert shared.depth == depth
    assert all(torch.equal(output.logits, logits) for output, logits in zip(shared(**INPUTS), alone, strict=True))


def test_hidden_states_of_all_layers_are_given_where_they_are_asked_for(models: list[nn.Module]) -> None:
    alone = models[1](**INPUTS, output_hidden_states=True)
    output = deltas.SharedPrefix.of(models)(**INPUTS, output_hidden_states=True)[1]
    assert len(output.hidden_states) == 5
    assert torch.equal(output.hidden_states[1], alone.hidden_states[1])


def test_nothing_to_share_is_refused(base: Path) -> None:
    with pytest.raises(DeltaError, match="got none"):
        deltas.SharedPrefix(base, [])
    with pytest.raises(UsageError, match=r"deltas='a\.safetensors': expected a list of deltas"):
        deltas.SharedPrefix(base, "a.safetensors")


def test_hidden_states_of_all_layers_are_given_where_a_configuration_asks(models: list[nn.Module]) -> None:
    for model in models:
        model.config.output_hidden_states = True  # type: ignore[union-attr]
    alone = models[1](**INPUTS).hidden_states
    given = deltas.SharedPrefix.of(models)(**INPUTS)[1].hidden_states
    assert all(torch.equal(one, other) for one, other in zip(given, alone, strict=True))
