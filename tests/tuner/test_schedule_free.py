"""Closed weights keep every bit while a schedule-free optimizer goes to evaluation and back."""

from __future__ import annotations

import copy
import json
import warnings
from typing import Any

import pytest
import torch
from torch import nn

from gradgate import Tuner, map_layers
from gradgate.errors import AttachError
from support.crossed import each_once
from support.loop import assert_same_weights, batch, build, moved, step, weights
from support.optimizers import muon_and_adamw, others

schedulefree = pytest.importorskip("schedulefree")
STEPS = 6
KINDS = ["AdamWScheduleFree", "AdamWScheduleFreePaper", "SGDScheduleFree", "SGDScheduleFreeReference"]


def made(kind: str, parameters: Any) -> Any:
    optimizer = getattr(schedulefree, kind)(parameters, lr=1e-2, weight_decay=0.1)
    optimizer.train()
    return optimizer


def closed(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


@each_once(
    "kind",
    KINDS,
    "method",
    ["lisa:layers=1,every=1,state=keep", "layer-graddrop:p=0.5,mask_target=update", "freeze:layers=2"],
)
@pytest.mark.filterwarnings("ignore:.*counts its steps")
def test_what_is_closed_holds_through_steps_and_evaluation(kind: str, method: str) -> None:
    model = build("bert")
    optimizer = made(kind, model.parameters())
    reopened: set[str] = set()
    averaged: set[str] = set()
    with Tuner(model, optimizer, method, total_steps=STEPS, seed=3, audit=True):
        for number in range(STEPS):
            shut, before = closed(model), weights(model)
            reopened |= {name for name in shut if optimizer.state.get(model.get_parameter(name))}
            step(model, optimizer, number)
            assert not moved(before, model) & shut
            shut, before = closed(model), weights(model)
            optimizer.eval()
            assert not moved(before, model) & shut
            averaged |= moved(before, model)
            optimizer.train()
            assert not moved(before, model) & shut
        before, shut = weights(model), closed(model)
    assert averaged
    assert bool(reopened) is (not method.startswith("freeze"))
    optimizer.eval()  # also when the tuner has gone
    assert not moved(before, model) & shut


def test_a_layer_that_stays_open_is_trained_as_without_a_tuner() -> None:
    plain, tuned = build("bert"), build("bert")
    for model in (plain, tuned):
        optimizer = made("AdamWScheduleFree", model.parameters())
        if model is tuned:
            Tuner(model, optimizer, "full", audit=True)
        for number in range(3):
            step(model, optimizer, number)
            optimizer.eval()
            optimizer.train()
    assert_same_weights(plain, tuned)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.filterwarnings("ignore:.*counts its steps")
def test_resuming_changes_no_bit(mode: str) -> None:
    unbroken, resumed = build("bert"), build("bert")
    optimizer = made("AdamWScheduleFree", unbroken.parameters())
    method = "lisa:layers=1,every=1,state=keep"
    with Tuner(unbroken, optimizer, method, seed=3, audit=True) as tuner:
        for number in range(STEPS):
            step(unbroken, optimizer, number)
            if number == 3:
                getattr(optimizer, mode)()
                saved = copy.deepcopy((unbroken.state_dict(), optimizer.state_dict()))
                state = json.loads(json.dumps(tuner.state_dict()))
                optimizer.train()
    optimizer = made("AdamWScheduleFree", resumed.parameters())
    resumed.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    optimizer.train()
    with Tuner(resumed, optimizer, method, seed=3, audit=True, state=state):
        for number in range(4, STEPS):
            step(resumed, optimizer, number)
    assert_same_weights(unbroken, resumed)


def test_it_may_be_one_of_several() -> None:
    model = build("bert")
    pair = [muon_and_adamw(model)[0], made("AdamWScheduleFree", others(model))]
    before = weights(model)
    with Tuner(model, pair, "freeze:layers=2", audit=True) as tuner:
        for number in range(3):
            model.zero_grad()
            model(**batch(model, number)).loss.backward()
            for optimizer in pair:
                optimizer.step()
        assert tuner.clock.step == 3
        pair[1].eval()
    layers = map_layers(model)
    assert moved(before, model) <= {*layers["layers.2"].parameter_names, *layers["head"].parameter_names}


@pytest.mark.parametrize(
    ("make", "method", "message"),
    [
        (
            lambda p: made("AdamWScheduleFree", p),
            "graddrop:p=0.4,mask_target=update",
            r"masks single weights of bert\.encoder\.\S+, but AdamWScheduleFree keeps .* Use mask_target=grad",
        ),
        (lambda p: made("SGDScheduleFree", p), "lisa", "counts its steps for all .* Use state=keep"),
        (lambda p: made("AdamWScheduleFree", p), "lisa:state=reset", "not how AdamWScheduleFree starts"),
        (
            lambda p: schedulefree.AdamWScheduleFreeClosure(p),
            "full",
            "AdamWScheduleFreeClosure computes gradients inside its step",
        ),
        (
            lambda p: schedulefree.ScheduleFreeWrapper(torch.optim.SGD(p, lr=0.1)),
            "full",
            "ScheduleFreeWrapper is not a torch.optim.Optimizer.*schedulefree has AdamWScheduleFree",
        ),
    ],
)
def test_what_could_not_hold_is_refused(make: Any, method: str, message: str) -> None:
    model = build("bert")
    with pytest.raises(AttachError, match=message):
        Tuner(model, make(model.parameters()), method)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_steps_that_would_be_too_large_are_told() -> None:
    model = build("bert")
    with pytest.warns(UserWarning, match=r"what opens late, such as bert\.\S+, begins with steps of up to 32 times"):
        Tuner(model, made("AdamWScheduleFree", model.parameters()), "gradual:every=2").detach()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Tuner(model, made("AdamWScheduleFree", model.parameters()), "freeze:layers=1").detach()
        Tuner(model, made("SGDScheduleFree", model.parameters()), "gradual:every=2").detach()


@pytest.mark.parametrize("kind", ["AdamWScheduleFree", "SGDScheduleFree"])
def test_an_average_that_is_weighted_by_one_rate_takes_no_factors(kind: str) -> None:
    model = build("bert")
    optimizer = made(kind, model.parameters())
    with Tuner(model, optimizer, "full", lr_scale={"head": 10.0}):
        with pytest.raises(AttachError, match=r"keeps .*weight_sum per group, which depends on the rate"):
            step(model, optimizer, 0)
        assert len(optimizer.param_groups) == 1
