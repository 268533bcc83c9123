"""Layers split into parts by what runs inside them, and into the modules of these parts."""

from __future__ import annotations

import pytest
from torch import nn
from transformers import (
    DebertaConfig,
    DebertaForSequenceClassification,
    FalconConfig,
    FalconForCausalLM,
    Mamba2Config,
    Mamba2ForCausalLM,
)

from gradgate import map_layers
from gradgate.errors import LayerMapError
from gradgate.layers import LayerMap
from support.crossed import some_fast
from support.tiny_models import TINY, VARIED

EVERY_TINY = some_fast("name", list(TINY), VARIED)


def of_layer(layers: LayerMap, number: int) -> list[str]:
    """The ends of the names of a layer's units."""
    layer = f"layers.{number}"
    return [group.name.removeprefix(f"{layer}.") for group in layers if group.layer == layer]


@EVERY_TINY
def test_each_parameter_is_in_one_unit(name: str) -> None:
    whole = map_layers(TINY[name]())
    for unit in ("part", "module"):
        split = whole.at(unit)
        names = [parameter for group in split for parameter in group.parameter_names]
        assert sorted(names) == sorted(whole.weights)
        assert len(set(split.names)) == len(split.names)
        assert {group.layer for group in split} == set(whole.names)
        assert split.parameter_count == whole.parameter_count
        assert split.at("layer") == whole
        assert [group.depth for group in split] == sorted(group.depth for group in split)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("bert", {"attention", "norm", "mlp"}),
        ("distilbert", {"attention", "norm", "mlp"}),
        ("deberta-v2", {"attention", "norm", "mlp", "other"}),  # a convolution after the first layer
        ("albert", {"attention", "norm", "mlp"}),
        ("gpt2", {"attention", "norm", "mlp"}),
        ("qwen3", {"attention", "norm", "mlp"}),
        ("mixtral", {"attention", "norm", "experts", "router"}),
        ("t5", {"attention", "norm", "mlp"}),
        ("bart", {"attention", "norm", "mlp"}),
        ("vit", {"attention", "norm", "mlp"}),
    ],
)
def test_parts_are_what_runs_in_a_layer(name: str, parts: set[str]) -> None:
    split = map_layers(TINY[name](), unit="part")
    assert {end for number in range(split.at("layer").layer_count) for end in of_layer(split, number)} == parts


def test_modules_have_short_names_that_tell_them_apart() -> None:
    assert of_layer(map_layers(TINY["llama"](), unit="module"), 1) == [
        "attention.q_proj",
        "attention.k_proj",
        "attention.v_proj",
        "attention.o_proj",
        "mlp.gate_proj",
        "mlp.up_proj",
        "mlp.down_proj",
        "norm.input_layernorm",
        "norm.post_attention_layernorm",
    ]
    assert set(of_layer(map_layers(TINY["bert"](), unit="module"), 0)) == {
        "attention.query",
        "attention.key",
        "attention.value",
        "attention.dense",
        "norm.attention.output.LayerNorm",
        "mlp.intermediate.dense",
        "mlp.output.dense",
        "norm.output.LayerNorm",
    }


def test_norms_inside_attention_are_norms() -> None:
    layers = map_layers(TINY["qwen3"]())
    assert layers.weights["model.layers.0.self_attn.q_norm.weight"].part == "norm"
    assert layers.weights["model.layers.0.self_attn.q_proj.weight"].part == "attention"


def test_attention_of_torch_is_attention() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Embedding(11, 8), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    parts = {name.split(".")[3]: weight.part for name, weight in map_layers(model).weights.items() if name[:2] == "1."}
    norms, linear = dict.fromkeys(("norm1", "norm2"), "norm"), dict.fromkeys(("linear1", "linear2"), "mlp")
    assert parts == {"self_attn": "attention", **linear, **norms}


def test_what_peft_adds_is_an_adapter() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(TINY["llama"](), peft.LoraConfig(target_modules=["q_proj", "down_proj"]))
    layers = map_layers(model)
    assert {name.split(".")[-3] for name, weight in layers.weights.items() if weight.part == "adapter"} == {
        "lora_A",
        "lora_B",
    }


def test_tables_of_tokens_are_known_by_their_rows() -> None:
    weights = map_layers(TINY["llama"]()).weights
    assert [name for name, weight in weights.items() if weight.rows] == ["model.embed_tokens.weight", "lm_head.weight"]


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(LayerMapError, match=r"unit='head' is not a unit\. Expected one of layer, part, module"):
        map_layers(TINY["bert"](), unit="head")  # type: ignore[arg-type]


SMALL = {"vocab_size": 64, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "pad_token_id": 0}


def parts_in_layers(model: nn.Module) -> dict[str, set[str]]:
    """The part of each module with weights in the layers, by the end of its name."""
    found: dict[str, set[str]] = {}
    for name, weight in map_layers(model).weights.items():
        if weight.part:
            found.setdefault(name.split(".")[-2], set()).add(weight.part)
    return found


def test_a_state_space_with_a_gated_norm_is_attention() -> None:
    config = Mamba2Config(
        vocab_size=64, hidden_size=16, num_hidden_layers=2, num_heads=4, head_dim=8, state_size=8, n_groups=2
    )
    found = parts_in_layers(Mamba2ForCausalLM(config))
    assert {found[name].pop() for name in ("in_proj", "conv1d", "out_proj", "mixer")} == {"attention"}
    assert found["norm"] == {"norm"}


def test_norms_that_divide_by_a_root_are_norms() -> None:
    config = DebertaConfig(**SMALL, num_hidden_layers=2, max_position_embeddings=32, relative_attention=True)
    assert parts_in_layers(DebertaForSequenceClassification(config))["LayerNorm"] == {"norm"}


def test_a_product_with_a_transposed_weight_is_a_projection() -> None:
    found = parts_in_layers(FalconForCausalLM(FalconConfig(**SMALL, num_hidden_layers=2)))
    assert found["dense_h_to_4h"] == found["dense_4h_to_h"] == {"mlp"}
    assert found["query_key_value"] == found["dense"] == {"attention"}
