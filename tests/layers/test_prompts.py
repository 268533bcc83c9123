"""PEFT's prompts: new weights before the layers, which learn with the head under every schedule."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradgate as gg
from gradgate.activation_cache.frozen_prefix import closed_prefix, layer_modules
from gradgate.clock import Clock
from gradgate.layers import map_layers
from gradgate.methods.traits import MethodState
from support.tiny_models import TINY, tiny_batch

peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning", "ignore:.*in which nothing can learn")

KINDS = {"prompt": "PromptTuningConfig", "prefix": "PrefixTuningConfig", "p-tuning": "PromptEncoderConfig"}


def prompted(kind: str, base: str = "gpt2") -> Any:
    task = "CAUSAL_LM" if base == "gpt2" else "SEQ_CLS"
    model = TINY[base]()
    return peft.get_peft_model(model, getattr(peft, KINDS[kind])(task_type=task, num_virtual_tokens=3)).train()


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_prompt_is_in_the_head(kind: str) -> None:
    model = prompted(kind)
    found = map_layers(model)
    prompts = {name for name, p in model.named_parameters() if p.requires_grad}
    assert prompts == found.prompts <= set(found["head"].parameter_names)
    assert found.names == ("embeddings", "layers.0", "layers.1", "layers.2", "head")
    assert any(note.startswith("A prompt that learns with the head: prompt_encoder.default.") for note in found.notes)


@pytest.mark.parametrize("base", ["gpt2", "bert"])
@pytest.mark.parametrize("method", ["gradual:every=5", "head", "freeze:layers=all", "lpft:every=5", "full"])
def test_a_prompt_learns_from_the_start(method: str, base: str) -> None:
    model = prompted("prompt", base)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    before = {name: p.detach().clone() for name, p in model.named_parameters() if p.requires_grad}
    with gg.Tuner(model, optimizer, method, total_steps=20):
        model(**tiny_batch(model.get_base_model())).loss.backward()
        optimizer.step()
    assert not any(torch.equal(p, before[name]) for name, p in model.named_parameters() if name in before)


def test_nothing_is_cached_below_a_prompt() -> None:
    found = map_layers(model := prompted("prompt"))
    assert layer_modules(model, found) == []
    assert closed_prefix(gg.method("head").plan(Clock(0), found, MethodState()), found) == ()
