"""Read headers of safetensors files, and write such files tensor by tensor and atomically."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from safetensors import SafetensorError, safe_open
from xxhash import xxh3_128

from gradgate.errors import DeltaError
from gradgate.replacing import replaced

if TYPE_CHECKING:
    from torch import Tensor

MOST_HEADER_BYTES = 100_000_000  # the limit of the format's own library
DIGEST = "digest"
_NO_DIGEST = "0" * 32
_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}


class TensorEntry(NamedTuple):
    """A file's description of one tensor.

    Attributes:
        dtype: code of the format, such as ``F32``.
        shape: of the tensor.
    """

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Size of one element, in bytes; 0 if it is smaller than a byte."""
        return bytes_of(self.dtype)

    @property
    def bytes(self) -> int:
        """Size of the tensor, in bytes."""
        bits = _BITS.get(self.dtype)
        return self.elements * self.item_bytes if bits is None else self.elements * bits // 8


def bytes_of(dtype: str) -> int:
    """Return the size of one element of a dtype such as ``BF16``, in bytes; 0 if it is smaller than a byte."""
    if dtype == "BOOL":
        return 1
    if dtype in _BITS:
        return 0
    digits = dtype.lstrip("BFIUC").partition("_")[0]
    return int(digits) // 8


def read_header(path: Path) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """Read the entries and the metadata of a file, without reading a tensor or importing torch.

    Raises:
        DeltaError: if it is absent, truncated or not a safetensors file.
    """
    _check_length(path)
    try:
        with safe_open(path, framework="numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - it is not a dict
            entries = {name: TensorEntry(part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
            return entries, dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise damaged(path, str(error)) from None


def damaged(path: Path, why: str) -> DeltaError:
    """Return the error for a file whose content is wrong."""
    return DeltaError(f"{path} is damaged: {why}. Nothing was changed; download or create the file again.")


def _check_length(path: Path) -> None:
    """Reject an impossible header length, before a library allocates memory for it."""
    try:
        if not path.is_file():
            raise DeltaError(f"There is no file {path}. Expected a safetensors file; check the path.")
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise DeltaError(f"Cannot read {path}: {error.strerror}. Expected a file that can be read.") from None
    if size < 8 or length > min(MOST_HEADER_BYTES, size - 8):
        raise damaged(
            path,
            f"its header would have {length:,} of {size:,} bytes, so it is not a complete safetensors file",
        )


def check_digest(path: Path, digest: str) -> None:
    """Check the digest of a file that :class:`StreamedFile` wrote with one.

    Raises:
        DeltaError: if a byte of the file differs from what was written.
    """
    with path.open("rb") as file:
        found = _digest_of(file, digest)
    if found != digest:
        raise damaged(path, f"its content has the digest {found[:16]}…, and {digest[:16]}… was written into it")


def _digest_of(file: IO[bytes], written: str) -> str:
    """Return the XXH3 of a file with zeros in place of its own digest."""
    start = file.read(8)
    header = file.read(int.from_bytes(start, "little"))
    state = xxh3_128(start + header.replace(written.encode(), _NO_DIGEST.encode(), 1))
    while block := file.read(1 << 22):
        state.update(block)
    return state.hexdigest()


class StreamedFile:
    """A safetensors file that is being written. Tensors may be written in any order, each once.

    Larger elements come before smaller ones, so that each is aligned, as readers that map the file require.

    Args:
        file: open for reading and writing.
        entries: every tensor that will be written.
        metadata: of the file.
    """

    def __init__(self, file: IO[bytes], entries: Mapping[str, TensorEntry], metadata: Mapping[str, str]) -> None:
        self._file = file
        self._places: dict[str, tuple[int, int]] = {}
        header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
        offset = 0
        for name, entry in sorted(entries.items(), key=lambda item: -item[1].item_bytes):
            self._places[name] = (offset, entry.bytes)
            ends = [offset, offset := offset + entry.bytes]
            header[name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": ends}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        if len(text) > MOST_HEADER_BYTES:
            raise DeltaError(
                f"The header would have {len(text):,} bytes; the format allows {MOST_HEADER_BYTES:,}. Leave out files."
            )
        self._start = 8 + len(text)
        file.write(len(text).to_bytes(8, "little") + text)
        _make_room(file, self._start + offset)

    def write(self, name: str, tensor: Tensor) -> None:
        """Write one tensor at its offset."""
        import torch

        data: Any = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
        offset, size = self._places.pop(name)
        if data.nbytes != size:
            raise RuntimeError(f"{name} has {data.nbytes} bytes, but {size} were announced")
        self._file.seek(self._start + offset)
        self._file.write(data)

    def finish(self, *, digest: bool) -> None:
        """Check that all tensors are written; with ``digest``, fill in the digest in the metadata."""
        if self._places:
            raise RuntimeError(f"{', '.join(self._places)} were announced but not written")
        if digest:
            self._file.flush()
            self._file.seek(0)
            computed = _digest_of(self._file, _NO_DIGEST)
            self._file.seek(0)
            place = self._file.read(self._start).index(_NO_DIGEST.encode())
            self._file.seek(place)
            self._file.write(computed.encode())


def _make_room(file: IO[bytes], size: int) -> None:
    """Reserve the file's space, so that a full disk fails at once; skip if the system has no such call."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise  # elsewhere the file system has no such call


@contextmanager
def streamed(
    path: Path, entries: Mapping[str, TensorEntry], metadata: Mapping[str, str], *, digest: bool = False
) -> Iterator[StreamedFile]:
    """Write a file that replaces an existing one only once it is complete and on disk.

    Args:
        path: of the file; its folder is created if absent.
        entries: every tensor that will be written.
        metadata: of the file.
        digest: store the digest of the file in its metadata, for :func:`check_digest`.

    Raises:
        DeltaError: if it cannot be written.
    """
    metadata = {DIGEST: _NO_DIGEST, **metadata} if digest else metadata
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced(path) as part, part.open("w+b") as file:
            writing = StreamedFile(file, entries, metadata)
            yield writing
            writing.finish(digest=digest)
    except OSError as error:
        raise DeltaError(
            f"Cannot write {path}: {error.strerror or error}. Choose a file in a writable folder, or free space on its "
            f"disk."
        ) from error


def sum_bytes(entries: Iterable[TensorEntry]) -> int:
    """Return the total size of tensors, in bytes."""
    return sum(entry.bytes for entry in entries)
