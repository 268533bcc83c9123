"""Describe one step of a training: the batch, the number format, and how the loss is computed."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from gradgate.errors import RunError, UsageError
from gradgate.settings.memory import QUANTIZATIONS, Quantization

Precision = Literal["fp32", "bf16", "fp16"]
Weights = Literal["float32", "bfloat16", "float16"] | Quantization
_AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
_TYPES = {"float32": torch.float32, "float16": torch.float16}


@dataclass(frozen=True)
class Workload:
    """The computation of one step.

    Attributes:
        batch_size: examples in one forward pass.
        max_length: tokens of each; for an encoder-decoder, of its input and of its output; not used for images.
        precision: ``bf16`` and ``fp16`` compute under autocast, as ``gradgate train`` does.
        weights: the dtype that a model is built in; gradients have it too. ``nf4``, ``int8`` and ``fp8`` are formats of
            the matrices inside frozen layers; everything else is in bfloat16 then.
        checkpointing: recompute activations in the backward pass, layer by layer.
        accumulate: forward and backward passes per optimizer step, whose gradients add up.
        released: step each parameter in the backward pass, and free its gradient.
        choices: rows of tokens per example: those of a multiple-choice question's choices, else one.
    """

    batch_size: int
    max_length: int
    precision: Precision = "fp32"
    weights: Weights = "float32"
    checkpointing: bool = False
    accumulate: int = 1
    released: bool = False
    choices: int = 1

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return _TYPES.get(self.weights, torch.bfloat16)

    @property
    def quantization(self) -> Quantization | None:
        """The format of quantized matrices; None without."""
        return cast("Quantization", self.weights) if self.weights in QUANTIZATIONS else None

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of the forward pass."""
        if self.precision not in _AUTOCAST:
            return nullcontext()
        return torch.autocast("cpu", dtype=_AUTOCAST[self.precision])

    def check_length(self, model: nn.Module) -> None:
        """Refuse a length that a model has no positions for.

        Raises:
            UsageError: if ``max_length`` is more than the model's positions.
        """
        config = getattr(model, "config", None)
        most = getattr(config, "max_position_embeddings", None)
        if isinstance(most, int) and self.max_length > most > 0:
            raise UsageError(
                f"max_length={self.max_length} is more than the {most} positions of {type(model).__name__}. "
                f"Expected at most {most}; pass a smaller max_length=."
            )

    def inputs(self, model: nn.Module) -> dict[str, Any]:
        """Return keyword arguments of a model: full rows with labels, without padding or a key-value cache.

        A classifier of images gets images of its configured size.

        Raises:
            RunError: if the model takes neither texts nor images with labels.
        """
        base = getattr(model, "get_base_model", lambda: model)()
        takes = inspect.signature(base.forward).parameters
        if "pixel_values" in takes and "ImageClassification" in type(base).__name__:
            return {"pixel_values": self._images(base), "labels": torch.zeros(self.batch_size, dtype=torch.long)}
        if "input_ids" not in takes or "labels" not in takes:
            raise RunError(
                f"{type(base).__name__} does not accept input_ids with labels, so its training step is unknown. "
                f"Expected a "
                f"language model, or a classifier of text or images."
            )
        ids = torch.zeros(self.batch_size * self.choices, self.max_length, dtype=torch.long)
        if "MultipleChoice" in type(base).__name__:
            ids = ids.view(self.batch_size, self.choices, self.max_length)
        inputs: dict[str, Any] = {"input_ids": ids, "labels": _labels(base, ids)}
        if "use_cache" in takes:
            inputs["use_cache"] = False
        return inputs

    def _images(self, model: Any) -> Tensor:
        """Return images, of shape (examples, channels, height, width), as a model's configuration names them."""
        size = getattr(model.config, "image_size", None)
        height, width = size if isinstance(size, list | tuple) else (size, size)
        if not isinstance(height, int) or not isinstance(width, int):
            raise RunError(
                f"The configuration of {type(model).__name__} has image_size={size!r}, so its training step is "
                f"unknown. Expected a whole number of pixels, such as 224, or a height and a width."
            )
        return torch.zeros(self.batch_size, getattr(model.config, "num_channels", 3), height, width, dtype=self.dtype)

    def input_bytes(self, model: nn.Module) -> int:
        """Return the bytes of the batch."""
        with torch.device("meta"):
            return sum(value.nbytes for value in self.inputs(model).values() if isinstance(value, Tensor))

    @contextmanager
    def in_training(self, model: Any, training: bool = True) -> Iterator[None]:
        """Set training or evaluation mode within the body, with checkpointing if asked for, then restore the model.

        Raises:
            UsageError: for a model without checkpointing.
        """
        modes = {module: module.training for module in model.modules()}
        switched = self.checkpointing and not any(getattr(m, "gradient_checkpointing", False) for m in model.modules())
        if switched:
            _switch_checkpointing(model, on=True)
        try:
            model.train(training)
            yield
        finally:
            if switched:
                _switch_checkpointing(model, on=False)
            for module, mode in modes.items():
                module.training = mode


def _switch_checkpointing(model: Any, on: bool) -> None:
    word = "activation" if hasattr(model, "activation_checkpointing_enable") else "gradient"  # renamed in 5.20
    switch = getattr(model, f"{word}_checkpointing_{'enable' if on else 'disable'}", None)
    if switch is None or not getattr(model, "supports_gradient_checkpointing", False):
        raise UsageError(f"{type(model).__name__} has no activation checkpointing. Leave checkpointing= out.")
    if on:
        switch({"use_reentrant": False})
    else:
        switch()


def _labels(model: nn.Module, ids: Tensor) -> Tensor:
    """Return labels of the shape that the model's head is trained with."""
    name = type(model).__name__
    config: Any = getattr(model, "config", None)
    if "SequenceClassification" in name or "MultipleChoice" in name:
        regression = "MultipleChoice" not in name and getattr(config, "num_labels", 2) == 1
        return torch.zeros(len(ids), dtype=torch.float32 if regression else torch.long)
    return torch.zeros_like(ids)
