"""Find the changes to a model in memory that turn a base into a trained model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gradgate.deltas.bits import changed_at, code_of, count_changed, dtype_of, flat_bits
from gradgate.deltas.changes import index_type, stored_best
from gradgate.deltas.delta import FLOATS
from gradgate.deltas.layout import ConvertedTensors, Layout
from gradgate.deltas.model_files import dtype_in_memory
from gradgate.deltas.patched import Patched, entry_of
from gradgate.deltas.plain_model import check_in_memory
from gradgate.deltas.swap import Elements, Patch, Reshaped, Retyped, Settings, Whole
from gradgate.errors import DeltaError
from gradgate.layers.names import unwrap

Writes = tuple[tuple[int, int], ...]
"""The address and the number of writes of each tensor: one of them changes when a tensor is written or replaced."""


@dataclass(frozen=True, eq=False)
class Target:
    """A model in memory, by the names of its tensors.

    Attributes:
        model: the model, without the wrappers of ``torch.compile`` and of data parallelism.
        tensors: saved parameters and buffers by their names in memory; tied ones under each of their names.
        layout: their names on disk.
        of_base: bits of the base's tensors that some delta replaces in full, in host memory.
        holders: what holds each tensor, and each module above one: the mapping, its key and what it has there, by name.
    """

    model: nn.Module
    tensors: dict[str, Tensor]
    layout: Layout
    of_base: dict[str, Tensor] = field(default_factory=dict)
    holders: dict[str, tuple[Mapping[str, object], str, object]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module) -> Target:
        """Check that a model is in memory and in one piece; raise DeltaError if not."""
        model = unwrap(model)
        check_in_memory(model)
        tensors = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if torch.is_tensor(tensor)}
        return cls(model, tensors, Layout.of(model, tensors), holders=_holders(model, tensors))

    def forms(self) -> dict[str, tuple[torch.dtype, torch.Size]]:
        """Return the dtype and the shape of each tensor."""
        return {name: (tensor.dtype, tensor.shape) for name, tensor in self.tensors.items()}

    def check_forms(self, before: dict[str, tuple[torch.dtype, torch.Size]]) -> None:
        """Check that the model still has its tensors, with the dtypes and shapes of before.

        Raises:
            DeltaError: if not, as after ``model.half()`` or with a new head.
        """
        holders = self.holders.items()
        changed = [f"{name} was replaced" for name, (held, key, one) in holders if held.get(key) is not one]
        for name, tensor in self.tensors.items():
            if (tensor.dtype, tensor.shape) != before[name]:
                dtype, shape = before[name]
                changed.append(f"{name} was {dtype} {list(shape)} and is {tensor.dtype} {list(tensor.shape)}")
        if changed:
            raise DeltaError(
                f"{changed[0]} since the bank's last switch. Cast or change the base first, then make a bank of it."
            )

    def check_names(self, trained: Patched) -> None:
        """Check that the model has the tensors of a trained one, and no others.

        Raises:
            DeltaError: if not, with the names of missing or surplus tensors.
        """
        known: dict[int, str] = {}
        for name in trained.entries:
            if (tensor := self._tensor(name)) is None:
                continue
            other = known.setdefault(id(tensor), name)
            if other != name:
                raise DeltaError(
                    f"{name} and {other} are one tensor in the model, but two in the base of {trained.delta.path}. "
                    f"Load the base with the configuration that the task was trained with."
                )
        groups = self._groups(trained)
        parts = {name for group in groups for name in group.disk}
        missing = [name for name in trained.entries if self._tensor(name) is None and name not in parts]
        missing += [name for name in parts if name not in trained.entries]
        ignored = getattr(self.model, "_keys_to_ignore_on_save", None) or ()
        found = {*known, *(id(tensor) for group in groups for tensor in group.memory.values())}
        more = [name for name, tensor in self.tensors.items() if id(tensor) not in found and name not in ignored]
        if missing or more:
            faults = [f"lacks {', '.join(missing[:3])}"] if missing else []
            faults += [f"has {', '.join(more[:3])}, which is not in the delta's model"] if more else []
            raise DeltaError(
                f"This {type(self.model).__name__} {' and '.join(faults)}: {trained.delta.path} belongs to a model of "
                f"another class. Load the base in the class that the task was trained with."
            )

    def check_base(self, trained: Patched, compared: Mapping[str, Writes]) -> dict[str, Writes]:
        """Check that the tensors of the model are bit for bit the base's.

        Args:
            trained: the trained model.
            compared: what earlier calls returned for the same base. Tensors that were not written since are left out.

        Returns:
            Name on disk to the writes to the tensors in memory that contain it.

        Raises:
            DeltaError: if a tensor is not the base's.
        """
        writes: dict[str, Writes] = {}
        for group in self._groups(trained):
            written = _writes(group.memory.values())
            if any(compared.get(name) != written for name in group.disk):
                self._check_group(trained, group)
            writes |= dict.fromkeys(group.disk, written)
        for name, entry in trained.base.entries.items():
            if name in writes:
                continue
            tensor = self._tensor(name)
            assert tensor is not None, "the names were checked"
            writes[name] = _writes([tensor])
            if compared.get(name) != writes[name]:
                if tuple(tensor.shape) != entry.shape:
                    raise self._another(trained, name, tensor)
                self._type_of(trained, name, tensor)
                self._check_bits(trained, name, tensor, trained.base.read(name, code_of(tensor.dtype)))
        return {**compared, **writes}

    def _check_group(self, trained: Patched, group: ConvertedTensors) -> None:
        places = group.places()
        dtypes = {code_of(tensor.dtype) for tensor in group.memory.values()}
        of_base = group.assemble(places, lambda name: trained.base.read(name, min(dtypes)))
        for name, tensor in group.memory.items():
            for part in group.disk:
                self._type_of(trained, part, tensor)
            self._check_bits(trained, name, tensor, of_base[name])

    def _check_bits(self, trained: Patched, name: str, tensor: Tensor, of_base: Tensor) -> None:
        if not torch.equal(flat_bits(tensor).cpu(), flat_bits(of_base)):
            raise DeltaError(
                f"{name} in the model differs from the base {trained.base.where!r}, so {trained.delta.path} does not "
                f"fit it. Load the base again, without training it."
            )

    def patches(self, trained: Patched) -> Iterator[Patch]:
        """Yield the patches that turn the base into a trained model, after reading and checking every value."""
        groups = self._groups(trained)
        parts = {name for group in groups for name in group.disk}
        changed = set(trained.delta.names)
        for name in trained.entries:
            if name not in parts:
                yield from self._of_tensor(trained, name, changed=name in changed)
        for group in groups:
            yield from self._of_group(trained, group, changed=not changed.isdisjoint(group.disk))
        yield Settings.of(self.model, trained.delta)

    def _of_tensor(self, trained: Patched, name: str, *, changed: bool) -> Iterator[Patch]:
        """Yield the patch of a tensor that is the same on disk and in memory."""
        tensor, delta = self._tensor(name), trained.delta
        assert tensor is not None, "the names were checked"
        entry, dtype = trained.entries[name], self._type_of(trained, name, tensor)
        if entry.shape != tuple(tensor.shape) or (tensor.dtype != dtype and name in delta.whole):
            values = self._kept(trained.read(name).to(dtype).clone(), tensor)
            yield Reshaped(tensor, values, tensor.data, self._module_of(name))
        elif name in delta.sparse or tensor.dtype != dtype:
            nothing = torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=dtype)
            places, values = trained.patch(name) if name in delta.sparse else nothing
            if tensor.dtype != dtype:
                kept = (self._kept(part, tensor) for part in (places, flat_bits(values)))
                yield Retyped(tensor, dtype, tensor.data, *kept)
            else:
                yield self._elements(tensor, places, flat_bits(values.to(dtype)))
        elif changed:
            yield self._whole(name, tensor, trained.read(name).to(dtype))

    def _of_group(self, trained: Patched, group: ConvertedTensors, *, changed: bool) -> Iterator[Patch]:
        """Yield the patches of tensors that transformers assembles from others."""
        dtypes = {self._type_of(trained, part, tensor) for part in group.disk for tensor in group.memory.values()}
        if not changed and dtypes == {tensor.dtype for tensor in group.memory.values()}:
            return
        if len(dtypes) > 1:
            raise DeltaError(
                f"{trained.delta.path} has parts of {next(iter(group.memory))} in several dtypes, and in memory they "
                f"are one tensor. Load the task with gradgate.deltas.apply."
            )
        (dtype,) = dtypes
        assembled = group.assemble(group.places(), lambda name: trained.read(name).to(dtype))
        for name, values in assembled.items():
            tensor = group.memory[name]
            if dtype != tensor.dtype:
                yield Reshaped(tensor, self._kept(values, tensor), tensor.data, self._module_of(name))
                continue
            of_base, entry = tensor.detach().cpu(), entry_of(values)
            stored = stored_best(entry, entry, count_changed(values, of_base)).stored
            if stored == "sparse":
                places = torch.cat(list(changed_at(values, of_base)))
                yield self._elements(tensor, places.to(dtype_of(index_type(entry.elements))), flat_bits(values)[places])
            elif stored == "whole":
                yield self._whole(name, tensor, values)

    def _elements(self, tensor: Tensor, places: Tensor, trained: Tensor) -> Elements:
        of_base = flat_bits(tensor)[places.to(tensor.device).long()].cpu()
        return Elements(tensor, *(self._kept(part, tensor) for part in (places, trained, of_base)))

    def _whole(self, name: str, tensor: Tensor, trained: Tensor) -> Whole:
        if name not in self.of_base:
            self.of_base[name] = self._kept(flat_bits(tensor).cpu(), tensor)
        return Whole(tensor, self._kept(flat_bits(trained), tensor), self.of_base[name])

    def _kept(self, value: Tensor, tensor: Tensor) -> Tensor:
        """Return a copy in host memory that does not depend on the file, pinned for a tensor on CUDA."""
        return value.pin_memory() if tensor.is_cuda else value.clone()

    def _type_of(self, trained: Patched, name: str, tensor: Tensor) -> torch.dtype:
        """Return the dtype of a tensor in the trained model.

        It is the one in the trained model's files, if the base was loaded in the dtype of its own files or in that one.
        transformers loads a model in the dtype that its configuration names, whatever its files contain: a tensor that
        has it is compared and stays in it.

        Raises:
            DeltaError: for a base that was loaded in another dtype.
        """
        wanted, mine = trained.entries[name].dtype, code_of(tensor.dtype)
        if name not in trained.base.entries or mine in (trained.base.own_dtype(name), wanted):
            return dtype_of(wanted)
        if {mine, wanted} <= set(FLOATS) and mine == dtype_in_memory(trained.delta.origin.files):
            return tensor.dtype
        raise self._another(trained, name, tensor)

    def _another(self, trained: Patched, name: str, tensor: Tensor) -> DeltaError:
        of_base = trained.base.base.entries[trained.base.name_in_base(name)]
        if list(of_base.shape) == list(tensor.shape):
            advice = f"dtype, such as dtype={dtype_of(trained.entries[name].dtype)}"
        else:
            advice = "shape, with as many labels and tokens"
        return DeltaError(
            f"{name} is {entry_of(tensor).dtype} {list(tensor.shape)} in the model, but {of_base.dtype} "
            f"{list(of_base.shape)} in the base {trained.base.where!r}, and {trained.entries[name].dtype} in "
            f"{trained.delta.path}. Load the base in the same {advice}."
        )

    def _tensor(self, name: str) -> Tensor | None:
        """Return the tensor in memory with a name on disk, which may also be its name in memory."""
        return self.tensors.get(self.layout.names.get(name, name))

    def _groups(self, trained: Patched) -> list[ConvertedTensors]:
        """Return the groups whose parts are stored one by one."""
        return [group for group in self.layout.groups if any(name in trained.entries for name in group.disk)]

    def _module_of(self, name: str) -> nn.Module:
        return self.model.get_submodule(self.layout.names.get(name, name).rpartition(".")[0])


def _writes(tensors: Iterable[Tensor]) -> Writes:
    # torch counts no writes to inference tensors.
    return tuple((tensor.data_ptr(), -1 if tensor.is_inference() else tensor._version) for tensor in tensors)


def _holders(model: nn.Module, names: Iterable[str]) -> dict[str, tuple[Mapping[str, object], str, object]]:
    found: dict[str, tuple[Mapping[str, object], str, object]] = {}
    for name in names:
        module, path = model, ""
        for part in name.split("."):
            path = f"{path}.{part}" if path else part
            held: Mapping[str, object] = next(
                (own for own in (module._modules, module._parameters, module._buffers) if part in own), {}
            )
            if part not in held:  # a name of a model's own state_dict()
                break
            found[path] = held, part, held[part]
            if isinstance(child := held[part], nn.Module):
                module = child
    return found
