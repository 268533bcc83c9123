"""Closed layers at the bottom run without noise, and nothing of that is left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers.integrations.neftune import activate_neftune, deactivate_neftune

from gradgate import ActivationCache, Tuner, map_layers
from gradgate.errors import AttachError
from support.crossed import some_fast
from support.loop import adamw, batch, build, step
from support.tiny_models import TINY, VARIED, tiny_batch


def layer(model: nn.Module, number: int) -> nn.Module:
    """A layer by its place in the map; only of models with one stack, or of the first."""
    return model.get_submodule(f"{map_layers(model)[f'layers.{number}'].stack}.{number}")


def output_of(module: nn.Module, model: nn.Module, **inputs: Any) -> tuple[Tensor, Tensor]:
    """What a module gives out in a forward pass of the model, and the loss."""
    seen: list[Any] = []
    hook = module.register_forward_hook(lambda module, args, output: seen.append(output))
    try:
        loss = model(**inputs).loss.detach()
    finally:
        hook.remove()
    return (seen[0][0] if isinstance(seen[0], tuple) else seen[0]).detach(), loss


def hooks_and_flags(model: nn.Module) -> list[tuple[int, int, bool, bool]]:
    return [
        (len(m._forward_pre_hooks), len(m._forward_hooks), m.training, "forward" in vars(m)) for m in model.modules()
    ]


@some_fast("name", list(TINY), VARIED)
def test_a_closed_layer_gives_out_what_it_does_in_evaluation(name: str) -> None:
    model = build(name, dropout=True)
    inputs = tiny_batch(model)
    first = layer(model, 0)
    noisy = not torch.equal(output_of(first, model, **inputs)[1], output_of(first, model, **inputs)[1])
    with Tuner(model, adamw(model), "freeze:layers=1"):
        expected, quiet_loss = output_of(first, model.eval(), **inputs)
        model.train()
        for _ in range(2):
            got, loss = output_of(first, model, **inputs)
            assert torch.equal(got, expected)
    if noisy and map_layers(model).layer_count > 1:
        assert not torch.equal(loss, quiet_loss)


@pytest.mark.parametrize("name", ["bert", "gpt2-classifier", "deberta-v2", "llama-classifier", "distilbert"])
def test_below_a_head_that_learns_alone_nothing_is_noisy(name: str) -> None:
    model = build(name, dropout=True)
    inputs = tiny_batch(model)
    top = layer(model, map_layers(model).layer_count - 1)
    with Tuner(model, adamw(model), "head"):
        expected, _ = output_of(top, model.eval(), **inputs)
        model.train()
        assert torch.equal(output_of(top, model, **inputs)[0], expected)


@pytest.mark.parametrize("name", ["bert", "gpt2-classifier", "distilbert"])
def test_closed_layers_keep_their_dropout_where_it_is_asked_for(name: str) -> None:
    model = build(name, dropout=True)
    inputs = tiny_batch(model)
    first = layer(model, 0)
    with Tuner(model, adamw(model), "freeze:layers=1", frozen_dropout=True) as tuner:
        one, other = (output_of(first, model, **inputs)[0] for _ in range(2))
        assert not torch.equal(one, other)
        assert tuner.cached_rows is None


def test_a_cache_of_layers_with_dropout_is_refused(tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    cache = ActivationCache(folder=tmp_path / "cache")
    with pytest.raises(AttachError, match=r"differs in each forward pass.*Leave out"):
        Tuner(model, adamw(model), "freeze:layers=1", activation_cache=cache, frozen_dropout=True)
    assert not (tmp_path / "cache").exists()
    Tuner(model, adamw(model), "freeze:layers=1").detach()


def test_noise_of_neftune_reaches_what_learns_above_closed_embeddings(tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    inputs = tiny_batch(model)
    top = layer(model, 2)
    with Tuner(model, adamw(model), "head"):
        quiet = [output_of(top, model, **inputs)[0] for _ in range(2)]
    hook = activate_neftune(model, 5.0)
    with Tuner(model, adamw(model), "head"):
        noisy = [output_of(top, model, **inputs)[0] for _ in range(2)]
        in_evaluation = output_of(top, model.eval(), **inputs)[0]
        model.train()
    assert torch.equal(*quiet)
    assert not torch.equal(*noisy)
    assert torch.equal(in_evaluation, quiet[0])
    with pytest.raises(AttachError, match=r"With NEFTune's noise.*Leave out activation_cache or neftune_noise_alpha"):
        Tuner(model, adamw(model), "head", activation_cache=ActivationCache(folder=tmp_path), steps_per_epoch=1)
    deactivate_neftune(model, hook)
    with Tuner(model, adamw(model), "head"):
        assert torch.equal(output_of(top, model, **inputs)[0], quiet[0])


def test_the_prefix_ends_where_a_layer_opens() -> None:
    model = build("bert", dropout=True)
    optimizer = adamw(model)
    inputs = tiny_batch(model)
    middle = layer(model, 1)
    with Tuner(model, optimizer, "gradual:every=2"):
        expected, _ = output_of(middle, model.eval(), **inputs)
        model.train()
        assert torch.equal(output_of(middle, model, **inputs)[0], expected)
        step(model, optimizer, 0)
        expected, _ = output_of(middle, model.eval(), **inputs)
        model.train()
        assert not torch.equal(output_of(middle, model, **inputs)[0], expected)


def test_what_is_closed_above_an_open_layer_keeps_its_noise() -> None:
    model = build("bert", dropout=True)
    inputs = tiny_batch(model)
    expected, _ = output_of(layer(model, 2), model.eval(), **inputs)
    model.train()
    with Tuner(model, adamw(model), "groups:open=embeddings/head"):
        assert not torch.equal(output_of(layer(model, 2), model, **inputs)[0], expected)


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_flags_and_hooks_are_given_back(name: str) -> None:
    model = build(name, dropout=True)
    embeddings = model.get_input_embeddings()
    embeddings.training = False  # a user's own choice
    before = hooks_and_flags(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "lpft:every=2"):
        for number in range(4):
            flags = [module.training for module in model.modules()]
            step(model, optimizer, number)
            assert [module.training for module in model.modules()] == flags
    assert hooks_and_flags(model) == before


def test_flags_are_given_back_where_the_model_raises() -> None:
    model = build("bert", dropout=True)
    with Tuner(model, adamw(model), "freeze:layers=2"):
        for culprit in (model.bert.encoder.layer[0], model.classifier):
            hook = culprit.register_forward_pre_hook(lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model(**batch(model, 0))
            hook.remove()
            assert all(module.training for module in model.modules())


def test_a_method_that_opens_the_bottom_leaves_the_model_alone() -> None:
    model = build("bert", dropout=True)
    before = hooks_and_flags(model)
    with Tuner(model, adamw(model), "full"):
        assert hooks_and_flags(model) == before


def test_adapters_that_are_open_keep_their_dropout() -> None:
    model = get_peft_model(
        build("bert", dropout=True), LoraConfig(target_modules=["query"], lora_dropout=0.5, init_lora_weights=False)
    ).train()
    inputs = batch(model, 0)
    with Tuner(model, adamw(model), "groups:open=layers"):
        losses = {model(**inputs).loss.item() for _ in range(4)}
    assert len(losses) > 1


@pytest.mark.slow
def test_compiled_and_eager_are_quiet_alike() -> None:
    model = build("bert", dropout=True)
    inputs = tiny_batch(model)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with Tuner(compiled, adamw(model), "freeze:layers=2"):
        losses = []
        for forward in (model, compiled, compiled):
            torch.manual_seed(3)
            losses.append(forward(**inputs).loss.item())
    assert losses[0] == losses[1] == losses[2]
    assert all(module.training for module in model.modules())
