"""Ordinary dropout under methods that train with noise of their own: off where they say so, and back afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from gradgate import Tuner, method
from gradgate.settings.run import make_config
from gradgate.tuner.dropout import dropout_probabilities
from support.crossed import each_once
from support.loop import adamw, batch, build, train, weights

GRADDROPS = [
    "graddrop:p=0.5",
    "layer-graddrop:p=0.5",
    "anneal-graddrop",
    "anneal-layer-graddrop",
    "graddrop-epoch",
    "graddrop-epoch-toggle",
]
LENGTH = {"total_steps": 8, "steps_per_epoch": 2}


def with_option(text: str, option: str) -> str:
    return f"{text}{',' if ':' in text else ':'}{option}"


def two_losses(model: nn.Module) -> tuple[float, float]:
    """The losses of two forward passes in training mode over one batch."""
    return model(**batch(model, 0)).loss.item(), model(**batch(model, 0)).loss.item()


@each_once("spec", GRADDROPS, "architecture", ["bert", "roberta", "distilbert", "gpt2"])
def test_without_dropout_two_passes_agree(spec: str, architecture: str) -> None:
    model = build(architecture, dropout=True)
    before = dropout_probabilities(model)
    assert any(probability > 0.0 for _, _, probability in before)
    with Tuner(model, adamw(model), with_option(spec, "dropout=off"), **LENGTH):
        first, second = two_losses(model)
        assert first == second
    assert dropout_probabilities(model) == before
    first, second = two_losses(model)
    assert first != second


@pytest.mark.parametrize("spec", GRADDROPS)
def test_dropout_stays_on_by_default(spec: str) -> None:
    model = build("bert", dropout=True)
    with Tuner(model, adamw(model), spec, **LENGTH):
        first, second = two_losses(model)
        assert first != second


def test_off_trains_as_a_model_without_dropout() -> None:
    one, other = build("bert", dropout=True), build("bert", dropout=True)
    for module, attribute, _ in dropout_probabilities(other):
        setattr(module, attribute, 0.0)
    for model, spec in ((one, "graddrop:p=0.4,dropout=off"), (other, "graddrop:p=0.4")):
        optimizer = adamw(model)
        with Tuner(model, optimizer, spec, **LENGTH):
            train(model, optimizer, 4)
    theirs = weights(other)
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in weights(one).items())


def test_a_joined_method_turns_it_off_too() -> None:
    model = build("bert", dropout=True)
    with Tuner(model, adamw(model), "graddrop:dropout=off+layerwise-lr", **LENGTH):
        first, second = two_losses(model)
        assert first == second


def test_the_option_is_text_like_any_other(tmp_path: Path) -> None:
    assert method("graddrop:dropout=off").spec == "graddrop:dropout=off"
    assert method("graddrop:dropout=on").spec == "graddrop"
    with pytest.raises(ValueError, match=r"option 'dropout=never' of 'graddrop' cannot be read"):
        make_config(method="graddrop:dropout=never")
