"""Read a configuration, and build its model without memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from gradgate.errors import RunError, UsageError
from gradgate.memory.configuration import build, read_configuration
from support.small_configs import bert


def small(kind: str, **more: Any) -> Any:
    """A small configuration of a type of model."""
    sizes: dict[str, dict[str, Any]] = {
        "bert": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
        "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2},
        "llama": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32},
        "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2},
    }
    return transformers.CONFIG_MAPPING[kind](vocab_size=100, **sizes[kind], **more)


@pytest.mark.parametrize("as_file", [False, True])
def test_folder_and_its_file_are_equal(as_file: bool, tmp_path: Path) -> None:
    bert(3).save_pretrained(tmp_path)
    config = read_configuration(str(tmp_path / "config.json" if as_file else tmp_path))
    assert isinstance(config, transformers.BertConfig)
    assert (config.num_hidden_layers, config.hidden_size) == (3, 16)


@pytest.mark.parametrize(("name", "kind"), [("sample", "bert"), ("sample-decoder", "llama")])
def test_embedded_sample_needs_no_network(name: str, kind: str) -> None:
    assert read_configuration(name).model_type == kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a configuration"),
        ("{}", "names no model_type"),
        ("[]", "names no model_type"),
        ('{"model_type": 3}', "names no model_type"),
        ('{"model_type": "bart-large"}', "does not know.*Did you mean"),
        ('{"model_type": "bert", "hidden_size": "wide"}', "bert"),
    ],
)
def test_faulty_file_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(RunError, match=message) as raised:
        build(read_configuration(str(file)), torch.float32)
    assert "bert model" in str(raised.value) or "mine.json" in str(raised.value)


def test_unknown_hub_name_is_refused() -> None:
    with pytest.raises(RunError, match="looked for on the hub"):
        read_configuration("nobody/has-this-model")


def test_folder_without_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_text("")
    with pytest.raises(RunError, match=r"is a folder without config\.json"):
        read_configuration(str(tmp_path))


@pytest.mark.parametrize(
    ("kind", "head", "model"),
    [
        ("bert", "auto", "BertForSequenceClassification"),
        ("bert", "token", "BertForTokenClassification"),
        ("bert", "sequence", "BertForSequenceClassification"),
        ("gpt2", "auto", "GPT2LMHeadModel"),
        ("llama", "auto", "LlamaForCausalLM"),
        ("llama", "sequence", "LlamaForSequenceClassification"),
        ("t5", "auto", "T5ForConditionalGeneration"),
        ("t5", "seq2seq", "T5ForConditionalGeneration"),
    ],
)
def test_head_is_that_of_the_kind(kind: str, head: Any, model: str) -> None:
    assert type(build(small(kind), torch.float32, head)).__name__ == model


def test_named_architecture_decides_the_head() -> None:
    assert type(build(small("bert", architectures=["BertLMHeadModel"]), torch.float32)).__name__ == "BertLMHeadModel"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_built_model_has_shapes_only(dtype: torch.dtype) -> None:
    model = build(small("llama"), dtype)
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}


def test_billions_of_weights_take_no_memory() -> None:
    config = transformers.LlamaConfig(hidden_size=8192, intermediate_size=28672, num_hidden_layers=2)
    assert sum(p.numel() for p in build(config, torch.bfloat16).parameters()) > 2**30


@pytest.mark.parametrize(
    ("config", "head", "message"),
    [
        (small("bert"), "seq2seq", "bert model cannot have head='seq2seq'"),
        (small("gpt2"), "seq2seq", "gpt2 model cannot have head='seq2seq'"),
        (small("bert"), "casual-lm", "head='casual-lm': expected one of.*Did you mean 'causal-lm'"),
        (3, "auto", "Expected a folder with config"),
        ({"model_type": "bert"}, "auto", "Expected a folder with config"),
    ],
)
def test_impossible_model_is_refused(config: Any, head: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(config, torch.float32, head)


def test_sizes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(RunError, match="Cannot build a bert model from its configuration"):
        build(transformers.BertConfig(hidden_size=10, num_attention_heads=3), torch.float32)
