"""Train an adapter on a quantized model: what is refused, and what trainers are shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradgate.adapters.peft.kind import PeftKind
from gradgate.errors import RunError
from gradgate.layers.quantized import quantization_of
from gradgate.methods.fixed import Full
from gradgate.settings.arms.adapter import read_adapter
from gradgate.settings.arms.arm import Arm

# What transformers' and TRL's constructors read of a model.
_ADAPTED = "_hf_peft_config_loaded"
_LOADED = ("is_loaded_in_4bit", "is_loaded_in_8bit")


def check_adapted(quantization: str | None, arm: Arm, name: str) -> None:
    """Check that a run on a quantized model trains an adapter of PEFT's, and so stores plain numbers only.

    Args:
        quantization: the method that the model is quantized with; None for a model that is not.
        arm: what is trained.
        name: of the model.

    Raises:
        RunError: if it trains the model itself, or an adapter of another kind.
    """
    if quantization is None or (arm.adapter is not None and isinstance(arm.adapter.kind, PeftKind)):
        return
    fitting = Arm(arm.method if arm.is_trained else Full(), read_adapter("lora:r=16"))
    raise RunError(
        f"{name} is quantized ({quantization}), so its matrices cannot learn, and {arm.name!r} trains no adapter that "
        f"fits on them. Expected one of PEFT's, such as {fitting.name!r}. Without quantization, --weights bfloat16 "
        f"takes less memory than float32."
    )


def check_trainable(model: Any, name: str) -> None:
    """Raise RunError if transformers cannot compute gradients through the model's quantized matrices."""
    quantizer = getattr(model, "hf_quantizer", None)
    if quantizer is not None and not quantizer.is_trainable:
        raise RunError(
            f"{name} is quantized with {quantization_of(model)}, through which transformers computes no gradients. "
            f"Expected a model that bitsandbytes or torchao has quantized, or one without quantization."
        )


@contextmanager
def shown_as_adapted(model: Any) -> Iterator[None]:
    """Let constructors of trainers see a quantized model as one with an adapter, which they look for in wrappers only.

    TRL would also turn all that learns into bfloat16, whatever the run's precision is.
    """
    if quantization_of(model) is None:
        yield
        return
    shown = {_ADAPTED: True} | {name: False for name in _LOADED if hasattr(model, name)}
    before = {name: model.__dict__[name] for name in shown if name in model.__dict__}
    model.__dict__.update(shown)
    try:
        yield
    finally:
        for name in shown:
            del model.__dict__[name]
        model.__dict__.update(before)
