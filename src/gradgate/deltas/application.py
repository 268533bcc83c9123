"""Combine a base and a delta into a folder that ``from_pretrained`` loads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from gradgate.deltas.delta import Delta, load
from gradgate.deltas.model_files import copy_files, has_tokenizer, kept_files
from gradgate.deltas.patched import Patched, open_weights
from gradgate.deltas.safetensors_file import TensorEntry, streamed
from gradgate.deltas.weights import INDEX_FILE, WEIGHTS_FILE
from gradgate.errors import DeltaError, RunError
from gradgate.files import write_files
from gradgate.places import typed_path
from gradgate.replacing import replaced_folder

_MOST_SHARD_BYTES = 5 << 30


def apply(
    delta: str | os.PathLike[str] | Delta,
    base: str | os.PathLike[str] | None,
    out: str | os.PathLike[str],
    *,
    shard_bytes: int = _MOST_SHARD_BYTES,
) -> Path:
    """Write the trained model, bit for bit: weights, configuration and tokenizer.

    The folder appears once everything in it is on disk. The tokenizer is the one in the delta, else the one in the
    delta's folder, such as the folder of a run, else the base's.

    Args:
        delta: the file.
        base: the model that it belongs to; None for the one named in the delta.
        out: a folder that is absent or empty.
        shard_bytes: maximum size of one file of weights, in bytes.

    Returns:
        The folder.

    Raises:
        DeltaError: if the delta is damaged or of another base, or the folder cannot be written.
    """
    delta = delta if isinstance(delta, Delta) else load(Path(delta))
    out = typed_path(out)
    if out.is_dir() and any(out.iterdir()):
        raise DeltaError(f"{out} is not empty. Pass a new folder.")
    trained = Patched.checked(open_weights(os.fspath(base) if base is not None else delta.origin.base), delta)
    try:
        with replaced_folder(out) as part:
            _write_weights(trained, part, shard_bytes)
            _write_files(trained, part)
    except (OSError, RunError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DeltaError(
            f"Cannot write {out}: {reason}. Choose a writable folder, or free space on its disk."
        ) from error
    finally:
        trained.close()
    return out


def _write_weights(trained: Patched, folder: Path, most: int) -> None:
    shards = list(_shards(trained.entries, most))
    total = sum(entry.bytes for entry in trained.entries.values())
    files = {
        WEIGHTS_FILE if len(shards) == 1 else f"model-{number:05}-of-{len(shards):05}.safetensors": names
        for number, names in enumerate(shards, 1)
    }
    for file, names in files.items():
        with streamed(folder / file, {name: trained.entries[name] for name in names}, {"format": "pt"}) as writing:
            for name in names:
                writing.write(name, trained.read(name))
        trained.close()  # frees the mapped files before the next shard
    if len(files) > 1:
        places = {name: file for file, names in files.items() for name in names}
        index = {"metadata": {"total_size": total}, "weight_map": places}
        write_files(folder, {INDEX_FILE: json.dumps(index, indent=2) + "\n"})


def _shards(entries: dict[str, TensorEntry], most: int) -> Iterator[list[str]]:
    """Yield the names in order, in groups of at most ``most`` bytes, or of one tensor."""
    names: list[str] = []
    size = 0
    for name, entry in entries.items():
        if names and size + entry.bytes > most:
            yield names
            names, size = [], 0
        names.append(name)
        size += entry.bytes
    yield names


def _write_files(trained: Patched, folder: Path) -> None:
    delta_folder, stored = trained.delta.path.parent, trained.delta.origin.files
    of_folder = [path.name for path in kept_files(delta_folder)] if has_tokenizer(delta_folder) else []
    copy_files(trained.base.folder, folder, newer=(*stored, *of_folder))
    if of_folder:  # later files replace earlier ones
        copy_files(delta_folder, folder, newer=tuple(stored))
    if stored:
        write_files(folder, stored)
