"""A delta as PEFT's SHiRA: PEFT loads it, and its model computes what the trained one does."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification

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
