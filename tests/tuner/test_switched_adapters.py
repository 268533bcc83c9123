"""PEFT's adapters that are switched within a step, as for the reference model of DPO, stay closed where they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch

from gradgate import Tuner
from support.loop import adamw, assert_same_weights, batch, build, moved, weights

peft = pytest.importorskip("peft")

LAYERS = {"layers.0", "layers.1", "layers.2"}


def adapted(*, checkpointed: bool = False) -> Any:
    """A Llama with an adapter in each layer, and a second one, ``ref``, which is not active."""
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    torch.manual_seed(0)
    model = peft.get_peft_model(build("llama").train(), config)
    model.add_adapter("ref", config)
    if checkpointed:
        model.config.use_cache = False
        model.get_base_model().activation_checkpointing_enable()
    return model


@contextmanager
def reference(model: Any, switch: str) -> Iterator[None]:
    """Without adapters, or with the other one."""
    if switch == "off":
        with model.disable_adapter():
            yield
    elif switch == "other":
        model.set_adapter("ref")
        yield
        model.set_adapter("default")
    else:
        yield


def train(model: Any, text: str, switch: str) -> None:
    """Two batches a step: the second forward pass and the step come after a switch. Clipping sees every gradient."""
    optimizer = adamw(model)
    with Tuner(model, optimizer, text, audit=True) as tuner:
        for number in range(4):
            for part in range(2):
                inputs = batch(model, 2 * number + part)
                loss = model(**inputs).loss
                with torch.no_grad(), reference(model, switch):
                    model(**inputs)
                loss.backward()
            with_gradient = {tuner.layers.group_of(n).name for n, p in model.named_parameters() if p.grad is not None}
            assert with_gradient == {name for name in LAYERS if tuner.plan[name].open}
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            with torch.no_grad(), reference(model, switch):  # as to log a divergence
                model(**inputs)
            optimizer.step()
            optimizer.zero_grad()


CASES = list(product(("gradual:every=2", "lisa:layers=1,every=2"), ("off", "other"), (False, True)))
FAST = {("gradual:every=2", "off", False), ("lisa:layers=1,every=2", "other", True)}


@pytest.mark.parametrize(
    ("text", "switch", "checkpointed"),
    [pytest.param(*case, marks=() if case in FAST else pytest.mark.slow) for case in CASES],
)
def test_switching_adapters_within_a_step_changes_no_weight(text: str, switch: str, checkpointed: bool) -> None:
    plain, switched = adapted(checkpointed=checkpointed), adapted(checkpointed=checkpointed)
    train(plain, text, "never")
    train(switched, text, switch)
    assert_same_weights(plain, switched)


def test_only_the_open_part_of_the_adapter_that_is_trained_moves() -> None:
    model = adapted()
    before = weights(model)
    train(model, "freeze:layers=2", "other")
    assert moved(before, model) == {name for name in before if "layers.2" in name and ".default." in name}


def test_when_the_tuner_has_gone_peft_has_its_own_way() -> None:
    model = adapted()
    train(model, "freeze:layers=2", "off")
    adapter = [p for name, p in model.named_parameters() if ".default." in name]
    assert all(p.requires_grad for p in adapter)
    with model.disable_adapter():
        assert not any(p.requires_grad for p in adapter)
    assert all(p.requires_grad for p in adapter)
    assert not model._forward_pre_hooks
    assert not model._forward_hooks
