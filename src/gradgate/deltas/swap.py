"""Patch a model in memory to turn a base into a trained model, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.deltas.bits import flat_bits
from gradgate.deltas.delta import Delta
from gradgate.deltas.model_files import CONFIG_FILE
from gradgate.errors import DeltaError
from gradgate.files import parse_json

_LABELS = ("id2label", "label2id", "problem_type")
_TOKENS = ("vocab_size", "pad_token_id")


class Patch(ABC):
    """One change to a model; both directions can be repeated, so that undoing repairs an interrupted switch."""

    @abstractmethod
    def do(self) -> None:
        """Write the trained values into the model."""

    @abstractmethod
    def undo(self) -> None:
        """Write the base's values into the model."""


@dataclass(frozen=True, eq=False)
class Elements(Patch):
    """Single elements of a tensor: their flat indices ``places``, shape ``(elements,)``, and values as integers."""

    tensor: Tensor
    places: Tensor
    trained: Tensor
    base: Tensor

    def do(self) -> None:
        self._write(self.trained)

    def undo(self) -> None:
        self._write(self.base)

    def _write(self, values: Tensor) -> None:
        device = self.tensor.device
        places = self.places.to(device, non_blocking=True).long()
        flat_bits(self.tensor).scatter_(0, places, values.to(device, non_blocking=True))


@dataclass(frozen=True, eq=False)
class Whole(Patch):
    """A tensor of the same shape, copied in place."""

    tensor: Tensor
    trained: Tensor
    base: Tensor

    def do(self) -> None:
        flat_bits(self.tensor).copy_(self.trained, non_blocking=True)

    def undo(self) -> None:
        flat_bits(self.tensor).copy_(self.base, non_blocking=True)


@dataclass(frozen=True, eq=False)
class Retyped(Patch):
    """A tensor of another dtype, which replaces the model's: a cast of it with single elements of other values.

    Attributes:
        tensor: of the model.
        dtype: after the cast.
        base: the data that it replaces, which stay in memory.
        places: flat indices, shape ``(elements,)``.
        trained: their values as integers.
    """

    tensor: Tensor
    dtype: torch.dtype
    base: Tensor
    places: Tensor
    trained: Tensor

    def do(self) -> None:
        device = self.base.device
        values = self.base.to(self.dtype)
        flat_bits(values).scatter_(0, self.places.to(device).long(), self.trained.to(device))
        self.tensor.data = values

    def undo(self) -> None:
        self.tensor.data = self.base


@dataclass(frozen=True, eq=False)
class Reshaped(Patch):
    """A tensor of another shape or dtype, such as a head for other labels, which replaces the model's."""

    tensor: Tensor
    trained: Tensor
    base: Tensor
    module: nn.Module

    def do(self) -> None:
        self._put(self.trained.to(self.tensor.device, copy=True))

    def undo(self) -> None:
        self._put(self.base)

    def _put(self, tensor: Tensor) -> None:
        self.tensor.data = tensor
        if isinstance(self.module, nn.Linear) and tensor.dim() == 2:
            self.module.out_features, self.module.in_features = tensor.shape
        elif isinstance(self.module, nn.Embedding):
            self.module.num_embeddings, self.module.embedding_dim = tensor.shape


@dataclass(frozen=True, eq=False)
class Settings(Patch):
    """The configuration's entries that a forward pass reads: labels, the vocabulary's size, the padding token."""

    model: Any
    trained: Mapping[str, Any]
    base: Mapping[str, Any]

    def do(self) -> None:
        self._set(self.trained)

    def undo(self) -> None:
        self._set(self.base)

    def _set(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self.model.config, name, value)
        for name in ("num_labels", "vocab_size"):  # many models keep their own copies
            if hasattr(self.model, name) and hasattr(self.model.config, name):
                setattr(self.model, name, getattr(self.model.config, name))

    @classmethod
    def of(cls, model: nn.Module, delta: Delta) -> Settings:
        """Read a delta's settings into a configuration of the model's class, and take those of the model."""
        config: Any = getattr(model, "config", None)
        text = delta.origin.files.get(CONFIG_FILE)
        if config is None or text is None:
            return cls(model, {}, {})
        try:
            stored = parse_json(text)
            # Labels that the file lacks are the defaults of the class; a size that it lacks may be in a part of it.
            names = (*_LABELS, *(name for name in _TOKENS if name in stored and hasattr(config, name)))
            read = type(config).from_dict({name: stored[name] for name in names if name in stored})
        except (ValueError, TypeError) as error:
            raise DeltaError(f"{delta.path} is damaged: its {CONFIG_FILE} cannot be read ({error}).") from None
        return cls(model, *({name: getattr(source, name, None) for name in names} for source in (read, config)))
