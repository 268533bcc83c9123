"""Patch a model in memory to turn a base into a trained model, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.deltas.bits import flat_bits
from gradgate.deltas.delta import Delta
from gradgate.deltas.model_files import CONFIG_FILE
from gradgate.deltas.patched import Patched, entry_of
from gradgate.errors import DeltaError
from gradgate.files import parse_json

_LABELS = ("id2label", "label2id", "problem_type")


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
class Reshaped(Patch):
    """A tensor of another shape, such as a head for other labels, which replaces the model's."""

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
class Labels(Patch):
    """The configuration's entries on labels, which some heads use to compute their loss."""

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
        if hasattr(self.model, "num_labels"):
            self.model.num_labels = self.model.config.num_labels

    @classmethod
    def of(cls, model: nn.Module, delta: Delta) -> Labels:
        """Read the labels of a delta into a configuration of the model's class, and take those of the model."""
        config: Any = getattr(model, "config", None)
        text = delta.origin.files.get(CONFIG_FILE)
        if config is None or text is None:
            return cls(model, {}, {})
        try:
            values = {name: value for name, value in parse_json(text).items() if name in _LABELS}
            read = type(config).from_dict(values)
        except (ValueError, TypeError) as error:
            raise DeltaError(f"{delta.path} is damaged: its {CONFIG_FILE} cannot be read ({error}).") from None
        return cls(model, *({name: getattr(source, name, None) for name in _LABELS} for source in (read, config)))


@dataclass(frozen=True, eq=False)
class Target:
    """A model in memory, by the names of its tensors.

    Attributes:
        model: the model.
        tensors: saved parameters and buffers; tied ones under each of their names.
        of_base: bits of the base's tensors that some delta replaces in full, in host memory.
    """

    model: nn.Module
    tensors: dict[str, Tensor]
    of_base: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module) -> Target:
        """Check that a model is in memory and not sharded; raise DeltaError if not."""
        tensors: dict[str, Tensor] = dict(model.state_dict(keep_vars=True))
        for name, tensor in tensors.items():
            if type(tensor).__name__ in ("DTensor", "ShardedTensor") or hasattr(tensor, "device_mesh"):
                raise DeltaError(
                    f"{name} is sharded over several devices, but the elements of a delta index unsharded tensors. "
                    f"Create the bank before the model is sharded, or load each task with gradgate.deltas.apply."
                )
            if tensor.device.type == "meta":
                raise DeltaError(
                    f"{name} is not in memory (device 'meta'), as if accelerate keeps weights on disk. Load the full "
                    f"model, without offloading."
                )
            if not tensor.is_contiguous():
                raise DeltaError(
                    f"{name} is not contiguous in memory. Call .contiguous() on it before creating the bank."
                )
        return cls(model, tensors)

    def check_names(self, trained: Patched) -> None:
        """Check that the model has the tensors of a trained one, and no others.

        Raises:
            DeltaError: if not, with the names of missing or surplus tensors.
        """
        known: dict[int, str] = {}
        for name in (name for name in trained.entries if name in self.tensors):
            other = known.setdefault(id(self.tensors[name]), name)
            if other != name:
                raise DeltaError(
                    f"{name} and {other} are one tensor in the model, but two in the base of {trained.delta.path}. "
                    f"Load the base with the configuration that the task was trained with."
                )
        missing = [name for name in trained.entries if name not in self.tensors]
        ignored = getattr(self.model, "_keys_to_ignore_on_save", None) or ()
        more = [name for name, tensor in self.tensors.items() if id(tensor) not in known and name not in ignored]
        if missing or more:
            faults = [f"lacks {', '.join(missing[:3])}"] if missing else []
            faults += [f"has {', '.join(more[:3])}, which is not in the delta's model"] if more else []
            raise DeltaError(
                f"This {type(self.model).__name__} {' and '.join(faults)}: {trained.delta.path} belongs to a model of "
                f"another class. Load the base in the class that the task was trained with."
            )

    def check_base(self, trained: Patched, name: str) -> None:
        """Check that a tensor of the model is bit for bit the base's; raise DeltaError if not."""
        wanted, mine = trained.base.entries[name], self.tensors[name]
        if entry_of(mine) != wanted:
            raise DeltaError(
                f"{name} is {entry_of(mine).dtype} {list(mine.shape)} in the model, but {wanted.dtype} "
                f"{list(wanted.shape)} in the base of {trained.delta.path}. Load the base in the same dtype."
            )
        if not torch.equal(flat_bits(mine).cpu(), flat_bits(trained.base.read(name))):
            raise DeltaError(
                f"{name} in the model differs from the base {trained.base.where!r}, so {trained.delta.path} does not "
                f"fit it. Load the base again, without training it."
            )

    def patches(self, trained: Patched) -> Iterator[Patch]:
        """Yield the patches that turn the base into a trained model, after reading and checking every value."""
        for name in trained.delta.names:
            tensor = self.tensors[name]
            entry = trained.entries[name]
            if entry.dtype != entry_of(tensor).dtype:
                raise DeltaError(
                    f"{name} is {entry_of(tensor).dtype} in the model but {entry.dtype} in {trained.delta.path}. Load "
                    f"the base in the same dtype."
                )
            if entry.shape != tuple(tensor.shape):
                values = self._kept(trained.read(name).clone(), tensor)
                yield Reshaped(tensor, values, tensor.data, self._module_of(name))
            elif name in trained.delta.sparse:
                places, values = trained.patch(name)
                of_base = flat_bits(trained.base.read(name))[places.long()]
                yield Elements(tensor, *(self._kept(part, tensor) for part in (places, flat_bits(values), of_base)))
            else:
                if name not in self.of_base:
                    self.of_base[name] = self._kept(flat_bits(tensor).cpu(), tensor)
                yield Whole(tensor, self._kept(flat_bits(trained.read(name)), tensor), self.of_base[name])
        yield Labels.of(self.model, trained.delta)

    def _kept(self, value: Tensor, tensor: Tensor) -> Tensor:
        """Return a copy in host memory that does not depend on the file, pinned for a tensor on CUDA."""
        return value.pin_memory() if tensor.is_cuda else value.clone()

    def _module_of(self, name: str) -> nn.Module:
        return self.model.get_submodule(name.rpartition(".")[0])
