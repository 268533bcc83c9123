"""Models with adapters as others are run: gradients, generation, copies, compiled, bfloat16, checkpointed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import dispatch_model
from accelerate.hooks import ModelHook, add_hook_to_module, remove_hook_from_module
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


class Noting(ModelHook):  # type: ignore[misc]
    def __init__(self) -> None:
        self.calls = 0

    def pre_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return args, kwargs


def test_hooks_of_accelerate_run_with_adapters_and_stay_without_them() -> None:
    model, noting = dispatch_model(tiny("bert"), {"": "cpu"}, force_hooks=True), Noting()
    for module in (model.bert.encoder.layer[0].output, model.bert.encoder.layer[0].output.LayerNorm):
        add_hook_to_module(module, noting, append=True)

    def hooked() -> list[Any]:
        return [vars(module).get(name) for module in model.modules() for name in ("forward", "_old_forward")]

    plain, before = output(model), hooked()
    adapters.add(model, "task", "houlsby:size=4")
    disturb(model)
    noting.calls = 0
    assert not torch.equal(output(model), plain)
    adapters.activate(model)
    assert torch.equal(output(model), plain)
    assert noting.calls == 4
    adapters.remove(model)
    assert torch.equal(output(model), plain)
    assert hooked() == before
    adapters.add(model, "task", "houlsby:size=4")
    remove_hook_from_module(model, recurse=True)
    adapters.remove(model)
    assert torch.equal(output(model), plain)


def test_an_adapter_of_an_offloaded_layer_is_where_it_computes(tmp_path: Path) -> None:
    whole = tiny("bert")
    adapters.add(whole, "task", "pfeiffer+inv:reduction=2")
    disturb(whole)
    adapters.save(whole, "task", tmp_path / "task")
    places = {"bert": "disk", "classifier": "cpu"}
    model = dispatch_model(tiny("bert"), places, main_device="cpu", offload_dir=tmp_path / "w", force_hooks=True)
    adapters.activate(model, adapters.load(model, tmp_path / "task", head=False))
    assert torch.equal(output(model), output(whole))


def test_an_adapter_lies_on_the_device_of_its_layer() -> None:
    model: Any = tiny("bert")
    model.bert.encoder.layer[1].to("meta")  # as on another device
    adapters.add(model, "task", "houlsby:size=4")
    devices = [{p.device.type for p in layer.parameters()} for layer in model.bert.encoder.layer]
    assert devices == [{"cpu"}, {"meta"}, {"cpu"}]
