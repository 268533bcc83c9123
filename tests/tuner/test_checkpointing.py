"""Activation checkpointing: the same weights with it and without, and no backward through closed layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradgate import Tuner
from gradgate.errors import AttachError
from support.loop import adamw, assert_same_weights, batch, build, step, train

METHODS = ("freeze:layers=2", "gradual:every=2", "layer-graddrop:p=0.5", "lisa:layers=1,every=2", "graddrop:p=0.5")
# Each method on one architecture, and each architecture with one method.
CASES = [(text, "bert") for text in METHODS] + [(METHODS[1], name) for name in ("gpt2", "bart", "llama")]
SLOW = {("gradual:every=2", "bert"), ("graddrop:p=0.5", "bert")}


def checkpointed(architecture: str, **options: Any) -> Any:
    model: Any = build(architecture).train()
    for module in model.modules():
        for name in ("p", "dropout"):  # BART keeps some in attributes
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    model.config.use_cache = False  # as checkpointing has it
    model.activation_checkpointing_enable(options or None)
    return model


def plain(name: str) -> Any:
    model = checkpointed(name)
    model.activation_checkpointing_disable()
    return model


@pytest.mark.parametrize(
    ("text", "name"), [pytest.param(*case, marks=pytest.mark.slow if case in SLOW else ()) for case in CASES]
)
def test_checkpointing_changes_no_weight(text: str, name: str) -> None:
    models = checkpointed(name), plain(name)
    for model in models:
        optimizer = adamw(model)
        with Tuner(model, optimizer, text, audit=True):
            train(model, optimizer, 4)
    assert_same_weights(*models)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_backward_ends_at_the_lowest_open_layer(name: str) -> None:
    model = checkpointed(name)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=2") as tuner:
        stack = next(module for module in model.modules() if isinstance(module, nn.ModuleList))
        outputs: dict[int, Tensor] = {}
        calls: dict[int, int] = dict.fromkeys(range(len(stack)), 0)

        def seen(number: int, output: Any) -> None:
            calls[number] += 1
            outputs.setdefault(number, output[0] if isinstance(output, tuple) else output)

        handles = [
            layer.register_forward_hook(lambda module, args, output, number=number: seen(number, output))
            for number, layer in enumerate(stack)
        ]
        model(**batch(model, 0)).loss.backward()
        for handle in handles:
            handle.remove()
        assert tuner.plan["layers.1"].closed
    assert [outputs[number].requires_grad for number in (0, 1)] == [False, False]
    assert calls[0] == calls[1] == 1  # and none was recomputed


def test_the_mark_on_the_embeddings_is_back_when_they_learn_and_after_detaching() -> None:
    model = checkpointed("bert")
    embeddings = model.get_input_embeddings()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "gradual:every=2") as tuner:
        learns = []
        for number in range(5):
            learns.append(not tuner.plan["embeddings"].closed)
            assert len(embeddings._forward_hooks) == learns[-1]
            step(model, optimizer, number)
    assert set(learns) == {False, True}
    assert len(embeddings._forward_hooks) == 1


def test_marks_that_were_set_more_than_once_or_again_within_a_step_are_taken_off() -> None:
    """PEFT and Trainer mark each on its own; DPO turns checkpointing off and on between forward and backward."""
    model = checkpointed("bert")
    model.enable_input_require_grads()
    embeddings = model.get_input_embeddings()
    optimizer = adamw(model)
    states: list[Tensor] = []
    embeddings.register_forward_hook(lambda module, args, output: states.append(output))
    with Tuner(model, optimizer, "gradual:every=4") as tuner:
        for number in range(8):
            model.activation_checkpointing_disable()
            model.activation_checkpointing_enable()
            opened = not tuner.plan["embeddings"].closed
            states.clear()
            step(model, optimizer, number)
            assert states[0].requires_grad == opened


@pytest.mark.parametrize("options", [{"use_reentrant": True}, {"preserve_rng_state": False}])
def test_reentrant_checkpoints_over_closed_layers_are_refused(options: dict[str, Any]) -> None:
    model = checkpointed("bert", **options)
    optimizer = adamw(model)
    with pytest.raises(AttachError, match="Reentrant activation checkpointing gives layers above closed ones no grad"):
        Tuner(model, optimizer, "freeze:layers=1")
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not optimizer._optimizer_step_pre_hooks
    with Tuner(model, optimizer, "full"):
        step(model, optimizer, 0)


def test_checkpoints_by_hand_are_left_alone() -> None:
    class Hand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    model = Hand()
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=2", layers="layers", audit=True):
        model(torch.randn(4, 8)).square().sum().backward()
        optimizer.step()


def test_backward_ends_at_the_lowest_open_layer_without_checkpointing_too() -> None:
    model: Any = build("llama")
    model.enable_input_require_grads()
    seen: list[bool] = []
    model.model.layers[0].register_forward_hook(
        lambda module, args, output: seen.append((output[0] if isinstance(output, tuple) else output).requires_grad)
    )
    optimizer = adamw(model)
    with Tuner(model, optimizer, "freeze:layers=2"):
        seen.clear()
        train(model, optimizer, 2)
    assert seen == [False, False]
    step(model, optimizer, 2)
    assert seen[-1]


def test_a_loop_that_checkpoints_by_itself_in_the_reentrant_way_is_refused() -> None:
    model: Any = build("llama")
    model.enable_input_require_grads()
    top = model.model.layers[2]
    inner = top.forward
    top.forward = lambda hidden, **options: checkpoint(
        lambda tensor: inner(tensor, **options), hidden, use_reentrant=True
    )
    optimizer = adamw(model)
    with Tuner(model, optimizer, "groups:open=layers.2/head"):
        with pytest.warns(UserWarning, match="requires_grad=True"):
            loss = model(**batch(model, 0)).loss
        loss.backward()
        with pytest.raises(AttachError, match=r"No parameter of layers\.2 has a gradient.*use_reentrant=False"):
            optimizer.step()
