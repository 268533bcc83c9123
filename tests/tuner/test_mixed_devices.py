"""Models whose parameters lie on several devices, or that a device map offloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from accelerate import dispatch_model
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import gradgate as gg
from gradgate.errors import AttachError, LayerMapError
from support.crossed import some_fast
from support.loop import adamw, build

OFFLOADED = {
    "embeddings": {"bert.embeddings": "disk", "bert.encoder": "cpu", "bert.pooler": "cpu", "classifier": "cpu"},
    "encoder": {"bert": "disk", "classifier": "cpu"},
}
METHODS = (
    "full", "gradual:every=1", "graddrop:p=0.2", "layer-graddrop:p=0.5", "lisa:layers=1,every=1", "mixout:p=0.5",
    "layerwise-lr", "blocks:every=1",
)  # fmt: skip


def offloaded(model: nn.Module, places: dict[str, str], folder: Path) -> nn.Module:
    dispatched: nn.Module = dispatch_model(model, places, main_device="cpu", offload_dir=folder, force_hooks=True)
    return dispatched


@pytest.mark.parametrize("places", OFFLOADED.values(), ids=OFFLOADED)
@pytest.mark.parametrize("method", ["full", "head", "gradual:every=2", "fun"])
def test_an_offloaded_model_is_not_trained(method: str, places: dict[str, str], tmp_path: Path) -> None:
    model = offloaded(build("bert"), places, tmp_path)
    with pytest.raises(AttachError, match=r"bert\.embeddings\..* not in memory .* device_map .* Load the model whole"):
        gg.Tuner(model, adamw(model), method, total_steps=4)


def test_an_adapter_on_an_offloaded_layer_is_not_trained(tmp_path: Path) -> None:
    places = {"model.layers.0": "disk", "model.layers.1": "cpu", "model.embed_tokens": "cpu"}
    model: Any = build("llama")
    rest = {name: "cpu" for name, _ in model.named_children() if name != "model"} | {
        f"model.{name}": "cpu" for name, _ in model.model.named_children() if name not in ("layers", "embed_tokens")
    }
    layers = {f"model.layers.{at}": "cpu" for at in range(len(model.model.layers))}
    model = offloaded(model, layers | rest | places, tmp_path)
    adapted: Any = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=["q_proj"]))
    with pytest.raises(AttachError, match=r"layers\.0\..* nor can an adapter on it"):
        gg.Tuner(adapted, adamw(adapted), "full", total_steps=4)


@pytest.mark.parametrize("unit", ["layer", "part"])
def test_an_offloaded_model_has_no_map(unit: Any, tmp_path: Path) -> None:
    model = offloaded(build("bert"), OFFLOADED["embeddings"], tmp_path)
    with pytest.raises(LayerMapError, match=r"bert\.embeddings\..* map a model without weights"):
        gg.map_layers(model, unit=unit)


def test_a_model_without_weights_is_mapped_and_not_trained() -> None:
    whole = build("bert")
    model = build("bert").to("meta")
    assert gg.map_layers(model).groups == gg.map_layers(whole).groups
    with pytest.raises(AttachError, match=r"without values \(device 'meta'\)"):
        gg.Tuner(model, adamw(model), "full", total_steps=4)


def over_two_devices(model: nn.Module) -> None:
    """Put the upper half of a model on a second device; the tensors have devices, but no values."""
    upper = ("bert.encoder.layer.1", "bert.pooler", "classifier")
    for path, module in model.named_modules():
        device = "cuda:1" if path.startswith(upper) else "cuda:0"
        for name, tensor in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(torch.empty(tensor.shape, device=device)))


@some_fast("method", METHODS, ["gradual:every=1", "graddrop:p=0.2", "lisa:layers=1,every=1", "mixout:p=0.5"])
def test_no_operation_of_a_step_takes_tensors_of_two_devices(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradgate.tuner.checks.all_finite", lambda gradient: True)  # this and audits read values
    model = build("bert")
    with FakeTensorMode(allow_non_fake_inputs=True):
        over_two_devices(model)
        optimizer = adamw(model)
        known: dict[str, Any] = {"total_steps": 4, "steps_per_epoch": 2, "layers": "bert.encoder.layer", "audit": False}
        with gg.Tuner(model, optimizer, method, **known) as tuner:
            for _ in range(3):
                for parameter in model.parameters():
                    parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
                optimizer.step()
    assert tuner.clock.step == 3
    assert {str(parameter.device) for parameter in model.parameters()} == {"cuda:0", "cuda:1"}
