"""GradES: which matrix stops when, by each of its metrics, and that a resumed training goes on as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradgate import Clock, GradES, MethodState, Tuner, map_layers, method
from gradgate.errors import MethodError, RunError
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.loop import adamw, batch, build, moved, weights
from support.loop import train as steps
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run

STEPS = 10
ALPHA = 0.4
TAUS = {"change": 0.03, "norm": 0.015, "weights": 0.8}


def as_the_paper_says(model: nn.Module, metric: str, tau: float) -> dict[str, int]:
    """The method by hand: module to the number of steps done when it was closed for good."""
    modules = [
        g for g in map_layers(model, unit="module").layers if "." in g.name and _matrix(model, g.parameter_names)
    ]
    members = {group.name: [model.get_parameter(name) for name in group.parameter_names] for group in modules}
    optimizer, past, closed = adamw(model), dict[Tensor, Tensor](), dict[str, int]()
    for done in range(1, STEPS + 1):
        optimizer.zero_grad()
        model(**batch(model, done - 1)).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        gradients = {p: p.grad.clone() for members_ in members.values() for p in members_ if p.grad is not None}
        before = {p: p.detach().clone() for p in gradients}
        optimizer.step()
        sizes = {}
        for name in members.keys() - closed.keys():
            if metric == "norm":
                differences = [gradients[p] for p in members[name]]
            elif metric == "weights":
                differences = [p.detach() - before[p] for p in members[name]]
            elif past:
                differences = [gradients[p] - past[p] for p in members[name]]
            else:
                continue
            sizes[name] = float(sum(difference.abs().sum() for difference in differences))
        past = gradients
        for name in [name for name, size in sizes.items() if done >= int(ALPHA * STEPS) and size < tau]:
            closed[name] = done
            for parameter in members[name]:
                parameter.requires_grad_(False)
                parameter.grad = None
                optimizer.state.pop(parameter, None)
    return closed


def _matrix(model: nn.Module, names: tuple[str, ...]) -> bool:
    return any(model.get_parameter(name).dim() > 1 for name in names)


@pytest.mark.parametrize("metric", ["change", "norm", "weights"])
def test_each_matrix_stops_when_the_definition_says(metric: str) -> None:
    ours, by_hand = build("bert"), build("bert")
    expected = as_the_paper_says(by_hand, metric, TAUS[metric])
    optimizer = adamw(ours)
    stopping = GradES(tau=TAUS[metric], alpha=ALPHA, metric=metric)
    with Tuner(ours, optimizer, stopping, total_steps=STEPS, audit=True) as tuner:
        steps(ours, optimizer, STEPS, clip=0.5)
        stopped = {event["group"]: event["step"] for event in tuner.memory.notes["stopped"]}
    assert stopped == expected
    assert 1 < len(stopped) < 18
    assert len(set(stopped.values())) > 1, "not all at once"
    assert min(stopped.values()) >= 4
    assert not moved(weights(by_hand), ours)
    assert not [p for p in optimizer.state if not p.requires_grad and p.dim() > 1 and p in _closed(ours, stopped)]


def _closed(model: nn.Module, stopped: dict[str, int]) -> set[Tensor]:
    layers = map_layers(model, unit="module")
    return {model.get_parameter(name) for group in stopped for name in layers[group].parameter_names}


def test_nothing_is_kept_before_a_gradient_can_matter() -> None:
    model = build("bert")
    optimizer, kept = adamw(model), []
    with Tuner(model, optimizer, GradES(tau=1e-9, alpha=0.5), total_steps=8) as tuner:
        steps(model, optimizer, 8, after=lambda _: kept.append(bool(tuner.state_dict().get("tensors"))))
    assert kept == [False, False, True, True, True, True, True, False]


def test_the_last_matrix_goes_on_to_learn() -> None:
    model = build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, GradES(tau=1e9, unit="layer"), total_steps=6) as tuner:
        steps(model, optimizer, 6)
        assert [name for name, gate in tuner.plan.items() if not gate.closed] == ["embeddings", "layers.2", "head"]
        assert {event["step"] for event in tuner.memory.notes["stopped"]} == {2}


def test_a_resumed_run_stops_the_same_matrices_at_the_same_steps(tmp_path: Path, settings: dict[str, Any]) -> None:
    text = "grades:tau=0.5,alpha=0.3"
    config = make_config(**{**settings, "steps": 6, "save_every": 2, "method": text, "store": "model"})
    train(config, tmp_path / "whole")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "cut", Falls(5))
    train(config, tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert "layers.0" in (tmp_path / "whole/plan.yaml").read_text()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(MethodError, match=r"needs tau=\.\.\."):
        method("grades")
    with pytest.raises(MethodError, match=r"tau=0.0 \(expected above 0\); alpha=1.0"):
        GradES(tau=0.0, alpha=1.0)
    model = build("bert")
    with pytest.raises(MethodError, match="pass total_steps= to the tuner"):
        Tuner(model, adamw(model), "grades:tau=1")
    with Tuner(model, adamw(model), "grades:tau=1", total_steps=4) as tuner, pytest.raises(RunError, match="shape"):
        tuner.load_state_dict({**tuner.state_dict(), "tensors": {"gradients/classifier.weight": torch.zeros(2)}})


def test_a_matrix_without_a_gradient_is_no_settled_one() -> None:
    layers = map_layers(build("bert"))
    memory = GradES(tau=1.0, alpha=0.0).learned(
        {"layers.0": float("nan"), "layers.1": 2.0}, Clock(3, None, 9), MethodState()
    )
    assert not memory.notes
    assert GradES(tau=1.0).plan(Clock(3, None, 9), layers, memory)["layers.0"].open
