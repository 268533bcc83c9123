"""Adapters in a model: what they are, where they sit, what learns, and that the base model stays what it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoModel, PreTrainedModel

import gradgate as gg
from gradgate import adapters
from support.adapter_models import EVERY_MODEL, EVERY_MODEL_AND_KIND, disturb, output, tiny
from support.loop import assert_same_weights, moved, same, weights
from support.tiny_models import WIDTH


@EVERY_MODEL_AND_KIND
def test_an_inactive_or_removed_adapter_leaves_every_bit(name: str, kind: str) -> None:
    model = tiny(name)
    before, plain = weights(model), output(model)
    flags = {key: p.requires_grad for key, p in model.named_parameters()}
    forwards = [module for module in model.modules() if "forward" in vars(module)]
    adapters.add(model, "task", kind)
    disturb(model)
    assert not torch.equal(output(model), plain)
    adapters.activate(model)
    assert torch.equal(output(model), plain)
    adapters.remove(model)
    assert torch.equal(output(model), plain)
    assert not moved(before, model)
    assert {key: p.requires_grad for key, p in model.named_parameters()} == flags
    assert list(model.state_dict()) == list(tiny(name).state_dict())
    assert [module for module in model.modules() if "forward" in vars(module)] == forwards
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert adapters.added(model) == {}


@EVERY_MODEL
def test_save_pretrained_writes_the_base_model_alone(name: str, tmp_path: Path) -> None:
    plain = tiny(name)
    plain.save_pretrained(tmp_path / "plain")
    model = tiny(name)
    adapters.add(model, "lang", "pfeiffer+inv:reduction=2")
    adapters.add(model, "task", "houlsby:size=4")
    disturb(model)
    model.save_pretrained(tmp_path / "adapted")
    one, other = (load_file(tmp_path / folder / "model.safetensors") for folder in ("plain", "adapted"))
    assert one.keys() == other.keys()
    assert all(same(one[key], other[key]) for key in one)
    assert (tmp_path / "plain/config.json").read_text() == (tmp_path / "adapted/config.json").read_text()
    again = type(model).from_pretrained(tmp_path / "adapted")
    assert_same_weights(again, plain)
    adapters.remove(model)
    assert not [key for key in model._keys_to_ignore_on_save or () if "adapters" in key or "tuned" in key]


@EVERY_MODEL_AND_KIND
def test_the_layer_map_has_each_module_in_its_layer(name: str, kind: str) -> None:
    model = tiny(name)
    before = gg.map_layers(model)
    adapters.add(model, "task", kind)
    adapters.add(model, "idle", kind, train=False)
    after = gg.map_layers(model)
    assert after.names == before.names
    layers = adapters_layers(model)
    for parameter, _ in model.named_parameters():
        if ".adapters." in parameter and "invertible" not in parameter:
            number = next(int(part) for part in parameter.split(layers)[1].split(".") if part.isdigit())
            assert after.group_of(parameter).name == f"layers.{number}"
        elif "invertible" in parameter:
            assert after.group_of(parameter).name == "embeddings"
        elif ".tuned." in parameter:
            norm = parameter.partition(".tuned.")[0] + ".weight"
            assert after.group_of(parameter).name == before.group_of(norm).name
        else:
            assert after.group_of(parameter).name == before.group_of(parameter).name


def adapters_layers(model: PreTrainedModel) -> str:
    return adapters.ARCHITECTURES[model.config.model_type].layers + "."


@EVERY_MODEL
def test_what_learns_is_the_adapter_and_the_head(name: str) -> None:
    model = tiny(name)
    inside = {id(p) for p in model.base_model.parameters()}
    embedding = model.get_output_embeddings() if name in ("bert-lm", "llama", "qwen2", "qwen3") else None
    inside |= {id(p) for p in embedding.parameters()} if embedding is not None else set()
    head = {key for key, p in model.named_parameters() if id(p) not in inside}
    adapters.add(model, "lang", "pfeiffer+inv", train=False)
    assert all(not p.requires_grad for key, p in model.named_parameters() if ".lang." in key)
    adapters.add(model, "task")
    learns = {key for key, p in model.named_parameters() if p.requires_grad}
    assert learns == head | {key for key, _ in model.named_parameters() if ".task." in key}
    adapters.train(model)
    assert all(p.requires_grad != (".lang." in key or ".task." in key) for key, p in model.named_parameters())


def test_houlsby_tunes_a_copy_of_every_layer_norm() -> None:
    model = tiny("bert")
    norms = {key for key, module in model.named_modules() if isinstance(module, nn.LayerNorm)}
    adapters.add(model, "task", "houlsby:size=4")
    tuned = {key.partition(".tuned.")[0] for key, p in model.named_parameters() if ".tuned." in key and p.requires_grad}
    assert tuned == norms
    for key in norms:
        norm: Any = model.get_submodule(key)
        assert same(norm.weight, norm.tuned["task"].weight)
        assert not norm.weight.requires_grad
    adapters.add(model, "other", "houlsby:size=4,ln_scope=encoder")
    assert "other" not in model.bert.embeddings.LayerNorm.tuned
    assert "other" in model.bert.encoder.layer[0].output.LayerNorm.tuned


def test_tuned_layer_norms_are_those_of_the_active_adapter() -> None:
    model = tiny("bert")
    adapters.add(model, "one", "houlsby:size=4,init=zero_up")
    adapters.add(model, "two", "houlsby:size=4,init=zero_up")
    plain = output(model)
    for key, parameter in model.named_parameters():
        if ".tuned.one." in key:
            parameter.data.mul_(2.0)
    assert torch.equal(output(model), plain)
    adapters.activate(model, "one")
    assert not torch.allclose(output(model), plain)


@pytest.mark.parametrize("size", [64, 128, 256])
def test_houlsby_has_the_papers_number_of_parameters(size: int) -> None:
    from transformers import BertConfig, BertModel

    with torch.device("meta"):
        model = BertModel(BertConfig(num_hidden_layers=2))
    width = 768
    config = adapters.adapter_config(f"houlsby:size={size}")
    each = 2 * width * size + width + size  # methods.md, 4.1: 2dm + d + m, twice a layer
    sizes = [adapters.AdapterConfig.width(config, layer, width) for layer in range(2)]
    assert sizes == [size, size]
    module = adapters.modules.Bottleneck(config, width, size)
    assert sum(p.numel() for p in module.parameters()) == each
    assert 24 * each / 1e6 == pytest.approx({64: 2.4, 128: 4.7, 256: 9.5}[size], abs=0.05)
    assert model.config.hidden_size == width


@EVERY_MODEL
def test_the_start_is_near_the_identity(name: str) -> None:
    model = tiny(name)
    plain = output(model)
    adapters.add(model, "near", "houlsby:size=8")
    change = (output(model) - plain).abs().max()
    assert 0 < change < 1e-2
    adapters.add(model, "exact", "houlsby:size=8,init=zero_up")
    assert torch.equal(output(model), plain)
    adapters.add(model, "parallel", "par_bn")
    assert torch.equal(output(model), plain)


def test_the_same_seed_gives_the_same_adapter_and_no_global_draw() -> None:
    def state(seed: int) -> list[Tensor]:
        model = tiny("bert")
        before = torch.get_rng_state()
        adapters.add(model, "task", "pfeiffer+inv", seed=seed)
        assert torch.equal(before, torch.get_rng_state())
        return [p.detach() for key, p in model.named_parameters() if ".task." in key]

    assert all(map(torch.equal, state(3), state(3)))
    assert not all(map(torch.equal, state(3), state(4)))


def test_an_adapter_on_the_base_model_is_an_adapter_of_the_whole(tmp_path: Path) -> None:
    model = tiny("bert")
    adapters.add(model.bert, "task", "pfeiffer:reduction=2")
    disturb(model)
    assert adapters.active(model) == ("task",)
    adapters.save(model.bert, "task", tmp_path / "task")
    bare = AutoModel.from_config(model.config)
    assert adapters.load(bare, tmp_path / "task") == "task"
    assert bare.config.hidden_size == WIDTH
