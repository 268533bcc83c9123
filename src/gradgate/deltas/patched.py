"""Read the weights of a trained model from its base and its delta, one tensor at a time."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gradgate import hub
from gradgate.deltas.bits import code_of, dtype_of, flat_bits
from gradgate.deltas.delta import DELTA_FILE, FLOATS, INDICES, VALUES, Delta, Origin, can_cast, load
from gradgate.deltas.fingerprint import digests_of, fingerprint
from gradgate.deltas.safetensors_file import TensorEntry, damaged
from gradgate.deltas.weights import Checkpoint, Weights, find_folder, has_weights
from gradgate.errors import DeltaError

# Checkpoints converted from TensorFlow, such as BERT's own, have other names for norms than models in memory.
RENAMED = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))


def open_weights(name: str, above: tuple[Path, ...] = ()) -> Weights:
    """Open the weights of a model: from a folder, from the hub, or from a folder with a delta and its base.

    Args:
        name: of the model.
        above: folders of the deltas of which it is the base.

    Raises:
        DeltaError: if there is no such model, or its files are damaged or belong to another base, or a delta is its
            own base.
    """
    folder = find_folder(name)
    delta = _only_delta(folder, above)
    if delta is not None:
        return Patched.checked(open_weights(delta.origin.base, (*above, folder.resolve())), delta, folder)
    return Checkpoint(folder, name)


def weight_files(name: str, above: tuple[Path, ...] = ()) -> list[Path]:
    """Return the files that :func:`open_weights` reads; raise DeltaError as it does."""
    folder = find_folder(name)
    delta = _only_delta(folder, above)
    if delta is not None:
        return [delta.path, *weight_files(delta.origin.base, (*above, folder.resolve()))]
    return list(Checkpoint(folder, name).files)


def _only_delta(folder: Path, above: tuple[Path, ...]) -> Delta | None:
    """Return the delta in a folder; None if it has whole weights, or neither."""
    file = folder / DELTA_FILE
    if not file.is_file() or has_weights(folder):
        return None
    if folder.resolve() in above:
        raise DeltaError(
            f"{file} has no base: the bases that it and its bases name lead back to its own folder, which has no whole "
            f"weights. Pass the model that it was trained from as the base, or restore it there."
        )
    return load(file)


class Mapped:
    """The base's weights under the trained model's names and in its floating-point dtype.

    Args:
        base: the weights of the base.
        origin: its names and its dtype are used.
    """

    def __init__(self, base: Weights, origin: Origin) -> None:
        self.base, self.where, self.folder = base, base.where, base.folder
        self._mine, self._theirs = origin.prefix
        self._cast, self._casts = origin.dtype, origin.dtypes
        self._renamed = () if origin.older_names else RENAMED
        self._names = {self._named(name): name for name in base.entries if name not in origin.left_out}

    def _named(self, name: str) -> str:
        mine = self._mine + name[len(self._theirs) :] if name.startswith(self._theirs) else name
        for older, newer in self._renamed:
            mine = mine.replace(older, newer)
        return mine

    def name_in_base(self, name: str) -> str:
        """Return the base's name of a tensor."""
        return self._names[name]

    @cached_property
    def entries(self) -> dict[str, TensorEntry]:
        """Dtype and shape of each tensor, after the cast."""
        of_base = self.base.entries
        return {name: TensorEntry(self._type(name), of_base[theirs].shape) for name, theirs in self._names.items()}

    def _type(self, name: str) -> str:
        own = self.own_dtype(name)
        return self._casts.get(name) or (self._cast if self._cast is not None and own in FLOATS else own)

    def own_dtype(self, name: str) -> str:
        """Return the dtype of a tensor in the base's files."""
        return self.base.entries[self._names[name]].dtype

    def read(self, name: str, dtype: str | None = None) -> Tensor:
        """Read one tensor, cast from its own dtype to ``dtype``; by default to the one in ``entries``."""
        return self.base.read(self._names[name]).to(dtype_of(dtype or self.entries[name].dtype))

    def close(self) -> None:
        """Close the base's files."""
        self.base.close()


class Patched:
    """The weights of a trained model, from its base and its delta."""

    def __init__(self, base: Weights, delta: Delta, folder: Path | None = None) -> None:
        self.base, self.delta = Mapped(base, delta.origin), delta
        self.folder = folder or delta.path.parent
        self.where = str(folder or delta.path)
        self._shared = self.base.entries
        self._check_names()
        self._file: Any = safe_open(delta.path, framework="pt")

    @classmethod
    def checked(cls, base: Weights, delta: Delta, folder: Path | None = None) -> Patched:
        """Check the fingerprint of the base, and return the trained model's weights.

        Raises:
            DeltaError: if the delta belongs to another base.
        """
        check_base(base, delta)
        return cls(base, delta, folder)

    def _check_names(self) -> None:
        for name, dtype in self.delta.origin.dtypes.items():
            if name not in self._shared or not can_cast(own := self.base.own_dtype(name), dtype):
                fault = f"is {own} in the base" if name in self._shared else "is not in the base"
                raise damaged(self.delta.path, f"its metadata cast {name} to {dtype}, and it {fault}")
        for name, values in self.delta.sparse.items():
            if name not in self._shared:
                raise damaged(self.delta.path, f"{name}{INDICES} belongs to a tensor that the base does not have")
            shape, new = self._shared[name].shape, self.delta.origin.shapes.get(name)
            if new is not None and (not new or new[1:] != shape[1:] or min(new) < 0):
                raise damaged(self.delta.path, f"{name} has the shape {list(new)}, and {list(shape)} in the base")
            beyond = TensorEntry(values.dtype, new or shape).elements - self._shared[name].elements
            if beyond > values.elements:
                raise damaged(self.delta.path, f"{name}{INDICES} leaves out elements of the rows that the base lacks")

    @cached_property
    def entries(self) -> dict[str, TensorEntry]:
        """Dtype and shape of each tensor of the trained model."""
        shapes = self.delta.origin.shapes
        patched = {
            name: TensorEntry(values.dtype, shapes.get(name, self._shared[name].shape))
            for name, values in self.delta.sparse.items()
        }
        return {**self._shared, **patched, **self.delta.whole}

    def read(self, name: str) -> Tensor:
        """Read one tensor; check a sparse one before applying it."""
        if name in self.delta.whole:
            return self._stored(name)
        base = self.base.read(name)
        return self._put_together(name, base) if name in self.delta.sparse else base

    def patch(self, name: str) -> tuple[Tensor, Tensor]:
        """Return the flat indices and the values of a sparse tensor, after checking them.

        Raises:
            DeltaError: if they do not fit this tensor.
        """
        places, values = self._stored(name + INDICES), self._stored(name + VALUES)
        entry = self.entries[name]
        check_places(self.delta.path, name, places, entry.elements)
        if entry.dtype != self._shared[name].dtype:
            raise damaged(
                self.delta.path, f"{name}{VALUES} is {entry.dtype}, and the base has {self._shared[name].dtype}"
            )
        return places, values

    def _put_together(self, name: str, base: Tensor) -> Tensor:
        places, values = self.patch(name)
        shape = self.entries[name].shape
        common = min(self.entries[name].elements, base.numel())
        beyond = self.entries[name].elements - common
        # The base has no values for new rows, so the last indices must be all of their elements.
        if beyond and (len(places) < beyond or int(places[-beyond]) != common):
            raise damaged(self.delta.path, f"{name}{INDICES} leaves out elements of the rows that the base lacks")
        whole = torch.empty(shape, dtype=base.dtype)
        mine, theirs = flat_bits(whole), flat_bits(base)
        mine[:common] = theirs[:common]
        mine.scatter_(0, places.long(), flat_bits(values))
        return whole

    def _stored(self, name: str) -> Tensor:
        try:
            tensor: Tensor = self._file.get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise damaged(self.delta.path, hub.first_line(error)) from None
        return tensor

    def close(self) -> None:
        """Close the base's files."""
        self.base.close()


def check_places(path: Path, name: str, places: Tensor, count: int) -> None:
    """Check that indices increase strictly, within a tensor of ``count`` elements.

    Raises:
        DeltaError: if they do not.
    """
    if not len(places):
        return
    first, last = int(places[0]), int(places[-1])
    rising = bool((places[1:] > places[:-1]).all())
    if not rising or first < 0 or last >= count:
        fault = f"indices from {int(places.min())} to {int(places.max())}" if rising else "unsorted or repeated indices"
        raise damaged(path, f"{name}{INDICES} has {fault}; expected increasing ones below {count}")


def check_base(base: Weights, delta: Delta) -> None:
    """Check that a delta belongs to a base.

    Raises:
        DeltaError: if not, with the names of both bases.
    """
    found = fingerprint(base.entries, digests_of(base))
    wanted = delta.origin.base_fingerprint
    if found != wanted:
        raise DeltaError(
            f"{delta.path} belongs to the base {delta.origin.base!r} (fingerprint {wanted[:16]}…), and {base.where!r} "
            f"has the fingerprint {found[:16]}…. Nothing was changed; pass the base that the model was trained from."
        )


def entry_of(tensor: Tensor) -> TensorEntry:
    """Return the dtype and shape of a tensor in memory."""
    return TensorEntry(code_of(tensor.dtype), tuple(tensor.shape))
