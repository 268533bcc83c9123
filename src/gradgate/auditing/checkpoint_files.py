"""Open a checkpoint of any common form, and read it one tensor at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gradgate import hub
from gradgate.adapters.files import WEIGHTS_FILES
from gradgate.deltas.bits import code_of
from gradgate.deltas.patched import open_weights
from gradgate.deltas.safetensors_file import TensorEntry, damaged, read_header
from gradgate.deltas.weights import Weights, grouped_by_file
from gradgate.errors import DeltaError, some_of
from gradgate.layers.names import canonical_name
from gradgate.places import typed_path

_ADAPTERS = ("adapter_model.safetensors", "adapter_model.bin")
_GLOBAL = re.compile(r"GLOBAL ([\w.]+)")  # in torch's refusal
_NESTED = ("state_dict", "model", "model_state_dict", "module")
_PARTS = {"C32": "F16", "C64": "F32", "C128": "F64"}  # dtypes of the two parts of a complex number
_FURTHER = {torch.complex32: "C32", torch.complex128: "C128"}  # codes of dtypes that safetensors lacks


class StoredWeights:
    """Tensors of a checkpoint by canonical name, each as a dense tensor of real numbers.

    A complex tensor has its real and imaginary parts in a last axis, a quantized one its values.

    Args:
        weights: the files.
        adapter: they hold an adapter of PEFT.
    """

    def __init__(self, weights: Weights, *, adapter: bool = False) -> None:
        self._weights, self.adapter = weights, adapter
        self.where, self.folder = weights.where, weights.folder
        self._names = {canonical_name(name): name for name in weights.entries}

    @cached_property
    def entries(self) -> Mapping[str, TensorEntry]:
        """Dtype and shape of each tensor."""
        return {name: _described(self._weights.entries[stored]) for name, stored in self._names.items()}

    def read(self, name: str) -> Tensor:
        """Read one tensor; a sparse one comes with its zeros."""
        tensor = self._weights.read(self._names[name])
        if tensor.is_quantized:
            return tensor.dequantize()
        dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
        return torch.view_as_real(dense.resolve_conj()) if dense.is_complex() else dense

    def grouped(self) -> Iterator[list[str]]:
        """Yield the names by file, so that few files are open at a time."""
        mine = {stored: name for name, stored in self._names.items()}
        for names in grouped_by_file(self._weights):
            yield [mine[stored] for stored in names if stored in mine]

    def close(self) -> None:
        """Close the files; they are opened again when needed."""
        self._weights.close()


def _described(entry: TensorEntry) -> TensorEntry:
    """Return the entry of what is read of a tensor."""
    return TensorEntry(_PARTS[entry.dtype], (*entry.shape, 2)) if entry.dtype in _PARTS else entry


def open_checkpoint(name: str) -> StoredWeights:
    """Open a checkpoint: a folder, a file, a name on the hub, or ``sample``.

    Raises:
        DeltaError: if there is none, it is an adapter in AdapterHub's format, or a file is damaged or holds more than
            tensors.
    """
    path = typed_path(name)
    if path.is_file():
        return StoredWeights(SingleFile(path))
    if (path / "model" / "config.json").is_file() and not (path / "config.json").is_file():
        path = path / "model"  # the folder of a run
    found = next((path / each for each in _ADAPTERS if (path / each).is_file()), None)
    if found is not None and not (path / "model.safetensors").is_file():
        return StoredWeights(SingleFile(found), adapter=True)
    if of_hub := next((each for each in WEIGHTS_FILES if (path / each).is_file()), None):
        raise DeltaError(
            f"{path} holds {of_hub}, an adapter in AdapterHub's format, which cannot be compared with a model. "
            f"Expected a model of save_pretrained or an adapter of PEFT. Audit the training itself: gradgate audit -- "
            f"COMMAND."
        )
    return StoredWeights(open_weights(str(path) if path.exists() else name))


class SingleFile:
    """The tensors of one file: safetensors, or what ``torch.save`` wrote of a state.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.where, self.folder = path, str(path), path.parent
        self._safe = path.suffix == ".safetensors"
        self._opened: Any = None

    @cached_property
    def entries(self) -> Mapping[str, TensorEntry]:
        """Dtype and shape of each tensor."""
        if self._safe:
            return read_header(self.path)[0]
        return {name: TensorEntry(self._code_of(name, each), tuple(each.shape)) for name, each in self._open().items()}

    def _code_of(self, name: str, tensor: Tensor) -> str:
        dtype = torch.float32 if tensor.is_quantized else tensor.dtype
        try:
            return _FURTHER.get(dtype) or code_of(dtype)
        except KeyError:
            raise DeltaError(
                f"{self.path}: {name} has the dtype {tensor.dtype}, which cannot be compared. Save the model in a "
                f"dtype of 8 bits or more."
            ) from None

    def read(self, name: str) -> Tensor:
        """Read one tensor, whose memory is the mapped file."""
        try:
            tensor: Tensor = self._open().get_tensor(name) if self._safe else self._open()[name]
        except (SafetensorError, OSError, RuntimeError) as error:
            raise damaged(self.path, hub.first_line(error)) from None
        return tensor

    def close(self) -> None:
        """Close the file."""
        self._opened = None

    def _open(self) -> Any:
        if self._opened is None:
            self._opened = safe_open(self.path, framework="pt") if self._safe else _tensors_of(self.path)
        return self._opened


def _tensors_of(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file of ``torch.save``, also of a state within a training's checkpoint."""
    try:
        content = torch.load(path, map_location="cpu", mmap=is_zipfile(path), weights_only=True)
    except Exception as error:  # pickle, zip and torch have errors of their own
        more = _GLOBAL.search(str(error))
        reason = f"it holds a {more.group(1)}, which could run code" if more else hub.first_line(error)
        if isinstance(error, KeyError | EOFError | IndexError | ValueError):
            reason = "torch.save has not written it"
        raise DeltaError(
            f"{path} cannot be read ({reason}). Expected only tensors, as torch.save writes a state_dict; save the "
            f"model's state_dict() again, preferably as safetensors."
        ) from None
    if not isinstance(content, dict):
        raise DeltaError(f"{path} holds a {type(content).__name__}. Expected tensors by name, as of state_dict().")
    inner = next((content[name] for name in _NESTED if isinstance(content.get(name), dict)), content)
    tensors = dict(_named(inner))
    if not tensors:
        raise DeltaError(f"{path} has no tensors. Expected tensors by name, as of state_dict().")
    if nowhere := [name for name, each in tensors.items() if each.is_meta]:
        raise DeltaError(
            f"{path}: {some_of(nowhere, 3)} has no values: it was saved from the meta device. Save the model once its "
            f"weights are loaded."
        )
    return tensors


def _named(states: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of nested states under names with dots; states by number are those of an optimizer."""
    for name, each in states.items():
        if isinstance(name, str) and isinstance(each, Tensor):
            yield f"{prefix}{name}", each
        elif isinstance(name, str) and isinstance(each, dict):
            yield from _named(each, f"{prefix}{name}.")
