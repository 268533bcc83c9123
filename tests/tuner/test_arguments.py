"""Arguments of a tuner that are of another type or size, and optimizers and hooks that other code uses too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from gradgate import ActivationCache, Tuner
from gradgate.errors import AttachError, UsageError
from gradgate.measure.batches import batches_of
from gradgate.tuner.state import read_state, write_state
from support.loop import adamw, batch, build, step, train
from support.tiny_models import tiny_batch

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "negative seed": ({"seed": -1}, "seed=-1: expected a whole number, 0 or more"),
    "no seed": ({"seed": None}, "seed=None: expected a whole number"),
    "steps from a division": ({"total_steps": 4.0}, r"total_steps=4\.0: expected a whole number, 1 or more"),
    "steps as text": ({"steps_per_epoch": "10"}, "steps_per_epoch='10': expected a whole number"),
    "factors as text": ({"lr_scale": "head=10"}, "lr_scale='head=10' is a str; expected a mapping"),
    "no number": ({"lr_scale": {"head": "ten"}}, "lr_scale has the factor 'ten' for 'head'. Expected a number above"),
    "a factor of nothing": ({"lr_scale": {"head": None}}, "lr_scale has the factor None for 'head'"),
    "a folder": (
        {"activation_cache": "cache"},
        r"activation_cache='cache' is a str; expected gradgate\.ActivationCache",
    ),
    "batches": ({"fisher_data": []}, r"fisher_data=\[\] is a list; expected a function"),
    "layers": ({"layers": ["bert"]}, "is a list; expected a layer map, or the path"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_an_argument_of_another_type_is_refused_at_once(options: dict[str, Any], message: str) -> None:
    model = build("bert")
    with pytest.raises(UsageError, match=message):
        Tuner(model, adamw(model), "full", **options)


def test_a_function_that_returns_no_batches_is_named() -> None:
    model = build("bert")
    with pytest.raises(AttachError, match=r"fisher_data returned NoneType for step 0\. Expected batches"):
        Tuner(model, adamw(model), "child-tuning:mode=D", fisher_data=lambda step: None)  # type: ignore[arg-type, return-value]


def test_numbers_of_numpy_are_numbers() -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "graddrop", seed=np.int64(3), total_steps=np.int32(4)) as tuner:
        tuner.load_state_dict(json.loads(json.dumps(tuner.state_dict())))


def test_a_second_tuner_on_the_same_optimizer_is_refused() -> None:
    first, second = build("bert"), build("bert")
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()])
    refused = pytest.raises(AttachError, match=r"This optimizer already has a tuner \('gradual'\), on another model")
    with Tuner(first, optimizer, "gradual"), refused:
        Tuner(second, optimizer, "full")
    Tuner(second, optimizer, "full").detach()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_hook_that_clips_may_be_registered_later(dtype: torch.dtype) -> None:
    model = build("bert").to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def clip(*_: Any) -> None:
        clip_grad_norm_(model.parameters(), 1e-3)

    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with Tuner(model, optimizer, "full"):
        hook = optimizer.register_step_pre_hook(clip)
        model(**tiny_batch(model)).loss.backward()
        optimizer.step()
    moved = sum(
        float((p.detach().float() - before[name].float()).square().sum()) for name, p in model.named_parameters()
    )
    assert moved**0.5 < 0.01
    hook.remove()
    assert "register_step_pre_hook" not in vars(optimizer)


def test_a_closure_is_run_once_though_every_layer_is_dropped() -> None:
    model = build("bert")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".query." in name)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "layer-graddrop:p=0.7", total_steps=20, seed=1) as tuner:
        for number in range(20):  # of three layers, all are dropped in a third of the steps

            def closure(number: int = number) -> Tensor:
                optimizer.zero_grad()
                loss: Tensor = model(**batch(model, number)).loss
                loss.backward()
                return loss

            optimizer.step(closure)
        assert tuner.clock.step == 20


def test_a_state_does_not_change_with_the_training_that_goes_on() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "grades:tau=1e-9", total_steps=8, steps_per_epoch=4) as tuner:
        train(model, optimizer, 2)
        state = tuner.state_dict()
        before = {name: tensor.clone() for name, tensor in state["tensors"].items()}
        train(model, optimizer, [2, 3])
        tuner.load_state_dict(state)
        step(model, optimizer, 2)
    assert before
    assert all(torch.equal(tensor, before[name]) for name, tensor in state["tensors"].items())


def test_a_state_without_tensors_replaces_one_with_some(tmp_path: Path) -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "full") as tuner:
        state = tuner.state_dict()
    write_state(tmp_path, {**state, "tensors": {"gradients/x": torch.zeros(2)}})
    write_state(tmp_path, state)
    assert not read_state(tmp_path).get("tensors")


def test_a_sampler_of_batches_says_how_large_they_are() -> None:
    rows = [{"x": torch.tensor(number)} for number in range(10)]
    batches = BatchSampler(SequentialSampler(rows), batch_size=4, drop_last=False)
    draw = batches_of(DataLoader(rows, batch_sampler=batches), seed=0)  # type: ignore[arg-type]
    assert draw is not None
    assert [len(each["x"]) for each in draw(0)] == [4, 4, 2]
    own = [[0, 1, 2], [3]]
    assert batches_of(DataLoader(rows, batch_sampler=own), seed=0) is None  # type: ignore[arg-type]


def test_a_cache_without_a_number_of_steps_says_that_it_is_not_used(tmp_path: Path) -> None:
    notes: list[str] = []
    for given, lacking in (({}, "steps_per_epoch= and total_steps="), ({"steps_per_epoch": 2}, "total_steps=")):
        model = build("bert")
        cache = ActivationCache(folder=tmp_path, note=notes.append)
        Tuner(model, adamw(model), "head", activation_cache=cache, **given).detach()
        assert notes.pop().endswith(f"needs {lacking}.")
    assert notes == []
