"""Selectors name the same weights wherever they are taken, and fail loudly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers import BertConfig, DebertaConfig, DebertaModel, EncoderDecoderConfig, EncoderDecoderModel

import gradgate as gg
from gradgate.errors import SelectorError
from gradgate.layers.selectors import check_selector
from gradgate.methods.fixed import BitFit
from support.networks import bert
from support.tiny_models import TINY

LLAMA = gg.map_layers(TINY["llama"]())  # three layers, 96 tokens
NAMES = list(LLAMA.weights)
TABLE = "model.embed_tokens.weight"
SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def named(text: str, model: str = "llama") -> set[str]:
    return set(gg.select(gg.map_layers(TINY[model]()) if model != "llama" else LLAMA, text).names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("layers.1", r"model.layers.1."),
        ("layers.0-1", r"model.layers.[01]."),
        ("layers.top2", r"model.layers.[12]."),
        ("layers.bottom1", r"model.layers.0."),
        ("layers.*", r"model.layers."),
        ("layers", r"model.layers."),
        ("layers.*.attention", r"model.layers.\d.self_attn."),
        ("layers.top1.mlp", r"model.layers.2.mlp."),
        ("layers.1.attention.q_proj", r"model.layers.1.self_attn.q_proj."),
        ("@mlp/!layers.0", r"model.layers.[12].mlp."),
        (r"re:model\.layers\.\d\.mlp\..*", r"model.layers.\d.mlp."),
    ],
)
def test_terms_name_what_they_say(text: str, expected: str) -> None:
    import re

    assert named(text) == {name for name in NAMES if re.match(expected, name)}


def test_marks_are_parts_wherever_they_are() -> None:
    assert {name for name in named("@norm") if not name.startswith("model.layers.")} == {"model.norm.weight"}
    assert named("@bias", "bert") == {name for name in gg.map_layers(TINY["bert"]()).weights if name.endswith(".bias")}
    assert {name.split(".")[-2] for name in named("@router", "mixtral")} == {"gate"}
    assert named("@experts", "mixtral") == named("layers.*.experts", "mixtral")
    assert named("@encoder", "t5") >= named("layers.0", "t5")
    assert named("embeddings") == named("@embeddings") == {TABLE}


def test_lora_is_found_by_its_mark() -> None:
    peft = pytest.importorskip("peft")
    model = peft.get_peft_model(TINY["llama"](), peft.LoraConfig(target_modules=["q_proj"]))
    names = gg.select(model, "@lora").names
    assert len(names) == 6
    assert all(".lora_" in name for name in names)
    assert gg.select(model, "@adapter").names == names


def test_rows_are_counted_like_slices() -> None:
    tail = gg.select(LLAMA, "embeddings[90:]")
    assert (tail.names, tail.partial, tail.count) == ((TABLE,), {TABLE: ((90, 96),)}, 6 * 16)
    assert gg.select(LLAMA, "embeddings[-6:]").rows == tail.rows
    assert gg.select(LLAMA, "embeddings[:4]/embeddings[4:10]/embeddings[90:]").rows == {TABLE: ((0, 10), (90, 96))}
    assert gg.select(LLAMA, "embeddings/!embeddings[10:90]").rows == {TABLE: ((0, 10), (90, 96))}
    assert gg.select(LLAMA, "embeddings[0:96]").partial == {}
    assert gg.select(LLAMA, "head[90:]").rows == {"lm_head.weight": ((90, 96),)}
    assert gg.select(TINY["gpt2"](), "head[90:]").rows == {"transformer.wte.weight": ((90, 96),)}, "one tied table"


def test_a_selection_and_its_inverse_are_the_model() -> None:
    picked = gg.select(LLAMA, "embeddings[10:20]/layers.top1/@norm")
    rest = picked.inverted(LLAMA)
    assert picked.count + rest.count == LLAMA.parameter_count
    assert picked.inverted(LLAMA).inverted(LLAMA).rows == picked.rows


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 95), st.integers(1, 96)), min_size=1, max_size=8))
def test_rows_of_any_terms_are_those_of_sets(terms: list[tuple[bool, int, int]]) -> None:
    kept: set[int] = set(range(5))
    text = "embeddings[:5]"
    for away, start, stop in terms:
        if start >= stop:
            continue
        text += f"/{'!' * away}embeddings[{start}:{stop}]"
        kept = kept - set(range(start, stop)) if away else kept | set(range(start, stop))
    if not kept:
        with pytest.raises(SelectorError, match="selects nothing"):
            gg.select(LLAMA, text)
        return
    rows = gg.select(LLAMA, text).rows[TABLE]
    assert [row for start, stop in rows for row in range(start, stop)] == sorted(kept)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has an empty term"),
        ("layers.0//head", "has an empty term"),
        ("!head", r"begins with '!head', which excludes from nothing\. Begin with .*layers\.\*/!head"),
        ("layers.3", "expected layers from 0 to 2, the lower first, got 3"),
        ("layers.2-1", "expected layers from 0 to 2, the lower first, got 2-1"),
        ("layers.top4", "expected 1 to 3 layers, got 4"),
        ("layers.top0", "expected 1 to 3 layers, got 0"),
        ("layers.*.atention", r"there is no part 'atention'\. Did you mean 'attention'"),
        ("layers.0.experts", "'layers.0.experts' matches nothing"),
        ("layers.0.attention.qproj", "matches nothing"),
        ("@atention", r"there is no mark '@atention'\. Did you mean '@attention'"),
        ("@experts", r"'@experts' matches nothing.*it has .*@attention @mlp @norm"),
        ("@vision", "'@vision' matches nothing"),
        ("re:(", r"'re:\(' is not a valid regular expression: .*Expected one for parameter names"),
        ("re:nothing", "'re:nothing' matches nothing"),
        ("embeddings[96:]", "selects no row: the table model.embed_tokens.weight has 96 rows, 0 to 95"),
        ("embeddings[5:5]", "selects no row"),
        ("embeddings[0:200]", "selects no row"),
        ("embedings", r"'embedings' is not a valid selector term\. Did you mean 'embeddings'"),
        ("layers.1/!layers", "selects nothing: its last terms exclude"),
        (3, r"^3 is not a selector\. Expected a text such as"),
    ],
)
def test_a_term_that_matches_nothing_is_an_error(text: Any, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        gg.select(LLAMA, text)


def test_rows_of_tables_of_other_sizes_are_not_the_same_tokens() -> None:
    encoder = BertConfig(**SMALL, vocab_size=80)
    decoder = BertConfig(**SMALL, vocab_size=50, is_decoder=True, add_cross_attention=True)
    both = gg.map_layers(EncoderDecoderModel(EncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)))
    assert set(gg.select(both, "embeddings[40:45]").partial.values()) == {((40, 45),)}
    with pytest.raises(SelectorError, match=r"selects other tokens in each of the tables: .* with 80 rows, .* with 50"):
        gg.select(both, "embeddings[-5:]")
    with pytest.raises(SelectorError, match=r"selects no row: the table .* has 50 rows"):
        gg.select(both, "embeddings[60:]")


def test_biases_of_a_module_with_several_are_biases() -> None:
    model = DebertaModel(DebertaConfig(**SMALL, vocab_size=50))
    names = set(gg.select(gg.map_layers(model), "@bias").names)
    assert {"encoder.layer.0.attention.self.q_bias", "encoder.layer.0.attention.self.v_bias"} <= names
    assert names == {name for name, _ in model.named_parameters() if name.endswith("bias")}
    assert names <= set(BitFit().selection(gg.map_layers(model)).names)


def test_a_map_made_by_hand_knows_its_groups() -> None:
    layers = gg.LayerMap("Two", (gg.Group("layers.0", 1, ("a", "b"), 2), gg.Group("head", 2, ("c",), 1)))
    assert gg.select(layers, "layers/!head").names == ("a", "b")
    with pytest.raises(SelectorError, match=r"'hed' is not a valid selector term\. Did you mean 'head'"):
        gg.select(layers, "hed")


def test_a_model_without_tokens_has_no_rows() -> None:
    with pytest.raises(SelectorError, match="the embeddings of this model have no table with one row per token"):
        gg.select(TINY["vit"](), "embeddings[3:]")


class Named(nn.Module):
    """Two encoders whose names are no words of Python."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("text-net", "image-net"):
            self.add_module(name, bert())

    def forward(self, input_ids: Tensor) -> Tensor:
        texts, images = (each(input_ids).pooler_output for each in self.children())
        return (texts * images).sum()


def test_a_selector_is_checked_by_what_selects() -> None:
    layers = gg.map_layers(Named())
    assert set(layers.towers) == {"text-net", "image-net"}
    for text in ("@text-net", "layers.*/!@image-net", "layers.top1.attention/@bias/re:.*pooler.*"):
        assert gg.select(layers, text).count
        check_selector(text)
        gg.audit(expect=text)


@pytest.mark.parametrize("text", ["", "@", "!head", "head/!", "layrs.3", "layers.*.atention", "re:(", "head[1]", "a-b"])
def test_what_no_model_has_is_refused_with_and_without_a_model(text: str) -> None:
    for refusing in (check_selector, lambda each: gg.select(LLAMA, each)):
        with pytest.raises(SelectorError):
            refusing(text)


def test_a_module_is_found_in_layers_that_name_it_at_greater_length() -> None:
    found = gg.select(gg.map_layers(TINY["t5"]()), "layers.*.attention.q").names
    assert {name.split(".")[0] for name in found} == {"encoder", "decoder"}
    assert {name.split(".")[-3] for name in found} == {"SelfAttention", "EncDecAttention"}
