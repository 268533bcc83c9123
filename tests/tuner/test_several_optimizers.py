"""Several optimizers make one step together: what is closed or masked holds under each of them."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradgate import Tuner, gates, map_layers
from gradgate.errors import AttachError, NonFiniteError, RunError
from support.crossed import each_once, some_fast
from support.loop import assert_same_weights, batch, build, moved, same, step, weights
from support.optimizers import Joined, backward, matrices, muon_and_adamw, others, train_with

STEPS = 6
SEED = 7


def attach(model: nn.Module, optimizers: Any, method: str, **options: Any) -> Tuner:
    defaults = {"total_steps": STEPS, "steps_per_epoch": 2, "seed": SEED, "audit": True}
    return Tuner(model, optimizers, method, **defaults | options)


METHODS = [
    "gradual:every=2",
    "graddrop:p=0.4,mask_target=update",
    "layer-graddrop:p=0.5,mask_target=update,state=drop",
    "lisa:layers=1,every=2,state=reset",
    "layerwise-lr:decay=0.8",
    "gradual:every=2+layerwise-lr:decay=0.8",
]


@some_fast("method", METHODS, METHODS[:3])
def test_resuming_changes_no_bit(method: str) -> None:
    unbroken = build("bert")
    optimizers = muon_and_adamw(unbroken)
    saved: list[Any] = []
    with attach(unbroken, optimizers, method) as tuner:
        for number in range(STEPS):
            train_with(unbroken, optimizers, [number])
            states = [optimizer.state_dict() for optimizer in optimizers]
            saved.append((*copy.deepcopy((unbroken.state_dict(), states)), json.dumps(tuner.state_dict())))
        assert tuner.clock.step == STEPS
    for done in (3, 4):
        model_state, optimizer_states, state = saved[done - 1]
        resumed = build("bert")
        optimizers = muon_and_adamw(resumed)
        resumed.load_state_dict(model_state)
        with attach(resumed, optimizers, method) as tuner:
            for optimizer, its_state in zip(optimizers, optimizer_states, strict=True):
                optimizer.load_state_dict(its_state)
            tuner.load_state_dict(json.loads(state))
            train_with(resumed, optimizers, range(done, STEPS))
        assert_same_weights(unbroken, resumed)


def test_gradual_is_the_loop_written_by_hand() -> None:
    ours, theirs = build("bert"), build("bert")
    optimizers = muon_and_adamw(ours)
    with attach(ours, optimizers, "gradual:every=2"):
        train_with(ours, optimizers, range(STEPS))
    optimizers = muon_and_adamw(theirs)
    layers = map_layers(theirs)
    opens_in_step = {"head": 0, "layers.2": 0, "layers.1": 1, "layers.0": 3, "embeddings": 3}
    for number in range(STEPS):
        for group, first in opens_in_step.items():
            for parameter in map(theirs.get_parameter, layers[group].parameter_names):
                parameter.requires_grad_(first <= number)
        train_with(theirs, optimizers, [number])
    assert_same_weights(ours, theirs)


@some_fast("first", ["muon", "adamw"], ["adamw"])
def test_masked_weights_hold_under_both_and_the_others_move(first: str) -> None:
    model = build("bert")
    optimizers = muon_and_adamw(model)
    inner = [name for group in map_layers(model).layers for name in group.parameter_names]
    with attach(model, optimizers, "graddrop:p=0.4,mask_target=update"):
        for number in range(3):
            before = weights(model)
            train_with(model, optimizers if first == "muon" else optimizers[::-1], [number])
            for name in inner:
                now, old = model.get_parameter(name), before[name]
                key = gates.key(seed=SEED, stream="graddrop", name=name, draw=number)
                passes = gates.mask(old.numel(), lo=0.4, hi=1.0, key=key).view(old.shape)
                assert same(now[~passes], old[~passes]), name
                if now.dim() == 2:
                    assert not same(now[passes], old[passes]), name


def test_learning_rates_are_scaled_in_both() -> None:
    """With plain descent a factor on the learning rate is one on the movement."""
    moves: list[dict[str, Tensor]] = []
    for method in ("full", "layerwise-lr:decay=0.5"):
        model = build("bert")
        before = weights(model)
        pair = [torch.optim.SGD(matrices(model), lr=0.5), torch.optim.SGD(others(model), lr=0.25)]
        groups = [[*optimizer.param_groups] for optimizer in pair]
        with attach(model, pair, method):
            train_with(model, pair, [0])
        assert [optimizer.param_groups for optimizer in pair] == groups
        moves.append({name: weights(model)[name] - before[name] for name in before})
    layers = map_layers(build("bert"))
    for name in layers["layers.1"].parameter_names:
        torch.testing.assert_close(moves[1][name], moves[0][name] * 0.25, rtol=1e-3, atol=1e-7)
    for name in layers["head"].parameter_names:
        assert same(moves[1][name], moves[0][name])


def test_a_layer_that_closes_is_treated_in_the_optimizer_that_holds_it() -> None:
    model = build("bert")
    muon, adamw = muon_and_adamw(model)
    with attach(model, [muon, adamw], "lisa:layers=1,every=1,state=drop") as tuner:
        train_with(model, [muon, adamw], range(STEPS))
        closed = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        assert tuner.clock.step == STEPS
        assert closed
    assert not any(parameter in muon.state or parameter in adamw.state for parameter in closed)


@pytest.mark.parametrize("clears", [True, False], ids=["no gradients", "zero gradients"])
@pytest.mark.parametrize("layers_first", [True, False])
@pytest.mark.parametrize("method", ["layer-graddrop:p=0.5", "layer-graddrop:p=0.5,mask_target=update", "lpft:every=3"])
def test_two_optimizers_are_one_in_any_order(method: str, layers_first: bool, clears: bool) -> None:
    """Also where every layer of one is dropped or closed, so that its step has no gradient."""

    def trained(pick: Callable[[list[Tensor], list[Tensor]], list[Any]]) -> nn.Module:
        model = build("bert")
        names = {name for group in map_layers(model).layers for name in group.parameter_names}
        rest = [parameter for name, parameter in model.named_parameters() if name not in names]
        optimizers = pick(rest, [model.get_parameter(name) for name in sorted(names)])
        with attach(model, optimizers, method, total_steps=12) as tuner:
            for number in range(12):
                model(**batch(model, number)).loss.backward()
                for optimizer in optimizers:
                    optimizer.step()
                for optimizer in optimizers:
                    optimizer.zero_grad(set_to_none=clears)
            assert tuner.clock.step == 12
        return model

    def made(*groups: list[Tensor]) -> torch.optim.AdamW:
        return torch.optim.AdamW([{"params": group} for group in groups], lr=1e-2, weight_decay=0.1)

    two = trained(lambda rest, layers: [made(rest), made(layers)][:: -1 if layers_first else 1])
    assert_same_weights(two, trained(lambda rest, layers: [made(rest, layers)]))


def test_nothing_closed_is_moved_by_decay_or_momentum() -> None:
    model = build("bert")
    before = weights(model)
    optimizers = muon_and_adamw(model)
    with attach(model, optimizers, "freeze:layers=2"):
        train_with(model, optimizers, range(3))
    layers = map_layers(model)
    assert moved(before, model) <= {*layers["layers.2"].parameter_names, *layers["head"].parameter_names}


def test_a_wrapper_of_several_stands_for_them() -> None:
    apart, joined = build("bert"), build("bert")
    pair = muon_and_adamw(apart)
    with attach(apart, pair, "gradual:every=2+layerwise-lr:decay=0.8"):
        train_with(apart, pair, range(STEPS))
    wrapper = Joined(*muon_and_adamw(joined))
    with attach(joined, wrapper, "gradual:every=2+layerwise-lr:decay=0.8") as tuner:
        for number in range(STEPS):
            step(joined, wrapper, number)
        assert [type(one).__name__ for one in tuner.optimizers] == ["Muon", "AdamW"]
        assert tuner.clock.step == STEPS
        with pytest.raises(AttributeError, match=r"2 optimizers \(Muon and AdamW\)"):
            _ = tuner.optimizer
    assert_same_weights(apart, joined)


def test_one_optimizer_in_a_list_is_one_optimizer() -> None:
    model = build("bert")
    optimizer = torch.optim.AdamW(model.parameters())
    with attach(model, [optimizer], "full") as tuner:
        assert tuner.optimizer is optimizer
        assert tuner.state_dict()["optimizer_parameters"] == [name for name, _ in model.named_parameters()]


class TestClock:
    """When a step of the training has happened."""

    def test_the_order_does_not_matter_and_may_change(self) -> None:
        model = build("bert")
        optimizers = muon_and_adamw(model)
        with attach(model, optimizers, "full") as tuner:
            for number in range(4):
                train_with(model, optimizers if number % 2 else optimizers[::-1], [number])
                assert tuner.clock.step == number + 1

    def test_it_ticks_when_the_last_has_stepped(self) -> None:
        model = build("bert")
        muon, adamw = muon_and_adamw(model)
        with attach(model, [muon, adamw], "gradual:every=2") as tuner:
            train_with(model, [muon, adamw], [0, 1])
            backward(model, 2)
            plan = tuner.plan
            muon.step()
            assert (tuner.clock.step, tuner.plan) == (2, plan)
            adamw.step()
            assert tuner.clock.step == 3
            assert tuner.plan != plan

    @each_once("skipped", [0, 1], "turned", [False, True])
    def test_a_step_that_one_was_kept_from_is_none(self, skipped: int, turned: bool) -> None:
        """A gradient scaler looks at each optimizer's gradients by themselves."""
        model = build("bert")
        optimizers = muon_and_adamw(model)
        stepped = optimizers[::-1] if turned else optimizers
        with attach(model, optimizers, "graddrop:p=0.4") as tuner:
            train_with(model, stepped, [0])
            for number in range(1, 4):  # more than once, as long as the scale is too large
                train_with(model, [one for one in stepped if one is not optimizers[skipped]], [number])
                assert tuner.clock.step == 1
            train_with(model, stepped, [4])
            assert tuner.clock.step == 2
            train_with(model, stepped, [5])
            assert tuner.clock.step == 3

    def test_each_kept_back_once_in_turn_is_no_step(self) -> None:
        model = build("bert")
        muon, adamw = muon_and_adamw(model)
        with attach(model, [muon, adamw], "full") as tuner:
            train_with(model, [muon], [0])
            train_with(model, [adamw], [1])
            assert tuner.clock.step == 0
            train_with(model, [muon, adamw], [2])
            assert tuner.clock.step == 1

    def test_a_scaler_that_unscales_after_the_first_step_breaks_no_round(self) -> None:
        model = build("bert")
        muon, adamw = muon_and_adamw(model)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        with attach(model, [muon, adamw], "full") as tuner:
            for number in range(3):
                model.zero_grad()
                scaler.scale(model(**batch(model, number)).loss).backward()
                if number == 1:
                    gradient = others(model)[0].grad
                    assert gradient is not None
                    gradient.fill_(torch.inf)
                scaler.step(muon)
                scaler.step(adamw)
                scaler.update()
            assert tuner.clock.step == 2

    def test_twice_before_the_other_is_one_step(self) -> None:
        model = build("bert")
        muon, adamw = muon_and_adamw(model)
        with attach(model, [muon, adamw], "full") as tuner:
            backward(model, 0)
            muon.step()
            muon.step()
            adamw.step()
            assert tuner.clock.step == 1
            train_with(model, [muon], [1])
            train_with(model, [muon, adamw], [2])
            assert tuner.clock.step == 2

    @some_fast("stepped", ["both", "both turned", "only adamw"], ["both", "only adamw"])
    def test_nobody_waits_for_an_optimizer_whose_parameters_are_closed(self, stepped: str) -> None:
        model = build("bert")
        before = weights(model)
        muon, adamw = muon_and_adamw(model)
        order = {"both": [muon, adamw], "both turned": [adamw, muon], "only adamw": [adamw]}[stepped]
        with attach(model, [muon, adamw], "head") as tuner:
            for number in range(40):  # more than a gradient scaler would skip
                train_with(model, order, [number])
                assert tuner.clock.step == number + 1
        assert moved(before, model) <= set(map_layers(model)["head"].parameter_names)
        assert not muon.state

    def test_an_optimizer_that_opens_later_is_awaited_from_then_on(self) -> None:
        model = build("bert")
        muon, adamw = muon_and_adamw(model)
        with attach(model, [muon, adamw], "lpft:every=2") as tuner:
            train_with(model, [adamw], range(2))
            assert tuner.clock.step == 2
            train_with(model, [adamw], [2])
            assert tuner.clock.step == 2
            train_with(model, [adamw, muon], [3])
            assert tuner.clock.step == 3

    @pytest.mark.parametrize("loop", ["one only", "in turn"])
    def test_optimizers_that_never_step_together_are_told(self, loop: str) -> None:
        model = build("bert")
        muon, adamw = muon_and_adamw(model)

        def alternate() -> None:
            for number in range(40):
                train_with(model, [muon if loop == "one only" or number % 2 else adamw], [number])

        with attach(model, [muon, adamw], "full"), pytest.raises(RunError, match="has not stepped on the same grad"):
            alternate()


Pair = Callable[[nn.Module], Any]
REFUSED: dict[str, tuple[Pair, str]] = {
    "twice": (
        lambda model: [*muon_and_adamw(model)[:1], torch.optim.AdamW(model.parameters())],
        r"^bert\.encoder\.layer\.0\.attention\.self\.query\.weight is in two optimizers, Muon and AdamW: .* one of",
    ),
    "left out": (
        lambda model: [muon_and_adamw(model)[0], torch.optim.AdamW(others(model)[1:])],
        r"^bert\.embeddings\.word_embeddings\.weight will be opened by 'full', but none of the optimizers \(Muon and "
        r"AdamW\) holds it, so it would never learn\. Add it to one of them",
    ),
    "same class": (
        lambda model: [torch.optim.AdamW(model.parameters()), torch.optim.AdamW(model.parameters())],
        r"is in two optimizers, AdamW \(number 1\) and AdamW \(number 2\)",
    ),
    "one given twice": (lambda model: [torch.optim.AdamW(model.parameters())] * 2, "The same AdamW is given twice"),
    "beside its wrapper": (
        lambda model: (lambda pair: [Joined(*pair), pair[0]])(muon_and_adamw(model)),
        "The same Muon is given twice",
    ),
    "none": (lambda model: [], "the list is empty"),
    "no optimizer": (lambda model: [object()], r"object is not a torch\.optim\.Optimizer.*Expected an optimizer"),
    "by name": (lambda model: {"a": 1}, r"dict is not a torch\.optim\.Optimizer.*or a list of them"),
}


@pytest.mark.parametrize(("pair", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stepped_together_is_refused(pair: Pair, message: str) -> None:
    model = build("bert")
    with pytest.raises(AttachError, match=message):
        Tuner(model, pair(model), "full")
    Tuner(model, torch.optim.AdamW(model.parameters()), "full").detach()  # nothing is left behind


def test_an_optimizer_for_each_parameter_is_refused() -> None:
    """Such as GaLore's layer by layer, which steps in the backward pass."""

    class Dummy(torch.optim.Optimizer):
        def __init__(self, parameters: list[nn.Parameter]) -> None:
            self.optimizer_dict = {p: torch.optim.SGD([p], lr=0.1) for p in parameters}
            super().__init__([torch.zeros(1)], {})

        def step(self, closure: Any = None) -> None: ...

    model = build("bert")
    with pytest.raises(AttachError, match="Dummy keeps an optimizer for each parameter"):
        Tuner(model, Dummy(list(model.parameters())), "full")


def test_a_state_of_optimizers_with_other_parameters_is_refused() -> None:
    model = build("bert")
    with attach(model, muon_and_adamw(model), "full") as tuner:
        state = json.loads(json.dumps(tuner.state_dict()))
    with attach(model, muon_and_adamw(model)[::-1], "full") as tuner, pytest.raises(RunError, match="wrong tensors"):
        tuner.load_state_dict(state)
    with attach(model, muon_and_adamw(model), "full") as tuner:
        tuner.load_state_dict(state)


def test_gradients_that_are_not_finite_are_told_by_optimizer() -> None:
    model = build("bert")
    muon, adamw = muon_and_adamw(model)
    with attach(model, [muon, adamw], "full"):
        backward(model, 0)
        for parameter in others(model):
            if parameter.grad is not None:
                parameter.grad.fill_(torch.nan)
        muon.step()
        before = weights(model)
        with pytest.raises(NonFiniteError, match="The gradients of AdamW of step 1 are not finite; the weights of Ad"):
            adamw.step()
        assert not moved(before, model)


def test_a_step_that_fails_leaves_both_optimizers_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("bert")
    muon, adamw = muon_and_adamw(model)
    groups = [[(group, [*group["params"]]) for group in one.param_groups] for one in (muon, adamw)]
    with attach(model, [muon, adamw], "graddrop:mask_target=update+layerwise-lr:decay=0.8") as tuner:
        train_with(model, [muon, adamw], [0])
        backward(model, 1)

        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(sys.modules["torch.optim._muon"], "muon", interrupted)
            with pytest.raises(KeyboardInterrupt):
                muon.step()
        tuner.state_dict()
        assert [[(group, [*group["params"]]) for group in one.param_groups] for one in (muon, adamw)] == groups
        train_with(model, [muon, adamw], [1])
        assert tuner.clock.step == 2
