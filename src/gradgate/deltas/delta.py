"""Read a delta file: its base and the tensors that differ. This module does not import torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from gradgate.deltas.safetensors_file import DIGEST, TensorEntry, check_digest, damaged, read_header, sum_bytes
from gradgate.deltas.weights import is_plain
from gradgate.errors import DeltaError, fault_with_place
from gradgate.places import typed_path

FORMAT = "gradgate-delta"
VERSIONS = ("1", "1.1")
"""1.1 has tensors whose dtype changed, which readers of 1 would leave in the base's."""
ENCODING = "raw"
"""Encoding of the indices, under the name that other readers of this layout use for absolute ones."""
INDICES, VALUES = ".idx", ".val"
DELTA_FILE = "delta.safetensors"
"""Its name in the ``model`` folder of a run."""

FLOATS = ("F64", "F32", "F16", "BF16")
_INTEGERS = ("I64", "I32", "I16", "I8", "U8", "BOOL")
_INDEX_TYPES = ("I32", "I64")
_KEPT_FILES = (".json", ".txt", ".model", ".jinja")  # of a configuration or a tokenizer; never code


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The metadata of a delta.

    Attributes:
        base: folder or name of the base model.
        base_fingerprint: of the weights of the base; see :mod:`gradgate.deltas.fingerprint`.
        method: the method that trained the model; None if unknown.
        task: the task that it was trained on; None if unknown.
        prefix: the prefix of names in the trained model, and the one of names in the base.
        older_names: True if norms have the older names of the base, such as ``LayerNorm.gamma``, in the trained model
            too.
        left_out: tensors of the base that the trained model lacks, such as the head of its pretraining.
        dtype: dtype to which floating-point tensors of the base are cast first; None if they are not.
        dtypes: dtypes to which single tensors of the base are cast instead, by name.
        shapes: shapes of sparse tensors with more or fewer rows than the base's.
        files: configuration of the trained model, and files of its tokenizer if it differs from the base's.
    """

    base: str
    base_fingerprint: str
    method: str | None = None
    task: str | None = None
    prefix: tuple[str, str] = ("", "")
    older_names: bool = False
    left_out: tuple[str, ...] = ()
    dtype: str | None = None
    dtypes: dict[str, str] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    _TEXT: ClassVar[tuple[str, ...]] = ("base", "base_fingerprint", "method", "task", "dtype")

    def metadata(self) -> dict[str, str]:
        """Return the metadata as safetensors stores it: text by name, JSON if a value is not text."""
        present = {name: value for name, value in asdict(self).items() if value or name in self._TEXT[:2]}
        texts = {name: value if name in self._TEXT else json.dumps(value) for name, value in present.items()}
        version = VERSIONS[1] if self.dtypes else VERSIONS[0]
        return {"format": FORMAT, "version": version, "encoding": ENCODING, **texts}

    @classmethod
    def read(cls, metadata: Mapping[str, str], path: Path) -> Origin:
        """Read the metadata of a file.

        Raises:
            DeltaError: if it is not a delta's, of another version, or damaged.
        """
        if metadata.get("format") != FORMAT:
            raise DeltaError(
                f"{path} is not a delta: its format is {metadata.get('format')!r}, expected {FORMAT!r}. Pass a file "
                f"written by 'gradgate delta create'."
            )
        if metadata.get("version") not in VERSIONS:
            raise DeltaError(
                f"{path} has version {metadata.get('version')!r} of the format, but this reader supports "
                f"{' and '.join(map(repr, VERSIONS))}. Install the version of gradgate that wrote it."
            )
        if metadata.get("encoding", ENCODING) != ENCODING:
            raise damaged(path, f"its indices are encoded as {metadata['encoding']!r}; expected {ENCODING!r}")
        names = [item.name for item in fields(cls)]
        try:
            values = {
                name: text if name in cls._TEXT else json.loads(text)
                for name, text in metadata.items()
                if name in names
            }
            read = _ORIGIN.validate_python(values)
        except (ValidationError, ValueError, RecursionError) as error:
            wrong = error.errors()[0] if isinstance(error, ValidationError) else None
            why = fault_with_place(wrong) if wrong else str(error)
            raise damaged(path, f"its metadata cannot be read ({why})") from None
        if read.dtype is not None and read.dtype not in FLOATS:
            raise damaged(path, f"its metadata names the dtype {read.dtype!r}; expected one of {', '.join(FLOATS)}")
        unsafe = [name for name in read.files if not (is_plain(name) and name.endswith(_KEPT_FILES))]
        if unsafe:
            raise damaged(path, f"{unsafe[0]!r} cannot be the name of a file of a model; expected config.json and such")
        return read


_ORIGIN: TypeAdapter[Origin] = TypeAdapter(Origin)


def can_cast(before: str, after: str) -> bool:
    """Return True if a delta may cast one dtype to the other: both of floats, or both of integers."""
    return before == after or any({before, after} <= set(dtypes) for dtypes in (FLOATS, _INTEGERS))


@dataclass(frozen=True)
class Delta:
    """A delta file, whose structure and digest have been checked.

    Attributes:
        path: of the file.
        origin: its metadata.
        whole: tensors that are stored in full, by name.
        sparse: tensors of which single elements are stored: dtype and number of the values.
        entries: everything in the file, as stored.
    """

    path: Path
    origin: Origin
    whole: dict[str, TensorEntry]
    sparse: dict[str, TensorEntry]
    entries: dict[str, TensorEntry] = field(repr=False)

    @cached_property
    def bytes(self) -> int:
        """Size of the file, in bytes."""
        return self.path.stat().st_size

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all tensors that differ from the base's, without those that only the cast of all changes."""
        return (*self.whole, *self.sparse, *(name for name in self.origin.dtypes if name not in self.sparse))

    def describe(self) -> dict[str, Any]:
        """Return all facts about the delta, as JSON values."""
        origin = self.origin
        return {
            "file": str(self.path),
            "bytes": self.bytes,
            **{name: getattr(origin, name) for name in ("base", "base_fingerprint", "method", "task", "dtype")},
            "dtypes": dict(origin.dtypes),
            "left_out": list(origin.left_out),
            "shapes": {name: list(shape) for name, shape in origin.shapes.items()},
            "files": sorted(origin.files),
            "whole": {name: {"dtype": e.dtype, "shape": list(e.shape)} for name, e in self.whole.items()},
            "sparse": {name: {"dtype": e.dtype, "elements": e.elements} for name, e in self.sparse.items()},
            "whole_bytes": sum_bytes(self.whole.values()),
            "sparse_bytes": sum_bytes(self.entries.values()) - sum_bytes(self.whole.values()),
        }


def load(path: Path | str) -> Delta:
    """Open a delta file, and check its structure and digest.

    Raises:
        DeltaError: if it is absent, damaged or not a delta.
    """
    path = typed_path(path)
    delta, digest = _read(path)
    check_digest(path, digest)
    return delta


def just_written(path: Path) -> Delta:
    """Open a delta file that this process has just written, without checking its digest."""
    return _read(path)[0]


def _read(path: Path) -> tuple[Delta, str]:
    """Return the delta that a file's header describes, and the digest in it."""
    entries, metadata = read_header(path)
    origin = Origin.read(metadata, path)
    if DIGEST not in metadata:
        raise damaged(path, f"its metadata has no {DIGEST}")
    odd = [name for name in entries if not _is_name(name)]
    if odd:
        raise damaged(path, f"{odd[0]!r} cannot be the name of a weight; expected one such as 'encoder.layer.0.weight'")
    sparse = _sparse(path, entries)
    parts = {f"{name}{end}" for name in sparse for end in (INDICES, VALUES)}
    whole = {name: entry for name, entry in entries.items() if name not in parts}
    twice = [name for name in sparse if name in whole]
    stray = [name for name in origin.shapes if name not in sparse]
    if twice or stray:
        name = (twice or stray)[0]
        raise damaged(path, f"{name!r} is {'stored twice' if twice else 'given a shape and not stored'}")
    return Delta(path, origin, whole, sparse, entries), metadata[DIGEST]


def info(path: Path | str) -> dict[str, Any]:
    """Return :meth:`Delta.describe` of a file; raise DeltaError as :func:`load` does."""
    return load(path).describe()


def _is_name(name: str) -> bool:
    return bool(name) and name.isprintable() and not any(mark in name for mark in "/\\") and ".." not in name


def _sparse(path: Path, entries: Mapping[str, TensorEntry]) -> dict[str, TensorEntry]:
    """Return the sparse tensors, each with the dtype and the number of its values."""
    sparse: dict[str, TensorEntry] = {}
    stems = dict.fromkeys(name[: -len(end)] for name in entries for end in (INDICES, VALUES) if name.endswith(end))
    for stem in stems:
        places, values = entries.get(stem + INDICES), entries.get(stem + VALUES)
        if places is None or values is None:
            absent, there = (INDICES, VALUES) if places is None else (VALUES, INDICES)
            raise damaged(path, f"it has {stem + there} without {stem + absent}")
        if places.dtype not in _INDEX_TYPES or len(places.shape) != 1 or places.shape != values.shape:
            raise damaged(
                path,
                f"{stem + INDICES} is {places.dtype} {list(places.shape)} and {stem + VALUES} has the shape "
                f"{list(values.shape)}; expected one index of {' or '.join(_INDEX_TYPES)} per value",
            )
        sparse[stem] = values
    return sparse
