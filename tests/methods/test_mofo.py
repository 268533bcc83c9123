"""MoFO: which weights Adam updates, that the others hold, and which optimizers it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gradgate import MoFO, Tuner, method
from gradgate.errors import AttachError, MethodError
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.loop import Weights, adamw, batch, build, momentum, moved, weights
from support.loop import train as steps
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run


def as_the_paper_says(model: nn.Module, steps: int, alpha: float, lr: float = 1e-2) -> None:
    """Algorithm 1 on every matrix, Adam on vectors: the filter of the momentum comes after its update."""
    moments: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for done in range(1, steps + 1):
        model.zero_grad()
        model(**batch(model, done - 1)).loss.backward()
        for name, weight in model.named_parameters():
            if weight.grad is None:
                continue
            m, v = moments.setdefault(name, (torch.zeros_like(weight), torch.zeros_like(weight)))
            m.lerp_(weight.grad, 0.1)
            v.mul_(0.999).addcmul_(weight.grad, weight.grad, value=0.001)
            update = m / (1 - 0.9**done) / ((v / (1 - 0.999**done)).sqrt() + 1e-8)
            if weight.dim() > 1:
                edge = m.abs().flatten().topk(int(alpha * m.numel())).values.min()
                update = torch.where(m.abs() >= edge, update, 0.0)
            with torch.no_grad():
                weight.sub_(update, alpha=lr)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_updates_are_the_papers(name: str) -> None:
    ours, by_hand = build(name).double(), build(name).double()
    optimizer = adamw(ours, weight_decay=0.0)
    with Tuner(ours, optimizer, MoFO(alpha=0.1), audit=True):
        steps(ours, optimizer, 6)
    as_the_paper_says(by_hand, 6, 0.1)
    for parameter, expected in weights(by_hand).items():
        torch.testing.assert_close(ours.get_parameter(parameter).detach(), expected, rtol=0, atol=1e-9, msg=parameter)


def test_the_rest_holds_under_weight_decay_and_moments_are_those_of_all_gradients() -> None:
    model, free = build("bert"), build("bert")
    optimizer, other, before = adamw(model), adamw(free), weights(model)
    with Tuner(model, optimizer, "mofo:alpha=0.2", audit=True) as tuner:
        steps(model, optimizer, 1)
        assert tuner.open_fraction < 0.3
    steps(free, other, 1)
    for name, parameter in model.named_parameters():
        moments = optimizer.state[parameter]
        assert torch.equal(moments["exp_avg"], other.state[free.get_parameter(name)]["exp_avg"])
        assert torch.equal(moments["exp_avg_sq"], other.state[free.get_parameter(name)]["exp_avg_sq"])
        changed = parameter.detach() != before[name]
        if parameter.dim() > 1:
            assert int(changed.sum()) <= int(0.2 * parameter.numel())
            assert torch.equal(parameter.detach()[changed], free.get_parameter(name).detach()[changed])
        else:
            assert torch.equal(parameter.detach(), free.get_parameter(name).detach())


def test_one_matrix_at_a_time_is_copied_and_several_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Weights] = []
    for size in (2**26, 1):
        monkeypatch.setattr("gradgate.tuner.step_plan.CHUNK_BYTES", size)
        model = build("bert")
        optimizer = adamw(model)
        with Tuner(model, optimizer, MoFO()):
            steps(model, optimizer, 3)
        found.append(weights(model))
    assert all(torch.equal(found[0][name], value) for name, value in found[1].items())


def test_releasing_gradients_filters_the_same_updates() -> None:
    found: list[Weights] = []
    for release in (False, True):
        model = build("bert")
        optimizer = adamw(model)
        with Tuner(model, optimizer, "mofo:alpha=0.1", release_gradients=release):
            steps(model, optimizer, 3)
        found.append(weights(model))
    assert all(torch.equal(found[0][name], value) for name, value in found[1].items())


def test_half_precision_is_filtered_on_its_masters() -> None:
    model = build("bert").to(torch.bfloat16)
    optimizer, before = adamw(model, lr=1e-4), weights(model)
    with Tuner(model, optimizer, "mofo:alpha=0.1", master="float32"):
        steps(model, optimizer, 4)
    name = "bert.encoder.layer.1.output.dense.weight"
    assert optimizer.state[model.get_parameter(name)]["exp_avg"].dtype == torch.float32
    changed = model.get_parameter(name).detach() != before[name]
    assert changed.float().mean() < 0.4
    assert moved(before, model)


@pytest.mark.slow  # test_grades.py and test_sparse_choices.py resume runs; test_catalog_promises.py this method
def test_a_run_resumes_with_the_same_bits(tmp_path: Path, settings: dict[str, Any]) -> None:
    config = make_config(**{**settings, "steps": 6, "save_every": 2, "method": "mofo:alpha=0.1"})
    train(config, tmp_path / "whole")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "cut", Falls(3))
    train(config, tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_other_optimizers_are_refused() -> None:
    model = build("bert")
    for optimizer in (momentum(model), torch.optim.NAdam(model.parameters()), torch.optim.RMSprop(model.parameters())):
        with pytest.raises(AttachError, match=f"{type(optimizer).__name__} keeps another state"):
            Tuner(model, optimizer, "mofo")
    with Tuner(model, torch.optim.Adam(model.parameters()), "mofo:alpha=1") as tuner:
        assert tuner.open_fraction == 1.0
    with pytest.raises(MethodError, match="0 < alpha <= 1"):
        method("mofo:alpha=0")
