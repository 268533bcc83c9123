"""Relate the tensors of a model in memory to those on disk, which transformers renames and rearranges as it loads them.

Experts are an example: a Mixtral has one tensor ``experts.3.w1.weight`` per expert and matrix on disk, and one tensor
``experts.gate_up_proj`` of all experts in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.deltas.bits import flat_bits
from gradgate.errors import DeltaError

_MOST_INT32 = 2**31
_STAGE = re.compile(r".*?\.\d+(?=\.)")  # a name up to its first number, as conversions stay within one layer

Read = Callable[[str], Tensor]


@dataclass(frozen=True)
class ConvertedTensors:
    """Tensors in memory whose elements are in other tensors on disk, or in another order.

    Attributes:
        model: a model of transformers.
        memory: the tensors, by their names in memory.
        disk: names on disk.
    """

    model: nn.Module
    memory: Mapping[str, Tensor]
    disk: tuple[str, ...]

    def places(self) -> dict[str, Tensor]:
        """Return the flat indices of each tensor on disk into the tensors in memory, one after another.

        Raises:
            DeltaError: if an element in memory is not one element on disk.
        """
        total = sum(tensor.numel() for tensor in self.memory.values())
        dtype, start = torch.int32 if total < _MOST_INT32 else torch.int64, 0
        counted: dict[str, Tensor] = {}
        for name, tensor in self.memory.items():
            counted[name] = torch.arange(start, start := start + tensor.numel(), dtype=dtype).view(tensor.shape)
        found = _on_disk(self.model, counted)
        seen = torch.zeros(total, dtype=torch.bool)
        for indices in found.values():
            if not indices.is_floating_point():
                seen[indices.reshape(-1).long()] = True
        if not bool(seen.all()) or sum(indices.numel() for indices in found.values()) != total:
            raise DeltaError(
                f"transformers computes {next(iter(self.memory))} of a {type(self.model).__name__} from its files "
                f"in another way than by rearranging their elements. Load each task with gradgate.deltas.apply."
            )
        return found

    def assemble(self, places: Mapping[str, Tensor], read: Read) -> dict[str, Tensor]:
        """Return the tensors in memory, made of those that ``read`` returns for names on disk.

        Args:
            places: the indices that :meth:`places` returned.
            read: all of its tensors must have one dtype.

        Raises:
            DeltaError: if a tensor has another shape or dtype than the others require.
        """
        whole: Tensor | None = None
        for name, indices in places.items():
            tensor = read(name)
            if whole is None:
                whole = torch.empty(sum(t.numel() for t in self.memory.values()), dtype=tensor.dtype)
            if tensor.dtype != whole.dtype or tensor.shape != indices.shape:
                raise DeltaError(
                    f"{name} is {tensor.dtype} {list(tensor.shape)}, but {next(iter(self.memory))}, which it is a part "
                    f"of in memory, needs {whole.dtype} {list(indices.shape)}. Load each task with "
                    f"gradgate.deltas.apply."
                )
            flat_bits(whole)[indices.reshape(-1).long()] = flat_bits(tensor)
        assert whole is not None
        parts = torch.split(whole, [tensor.numel() for tensor in self.memory.values()])
        return {name: part.view(self.memory[name].shape) for name, part in zip(self.memory, parts, strict=True)}


@dataclass(frozen=True)
class Layout:
    """The names of a model's tensors on disk.

    Attributes:
        names: name on disk to name in memory, for tensors that are the same in both.
        groups: all other tensors.
    """

    names: Mapping[str, str]
    groups: tuple[ConvertedTensors, ...]

    def names_in_memory(self, name: str) -> tuple[str, ...]:
        """Return the tensors in memory that contain elements of a tensor on disk, or of its group."""
        found = next((group for group in self.groups if name in group.disk), None)
        return tuple(found.memory) if found else (self.names.get(name, name),)

    def read(self, name: str, read: Read, stored: Container[str]) -> Tensor:
        """Return a tensor in memory, made of those on disk.

        Args:
            name: in memory.
            read: returns a tensor on disk.
            stored: the names on disk; a group is read under its names in memory if these are among them.

        Raises:
            DeltaError: as :meth:`Group.assemble`.
        """
        group = next((group for group in self.groups if name in group.memory), None)
        if group is not None and name not in stored:
            return group.assemble(group.places(), read)[name]
        return read(next((disk for disk, memory in self.names.items() if memory == name and disk in stored), name))

    @classmethod
    def of(cls, model: nn.Module, tensors: Mapping[str, Tensor]) -> Layout:
        """Return the layout in which ``save_pretrained`` would write a model's tensors, by their names in memory."""
        meta = {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors.items()}
        memory = {id(tensor): name for name, tensor in meta.items()}
        disk = _on_disk(model, meta)
        names = {name: memory[id(tensor)] for name, tensor in disk.items() if id(tensor) in memory}
        stages: dict[str, dict[str, Tensor]] = {}
        for name in tensors.keys() - set(names.values()):
            stages.setdefault(_stage(name), {})[name] = tensors[name]
        groups = (_group(model, members, tensors) for _, members in sorted(stages.items()))
        return cls(names, tuple(groups))


def _group(model: nn.Module, members: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> ConvertedTensors:
    ordered = {name: tensor for name, tensor in tensors.items() if name in members}
    meta = {name: torch.empty_like(tensor, device="meta") for name, tensor in ordered.items()}
    return ConvertedTensors(model, ordered, tuple(_on_disk(model, meta)))


def _stage(name: str) -> str:
    found = _STAGE.match(name)
    return found.group() if found else ""


def _on_disk(model: nn.Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as ``save_pretrained`` writes them; those that are only renamed are the same objects."""
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        return dict(tensors)
    from transformers.core_model_loading import revert_weight_conversion

    with torch.no_grad():
        found: dict[str, Any] = revert_weight_conversion(model, dict(tensors))
    return found
