"""Models with adapters as others are run: gradients, generation, copies, compiled, bfloat16, checkpointed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradgate import adapters
from support.adapter_models import DISTINCT, disturb, output, tiny
from support.crossed import each_once, some_fast
from support.tiny_models import BARE, TINY, tiny_batch


@each_once("name", ["bert", "distilbert", "llama"], "kind", DISTINCT)
def test_gradients_agree_with_finite_differences(name: str, kind: str) -> None:
    model = tiny(name).double()
    adapters.add(model, "task", f"{kind}:size=2,non_linearity=tanh")
    disturb(model)
    batch = tiny_batch(model, size=1)
    parts = [p for key, p in model.named_parameters() if ".task." in key][::7][:5]

    def loss(*_: Tensor) -> Tensor:
        found: Tensor = model(**batch).loss
        return found

    precision = (
        {"eps": 1e-3, "atol": 1e-3, "rtol": 1e-2} if name == "llama" else {"atol": 1e-6}
    )  # its norms are float32
    assert torch.autograd.gradcheck(loss, tuple(parts), fast_mode=True, **precision)


def test_a_decoder_generates_with_its_cache_what_it_gives_without() -> None:
    model = tiny("llama")
    adapters.add(model, "task", "double_seq_bn_inv:reduction=2")
    disturb(model)
    ids = torch.arange(4, 9).unsqueeze(0)
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    cached, plain = (model.generate(ids, use_cache=cache, **options) for cache in (True, False))
    adapters.activate(model)
    assert torch.equal(cached, plain)
    assert not torch.equal(cached, model.generate(ids, **options))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copied_model_has_adapters_of_its_own(clone: Callable[[Any], Any]) -> None:
    model = tiny("bert-lm")
    adapters.add(model, "task", "pfeiffer+inv:reduction=2")
    disturb(model)
    adapted = output(model)
    other = clone(model)
    assert torch.equal(output(other), adapted)
    adapters.activate(model)
    assert torch.equal(output(other), adapted)
    adapters.remove(other)
    assert torch.equal(output(other), output(model))
    adapters.activate(model, "task")
    assert torch.equal(output(model), adapted)


@pytest.mark.slow  # test_a_compiled_layer_is_one_graph compiles the layers that have the adapters
def test_a_compiled_model_runs() -> None:
    model = tiny("bert")
    adapters.add(model, "task", "houlsby:size=4")
    disturb(model)
    eager = output(model)
    compiled: Any = torch.compile(model, backend="eager")
    assert torch.allclose(output(compiled), eager, atol=1e-6)
    adapters.activate(compiled)
    assert not torch.allclose(output(compiled), eager, atol=1e-3)
    trained = TINY["bert"]()
    adapters.add(trained, "task", "pfeiffer:reduction=2")
    gradients = []
    for forward in (trained, torch.compile(trained, backend="aot_eager")):
        trained.zero_grad()
        forward(**tiny_batch(trained.eval())).loss.backward()
        gradients.append({key: p.grad for key, p in trained.named_parameters() if p.requires_grad})
    assert all(torch.allclose(gradients[0][key], grad, atol=1e-6) for key, grad in gradients[1].items())
    torch._dynamo.reset()


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_bfloat16_runs(name: str) -> None:
    half = tiny(name).bfloat16()
    adapters.add(half, "task", "pfeiffer+inv")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    half(**tiny_batch(half)).loss.backward()


@some_fast("name", ["bert", "distilbert", "llama", "deberta-v2", "mpnet"], ["bert", "llama"])
def test_a_compiled_layer_is_one_graph(name: str) -> None:
    model = BARE[name]().eval()
    adapters.add(model, "task", "double_seq_bn_inv:reduction=2")
    disturb(model)
    layer = model.base_model.get_submodule(adapters.ARCHITECTURES[model.config.model_type].layers)[0]
    seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    hook = layer.register_forward_pre_hook(lambda _, args, kwargs: seen.append((args, kwargs)), with_kwargs=True)
    output(model)
    hook.remove()
    (args, kwargs), *_ = seen
    with torch.no_grad():
        expected = layer(*args, **kwargs)
        got = torch.compile(layer, backend="eager", fullgraph=True)(*args, **kwargs)
    torch._dynamo.reset()
    first = [out[0] if isinstance(out, tuple) else out for out in (got, expected)]
    assert torch.allclose(*first, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "llama", "deberta-v2"])
def test_activation_checkpointing_gives_the_same_gradients(name: str) -> None:
    gradients = []
    for checkpointing in (False, True):
        model = TINY[name]().train()
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        if checkpointing:
            if not model.supports_gradient_checkpointing:
                pytest.skip(f"{name} has no activation checkpointing")
            model.activation_checkpointing_enable({"use_reentrant": False})
        adapters.add(model, "task", "houlsby:size=4")
        model(**tiny_batch(model)).loss.backward()
        gradients.append({key: p.grad for key, p in model.named_parameters() if p.requires_grad})
    assert all(torch.allclose(gradients[0][key], grad, atol=1e-7) for key, grad in gradients[1].items())
