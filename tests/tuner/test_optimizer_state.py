"""What becomes of the optimizer's state of a layer that closes: kept, zeroed or deleted."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

import gradgate.tuner.optimizer_groups
import gradgate.tuner.optimizer_states
from gradgate import Clock, LayerMap, MethodState, Plan, Tuner, map_layers, method
from gradgate.errors import AttachError, MethodError
from gradgate.methods import HasStateOption
from gradgate.tuner.optimizer_states import OffloadedStates
from support.crossed import each_once, some_fast
from support.loop import Weights, adamw, assert_same_weights, build, momentum, same, train, weights

NAME = "layers.1"
STEPS = 6


@dataclass(frozen=True, kw_only=True)
class Pause(HasStateOption):
    """One layer is closed in the third and fourth step."""

    name: ClassVar[str] = "pause"
    summary: ClassVar[str] = "one layer rests"
    source: ClassVar[str] = "here"

    def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
        return Plan.opening(layers, {name: name != NAME or clock.step not in (2, 3) for name in layers.names})


def resting(model: nn.Module) -> list[Tensor]:
    return [model.get_parameter(name) for name in map_layers(model)[NAME].parameter_names]


@cache
def trained(optimizer_of: Callable[[nn.Module], torch.optim.Optimizer], policy: str, steps: int = STEPS) -> Weights:
    model = build("bert")
    optimizer = optimizer_of(model)
    with Tuner(model, optimizer, Pause(state=policy), audit=True):  # type: ignore[arg-type]
        train(model, optimizer, steps)
    return weights(model)


def by_hand(optimizer_of: Callable[[nn.Module], torch.optim.Optimizer], *, anew: bool) -> Weights:
    """The loop that a user would write: flags, and a state that is thrown away when the layer closes."""
    model = build("bert")
    optimizer = optimizer_of(model)
    for number in range(STEPS):
        closed = number in (2, 3)
        for parameter in resting(model):
            parameter.requires_grad_(not closed)
            if closed and anew:
                optimizer.state.pop(parameter, None)
        train(model, optimizer, [number])
    return weights(model)


def bits(one: Weights, other: Weights) -> bool:
    return all(same(one[name], other[name]) for name in one)


@each_once("optimizer_of", [adamw, momentum], "policy", ["keep", "reset", "drop", "offload"])
def test_each_policy_is_that_of_a_loop_written_by_hand(policy: str, optimizer_of: Any) -> None:
    assert bits(trained(optimizer_of, policy), by_hand(optimizer_of, anew=policy in ("reset", "drop")))


@some_fast("optimizer_of", [adamw, momentum], [adamw])
def test_a_new_start_is_not_the_past(optimizer_of: Any) -> None:
    assert not bits(trained(optimizer_of, "keep"), trained(optimizer_of, "drop"))


OTHERS: dict[str, Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer]] = {
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.1),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
    "adam amsgrad": lambda p: torch.optim.Adam(p, lr=1e-2, amsgrad=True),
    "adamax": lambda p: torch.optim.Adamax(p, lr=1e-2),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "radam": lambda p: torch.optim.RAdam(p, lr=1e-2),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
}


@some_fast("name", list(OTHERS), ["adafactor", "adam amsgrad", "adamw fused", "radam", "rmsprop", "sgd nesterov"])
def test_zeroed_and_deleted_states_start_alike(name: str) -> None:
    def of(model: nn.Module) -> torch.optim.Optimizer:
        return OTHERS[name](model.parameters())

    assert bits(trained(of, "reset", 5), trained(of, "drop", 5))


def test_what_is_left_when_a_layer_closes() -> None:
    for policy in ("keep", "reset", "drop"):
        model = build("bert")
        optimizer = adamw(model)
        with Tuner(model, optimizer, Pause(state=policy)):  # type: ignore[arg-type]
            train(model, optimizer, 1)
            moments = {id(p): optimizer.state[p]["exp_avg"] for p in resting(model)}
            train(model, optimizer, [1])
            others = [p for p in model.parameters() if id(p) not in moments and p.requires_grad]
            assert all(optimizer.state[p]["step"] == 2 for p in others)
            for parameter in resting(model):
                state = optimizer.state.get(parameter)
                if policy == "drop":
                    assert state is None
                    continue
                assert state is not None
                assert state["exp_avg"] is moments[id(parameter)]
                assert state["step"] == (2 if policy == "keep" else 0)
                assert policy == "keep" or not state["exp_avg_sq"].any()


def test_what_was_never_open_gets_no_state() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "lisa:layers=1,every=1,state=reset") as tuner:
        train(model, optimizer, 1)
        closed = [g.name for g in tuner.layers.layers if g.name not in tuner.timeline.phases[0].open]
        names = [name for group in closed for name in tuner.layers[group].parameter_names]
        assert names
        assert not any(model.get_parameter(name) in optimizer.state for name in names)


def test_dropping_keeps_the_states_to_those_of_the_open_layers() -> None:
    """Of rotating layers with the states kept, every layer soon has one."""

    def states(policy: str) -> int:
        model = build("bert")
        optimizer = adamw(model)
        with Tuner(model, optimizer, f"lisa:layers=1,every=1,state={policy}"):
            train(model, optimizer, 8)
        layers = map_layers(model)
        return sum(
            any(model.get_parameter(name) in optimizer.state for name in group.parameter_names)
            for group in layers.layers
        )

    assert states("keep") == 3
    assert states("drop") <= 1


OF_TEXT = {"lisa:layers=1,every=1": [momentum, adamw], "layer-graddrop:p=0.5,mask_target=update": [adamw, momentum]}


@pytest.mark.parametrize("turn", [0, pytest.param(1, marks=pytest.mark.slow)])
@each_once("policy", ["keep", "reset", "drop", "offload"], "text", list(OF_TEXT))
def test_resuming_at_any_step_changes_nothing(text: str, policy: str, turn: int) -> None:
    optimizer_of = OF_TEXT[text][turn]
    one = method(f"{text},state={policy}")
    unbroken = build("bert")
    optimizer = optimizer_of(unbroken)
    saved: list[Any] = []
    with Tuner(unbroken, optimizer, one) as tuner:

        def save() -> None:
            torch_states = copy.deepcopy((unbroken.state_dict(), optimizer.state_dict()))
            saved.append((*torch_states, json.dumps(tuner.state_dict())))

        train(unbroken, optimizer, STEPS, after=lambda _: save())
    for done, (weights_then, moments, state) in enumerate(saved[:-1], start=1):
        resumed = build("bert")
        optimizer = optimizer_of(resumed)
        resumed.load_state_dict(weights_then)
        with Tuner(resumed, optimizer, one) as tuner:
            optimizer.load_state_dict(moments)
            tuner.load_state_dict(json.loads(state))
            train(resumed, optimizer, range(done, STEPS))
        assert_same_weights(unbroken, resumed)


@pytest.mark.parametrize(
    ("policy", "optimizer_of", "message"),
    [
        ("reset", lambda p: torch.optim.NAdam(p), "not how NAdam starts. Use state=drop or state=keep"),
        ("reset", lambda p: torch.optim.SGD(p, momentum=0.9, dampening=0.1), "not how SGD with dampening starts"),
        ("drop", lambda p: torch.optim.Adagrad(p), "Adagrad makes its state once"),
    ],
)
def test_an_optimizer_that_cannot_start_anew_that_way_is_refused(policy: str, optimizer_of: Any, message: str) -> None:
    model = build("bert")
    text = f"lisa:layers=1,state={policy}"
    with pytest.raises(AttachError, match=message):
        Tuner(model, optimizer_of(model.parameters()), text)
    Tuner(model, optimizer_of(model.parameters()), "lisa:layers=1,state=keep").detach()


def test_states_are_offloaded_while_their_layer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are loaded in the meantime, which torch puts on the device of the parameters."""
    made: list[OffloadedStates] = []

    class Noted(OffloadedStates):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(gradgate.tuner.optimizer_groups, "OffloadedStates", Noted)
    monkeypatch.setattr(gradgate.tuner.optimizer_states, "_can_move", lambda value: isinstance(value, Tensor))
    model = build("bert")
    optimizer = momentum(model)
    closed = {(optimizer, parameter) for parameter in resting(model)}
    with Tuner(model, optimizer, Pause(state="offload")):
        train(model, optimizer, 1)
        assert not made[0]._moved
        train(model, optimizer, [1])
        assert made[0]._moved.keys() == closed
        made[0]._moved.clear()
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        assert made[0]._moved.keys() == closed
        train(model, optimizer, [2])
        assert made[0]._moved.keys() == closed
        train(model, optimizer, [3])
        assert not made[0]._moved


def test_offloading_moves_tensors_of_a_device_and_nothing_else() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        weight = nn.Parameter(torch.empty(4, device="cuda:0"))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        optimizer.state[weight] = {"step": torch.tensor(1.0), "exp_avg": torch.empty(4, device="cuda:0"), "count": 3}
        offloaded = OffloadedStates()
        for _ in range(2):
            offloaded.offload(optimizer, [weight])
            assert [getattr(v, "device", v) for v in optimizer.state[weight].values()] == [
                *[torch.device("cpu")] * 2,
                3,
            ]
        offloaded.fetch(optimizer, [weight])
        devices = [str(v.device) for v in optimizer.state[weight].values() if isinstance(v, Tensor)]
        assert devices == ["cpu", "cuda:0"]


def test_a_joined_method_has_the_policy_of_its_first() -> None:
    assert method("lisa:state=drop+layerwise-lr").traits.state_of_closed == "drop"
    assert method("gradfreeze:cumulative=false,state=reset").traits.state_of_closed == "reset"
    assert method("gradual").traits.state_of_closed == "keep"


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(MethodError, match="'keep', 'reset', 'drop' or 'offload'"):
        method("lisa:state=forget")
    with pytest.raises(MethodError, match=r"cannot have state=forget \(expected one of keep, reset, drop, offload\)"):
        Pause(state="forget")  # type: ignore[arg-type]
