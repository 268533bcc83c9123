"""A delta as PEFT's SHiRA: PEFT loads it, and its model computes what the trained one does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    DebertaConfig,
    DebertaForSequenceClassification,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

from gradgate import deltas
from gradgate.errors import DeltaError
from support.command_line import Command

peft = pytest.importorskip("peft")

INPUTS = {"input_ids": torch.tensor([[1, 2, 3, 4]])}


def sparse_model(base: Path, share: float) -> Any:
    """A model with a fresh head, in which a share of each linear layer was trained."""
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=3).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("query.weight", "dense.weight")):
                parameter.add_((torch.rand_like(parameter) < share).float())
    return model


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # of PEFT's forward
def test_peft_loads_it(tmp_path: Path, tiny_model: Path, command: Command) -> None:
    model = sparse_model(tiny_model, 0.02)
    with torch.no_grad():
        model.bert.encoder.layer[1].output.LayerNorm.bias.add_(0.5)
    file = deltas.create(model, tiny_model, tmp_path / "d.safetensors").path

    said = command("delta", "export", str(file), "--to", "peft", "-o", str(tmp_path / "peft"), "--json")
    assert said.code == 0, said.err
    made = json.loads(said.out)
    assert "bert.encoder.layer.1.attention.self.query" in made["shira"]
    assert {"classifier", "bert.encoder.layer.1.output.LayerNorm"} <= set(made["modules"])

    base = AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=3).eval()
    loaded = peft.PeftModel.from_pretrained(base, tmp_path / "peft").eval()
    torch.testing.assert_close(loaded(**INPUTS).logits, model(**INPUTS).logits)
    merged = dict(loaded.merge_and_unload().named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(merged[name], parameter, msg=name)


def test_without_single_weights_there_is_nothing_to_export(tmp_path: Path, tiny_model: Path) -> None:
    model = sparse_model(tiny_model, 1.0)
    file = deltas.create(model, tiny_model, tmp_path / "d.safetensors")
    with pytest.raises(DeltaError, match="No linear layer"):
        deltas.export(file, None, tmp_path / "peft")
    assert not (tmp_path / "peft").exists()


def test_a_delta_of_another_class_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    made = deltas.create(sparse_model(tiny_model, 0.02), tiny_model, tmp_path / "d.safetensors")
    config = json.loads(made.origin.files["config.json"]) | {"architectures": ["BertForMaskedLM"]}
    other = replace(made, origin=replace(made.origin, files={"config.json": json.dumps(config)}))
    with pytest.raises(DeltaError, match="which is in no module"):
        deltas.export(other, None, tmp_path / "peft")
    assert not (tmp_path / "peft").exists()


TINY = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TIED: dict[str, tuple[Any, Any, list[str], str]] = {
    "an embedding of a decoder": (
        LlamaForCausalLM,
        LlamaConfig(**TINY, **ENDS, tie_word_embeddings=True),
        ["model.embed_tokens.weight"],
        "model.layers.0.mlp.up_proj.weight",
    ),
    "an embedding of an encoder and a decoder": (
        T5ForConditionalGeneration,
        T5Config(d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, vocab_size=50, decoder_start_token_id=0),
        ["shared.weight"],
        "encoder.block.0.layer.1.DenseReluDense.wi.weight",
    ),
    "the bias of a head over tokens": (
        RobertaForMaskedLM,
        RobertaConfig(**TINY, **ENDS, max_position_embeddings=20),
        ["lm_head.bias"],
        "roberta.encoder.layer.0.output.dense.weight",
    ),
    "single weights inside a module that is stored whole": (
        DebertaForSequenceClassification,
        DebertaConfig(**TINY, max_position_embeddings=20),
        ["deberta.encoder.layer.0.attention.self.q_bias", "deberta.encoder.layer.0.attention.self.in_proj.weight"],
        "deberta.encoder.layer.1.output.dense.weight",
    ),
}


@pytest.mark.parametrize("case", TIED)
@pytest.mark.filterwarnings("ignore:Model has .tie_word_embeddings")
def test_tied_and_nested_modules_are_as_trained(case: str, tmp_path: Path) -> None:
    kind, config, changed, sparse = TIED[case]
    torch.manual_seed(0)
    kind(config).save_pretrained(tmp_path / "base")
    trained = kind.from_pretrained(tmp_path / "base").eval()
    with torch.no_grad():
        for name in changed:
            trained.get_parameter(name)[3:6] += 0.5
        trained.get_parameter(sparse)[0, :3] += 0.5
    trained.save_pretrained(tmp_path / "trained")
    deltas.create(tmp_path / "trained", tmp_path / "base", tmp_path / "d.safetensors")
    deltas.export(tmp_path / "d.safetensors", tmp_path / "base", tmp_path / "peft")
    adapted = peft.PeftModel.from_pretrained(kind.from_pretrained(tmp_path / "base"), tmp_path / "peft").eval()
    ids = torch.tensor([[3, 4, 5, 6]])
    own = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
    with torch.no_grad():
        assert torch.allclose(adapted(ids, **own).logits, trained(ids, **own).logits, atol=1e-5)
