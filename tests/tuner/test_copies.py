"""Hooks and flags belong to a tuner's life: copies of a model lack them, and a lost tuner frees its model."""

from __future__ import annotations

import copy
import copyreg
import gc
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

import gradgate as gg
from gradgate import Tuner, detach
from gradgate.errors import AttachError
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, build, moved, train, weights
from support.tiny_models import tiny_batch


def saved_and_loaded(model: nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def inside_a_copied_module(model: nn.Module) -> Any:
    return copy.deepcopy(nn.ModuleDict({"student": model}))["student"]


COPIES: dict[str, Callable[[nn.Module], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": saved_and_loaded,
    "averaged weights": lambda model: AveragedModel(model).module,
    "inside another module": inside_a_copied_module,
}
METHODS = [
    "freeze:layers=2",
    "gradual:every=2",
    "graddrop:p=0.4,mask_target=update",
    "layer-graddrop:p=0.9",
    "mixout:p=0.5",
    "lisa:layers=1,every=2",
]


def traces(model: nn.Module) -> list[tuple[Any, ...]]:
    """The hooks, flags and attributes of every module."""
    return [
        (
            name,
            [len(module._forward_hooks), len(module._forward_pre_hooks)],
            sorted(vars(module)),
            getattr(module, "p", 0),
            [p.requires_grad for p in module.parameters(recurse=False)],
        )
        for name, module in model.named_modules()
    ]


@each_once("how", list(COPIES), "method", METHODS)
def test_a_copy_is_as_before_the_tuner(how: str, method: str) -> None:
    model = build("bert", dropout=True)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    model.bert.pooler.register_forward_hook(_of_the_user)
    before = traces(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, method) as tuner:
        train(model, optimizer, 3)
        copied = COPIES[how](model)
        assert traces(copied) == before
        assert_same_weights(model, copied)
        train(model, optimizer, [3])
        assert tuner.clock.step == 4
    assert traces(model) == before


def _of_the_user(*_: Any) -> None:
    pass


def test_a_copy_trains_every_layer_later() -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "freeze:layers=2"):
        copied = copy.deepcopy(model)
    before = weights(copied)
    train(copied, adamw(copied), 2)
    assert moved(before, copied) == set(before)
    with Tuner(copied, adamw(copied), "full"):
        pass


def test_tied_weights_are_tied_in_a_copy() -> None:
    model = build("gpt2")
    with Tuner(model, adamw(model), "freeze:layers=1"):
        copies = [make(model) for make in COPIES.values()]
    for copied in copies:
        assert copied.lm_head.weight is copied.transformer.wte.weight
        assert copied.lm_head.weight.requires_grad


def test_a_part_of_the_model_is_copied_clean() -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "freeze:layers=2"):
        copied = copy.deepcopy(model.bert.encoder)
    assert all(p.requires_grad for p in copied.parameters())


def test_a_shallow_copy_shares_the_parameters() -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "freeze:layers=2"):
        assert copy.copy(model.classifier)._parameters is model.classifier._parameters
        assert vars(copy.copy(model)) == vars(model)


def test_marks_of_checkpointing_are_in_a_copy() -> None:
    model = build("bert")
    model.enable_input_require_grads()
    before = traces(model)
    with Tuner(model, adamw(model), "freeze:layers=2"):
        assert traces(model) != before
        assert traces(copy.deepcopy(model)) == before


def test_python_copies_models_by_itself_afterwards() -> None:
    gc.collect()
    model = build("bert")
    kinds = {type(module) for module in model.modules()}
    table = kinds & copyreg.dispatch_table.keys()
    with Tuner(model, adamw(model), "full"), Tuner(other := build("bert"), adamw(other), "full"):
        assert kinds <= copyreg.dispatch_table.keys()
    assert kinds & copyreg.dispatch_table.keys() == table


# A tuner that nobody holds.


@pytest.mark.parametrize("method", METHODS)
def test_a_lost_tuner_frees_its_model(method: str) -> None:
    model = build("bert", dropout=True)
    before = traces(model)

    def loop() -> None:
        optimizer = adamw(model)
        Tuner(model, optimizer, method)
        train(model, optimizer, 2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loop()
    gc.collect()
    assert traces(model) == before


def test_a_tuner_lives_as_long_as_its_optimizer() -> None:
    model = build("bert")
    optimizer = adamw(model)
    Tuner(model, optimizer, "freeze:layers=2")
    gc.collect()
    before = weights(model)
    train(model, optimizer, 2)
    assert {name.split(".")[3] for name in moved(before, model) if ".layer." in name} == {"2"}


def test_a_second_tuner_follows_a_lost_one() -> None:
    model = build("bert")

    def broken() -> None:
        Tuner(model, adamw(model), "freeze:layers=2")
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        broken()
    with Tuner(model, adamw(model), "full", audit=True) as tuner:
        assert tuner.open_fraction == 1.0


@pytest.mark.parametrize("of", ["itself", "wrapped", "part", "inside"])
def test_detach_frees_the_model(of: str) -> None:
    model = build("bert")
    before = traces(model)
    optimizer = adamw(model)
    tuner = Tuner(model, optimizer, "freeze:layers=2")
    train(model, optimizer, 1)
    given = {"wrapped": nn.DataParallel(model), "part": model.bert, "inside": nn.ModuleList([model])}.get(of, model)
    detach(given)
    assert traces(model) == before
    assert tuner.clock.step == 1
    detach(given)  # a model without a tuner is free already
    tuner.detach()


def test_detach_is_named_where_a_tuner_is_found() -> None:
    model = build("bert")
    tuner = Tuner(model, adamw(model), "freeze:layers=2")
    for overlapping in (model, model.bert):
        with pytest.raises(AttachError, match=r"already has a tuner \('freeze:layers=2'\).*gradgate\.detach\(model\)"):
            Tuner(overlapping, adamw(overlapping), "full")
    assert tuner.plan["embeddings"].closed
    gg.detach(model)
    model(**tiny_batch(model)).loss.backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_a_tuner_is_not_copied(copied: Callable[[Any], Any]) -> None:
    model = build("bert")
    with (
        Tuner(model, adamw(model), "gradual:every=2", total_steps=4) as tuner,
        pytest.raises(AttachError, match=r"cannot be copied or pickled.*state_dict"),
    ):
        copied(tuner)
