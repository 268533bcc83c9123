"""Refuse engines that step inside their backward pass."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from gradgate import Tuner
from gradgate.errors import AttachError
from support.loop import adamw, build


@pytest.mark.parametrize("by", ["engine", "optimizer", "accelerate"])
def test_deepspeed_is_refused(by: str) -> None:
    """It is too large to install for a test: what it is known by are the modules of its classes."""
    model: torch.nn.Module = build("bert")
    optimizer = adamw(model)
    if by == "engine":
        engine = type("DeepSpeedEngine", (torch.nn.Module,), {"__module__": "deepspeed.runtime.engine"})()
        engine.module = model
        model = engine
    elif by == "optimizer":
        optimizer = type("Wrapper", (), {"__module__": "accelerate.utils.deepspeed", "optimizer": optimizer})()
    else:
        state = SimpleNamespace(distributed_type=SimpleNamespace(value="DEEPSPEED"))
        optimizer = SimpleNamespace(optimizer=optimizer, accelerator_state=state)
    with pytest.raises(AttachError, match="inside its backward pass"):
        Tuner(model, optimizer, "full")
