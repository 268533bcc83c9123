"""Read the weights of a model on disk, one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any, Protocol

from safetensors import SafetensorError, safe_open

from gradgate import hub
from gradgate.deltas.safetensors_file import TensorEntry, damaged, read_header
from gradgate.errors import DeltaError, RunError
from gradgate.files import read_json

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_PICKLED = "pytorch_model.bin"
_LAYOUTS = ((WEIGHTS_FILE, INDEX_FILE), (_PICKLED, f"{_PICKLED}.index.json"))
_SMALL_FILES = ("*.json", "*.txt", "*.model", "*.jinja", "*.codes", "*.spm", "*.tiktoken", "*.tokenizer")


class Weights(Protocol):
    """Named tensors of a model, in the order of its files.

    Attributes:
        where: the model's name in messages.
        folder: of its configuration and tokenizer.
        entries: dtype and shape of each tensor, known without reading it.
    """

    where: str
    folder: Path

    @property
    def entries(self) -> Mapping[str, TensorEntry]: ...

    def read(self, name: str) -> Tensor:
        """Read one tensor, which must not be modified: its memory may be the mapped file."""

    def close(self) -> None:
        """Close the files that were read; they are opened again when needed."""


class Checkpoint:
    """A folder with ``model.safetensors``, in one file or in shards with their index, or ``pytorch_model.bin``.

    Args:
        folder: written by ``save_pretrained``.
        where: its name in messages.

    Raises:
        DeltaError: if it contains no weights, or its index is damaged.
    """

    def __init__(self, folder: Path, where: str) -> None:
        self.folder, self.where = folder, where
        self._files, self._index = _files_of(folder, where)
        self._open: dict[Path, Any] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the weights, with their index."""
        return (*self._files, *self._index)

    @cached_property
    def _places(self) -> dict[str, tuple[Path, TensorEntry]]:
        places: dict[str, tuple[Path, TensorEntry]] = {}
        for file in self._files:
            entries = _pickled_entries(self._opened(file)) if file.suffix == ".bin" else read_header(file)[0]
            places |= {name: (file, entry) for name, entry in entries.items()}
        return places

    @cached_property
    def entries(self) -> dict[str, TensorEntry]:
        """Dtype and shape of each tensor."""
        return {name: entry for name, (_, entry) in self._places.items()}

    def file_of(self, name: str) -> Path:
        """Return the file that contains a tensor."""
        return self._places[name][0]

    def read(self, name: str) -> Tensor:
        """Read one tensor, whose memory is the mapped file."""
        file = self._places[name][0]
        try:
            opened = self._opened(file)
            tensor: Tensor = opened[name] if file.suffix == ".bin" else opened.get_tensor(name)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise damaged(file, hub.first_line(error)) from None
        return tensor

    def close(self) -> None:
        """Close the files."""
        self._open.clear()

    def _opened(self, file: Path) -> Any:
        if file not in self._open:
            self._open[file] = _unpickled(file) if file.suffix == ".bin" else safe_open(file, framework="pt")
        return self._open[file]


def has_weights(folder: Path) -> bool:
    """Return True if a folder contains the weights of a model, or an index of them."""
    return any((folder / name).is_file() for single, index in _LAYOUTS for name in (single, index))


def _files_of(folder: Path, where: str) -> tuple[list[Path], list[Path]]:
    """Return the files of the weights, and their index if there is one."""
    for single, index in _LAYOUTS:
        if (folder / single).is_file():
            return [folder / single], []
        if (folder / index).is_file():
            return [folder / name for name in _shards(folder / index)], [folder / index]
    raise DeltaError(
        f"{where} has no weights: there is neither {WEIGHTS_FILE} nor {_PICKLED} in {folder}. Expected a folder "
        f"written by save_pretrained."
    )


def _shards(index: Path) -> list[str]:
    """Return the files that an index names, each once."""
    try:
        weight_map = read_json(index).get("weight_map")
    except RunError as error:
        raise DeltaError(str(error)) from None
    names = list(dict.fromkeys(weight_map.values())) if isinstance(weight_map, dict) else []
    wrong = [name for name in names if not (isinstance(name, str) and is_plain(name))]
    if wrong or not names:
        raise damaged(index, f"its weight_map names {wrong[:1] or 'no file'}; expected names of files in its folder")
    return names


def is_plain(name: str) -> bool:
    """Return True if a name is a file's on every system, and points to nothing outside its folder."""
    return name not in ("", ".", "..") and PurePosixPath(name).name == name == PureWindowsPath(name).name


def _unpickled(file: Path) -> dict[str, Tensor]:
    import torch

    try:
        content = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # pickle, zip and torch have errors of their own
        raise DeltaError(
            f"{file} cannot be read ({hub.first_line(error)}). Expected only tensors, as torch.save writes them since "
            f"version 1.6; save the model again as safetensors."
        ) from None
    return {name: tensor for name, tensor in content.items() if isinstance(tensor, torch.Tensor)}


def _pickled_entries(tensors: Mapping[str, Tensor]) -> dict[str, TensorEntry]:
    from gradgate.deltas.bits import code_of

    return {name: TensorEntry(code_of(tensor.dtype), tuple(tensor.shape)) for name, tensor in tensors.items()}


def grouped_by_file(weights: Weights) -> Iterable[list[str]]:
    """Return the names of tensors grouped by file, so that few files are in memory at once."""
    if not isinstance(weights, Checkpoint):
        return [list(weights.entries)]
    groups: dict[Path, list[str]] = {}
    for name in weights.entries:
        groups.setdefault(weights.file_of(name), []).append(name)
    return groups.values()


def find_folder(name: str) -> Path:
    """Return the folder of a model: itself, the embedded one for ``sample``, or its snapshot from the hub.

    Raises:
        DeltaError: if there is none, or the hub's cannot be downloaded.
    """
    try:
        source = Path(hub.model_source(name))
    except RunError as error:
        raise DeltaError(str(error)) from None
    return source if source.is_dir() else _snapshot(name)


def _snapshot(name: str) -> Path:
    """Return a hub model's folder in the cache, or download its weights in the first layout that exists."""
    from huggingface_hub import snapshot_download

    reason: Exception | None = None
    for weights in (None, "model*.safetensors", "pytorch_model*.bin"):
        if weights is not None and not hub.is_reachable(name):
            break
        try:
            patterns = None if weights is None else [*_SMALL_FILES, weights]
            folder = Path(snapshot_download(name, allow_patterns=patterns, local_files_only=weights is None))
        except Exception as error:  # the client raises errors of its HTTP library
            reason = error
            continue
        if has_weights(folder):
            return folder
    why = hub.not_loaded(reason) if reason else "it has no readable weights"
    raise DeltaError(
        f"Cannot find the weights of {name!r}: {why}. Expected a folder, or the name of a model on "
        f"the hub; check the name and the network."
    )
