"""A user's method may define single hooks in place of requests, selection and traits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from torch import nn

import gradgate as gg
from gradgate import Clock, LayerMap, Method, MethodState, Plan, Tuner
from gradgate.errors import MethodError
from gradgate.measure import (
    FisherRequest,
    Measurement,
    Request,
    ScoreRequest,
    SelectionRequest,
    SignalRequest,
    WatchRequest,
)
from gradgate.methods import MixoutSettings, Traits
from support.loop import adamw, build, fisher_data, moved, train, weights

CLOCK = Clock(0, 2, 6)


@dataclass(frozen=True, kw_only=True)
class Own(Method):
    """Everything learns; subclasses add hooks."""

    name: ClassVar[str] = "own"
    summary: ClassVar[str] = "everything learns"
    source: ClassVar[str] = "a test"

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan.opening(layers, dict.fromkeys(layers.names, True))


class Everything(Own):
    """Defines every hook."""

    grouped_by = "part"
    state_of_closed = "drop"
    mixing = MixoutSettings(0.5, "element")
    turns_dropout_off = True
    forgets_what_masks_hold = True
    watches = "norm"

    def measures(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Measurement | None:
        return SignalRequest(("layers.0",))

    def selects(self, clock: Clock, layers: LayerMap, memory: MethodState) -> SelectionRequest | None:
        return SelectionRequest(0.5, ScoreRequest(("layers.1",), "weight"))

    def watched(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[str, ...]:
        return ("head",)

    def trains(self, parameter_name: str, group: str) -> bool:
        return group != "embeddings"


class Measured(Own):
    """Measures before each step and watches each step, with a hook for either result."""

    watches = "norm"

    def measures(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Measurement | None:
        return FisherRequest(("head",), batches=1)

    def learned(self, scores: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        return _with(memory, "learned", clock.step, scores)

    def watched(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[str, ...]:
        return ("layers.0",)

    def noted(self, sizes: dict[str, float], clock: Clock, memory: MethodState) -> MethodState:
        return _with(memory, "noted", clock.step, sizes)


def _with(memory: MethodState, note: str, step: int, values: Mapping[str, float]) -> MethodState:
    events: list[Any] = [*memory.notes.get(note, []), [step, *values]]
    return replace(memory, notes={**memory.notes, note: events})


@pytest.fixture
def model() -> nn.Module:
    return build("bert")


@pytest.mark.parametrize("wrapped", [False, True])
def test_hooks_are_requests_traits_and_selection(model: nn.Module, wrapped: bool) -> None:
    method = gg.Combined(methods=(Everything(), gg.LayerwiseRates())) if wrapped else Everything()
    layers = gg.map_layers(model)
    assert method.requests(CLOCK, layers, MethodState()) == (
        SignalRequest(("layers.0",)),
        SelectionRequest(0.5, ScoreRequest(("layers.1",), "weight")),
        WatchRequest(("head",)),
    )
    assert method.traits == Traits("part", "drop", MixoutSettings(0.5, "element"), True, True, "norm", "data")
    selection = method.selection(layers)
    assert selection is not None
    assert set(selection.names) == {
        name for group in layers if group.name != "embeddings" for name in group.parameter_names
    }


def test_a_method_without_hooks_asks_nothing(model: nn.Module) -> None:
    layers = gg.map_layers(model)
    assert Own().requests(CLOCK, layers, MethodState()) == ()
    assert Own().selection(layers) is None
    assert Own().traits == Traits()
    assert not Own().traits.decides_by_measuring


def test_both_results_reach_their_hooks(model: nn.Module) -> None:
    tuner = Tuner(model, adamw(model), Measured(), total_steps=2, fisher_data=fisher_data(model))
    train(model, tuner.optimizer, steps=2)
    assert tuner.memory.notes == {
        "learned": [[0, "head"], [1, "head"]],
        "noted": [[1, "layers.0"], [2, "layers.0"]],
    }
    tuner.detach()


def test_parameters_that_trains_refuses_keep_every_bit(model: nn.Module) -> None:
    class Norms(Own):
        def trains(self, parameter_name: str, group: str) -> bool:
            return "LayerNorm" in parameter_name or group == "head"

    before = weights(model)
    with Tuner(model, adamw(model), Norms(), total_steps=2, audit=True) as tuner:
        train(model, tuner.optimizer, steps=2)
    head = set(gg.map_layers(model)["head"].parameter_names)
    changed = moved(before, model)
    assert changed
    assert all("LayerNorm" in name or name in head for name in changed)


def test_data_requests_must_be_in_the_traits(model: nn.Module) -> None:
    class Undeclared(Own):
        def requests(self, clock: Clock, layers: LayerMap, memory: MethodState) -> tuple[Request, ...]:
            return (FisherRequest(("head",), batches=1),)

    with pytest.raises(MethodError, match=r"Undeclared\.requests\(\).*Return Traits\(measures='data'\)"):
        Tuner(model, adamw(model), Undeclared(), total_steps=2, fisher_data=fisher_data(model))
