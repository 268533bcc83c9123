"""The table behind the promises of the catalogue: every method, three tiny models, and one training of each."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PreTrainedModel

from gradgate import Gate, LayerMap, Method, MethodInfo, Plan, Tuner, gates, map_layers, method, methods
from gradgate.measure.selection import unpack
from gradgate.methods.phases import Phase
from support.every_method import example
from support.loop import Weights, adamw, fisher_data, learnable, momentum, same, train, weights
from support.tiny_models import _ENCODER, _GPT2, _T5, tiny

State = tuple[str, dict[str, torch.Tensor]]

STEPS, PER_EPOCH, SEED = 6, 2, 5
# Small enough that every transition lies within the training, and large enough that each matrix has open elements.
SMALL: dict[str, Any] = {"every": 2, "p": 0.5, "batches": 1, "share": 0.5}
# Options that change what happens at a step, beside the example of each method.
VARIANTS = (
    "graddrop:p=0.5,mask_target=update",
    "layer-graddrop:p=0.5,mask_target=update,layer_scale=true",
    "gradual:every=2,warm_open=2+layerwise-lr:decay=0.8",
    "lisa:layers=1,every=2,state=drop",
    "lisa:layers=1,every=2,ends=closed,draw=outlier,batches=1,threshold=2.0",
    "lisa:layers=1,every=1,draw=gradient,batches=1",
    "blocks:every=1,order=top-down,ends=blocks,state=keep",
    "gradual:every=2+mixout:p=0.5,unit=element",
    "child-tuning:mode=D,batches=1,mask_target=update",
    "sparse:share=0.5,by=magnitude",
    "sparse:share=0.5,by=gradient,batches=1",
    "sparse:share=0.5,by=lift,rank=4,every=2",
    "grades:tau=0.15,unit=layer,metric=norm",
    "grades:tau=9,unit=layer,metric=weights,state=keep",
)
ROWS = [*methods(), *VARIANTS]

# Without dropout, so that training mode has the same results as evaluation mode.
_BERT = _ENCODER | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_GPT = _GPT2 | {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
_TWO_AND_ONE = _T5 | {"num_layers": 2, "num_decoder_layers": 1, "dropout_rate": 0.0}
MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "encoder": tiny("BertConfig", "BertForSequenceClassification", **_BERT),
    "decoder": tiny("GPT2Config", "GPT2LMHeadModel", **_GPT),
    "encoder-decoder": tiny("T5Config", "T5ForConditionalGeneration", **_TWO_AND_ONE),
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "encoder": adamw,
    "decoder": momentum,
    "encoder-decoder": adamw,
}
CELLS = [(row, name) for row in ROWS for name in MODELS if name == "encoder" or row not in VARIANTS]


# Each method with one of the models, in turns.
ONCE = [(row, "encoder" if row in VARIANTS else list(MODELS)[place % 3]) for place, row in enumerate(ROWS)]


# One of each way in which a method closes, masks or measures; and the variants that keep another state.
KINDS = {
    *(
        "full",
        "gradual",
        "fun",
        "lisa",
        "graddrop",
        "graddrop-epoch-toggle",
        "layer-graddrop",
        "mixout",
        "sparse",
        "hft",
    ),
    *("child-tuning", "mofo", "grades", "layerwise-lr"),
    *("graddrop:p=0.5,mask_target=update", "sparse:share=0.5,by=lift,rank=4,every=2"),
    *("gradual:every=2,warm_open=2+layerwise-lr:decay=0.8", "gradual:every=2+mixout:p=0.5,unit=element"),
}


def is_kind(row: MethodInfo | str) -> bool:
    """Whether a row is one of those that stand for others."""
    return (row if isinstance(row, str) else row.name) in KINDS


def _cells(
    cells: list[tuple[MethodInfo | str, str]], wanted: Callable[[MethodInfo | str], bool] = lambda row: True
) -> pytest.MarkDecorator:
    named = [
        pytest.param(
            row,
            name,
            id=f"{row if isinstance(row, str) else row.name}-{name}",
            marks=() if (row, name) in ONCE and wanted(row) else pytest.mark.slow,
        )
        for row, name in cells
    ]
    return pytest.mark.parametrize(("row", "name"), named)


def once(*fast: str) -> pytest.MarkDecorator:
    """Each method with one of the models; fast are those with one of these names or texts."""
    return _cells(ONCE, lambda row: (row if isinstance(row, str) else row.name) in fast)


# Those with the other models are slow, and the variants of which a test of their own shows what stays closed.
EVERY_CELL = _cells(CELLS, lambda row: not isinstance(row, str) or is_kind(row) or row.startswith("blocks"))
KINDS_OF_CELLS = _cells(CELLS, is_kind)
KINDS_ONCE = _cells(ONCE, is_kind)  # all others are slow


def optimizer_of(method: Method, model: nn.Module, name: str) -> torch.optim.Optimizer:
    """An optimizer that fits the method."""
    return (adamw if method.name == "mofo" else OPTIMIZERS[name])(model)


@cache
def _built(name: str) -> tuple[PreTrainedModel, LayerMap]:
    model = MODELS[name]().train()
    return model, map_layers(model)


def build(name: str) -> PreTrainedModel:
    """A model in training mode."""
    return copy.deepcopy(_built(name)[0])


def layers_of(name: str) -> LayerMap:
    """Its layer map, which takes as long to find as a step of training."""
    return _built(name)[1]


def method_of(row: MethodInfo | str, layers: int = 3) -> Method:
    return method(row) if isinstance(row, str) else example(row, layers, **SMALL)


def attach(
    model: nn.Module, optimizer: torch.optim.Optimizer, method: Method, layers: LayerMap, **options: Any
) -> Tuner:
    settings: dict[str, Any] = {"total_steps": STEPS, "steps_per_epoch": PER_EPOCH, "seed": SEED, "audit": True}
    return Tuner(model, optimizer, method, layers=layers, fisher_data=fisher_data(model), **settings | options)


def state_of(tuner: Tuner) -> State:
    """A copy of a tuner's state: the values as JSON, and the tensors."""
    state = tuner.state_dict()
    tensors = {name: tensor.clone() for name, tensor in state.pop("tensors", {}).items()}
    return json.dumps(state), tensors


def read(state: State) -> dict[str, Any]:
    """The state to load, with tensors of its own."""
    return {**json.loads(state[0]), "tensors": {name: tensor.clone() for name, tensor in state[1].items()}}


def moments_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A copy of an optimizer's state; deepcopy takes as long as a step of training."""
    state = optimizer.state_dict()
    copied = {
        place: {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in own.items()}
        for place, own in state["state"].items()
    }
    return {"state": copied, "param_groups": copy.deepcopy(state["param_groups"])}


@dataclass
class Training:
    """What a training was before its first step and after each one."""

    learnable: set[str]
    plans: list[Plan] = field(default_factory=list)
    weights: list[Weights] = field(default_factory=list)
    moments: list[Any] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)


def record(method: Method, name: str, steps: int = STEPS) -> Training:
    """One training of a method on a model, or its first steps."""
    model = build(name)
    done = Training(learnable(model))
    optimizer = optimizer_of(method, model, name)

    with attach(model, optimizer, method, layers_of(name)) as tuner:

        def note(_: int = 0) -> None:
            done.plans.append(tuner.plan)
            done.weights.append(weights(model))
            done.moments.append(moments_of(optimizer))
            done.states.append(state_of(tuner))

        note()
        train(model, optimizer, steps, after=note)
        done.phases = tuner.timeline.phases
    return done


trained = cache(record)


def changed(before: Weights, after: Weights) -> set[str]:
    """Names of the parameters that differ in at least one bit."""
    return {name for name in before if not same(before[name], after[name])}


def names_of(method: Method, layers: LayerMap, plan: Plan, wanted: Callable[[Gate], bool]) -> set[str]:
    """The parameters that the method trains in groups whose gate is as wanted."""
    layers = layers.at(method.traits.unit)
    groups = (group for group in layers if wanted(plan[group.name]))
    named = {name for group in groups for name in group.parameter_names}
    selection = method.selection(layers)
    return named if selection is None else named & set(selection.names)


def learns(gate: Gate) -> bool:
    """Whether some elements of every parameter may move; what is chosen may all lie in other parameters."""
    return gate.share > 0.0 and not gate.chosen


def passing(gate: Gate, name: str, shape: torch.Size, state: State) -> torch.Tensor:
    """Which elements of a parameter a gate lets pass: those in its window, or those that the method has chosen."""
    if gate.chosen:
        bits = state[1].get(f"chosen/{name}")  # none for what never opens, such as a bias beside chosen matrices
        return torch.zeros(shape, dtype=torch.bool) if bits is None else unpack(bits, shape.numel()).view(shape)
    key = gates.key(seed=SEED, stream=gate.stream, name=name, draw=gate.draw)
    return gates.mask(shape.numel(), lo=gate.lo, hi=gate.hi, key=key).view(shape)


def filtered(gate: Gate, model: nn.Module, name: str, moments: dict[str, Any]) -> torch.Tensor:
    """Which elements of a parameter a gate lets be updated, by the momentum that the optimizer has after the step."""
    place = [own for own, _ in model.named_parameters()].index(name)
    if model.get_parameter(name).dim() < 2 or place not in moments["state"]:
        return torch.ones_like(model.get_parameter(name), dtype=torch.bool)
    size = moments["state"][place]["exp_avg"].abs()
    return size >= size.flatten().topk(int(gate.share * size.numel())).values.min()


def random_states() -> tuple[Any, ...]:
    """The state of every global generator, as comparable values."""
    return torch.random.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state())
