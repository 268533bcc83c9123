"""Spectrum: what it chooses, when it measures, and what stays closed."""

from __future__ import annotations

import json

import pytest
import torch

from gradgate import Clock, LayerMap, MethodState, Tuner, map_layers, method
from gradgate.errors import MethodError
from gradgate.measure.signal import signal_to_noise
from gradgate.methods.spectrum import clearest, kinds_of
from support.loop import adamw, build, moved, step, train, weights
from support.schedules import open_groups, stack

# The ratios of mlp.down_proj in Llama-3.1-8B-Instruct, and the half that its authors' tool opened:
# model_snr_results/ and snr_results_...50percent.yaml of github.com/cognitivecomputations/spectrum.
PUBLISHED = [
    10.81, 14.38, 6.057, 4.141, 5.039, 5.148, 3.884, 2.667, 2.454, 2.048, 1.83, 1.602,
    2.371, 2.641, 3.47, 3.256, 3.432, 4.099, 3.535, 4.426, 5.022, 5.675, 5.597, 4.765,
    3.802, 3.295, 3.539, 3.635, 3.815, 5.572, 6.277, 3.832,
]  # fmt: skip
OPENED = {1, 0, 30, 2, 21, 22, 29, 5, 4, 20, 23, 19, 3, 17, 6, 31}


def test_the_choice_is_the_published_one() -> None:
    names = [f"layers.{number}.mlp.down_proj" for number in range(32)]
    chosen = clearest({"mlp.down_proj": names}, dict(zip(names, PUBLISHED, strict=True)), 0.5)
    assert chosen[:3] == [names[1], names[0], names[30]]
    assert set(chosen) == {names[number] for number in OPENED}


@pytest.mark.parametrize(("share", "count"), [(0.25, 8), (0.1, 3), (0.29, 9), (1.0, 32), (0.03, 0)])
def test_so_many_of_each_kind_are_chosen(share: float, count: int) -> None:
    names = [f"layers.{number}" for number in range(32)]
    assert len(clearest({"one": names, "other": names[:4]}, {}, share)) == count + int(4 * share)
    assert int(100 * 0.29) == 28  # which rounding down must not do
    assert len(clearest({"one": [str(number) for number in range(100)]}, {}, 0.29)) == 29


def test_of_equal_ratios_those_below_are_chosen() -> None:
    assert clearest({"k": ["layers.0", "layers.1", "layers.2", "layers.3"]}, {}, 0.5) == ["layers.0", "layers.1"]


def test_kinds_are_the_same_module_of_the_layers_of_one_tower() -> None:
    modules = map_layers(build("llama")).at("module")
    kinds = kinds_of(modules)
    assert set(kinds) == {f"attention.{n}_proj" for n in "qkvo"} | {f"mlp.{n}_proj" for n in ("gate", "up", "down")}
    assert kinds["attention.q_proj"] == [f"layers.{number}.attention.q_proj" for number in range(3)]
    towers = kinds_of(map_layers(build("bart")).at("module"))
    assert {kind.partition(":")[0] for kind in towers} == {"encoder", "decoder"}
    assert set(kinds_of(map_layers(build("llama")).at("part"))) == {"attention", "mlp"}
    assert kinds_of(map_layers(build("llama"))) == {"layer": ["layers.0", "layers.1", "layers.2"]}


def test_it_opens_the_clearest_third_of_the_weights_and_nothing_else_in_the_layers() -> None:
    model = build("llama")
    with torch.no_grad():  # one layer with a clear signal in each kind, and a different one for each
        for number, (name, parameter) in enumerate(model.named_parameters()):
            if parameter.dim() > 1 and f"layers.{number % 3}." in name:
                parameter.add_(torch.outer(torch.randn(parameter.shape[0]), torch.randn(parameter.shape[1])))
    modules = map_layers(model).at("module")
    parameters = dict(model.named_parameters())
    ratios = {
        group.name: signal_to_noise(parameters[group.parameter_names[0]])
        for group in modules.layers
        if ".norm" not in group.name
    }
    expected = {max(names, key=ratios.__getitem__) for names in kinds_of(modules).values()}
    before = weights(model)
    with Tuner(model, adamw(model), "spectrum:share=0.34,ends=closed", audit=True) as tuner:
        assert tuner.memory.notes["snr"] == pytest.approx(ratios)
        assert open_groups(tuner.plan) == expected
        train(model, tuner.optimizer, 3)
    assert {modules.group_of(name).name for name in moved(before, model)} == expected


def test_biases_stay_closed_and_a_task_s_head_learns() -> None:
    model = build("bert")
    before = weights(model)
    with Tuner(model, adamw(model), "spectrum:share=1,ends=closed") as tuner:
        train(model, tuner.optimizer, 1)
    layers = map_layers(model)
    inner = {name for name in moved(before, model) if layers.group_of(name).name.startswith("layers.")}
    assert inner == {n for g in layers.layers for n in g.parameter_names if before[n].dim() > 1}
    assert {layers.group_of(name).name for name in moved(before, model)} == {*layers.names} - {"embeddings"}


def test_it_needs_no_data_and_a_resumed_training_measures_nothing() -> None:
    model, text = build("llama"), "spectrum:share=0.5,unit=layer"
    optimizer = adamw(model)
    with Tuner(model, optimizer, text) as tuner:
        chosen, state = open_groups(tuner.plan), json.loads(json.dumps(tuner.state_dict()))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    with Tuner(model, optimizer, text, state=state) as tuner:
        assert open_groups(tuner.plan) == chosen
        step(model, optimizer, 0)
        assert tuner.memory.notes == state["notes"]


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(MethodError, match=r"opens no layer: Stack has at most 3 .* Use share=0\.334 or more"):
        method("spectrum:unit=layer").check(stack(3))
    with pytest.raises(MethodError, match=r"cannot have share=0\.0"):
        method("spectrum:share=0")


def test_what_is_frozen_counts_for_nothing() -> None:
    layers: LayerMap = map_layers(build("llama")).at("module")
    frozen = layers.with_frozen(name for name in layers.weights if "layers.0." in name or "mlp" in name)
    assert set(kinds_of(frozen)) == {f"attention.{n}_proj" for n in "qkvo"}
    assert all(len(names) == 2 for names in kinds_of(frozen).values())
    plan = method("spectrum:share=1").plan(Clock(0), frozen, MethodState())
    assert not any(name.startswith("layers.0.") for name in open_groups(plan))
