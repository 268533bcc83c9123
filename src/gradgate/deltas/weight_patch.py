"""Read weight patches of other tools as a trained model, and yield a delta's content to servers that take patches.

TRL's delta weight sync (https://github.com/huggingface/trl/pull/5937) writes ``NAME.idx`` and ``NAME.val`` as a delta
does, full tensors under their names, and in the metadata ``format=sparse_weight_patch`` and the ``encoding`` of the
indices: ``raw`` (int32) or ``gap_delta`` (distance to the previous index, minus 1, as uint16 or uint32). A delta has
``raw`` too, so that TRL's reader understands its single elements. vLLM takes patches in memory, in names and shapes of
the checkpoint: ``CheckpointWeightPatch`` of ``vllm/model_executor/model_loader/checkpoint_weight_patch.py`` (0.33).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from gradgate.deltas.bits import flat_bits
from gradgate.deltas.delta import ENCODING, INDICES, VALUES, Delta, load
from gradgate.deltas.patched import Patched, check_places, entry_of, open_weights
from gradgate.deltas.safetensors_file import TensorEntry, damaged, read_header
from gradgate.deltas.weights import Weights
from gradgate.errors import DeltaError

PATCH_FORMAT = "sparse_weight_patch"
_GAPS = "gap_delta"


class WeightPatch(NamedTuple):
    """New values of one tensor, with the fields of vLLM's ``CheckpointWeightPatch``.

    Attributes:
        name: in the checkpoint.
        shape: of the full tensor.
        dtype: of its values.
        values: flat, the elements at ``indices``, or all of them.
        indices: flat and increasing, int32 or int64, one per value; None if the values are the full tensor.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    values: Tensor
    indices: Tensor | None = None


def weight_patches(
    delta: str | os.PathLike[str] | Delta, base: str | os.PathLike[str] | None = None
) -> Iterator[WeightPatch]:
    """Yield the content of a delta, one tensor at a time, for a server that has the base, such as vLLM.

    vLLM's ``load_checkpoint_weight_patches`` takes them as they are, with full tensors and single elements in separate
    calls. Tensors of single elements come first. A tensor with another dtype than the base's is yielded in full.

    Args:
        delta: the file.
        base: folder or name of the base, whose shapes are read; by default the one named in the delta.

    Raises:
        DeltaError: for a delta that is damaged, or of another base.
    """
    delta = delta if isinstance(delta, Delta) else load(os.fspath(delta))
    trained = Patched.checked(open_weights(delta.origin.base if base is None else os.fspath(base)), delta)
    shared = trained.base.entries
    cast = [
        name
        for name, entry in trained.entries.items()
        if name in shared and entry.dtype != trained.base.own_dtype(name)
    ]
    for name in (name for name in delta.sparse if name not in cast):
        places, values = trained.patch(name)
        yield WeightPatch(name, trained.entries[name].shape, values.dtype, values, places)
    for name in dict.fromkeys((*delta.whole, *cast)):
        tensor = trained.read(name)
        yield WeightPatch(name, tuple(tensor.shape), tensor.dtype, tensor.view(-1))
    trained.close()


class PatchFile:
    """The weights of a base with a patch of TRL, one tensor at a time.

    Args:
        path: of the patch.
        base: the base that it belongs to; the file does not name it.

    Raises:
        DeltaError: if the file is not such a patch, or has tensors that the base lacks.
    """

    def __init__(self, path: Path, base: Weights) -> None:
        self.base, self.folder, self.where, self._path = base, base.folder, str(path), path
        entries, metadata = read_header(path)
        if metadata.get("format") != PATCH_FORMAT:
            raise DeltaError(
                f"{path} is not a weight patch: its format is {metadata.get('format')!r}, expected {PATCH_FORMAT!r}. "
                f"Pass the folder of a model, or a patch written by TRL."
            )
        self._encoding = metadata.get("encoding", _GAPS)
        if self._encoding not in (ENCODING, _GAPS):
            raise DeltaError(f"{path} has indices encoded as {self._encoding!r}; expected {ENCODING} or {_GAPS}.")
        self._stored = entries
        for name in dict.fromkeys(name.removesuffix(INDICES).removesuffix(VALUES) for name in entries):
            self._check(name)
        self._file: Any = safe_open(path, framework="pt")

    def _check(self, name: str) -> None:
        if name not in self.base.entries:
            raise DeltaError(f"{self._path} changes {name}, which {self.base.where} lacks. Pass the patch's own base.")
        wanted = self.base.entries[name]
        if name in self._stored:
            right = self._stored[name] == wanted
        else:
            places, values = self._stored.get(name + INDICES), self._stored.get(name + VALUES)
            right = bool(places and values and places.shape == values.shape and values.dtype == wanted.dtype)
        if not right:
            raise damaged(self._path, f"its entries for {name} do not fit a tensor {wanted.dtype} {list(wanted.shape)}")

    @property
    def entries(self) -> dict[str, TensorEntry]:
        """Dtype and shape of each tensor, as in the base."""
        return dict(self.base.entries)

    def read(self, name: str) -> Tensor:
        """Read one tensor, with the patch applied."""
        if name in self._stored:
            return self._tensor(name)
        if name + VALUES not in self._stored:
            return self.base.read(name)
        places, values = self._tensor(name + INDICES), self._tensor(name + VALUES)
        places = places.long()
        if self._encoding == _GAPS:
            places = torch.cumsum(places + 1, 0) - 1
        tensor = self.base.read(name).clone()
        check_places(self._path, name, places, entry_of(tensor).elements)
        flat_bits(tensor).scatter_(0, places, flat_bits(values))
        return tensor

    def _tensor(self, name: str) -> Tensor:
        tensor: Tensor = self._file.get_tensor(name)
        return tensor

    def close(self) -> None:
        """Close the base's files."""
        self.base.close()
