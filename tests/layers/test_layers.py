"""Layer maps: where each parameter of each architecture goes."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import transformers as hf
from torch import nn

from gradgate.errors import LayerMapError
from gradgate.layers import map_layers, named_parameters
from support.crossed import some_fast
from support.placing import depth_names, places
from support.tiny_models import BARE, LAYERS, TINY, VARIED, tiny, tiny_batch

ALL = [pytest.param(build, id=name) for name, build in TINY.items()] + [
    pytest.param(build, id=f"{name}-bare", marks=() if name in VARIED else pytest.mark.slow)
    for name, build in BARE.items()
]


@cache
def mapped(build):
    """A model and its map. Tests leave both as they are."""
    model = build()
    return model, map_layers(model)


TWO_TOWERS = {"t5": 2 * LAYERS, "bart": LAYERS + 2}


# Every architecture


@pytest.mark.parametrize("build", ALL)
def test_every_parameter_is_in_exactly_one_group(build):
    model, layer_map = mapped(build)
    placed = [name for group in layer_map for name in group.parameter_names]
    parameters = named_parameters(model)
    assert sorted(placed) == sorted(parameters)
    assert layer_map.parameter_count == sum(p.numel() for p in model.parameters())
    for group in layer_map:
        assert group.parameter_count == sum(parameters[name].numel() for name in group.parameter_names) > 0
        assert all(layer_map.group_of(name) is group for name in group.parameter_names)


@pytest.mark.parametrize("build", ALL)
def test_depths_rise_from_embeddings_over_layers_to_head(build, request):
    _, layer_map = mapped(build)
    name = request.node.callspec.id.split("-")[0]
    count = 1 if name == "albert" else TWO_TOWERS.get(name, LAYERS)
    assert tuple(group.name for group in layer_map.layers) == depth_names(count)
    assert layer_map.layer_count == count
    expected = {"embeddings": 0, "head": count + 1} | {f"layers.{i}": i + 1 for i in range(count)}
    assert [(g.name, g.depth) for g in layer_map] == [(g, expected[g]) for g in layer_map.names]
    assert [g.depth for g in layer_map] == sorted(g.depth for g in layer_map)


@some_fast("name", list(TINY), VARIED)
def test_tiny_batches_train_the_tiny_models(name):
    model = TINY[name]().train()
    model(**tiny_batch(model)).loss.backward()
    layer_map = map_layers(model)
    for group in layer_map:
        assert any(p.grad is not None for n, p in named_parameters(model).items() if n in group.parameter_names)


# Where things go


def test_bert_pooler_and_classifier_are_head():
    layer_map = map_layers(TINY["bert"]())
    assert places(layer_map, "bert.embeddings.", "bert.encoder.layer.1.", "bert.pooler.", "classifier.") == [
        {"embeddings"},
        {"layers.1"},
        {"head"},
        {"head"},
    ]
    assert layer_map["layers.2"].stack == "bert.encoder.layer"
    assert layer_map.ties == ()
    assert layer_map.notes == ()


def test_gpt2_final_norm_is_head_and_the_tied_output_stays_with_the_embeddings():
    layer_map = map_layers(TINY["gpt2"]())
    assert layer_map["head"].parameter_names == ("transformer.ln_f.weight", "transformer.ln_f.bias")
    assert layer_map.ties == (("transformer.wte.weight", "lm_head.weight"),)
    assert layer_map.group_of("lm_head.weight").name == "embeddings"


def test_an_untied_output_layer_is_head():
    assert map_layers(TINY["llama"]())["head"].parameter_names == ("model.norm.weight", "lm_head.weight")


def test_deberta_convolution_is_in_the_lowest_layer_and_relative_positions_are_embeddings():
    layer_map = map_layers(TINY["deberta-v2"]())
    inside = ("deberta.encoder.conv.", "deberta.encoder.rel_embeddings.", "deberta.encoder.LayerNorm.", "pooler.")
    assert places(layer_map, *inside) == [{"layers.0"}, {"embeddings"}, {"embeddings"}, {"head"}]


def test_t5_has_encoder_layers_then_decoder_layers():
    layer_map = map_layers(TINY["t5"]())
    assert [g.stack for g in layer_map.layers] == ["encoder.block"] * 3 + ["decoder.block"] * 3
    bias = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    assert places(layer_map, f"encoder.{bias}", f"decoder.{bias}") == [{"layers.0"}, {"layers.3"}]
    assert places(layer_map, "encoder.final_layer_norm", "decoder.final_layer_norm") == [{"layers.2"}, {"head"}]
    assert layer_map["embeddings"].parameter_names == ("shared.weight",)
    assert layer_map.ties[0][:3] == ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    assert any(
        "encoder.block is layers.0 to layers.2; decoder.block is layers.3 to layers.5" in n for n in layer_map.notes
    )


def test_bart_decoder_positions_are_embeddings():
    layer_map = map_layers(TINY["bart"]())
    assert [g.stack for g in layer_map.layers] == ["model.encoder.layers"] * 3 + ["model.decoder.layers"] * 2
    inputs = ("model.decoder.embed_positions.", "model.decoder.layernorm_embedding.")
    assert places(layer_map, *inputs) == [{"embeddings"}, {"embeddings"}]
    assert any("Inputs of a later stack" in note and "decoder.embed_positions" in note for note in layer_map.notes)


def test_albert_is_one_layer_with_its_uses_counted():
    layer_map = map_layers(TINY["albert"]())
    assert layer_map.names == ("embeddings", "layers.0", "head")
    assert layer_map.shared_layers
    assert layer_map["layers.0"].uses == LAYERS
    assert any("runs 3 times" in note for note in layer_map.notes)
    assert not map_layers(TINY["bert"]()).shared_layers


def test_wav2vec2_convolutions_are_no_layers_and_the_unused_mask_vector_is_noted():
    config = TINY["wav2vec2"]().config
    config.mask_time_prob = 0.05
    layer_map = map_layers(hf.Wav2Vec2ForSequenceClassification(config))
    paths = ("wav2vec2.feature_extractor.", "wav2vec2.encoder.pos_conv_embed.", "wav2vec2.masked_spec_embed")
    assert places(layer_map, *paths) == [{"embeddings"}, {"embeddings"}, {"embeddings"}]
    assert layer_map.layers[0].stack == "wav2vec2.encoder.layers"
    assert any("Not used" in note and "masked_spec_embed" in note for note in layer_map.notes)


def test_experts_belong_to_their_layer():
    layer_map = map_layers(TINY["mixtral"]())
    assert places(layer_map, "model.layers.1.mlp.experts.", "model.layers.2.mlp.gate.") == [{"layers.1"}, {"layers.2"}]


def test_a_list_of_lists_is_flattened():
    build = tiny(
        "FunnelConfig", "FunnelBaseModel", vocab_size=50, d_model=16, n_head=2, d_head=8, d_inner=32, block_sizes=[2, 1]
    )
    layer_map = map_layers(build())
    assert places(layer_map, "encoder.blocks.0.1.", "encoder.blocks.1.0.") == [{"layers.1"}, {"layers.2"}]
    assert layer_map.names == ("embeddings", *depth_names(3))


def test_lists_that_run_in_turns_make_one_stack():
    build = tiny("XLMConfig", "XLMModel", vocab_size=50, emb_dim=16, n_heads=2, n_layers=3, pad_index=0)
    layer_map = map_layers(build())
    for i in range(3):
        parts = [f"{part}.{i}." for part in ("attentions", "layer_norm1", "ffns", "layer_norm2")]
        assert places(layer_map, *parts) == [{f"layers.{i}"}] * 4
    assert layer_map.names == ("embeddings", *depth_names(3))


def test_a_single_layer_is_found():
    build = tiny(
        "T5Config",
        "T5Model",
        vocab_size=50,
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=2,
    )
    assert [g.stack for g in map_layers(build()).layers] == ["encoder.block", "decoder.block"]


def test_a_multiple_choice_head_is_mapped():
    model = hf.BertForMultipleChoice(TINY["bert"]().config)
    assert map_layers(model).names == ("embeddings", *depth_names(3), "head")


def test_two_towers_side_by_side_get_both_inputs():
    text = {
        "vocab_size": 50,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    vision = {k: v for k, v in text.items() if k != "vocab_size"} | {"image_size": 8, "patch_size": 4}
    layer_map = map_layers(hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)))
    assert layer_map.layer_count == 4
    assert {g.stack for g in layer_map.layers} == {"vision_model.encoder.layers", "text_model.encoder.layers"}


def test_a_base_model_without_anything_after_its_layers_has_no_head():
    layer_map = map_layers(BARE["distilbert"]())
    assert layer_map.names == ("embeddings", *depth_names(3))
    assert "head" not in layer_map


def test_equal_tensors_are_not_taken_for_one():
    model = TINY["bert"]()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert [g.parameter_names for g in map_layers(model)] == [g.parameter_names for g in map_layers(TINY["bert"]())]


def test_several_dtypes_make_the_same_map():
    for name in ("bert", "llama", "t5", "vit"):
        model = TINY[name]()
        expected = map_layers(model)
        for index, parameter in enumerate(model.parameters()):
            parameter.data = parameter.data.to((torch.float32, torch.bfloat16, torch.float16)[index % 3])
        assert map_layers(model) == expected


def test_models_on_the_meta_device_make_the_same_map():
    for name in ("bert", "deberta-v2", "t5", "vit"):
        with torch.device("meta"):
            model = type(TINY[name]())(TINY[name]().config)
        assert map_layers(model) == map_layers(TINY[name]())


def test_the_real_model_maps(shared):
    folder = shared / "models" / "all-MiniLM-L6-v2"
    layer_map = map_layers(hf.AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2))
    assert layer_map.names == ("embeddings", *depth_names(6), "head")
    assert [g.parameter_count for g in layer_map.layers] == [1_774_464] * 6
    assert places(layer_map, "bert.pooler.", "classifier.") == [{"head"}, {"head"}]


# The map as a value


def test_a_map_prints_as_a_tree_with_counts_and_shares():
    assert str(map_layers(TINY["gpt2"]())).splitlines() == [
        "GPT2LMHeadModel: 12.0K parameters, 3 layers",
        "├─ embeddings  2.2K  18.1%  transformer.wte, transformer.wpe",
        "├─ layers.0    3.3K  27.2%  transformer.h.0",
        "├─ layers.1    3.3K  27.2%  transformer.h.1",
        "├─ layers.2    3.3K  27.2%  transformer.h.2",
        "└─ head          32   0.3%  transformer.ln_f",
        "tied: transformer.wte.weight = lm_head.weight",
    ]
    assert str(map_layers(TINY["albert"]())).splitlines()[-1].startswith("note: layers.0 is one set of weights")


def test_a_map_is_looked_up_by_group_and_by_parameter():
    layer_map = map_layers(TINY["bert"]())
    assert len(layer_map) == len(list(layer_map)) == 5
    assert layer_map["layers.1"].depth == 2
    assert "layers.2" in layer_map
    assert "layers.3" not in layer_map
    assert layer_map.group_of("module._orig_mod.bert.pooler.dense.bias").name == "head"
    with pytest.raises(LayerMapError, match=r"no group 'layer\.1'.*Did you mean 'layers\.1'"):
        layer_map["layer.1"]
    with pytest.raises(LayerMapError, match=r"no parameter 'classifier\.wight'.*Did you mean 'classifier\.weight'"):
        layer_map.group_of("classifier.wight")


@pytest.mark.parametrize(
    "config",
    [
        hf.BartConfig(
            vocab_size=50, d_model=16, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=8, decoder_ffn_dim=8
        ),
        hf.T5Config(vocab_size=50, d_model=16, d_kv=4, d_ff=8, num_layers=2, num_heads=2),
    ],
    ids=["BART", "T5"],
)
def test_a_classifier_that_looks_for_end_tokens_is_mapped_without_weights(config: hf.PreTrainedConfig) -> None:
    with torch.device("meta"):
        model = hf.AutoModelForSequenceClassification.from_config(config)
    found = map_layers(model)
    assert found.names == ("embeddings", "layers.0", "layers.1", "layers.2", "layers.3", "head")
    assert any(name.startswith("classification_head.") for name in found["head"].parameter_names)


class InDictionary(nn.Module):
    """Three transformer layers by name, each with a list of two sublayers, as T5's have."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.blocks = nn.ModuleDict({str(number): self.block() for number in range(3)})
        self.out = nn.Linear(16, 2)

    @staticmethod
    def block() -> nn.Module:
        block = nn.Module()
        block.layer = nn.ModuleList(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2))
        block.forward = lambda hidden: block.layer[1](block.layer[0](hidden))
        return block

    def forward(self, input_ids):
        hidden = self.table(input_ids)
        for block in self.blocks.values():
            hidden = block(hidden)
        return self.out(hidden[:, 0])


def test_layers_in_a_dictionary_are_layers():
    example = {"input_ids": torch.ones(1, 4, dtype=torch.long)}
    for layer_map in (map_layers(InDictionary(), example=example), map_layers(InDictionary(), layers="blocks")):
        assert layer_map.names == ("embeddings", *depth_names(3), "head")
        assert places(layer_map, "blocks.0.", "blocks.2.") == [{"layers.0"}, {"layers.2"}]
