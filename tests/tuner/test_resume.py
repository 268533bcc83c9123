"""How a state is loaded, and which states are refused; that resuming is exact is in test_catalog_promises.py."""

from __future__ import annotations

import copy
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradgate import Gradual, Method, Tuner, map_layers
from gradgate.errors import RunError, UsageError
from gradgate.tuner.state import TENSORS_FILE, read_state, write_state
from support.loop import adamw, assert_same_weights, build, fisher_data, train

STEPS, PER_EPOCH = 12, 3


def attach(model: nn.Module, optimizer: torch.optim.Optimizer, method: Method | str, seed: int = 3) -> Tuner:
    return Tuner(
        model,
        optimizer,
        method,
        total_steps=STEPS,
        steps_per_epoch=PER_EPOCH,
        seed=seed,
        audit=True,
        fisher_data=fisher_data(model),
    )


@pytest.mark.parametrize("method", ["gradual:every=4", "layer-graddrop:p=0.5,mask_target=update"])
def test_the_weights_may_be_loaded_after_the_tuner_was_attached(method: str) -> None:
    unbroken, resumed = build("bert"), build("bert")
    optimizer = adamw(unbroken)
    with attach(unbroken, optimizer, method) as tuner:
        train(unbroken, optimizer, 5)
        weights, moments = copy.deepcopy(unbroken.state_dict()), copy.deepcopy(optimizer.state_dict())
        state = json.loads(json.dumps(tuner.state_dict()))
        train(unbroken, optimizer, range(5, STEPS))
    optimizer = adamw(resumed)
    with attach(resumed, optimizer, method) as tuner:
        resumed.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        tuner.load_state_dict(state)
        train(resumed, optimizer, range(5, STEPS))
    assert_same_weights(unbroken, resumed)


def test_without_a_saved_state_the_step_is_enough() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with attach(model, optimizer, "gradual:every=4") as tuner:
        train(model, optimizer, 5)
        plan, phases = tuner.plan, tuner.timeline.phases
    with attach(model, optimizer, "gradual:every=4") as tuner:
        tuner.resume_at(5)
        assert tuner.plan == plan
        assert tuner.timeline.phases == phases
        assert tuner.clock.step == 5


@pytest.mark.parametrize(
    ("step", "message"),
    [(9, "^step=9: expected at most total_steps=8"), ("5", "^step='5': expected a whole number"), (-1, "^step=-1")],
)
def test_a_step_outside_of_the_training_is_refused(step: Any, message: str) -> None:
    model = build("bert")
    with Tuner(model, adamw(model), "full", total_steps=8) as tuner, pytest.raises(UsageError, match=message):
        tuner.resume_at(step)


def test_a_state_can_be_taken_back() -> None:
    """A state of an earlier step closes again what has opened since."""
    model = build("bert")
    optimizer = adamw(model)
    with attach(model, optimizer, "gradual:every=2") as tuner:
        start = tuner.state_dict()
        train(model, optimizer, 4)
        assert model.bert.embeddings.word_embeddings.weight.requires_grad
        tuner.load_state_dict(start)
        assert not model.bert.embeddings.word_embeddings.weight.requires_grad
        train(model, optimizer, 1)


def state_of(method: str, optimizer_of: Any = adamw, seed: int = 3) -> dict[str, Any]:
    model = build("bert")
    optimizer = optimizer_of(model)
    with attach(model, optimizer, method, seed) as tuner:
        train(model, optimizer, 2)
        return tuner.state_dict()


def shuffled(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(list(model.parameters())[::-1])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (lambda: state_of("gradual:every=50,order=bottom-up"), r"has method 'gradual:order=bottom-up', .* 'gradual'"),
        (lambda: state_of("full"), r"has method 'full', this tuner has 'gradual'"),
        (lambda: state_of("gradual", seed=4), r"has seed 4, this tuner has 3"),
        (lambda: state_of("gradual", shuffled), r"another order of them"),
    ],
)
def test_a_state_of_another_training_is_refused(state: Any, message: str) -> None:
    model = build("bert")
    saved = state()
    with attach(model, adamw(model), "gradual") as tuner:
        plan = tuner.plan
        with pytest.raises(RunError, match=message):
            tuner.load_state_dict(saved)
        assert tuner.clock.step == 0
        assert tuner.plan == plan


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("sparse:share=0.5,by=magnitude", r"has no choice of weights in .*weight"),
        ("grades:tau=1e-9", ""),
    ],
)
def test_a_state_without_the_file_of_its_tensors_is_refused(method: str, message: str, tmp_path: Path) -> None:
    """One of an earlier version, which has no names of tensors, is refused if the method needs them at once."""
    write_state(tmp_path, state_of(method))
    whole = read_state(tmp_path)
    (tmp_path / TENSORS_FILE).unlink()
    model = build("bert")
    with attach(model, adamw(model), method) as tuner:
        with pytest.raises(RunError, match=r"lacks \d+ of its tensors, such as '.*gradgate\.safetensors"):
            tuner.load_state_dict(read_state(tmp_path))
        older = {name: value for name, value in read_state(tmp_path).items() if name != "tensor_names"}
        with pytest.raises(RunError, match=message) if message else nullcontext():
            tuner.load_state_dict(older)
        assert tuner.clock.step == (0 if message else 2)
        tuner.load_state_dict(whole)
        train(model, tuner.optimizer, 1)
        assert tuner.clock.step == 3


def test_tensors_of_another_kind_are_refused() -> None:
    model, saved = build("bert"), state_of("sparse:share=0.5,by=magnitude")
    floats = {name: mask.float() for name, mask in saved["tensors"].items()}
    with attach(model, adamw(model), "sparse:share=0.5,by=magnitude") as tuner:
        with pytest.raises(RunError, match=r"choice of weights in .* does not fit this model"):
            tuner.load_state_dict(saved | {"tensors": floats})
        with pytest.raises(RunError, match=r"has tensors=\['chosen'\]; expected names with tensors"):
            tuner.load_state_dict(saved | {"tensors": ["chosen"]})
        train(model, tuner.optimizer, 1)


def test_same_sized_layers_in_another_order_are_not_the_same_optimizer() -> None:
    """Adam's moments would land on the wrong layer without any error from torch."""

    def swapped(model: nn.Module) -> torch.optim.Optimizer:
        layers = map_layers(model)
        names = [
            n for g in ("embeddings", "layers.1", "layers.0", "layers.2", "head") for n in layers[g].parameter_names
        ]
        return torch.optim.AdamW([model.get_parameter(name) for name in names])

    model = build("bert")
    saved = state_of("full", swapped)
    with attach(model, adamw(model), "full") as tuner, pytest.raises(RunError, match="wrong tensors"):
        tuner.load_state_dict(saved)


def test_the_spec_of_a_method_in_a_state_is_its_text() -> None:
    assert state_of("gradual:every=4")["method"] == Gradual(every=4).spec


@pytest.mark.parametrize(
    ("method", "changes"),
    [("anneal-graddrop:p=0.9", True), ("graddrop-epoch", True), ("gradual:every=2", False), ("full", False)],
)
def test_another_length_is_told_where_the_method_depends_on_it(method: str, changes: bool) -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, method, total_steps=6, steps_per_epoch=2) as tuner:
        train(model, optimizer, 5)
        state = tuner.state_dict()
    same = build("bert")
    Tuner(same, adamw(same), method, total_steps=6, steps_per_epoch=2, state=state).detach()
    longer = build("bert")
    told = pytest.warns(UserWarning, match="had total_steps=6, steps_per_epoch=2, this one has total_steps=12, steps_")
    with told if changes else nullcontext():
        Tuner(longer, adamw(longer), method, total_steps=12, steps_per_epoch=2, state=state).detach()
