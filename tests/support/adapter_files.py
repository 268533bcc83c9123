"""An adapter's files for tests to damage, and the promise of every refusal to load them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from gradgate import adapters
from gradgate.errors import AdapterError
from support.adapter_models import disturb, tiny
from support.loop import same


def save_task(folder: Path) -> Path:
    """The folder of an adapter ``task`` with an invertible adapter and a classification head for BERT."""
    model = tiny("bert")
    adapters.add(model, "task", "pfeiffer+inv:reduction=2")
    disturb(model)
    adapters.save(model, "task", folder)
    return folder


def refused(path: Path | str, message: str, model: PreTrainedModel | None = None, **options: Any) -> None:
    """Loading fails with this message and leaves every name, bit and flag of the model as it was."""
    model = tiny("bert") if model is None else model
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    flags = [p.requires_grad for p in model.parameters()]
    forwards = [module for module in model.modules() if "forward" in vars(module)]
    with pytest.raises(AdapterError, match=message):
        adapters.load(model, path, **options)
    after = model.state_dict()
    assert list(after) == list(before)
    assert all(same(tensor, after[key]) for key, tensor in before.items())
    assert [p.requires_grad for p in model.parameters()] == flags
    assert [module for module in model.modules() if "forward" in vars(module)] == forwards


def edit(folder: Path, change: Callable[[dict[str, Any]], object], file: str = "adapter_config.json") -> None:
    values = json.loads((folder / file).read_text())
    change(values)
    (folder / file).write_text(json.dumps(values))


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "adapter.safetensors")
    change(tensors)
    save_file(tensors, folder / "adapter.safetensors")
