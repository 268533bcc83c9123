"""Optimizers with moments in 8 bits: closed and masked weights keep every bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from gradgate import Tuner, gates, map_layers
from gradgate.errors import AttachError
from support.loop import build, moved, same, step, weights

SEED = 7
Make = Callable[[Any], torch.optim.Optimizer]


def torchao(kind: str) -> Make:
    return lambda parameters: getattr(pytest.importorskip("torchao.optim"), kind)(parameters, lr=1e-2, weight_decay=0.1)


def bitsandbytes(kind: str) -> Make:
    def made(parameters: Any) -> torch.optim.Optimizer:
        optim = pytest.importorskip("bitsandbytes").optim
        optimizer: torch.optim.Optimizer = getattr(optim, kind)(
            parameters, lr=1e-2, weight_decay=0.1, min_8bit_size=256
        )
        return optimizer

    return made


MAKES = {
    "torchao AdamW8bit": torchao("AdamW8bit"),
    "torchao AdamW4bit": torchao("AdamW4bit"),
    "bitsandbytes AdamW8bit": bitsandbytes("AdamW8bit"),
    "bitsandbytes Lion8bit": bitsandbytes("Lion8bit"),
}
EVERY = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@pytest.fixture(autouse=True)
def without_compiler() -> Iterator[None]:
    """Torchao compiles its step, which takes a minute; what is computed is the same."""
    with torch.compiler.set_stance("force_eager") if hasattr(torch.compiler, "set_stance") else nullcontext():
        yield


def wide() -> nn.Module:
    """A model whose larger matrices have more than 4096 elements, below which moments stay in 32 bits."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=96, hidden_size=64, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, num_labels=3
    )
    model: nn.Module = BertForSequenceClassification(config).eval()
    return model


def in_eight_bits(optimizer: torch.optim.Optimizer) -> bool:
    values = [value for state in optimizer.state.values() for value in state.values()]
    return any(type(v) is not torch.Tensor and isinstance(v, torch.Tensor) for v in values) or any(
        isinstance(v, torch.Tensor) and v.dtype == torch.uint8 for v in values
    )


@EVERY
@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_closed_weights_hold(make: Make, policy: str) -> None:
    model = wide()
    optimizer = make(model.parameters())
    with Tuner(model, optimizer, f"lisa:layers=1,every=1,state={policy}", seed=SEED, audit=True):
        for number in range(5):
            before = weights(model)
            shut = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
            assert shut
            step(model, optimizer, number)
            assert not moved(before, model) & shut
    assert in_eight_bits(optimizer)


@EVERY
def test_masked_weights_hold_and_the_others_move(make: Make) -> None:
    """Masked weights get their bits back; of the moments, which share a scale in blocks, nothing is promised."""
    model = wide()
    optimizer = make(model.parameters())
    with Tuner(model, optimizer, "graddrop:p=0.4,mask_target=update", seed=SEED, audit=True):
        for number in range(3):
            before = weights(model)
            step(model, optimizer, number)
            for name in (name for group in map_layers(model).layers for name in group.parameter_names):
                now, old = model.get_parameter(name), before[name]
                key = gates.key(seed=SEED, stream="graddrop", name=name, draw=number)
                passes = gates.mask(old.numel(), lo=0.4, hi=1.0, key=key).view(old.shape)
                assert same(now[~passes], old[~passes]), name
                assert now.dim() < 2 or not same(now[passes], old[passes]), name
    assert in_eight_bits(optimizer)


@EVERY
def test_learning_rates_by_layer_leave_the_groups_whole(make: Make) -> None:
    model = wide()
    optimizer = make(model.parameters())
    groups = [*optimizer.param_groups]
    with Tuner(model, optimizer, "gradual:every=2+layerwise-lr:decay=0.8", audit=True) as tuner:
        for number in range(3):
            step(model, optimizer, number)
        assert tuner.clock.step == 3
    assert optimizer.param_groups == groups


@EVERY
def test_a_state_of_zeros_is_refused(make: Make) -> None:
    model = build("bert")
    with pytest.raises(AttachError, match=r"not how \w+ starts. Use state=drop or state=keep"):
        Tuner(model, make(model.parameters()), "lisa:layers=1,state=reset")
