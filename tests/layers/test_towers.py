"""Models of several towers: vision, audio and text models, projectors, encoder and decoder."""

from __future__ import annotations

import pytest
import torch
from transformers import MllamaConfig, MllamaForConditionalGeneration

from gradgate.clock import Clock
from gradgate.errors import MethodError
from gradgate.layers import LayerMap, map_layers, named_parameters
from gradgate.methods import method
from gradgate.methods.traits import MethodState
from support.placing import Closed, places
from support.tiny_models import TINY
from support.tiny_towers import TOWERS

EXPECTED = {
    "qwen2-vl": ["vision"] * 2 + ["projector"] + ["text"] * 2,
    "llava": ["vision"] * 2 + ["projector"] + ["text"] * 2,
    "blip-2": ["vision"] * 2 + ["projector"] * 2 + ["text"] * 2,
    "whisper": ["encoder"] * 2 + ["decoder"] * 2,
    "clip": ["vision"] * 2 + ["text"] * 2,
}


@pytest.mark.parametrize("name", list(TOWERS))
def test_each_layer_is_in_its_tower(name: str) -> None:
    model = TOWERS[name]()
    found = map_layers(model)
    assert [group.tower for group in found.layers] == EXPECTED[name]
    assert found.names == ("embeddings", *(f"layers.{i}" for i in range(found.layer_count)), "head")
    placed = [parameter for group in found for parameter in group.parameter_names]
    assert sorted(placed) == sorted(named_parameters(model))
    assert {tower: len(groups) for tower, groups in found.towers.items()} == {
        tower: EXPECTED[name].count(tower) for tower in EXPECTED[name]
    }
    assert not any("Not used" in note or "Did not run" in note for note in found.notes)


@pytest.mark.parametrize("name", ["t5", "bart-lm"])
def test_encoder_and_decoder_are_towers_and_their_embeddings_belong_to_neither(name: str) -> None:
    found = map_layers(TINY[name]())
    assert list(found.towers) == ["encoder", "decoder"]
    assert {group.tower for group in found if group not in found.layers} == {""}


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "wav2vec2", "albert"])
def test_a_model_of_one_stack_has_no_towers(name: str) -> None:
    found = map_layers(TINY[name]())
    assert found.towers == {}
    assert {group.tower for group in found} == {""}


def test_the_inputs_of_a_vision_tower_are_in_its_lowest_layer_and_tokens_in_the_embeddings() -> None:
    found = map_layers(TOWERS["qwen2-vl"]())
    parts = ("model.visual.patch_embed.", "model.visual.merger.", "model.language_model.embed_tokens.", "lm_head.")
    assert places(found, *parts) == [{"layers.0"}, {"layers.2"}, {"embeddings"}, {"head"}]
    assert found["embeddings"].tower == "text"


def test_a_projector_outside_of_the_tower_leaves_the_norm_in_the_tower() -> None:
    found = map_layers(TOWERS["llava"]())
    parts = ("model.vision_tower.post_layernorm.", "model.multi_modal_projector.")
    assert places(found, *parts) == [{"layers.1"}, {"layers.2"}]


def test_queries_belong_to_the_projector_that_reads_them() -> None:
    found = map_layers(TOWERS["blip-2"]())
    assert places(found, "query_tokens", "qformer.layernorm.", "language_projection.") == [
        {"layers.2"},
        {"layers.2"},
        {"layers.3"},
    ]


def test_a_vision_tower_that_did_not_run_is_a_stack_of_its_own() -> None:
    ids = torch.tensor([[1, 2, 3]])
    found = map_layers(TOWERS["llava"](), example={"input_ids": ids, "attention_mask": torch.ones_like(ids)})
    assert [group.tower for group in found.layers] == ["vision"] * 2 + ["projector"] + ["text"] * 2
    assert places(found, "model.vision_tower.embeddings.", "model.language_model.layers.1.") == [
        {"layers.0"},
        {"layers.4"},
    ]
    assert any("Did not run" in note and "layers.0, layers.1, layers.2" in note for note in found.notes)


def test_stacks_named_by_hand_are_told_apart_by_their_names() -> None:
    found = map_layers(Closed(), layers="encoder.block,decoder.block")
    assert [group.tower for group in found.layers] == ["encoder"] * 3 + ["decoder"] * 2


def test_the_tree_shows_the_towers() -> None:
    lines = str(map_layers(TOWERS["llava"]())).splitlines()
    assert lines[1].startswith("├─ embeddings  text       ")
    assert lines[2].startswith("├─ layers.0    vision     ")
    assert lines[4].startswith("├─ layers.2    projector  ")
    assert lines[7].startswith("└─ head                   ")


# Methods


@pytest.fixture(scope="module")
def llava() -> LayerMap:
    return map_layers(TOWERS["llava"]())


def opened(text: str, layers: LayerMap, step: int = 0) -> set[str]:
    chosen = method(text)
    chosen.check(layers)
    plan = chosen.checked_plan(Clock(step, 10, 100), layers, MethodState())
    return {name for name, gate in plan.items() if not gate.closed}


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("freeze:layers=1,tower=vision", {"layers.0"}),
        ("freeze:layers=all,tower=vision", {"layers.0", "layers.1"}),
        ("freeze:layers=all,tower=projector", {"layers.2"}),
        ("freeze:layers=0,tower=text", {"embeddings"}),
        ("freeze:layers=1,tower=text", {"embeddings", "layers.3"}),
        ("freeze:layers=all", {"embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4"}),
        ("gradual:every=5,tower=vision", {"layers.0"}),
        ("gradual:every=5,tower=text", {"embeddings", "layers.3"}),
        ("gradual:every=5,tower=text,order=bottom-up,rev_start=none", {"layers.4"}),
    ],
)
def test_a_tower_closes_alone(llava: LayerMap, text: str, closed: set[str]) -> None:
    assert opened(text, llava) == set(llava.names) - closed


def test_a_tower_opens_along_its_own_depth(llava: LayerMap) -> None:
    assert opened("gradual:every=5,tower=vision", llava, step=4) == set(llava.names)
    assert opened("gradual:every=5,tower=text", llava, step=4) == set(llava.names)


def test_rates_fall_along_one_tower(llava: LayerMap) -> None:
    plan = method("layerwise-lr:decay=0.5,tower=text").plan(Clock(0, 10, 100), llava, MethodState())
    assert {name: gate.lr for name, gate in plan.items()} == {
        "embeddings": 0.125,
        "layers.0": 1.0,
        "layers.1": 1.0,
        "layers.2": 1.0,
        "layers.3": 0.25,
        "layers.4": 0.5,
        "head": 1.0,
    }


@pytest.mark.parametrize("text", ["freeze:layers=1,tower={}", "gradual:tower={}", "layerwise-lr:tower={}"])
def test_a_tower_that_the_model_lacks_is_an_error_that_names_those_there_are(llava: LayerMap, text: str) -> None:
    with pytest.raises(MethodError, match=r"no tower 'audio'.*Its towers are vision, projector, text\."):
        method(text.format("audio")).check(llava)
    with pytest.raises(MethodError, match=r"It has one stack; leave tower= out"):
        method(text.format("vision")).check(map_layers(TINY["bert"]()))
    with pytest.raises(MethodError, match=r"no tower 'visual'\. Did you mean 'vision'"):
        method(text.format("visual")).check(llava)


def test_more_closed_layers_than_a_tower_has_is_an_error(llava: LayerMap) -> None:
    with pytest.raises(MethodError, match=r"asks for 3 closed layers, but the tower has 2\. Use 0 to 2"):
        method("freeze:layers=3,tower=vision").check(llava)


def test_what_runs_before_two_stacks_of_a_vision_model_is_in_its_lowest_layer() -> None:
    vision = {
        "num_hidden_layers": 3,
        "num_global_layers": 2,
        "attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
        "vision_output_dim": 64,
        "intermediate_layers_indices": [1],
        "max_num_tiles": 2,
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
    }
    text = {"num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "cross_attention_layers": [1]}
    text |= {"vocab_size": 96, "pad_token_id": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    sizes = {"hidden_size": 32, "intermediate_size": 32}
    config = MllamaConfig(vision_config={**vision, **sizes}, text_config={**text, **sizes}, image_token_index=96)
    found = map_layers(MllamaForConditionalGeneration(config))
    assert places(found, "model.vision_model.patch_embedding.", "model.vision_model.layernorm_pre.") == [
        {"layers.0"},
        {"layers.0"},
    ]
    assert found["layers.0"].tower == "vision"
    assert {name.split(".")[1] for name in found["embeddings"].parameter_names} == {"language_model"}
