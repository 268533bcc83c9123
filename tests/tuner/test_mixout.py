"""Mixout: what forward passes see, its gradient, and that nothing of it stays in the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from gradgate import GateCallback, Mixout, Tuner, method
from gradgate.errors import AttachError, MethodError, RunError
from gradgate.methods.traits import MixoutSettings
from gradgate.tuner.mixout import Mixing
from support.crossed import some_fast
from support.loop import adamw, assert_same_weights, batch, build, same, step, train, weights
from support.tiny_models import TINY, VARIED
from support.trainers import trainer_of

UNITS = pytest.mark.parametrize("unit", ["neuron", "element"])


class TwoLayers(nn.Module):
    """Small enough for finite differences."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(5, 4, dtype=torch.float64)
        self.second = nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(torch.tanh(self.first(x)))
        return out


def mixed(model: nn.Module, p: float, unit: str, seed: int = 0) -> Mixing:
    mixing = Mixing(model, MixoutSettings(p, unit), {name for name, _ in model.named_parameters()}, seed)  # type: ignore[arg-type]
    mixing.attach()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    return mixing


def seen(layer: nn.Linear) -> Tensor:
    """The weight that a forward pass uses."""
    identity = torch.eye(layer.in_features, dtype=layer.weight.dtype)
    zero = torch.zeros(1, layer.in_features, dtype=layer.weight.dtype)
    return (layer(identity) - layer(zero)).T.detach()


@UNITS
@given(p=st.floats(0.05, 0.95), seed=st.integers(0, 99), number=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_each_weight_is_the_initial_one_or_the_rescaled_present_one(
    unit: str, p: float, seed: int, number: int
) -> None:
    model = TwoLayers()
    mixing = mixed(model, p, unit, seed)
    mixing.step = number
    w0, w = mixing.initial["first.weight"], model.first.weight.detach()
    used = seen(model.first)
    initial = torch.isclose(used, w0, atol=1e-9)
    present = torch.isclose(used, (w - p * w0) / (1 - p), atol=1e-9)
    assert bool((initial ^ present).all())
    if unit == "neuron":  # all that goes out from an input neuron shares its fate
        assert bool((initial == initial[0]).all())


@UNITS
def test_a_share_p_is_replaced_and_the_expectation_is_the_weight(unit: str) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(500, 50)
    mixing = mixed(layer, 0.9, unit)
    total = torch.zeros_like(layer.weight)
    shares = []
    draws = 100
    for number in range(draws):
        mixing.step = number
        used = seen(layer)
        total += used
        shares.append(float(torch.isclose(used, mixing.initial["weight"], atol=1e-5).float().mean()))
    fates = draws * (500 if unit == "neuron" else 500 * 50)
    assert abs(sum(shares) / draws - 0.9) < 4 * (0.9 * 0.1 / fates) ** 0.5
    change = (layer.weight - mixing.initial["weight"]).abs()
    error = 4.5 * (change * 3.0 / draws**0.5)  # the factor is 10 with probability 0.1: standard deviation 3
    assert float(((total / draws - layer.weight).abs() <= error + 1e-4).float().mean()) > 0.999


@UNITS
def test_the_gradient_agrees_with_finite_differences(unit: str) -> None:
    model = TwoLayers()
    mixed(model, 0.6, unit)
    x = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def loss(first: Tensor, second: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(model, {"first.weight": first, "second.weight": second}, (x,))
        return out.pow(2).sum()

    inputs = [p.detach().clone().requires_grad_() for p in (model.first.weight, model.second.weight)]
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)
    model.zero_grad()
    loss(model.first.weight, model.second.weight).backward()
    assert bool((model.first.weight.grad == 0).any())  # what is replaced has no gradient
    assert bool((model.first.weight.grad != 0).any())


@some_fast("name", sorted(TINY), VARIED)
def test_no_dropout_is_left_in_any_architecture_and_all_of_it_comes_back(name: str) -> None:
    model = build(name, dropout=True)
    data = batch(model, 0)
    torch.manual_seed(0)
    before = model(**data).loss
    with Tuner(model, adamw(model), "mixout:p=0.5"):
        torch.manual_seed(1)
        one = model(**data).loss
        torch.manual_seed(2)
        assert torch.equal(one, model(**data).loss)
    torch.manual_seed(0)
    assert torch.equal(before, model(**data).loss)


def test_dropout_can_be_kept() -> None:
    model = build("bert", dropout=True)
    with Tuner(model, adamw(model), "mixout:p=0.5,dropout=keep"):
        losses = [model(**batch(model, 0)).loss for _ in range(2)]
    assert not torch.equal(*losses)


def test_evaluation_uses_the_weights_themselves() -> None:
    model, plain = build("bert"), build("bert")
    optimizer = adamw(model)
    with Tuner(model, optimizer, "mixout"):
        train(model.train(), optimizer, 3)
        plain.load_state_dict(model.state_dict())
        data = batch(model, 5)
        assert not torch.equal(model(**data).logits, plain.train()(**data).logits)
        assert torch.equal(model.eval()(**data).logits, plain.eval()(**data).logits)


def test_initial_weights_are_neither_trained_nor_in_the_model() -> None:
    model = build("bert", dropout=True)
    names, start = set(model.state_dict()), weights(model)
    optimizer = adamw(model)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    with Tuner(model, optimizer, "mixout:p=0.5") as tuner:
        train(model, optimizer, 4)
        initial = tuner.state_dict()["tensors"]
        assert {id(tensor) for tensor in initial.values()}.isdisjoint(held)
        assert not any(tensor.requires_grad for tensor in initial.values())
        assert set(model.state_dict()) == names
        for path, tensor in initial.items():
            assert same(tensor, start[path.removeprefix("initial/")])
    linear = {f"initial/{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    assert set(initial) == linear


def test_a_tied_matrix_has_one_copy() -> None:
    model = build("gpt2")
    with Tuner(model, adamw(model), "mixout") as tuner:
        paths = set(tuner.state_dict()["tensors"])
    # The output layer is linear, so its matrix is mixed: under the one name that it shares with the embeddings.
    assert "initial/transformer.wte.weight" in paths
    assert "initial/lm_head.weight" not in paths


def test_recomputation_under_gradient_checkpointing_sees_the_same_mixture() -> None:
    plain, checkpointed = build("bert").train(), build("bert").train()
    checkpointed.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for model in (plain, checkpointed):
        optimizer = adamw(model)
        with Tuner(model, optimizer, "mixout:p=0.5"):
            train(model, optimizer, 3)
    assert_same_weights(plain, checkpointed)


def test_a_forward_pass_that_fails_leaves_the_parameter_visible() -> None:
    model = build("bert").train()
    with Tuner(model, adamw(model), "mixout"), pytest.raises(RuntimeError):
        model.classifier(torch.zeros(1, 3))
    assert "weight" not in vars(model.classifier)


def test_what_a_method_closes_is_not_mixed_and_stays() -> None:
    model = build("bert").train()
    optimizer = adamw(model)
    start = weights(model)
    with Tuner(model, optimizer, "freeze:layers=1+mixout:p=0.5") as tuner:
        train(model, optimizer, 3)
        closed = [name for group in tuner.layers if tuner.plan[group.name].closed for name in group.parameter_names]
        paths = set(tuner.state_dict()["tensors"])
    assert all(same(start[name], dict(model.named_parameters())[name]) for name in closed)
    assert closed
    assert paths


def test_resumes_in_trainer_and_refuses_without_its_tensors(tmp_path: Path) -> None:
    def trainer(model: Any) -> Any:
        return trainer_of(
            model, tmp_path, GateCallback("mixout:p=0.5"), save_strategy="steps", save_steps=4, max_steps=6
        )

    unbroken, resumed = build("bert", dropout=True), build("bert", dropout=True)
    trainer(unbroken).train()
    checkpoint = tmp_path / "checkpoint-4"
    trainer(resumed).train(resume_from_checkpoint=str(checkpoint))
    assert_same_weights(unbroken, resumed)
    (checkpoint / "gradgate.safetensors").unlink()
    with pytest.raises(RunError, match="initial weights of mixout are not those"):
        trainer(build("bert")).train(resume_from_checkpoint=str(checkpoint))
    (checkpoint / "gradgate.json").unlink()
    with pytest.raises(RunError, match="cannot resume without the weights that it began with"):
        trainer(build("bert")).train(resume_from_checkpoint=str(checkpoint))


def test_accumulated_batches_see_one_mixture() -> None:
    whole, parts = build("bert").train(), build("bert").train()
    data = batch(whole, 0)
    rows = len(data["labels"])
    for model, size in ((whole, rows), (parts, 1)):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with Tuner(model, optimizer, "mixout:p=0.5"):
            for start in range(0, rows, size):
                part = {name: value[start : start + size] for name, value in data.items()}
                (model(**part).loss * size / rows).backward()
            optimizer.step()
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_p_zero_is_training_without_dropout() -> None:
    model, plain = build("bert", dropout=True), build("bert").train()
    for module in plain.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    optimizer, other = adamw(model), adamw(plain)
    with Tuner(model, optimizer, "mixout:p=0"):
        step(model, optimizer, 0)
    step(plain, other, 0)
    for one, two in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(MethodError, match="0 <= p < 1"):
        Mixout(p=1.0)
    with pytest.raises(MethodError, match="mixes weights twice"):
        method("mixout+mixout:p=0.5")
    with pytest.raises(MethodError, match="gradual' decides that as well"):
        method("mixout+gradual")
    model = build("bert")
    model.compile()
    with pytest.raises(AttachError, match=r"compiled model .* Found a compiled Bert\w+; expected"):
        Tuner(model, adamw(model), "mixout")


def test_the_weights_of_multihead_attention_are_left_out() -> None:
    model = nn.ModuleList([nn.MultiheadAttention(8, 2), nn.Linear(8, 3)])
    assert mixed(model, 0.5, "element").names == ["1.weight"]
