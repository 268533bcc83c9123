"""Create a delta: the difference between a trained model and its base."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradgate.deltas.bits import changed_at, dtype_of, flat_bits
from gradgate.deltas.changes import Changes, compare
from gradgate.deltas.delta import INDICES, VALUES, Delta, just_written
from gradgate.deltas.model_files import differing_files
from gradgate.deltas.patched import open_weights
from gradgate.deltas.plain_model import check_no_adapter
from gradgate.deltas.safetensors_file import StreamedFile, streamed, sum_bytes
from gradgate.deltas.weight_patch import PatchFile
from gradgate.deltas.weights import Weights
from gradgate.errors import DeltaError
from gradgate.places import typed_path

if TYPE_CHECKING:
    from torch.nn import Module

Place = str | os.PathLike[str]


def create(
    model: Place | Module, base: Place, out: Place, *, method: str | None = None, task: str | None = None
) -> Delta:
    """Write a delta: base and delta together are bit for bit the trained model.

    Both models are read one tensor at a time, and tensors that differ are read twice.

    Args:
        model: the trained model: a folder written by ``save_pretrained``, a hub name, a weight patch written by TRL for
            the base, or a transformers model in memory, which is first saved to a temporary folder next to ``out``.
        base: the folder or the name of the model that it was trained from, or ``sample``.
        out: the file to write.
        method, task: names for the record.

    Raises:
        DeltaError: if a model cannot be read, has no tensor of the base, or the file cannot be written.
    """
    out = typed_path(out)
    with _folder_of(model, out) as name:
        changes = compare(_trained(name, base), open_weights(os.fspath(base)), _recorded(base))
        return _write(changes, out, method, task)


def _trained(name: str, base: Place) -> Weights:
    """Open the weights of a trained model, or of the base with a patch file applied."""
    if typed_path(name).is_file():
        return PatchFile(typed_path(name), open_weights(os.fspath(base)))
    return open_weights(name)


def create_if_below(
    share: float, model: Place, base: Place, out: Place, *, method: str | None = None, task: str | None = None
) -> Delta | None:
    """Create a delta if it is smaller than a share of the trained model's weights; else return None."""
    changes = compare(open_weights(os.fspath(model)), open_weights(os.fspath(base)), _recorded(base))
    if changes.bytes >= share * sum_bytes(changes.trained.entries.values()):
        return None
    return _write(changes, Path(out), method, task)


def _write(changes: Changes, out: Path, method: str | None, task: str | None) -> Delta:
    files = differing_files(changes.trained.folder, changes.base.folder)
    origin = replace(changes.origin, method=method, task=task, files=files)
    with streamed(out, changes.entries, origin.metadata(), digest=True) as file:
        for name, change in changes.found.items():
            if change.stored == "whole":
                file.write(name, changes.trained.read(name))
            elif change.stored == "sparse":
                _write_sparse(file, changes, name)
    changes.trained.close()
    changes.base.close()
    return just_written(out)


def _write_sparse(file: StreamedFile, changes: Changes, name: str) -> None:
    import torch

    tensor = changes.trained.read(name)
    dtype = changes.trained.entries[name].dtype
    of_base, cast = changes.base.read(name, dtype), dtype != changes.base.own_dtype(name)
    places = torch.cat([torch.empty(0, dtype=torch.int64), *changed_at(tensor, of_base, cast=cast)])
    file.write(name + INDICES, places.to(dtype_of(changes.entries[name + INDICES].dtype)))
    file.write(name + VALUES, flat_bits(tensor)[places])


def _recorded(base: Place) -> str:
    """Return the base's name for the record: an absolute path, so that it is found from any folder, or a hub name."""
    path = typed_path(base)
    return str(path.resolve()) if path.is_dir() else os.fspath(base)


@contextmanager
def _folder_of(model: Any, out: Path) -> Iterator[str]:
    """Yield a folder or name with the weights of a model, under their names on disk."""
    if isinstance(model, str | os.PathLike):
        yield os.fspath(model)
        return
    if not hasattr(model, "save_pretrained"):
        raise DeltaError(
            f"{type(model).__name__} has no save_pretrained, so the names of its tensors on disk are not known. "
            f"Expected a transformers model, or the folder that one was saved in."
        )
    check_no_adapter(model)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", suffix=".part", dir=out.parent) as folder:
            model.save_pretrained(folder)
            yield folder
    except OSError as error:
        raise DeltaError(f"Cannot write next to {out}: {error.strerror or error}. Free space on its disk.") from error
