"""Store hidden states by key in a file; never read records that are damaged, half-written or of other weights.

A file has a header and then records, each ``magic, key, tokens, checksum of the values, checksum of this header``
and the values without padding. Records are only appended. Everything after a bad header is ignored, and the next writer
overwrites it, so that no process sees a file shrink below what it has mapped.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

import torch
from torch import Tensor

from gradgate.activation_cache.rows import KEY_BYTES
from gradgate.files import NoLocksError, take_lock
from gradgate.replacing import replaced

if TYPE_CHECKING:
    from filelock import FileLock

SUFFIX = ".rows"
FREE_BYTES = 1 << 30  # left free for checkpoints and other files
_LOOK_EACH = 64 << 20  # bytes between two checks of the free space
_FILE = struct.Struct("<8s16sI8sI24x")  # magic, fingerprint, width, dtype, checksum: 64 bytes
_RECORD = struct.Struct(f"<4s{KEY_BYTES}sII")  # magic, key, tokens, checksum of the values
_MAGIC, _MARK = b"GGprefx1", b"GGr1"
_SUM = struct.Struct("<I")
HEADER = _RECORD.size + _SUM.size
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}


class ActivationStore:
    """The rows of one prefix on disk. One process at a time appends to a file; others read it.

    Args:
        folder: created if absent.
        fingerprint: of everything that the states depend on apart from the row; names the file.
        width: of the hidden states.
        dtype: of the stored values.
        limit: bytes that all files of the folder may take; no rows are added beyond it.
        note: called with the reason when the store stops adding rows.
    """

    def __init__(
        self,
        folder: Path,
        fingerprint: bytes,
        width: int,
        dtype: torch.dtype,
        limit: int,
        note: Callable[[str], None],
    ) -> None:
        self.path = folder / f"{fingerprint.hex()}{SUFFIX}"
        self.dtype = dtype
        self._width = width
        self._note = note
        self._index: dict[bytes, tuple[int, int]] = {}
        self._view: mmap.mmap | None = None
        self._file: BinaryIO | None = None
        self._lock: FileLock | None = None
        self._end = self._looked = 0
        self._room = limit
        name = str(dtype).removeprefix("torch.")
        if name not in _DTYPES:
            self._stop(f"hidden states of {name} cannot be stored")
            return
        head = _FILE.pack(_MAGIC, fingerprint, width, name.encode(), 0)
        self._head = head[:36] + _SUM.pack(crc32(head[:36])) + head[40:]
        self._open(folder, limit)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def writes(self) -> bool:
        """True if this process adds rows."""
        return self._lock is not None

    def get(self, key: bytes) -> Tensor | None:
        """Return a copy of a row's states, shape (tokens, width), or None if they are absent or damaged."""
        place = self._index.get(key)
        if place is None:
            return None
        offset, tokens = place
        size = tokens * self._row_bytes
        block = bytearray(self._read(offset, HEADER + size))
        header, values = block[:HEADER], memoryview(block)[HEADER:]
        if len(values) != size or _parse(header) != (key, tokens, crc32(values)):
            del self._index[key]
            return None
        return torch.frombuffer(values, dtype=self.dtype).view(tokens, self._width)

    def add(self, rows: Iterable[tuple[bytes, Tensor]]) -> None:
        """Append rows, tensors of shape (tokens, width); do nothing if this process does not write."""
        if not self.writes or self._file is None:
            return
        blocks, places, end = [], [], self._end
        for key, states in rows:
            values = states.detach().to("cpu", self.dtype).contiguous().view(torch.uint8).numpy().tobytes()
            blocks.append(_header(key, len(states), crc32(values)) + values)
            places.append((key, (end, len(states))))
            end += len(blocks[-1])
        if not blocks or not self._has_room(end):
            return
        before = os.fstat(self._file.fileno()).st_size
        try:
            self._write(b"".join(blocks))
        except OSError as error:
            with suppress(OSError):  # never below the earlier size, which others may have mapped
                self._file.truncate(max(before, self._end))
            self._stop(f"{self.path.parent} cannot be written ({error.strerror or error})")
            return
        self._end = end
        self._index.update(places)

    def refresh(self) -> None:
        """Index the rows that another process has added since."""
        if not self.writes and self._file is not None:
            self._scan()

    def close(self) -> None:
        """Close the file, and release the lock for writing."""
        if self._lock is not None:
            self._lock.release()
        if self._file is not None:
            self._file.close()
        self._lock = self._file = self._view = None
        self._index = {}

    @property
    def _row_bytes(self) -> int:
        return self._width * self.dtype.itemsize

    def _open(self, folder: Path, limit: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(NoLocksError):  # then no process writes
                self._lock = take_lock(self.path.with_suffix(".lock"))
            if self._lock is not None and not self._is_ours():
                self._begin()
            others = sum(file.stat().st_size for file in folder.glob(f"*{SUFFIX}") if file != self.path)
            self._room = limit - others
            if self._is_ours():
                self._file = self.path.open("r+b" if self.writes else "rb", buffering=0)
                self._scan()
        except OSError as error:
            self._stop(f"{folder} cannot be used ({error.strerror or error})")

    def _is_ours(self) -> bool:
        if not self.path.is_file():
            return False
        with self.path.open("rb") as file:
            return file.read(_FILE.size) == self._head

    def _begin(self) -> None:
        with replaced(self.path) as part:  # a process that has the old one mapped keeps it
            part.write_bytes(self._head)

    def _scan(self) -> None:
        """Index the records from the end of the last scan, up to the first incomplete one."""
        assert self._file is not None
        size = os.fstat(self._file.fileno()).st_size
        offset = max(self._end, _FILE.size)
        while offset + HEADER <= size:
            record = _parse(self._read(offset, HEADER))
            if record is None:
                break
            key, tokens, _ = record
            end = offset + HEADER + tokens * self._row_bytes
            if end > size:  # another process is still writing this record
                break
            self._index[key] = (offset, tokens)
            offset = end
        self._end = offset

    def _read(self, offset: int, size: int) -> bytes:
        """Return bytes of the mapped file; none if the file ends before them."""
        if self._file is None:
            return b""
        try:
            length = os.fstat(self._file.fileno()).st_size  # reading a map beyond it would kill the process (SIGBUS)
            if offset + size > length:
                return b""
            if self._view is None or offset + size > len(self._view):
                self._view = mmap.mmap(self._file.fileno(), length, access=mmap.ACCESS_READ)
            return self._view[offset : offset + size]
        except (OSError, ValueError):
            return b""

    def _write(self, block: bytes) -> None:
        assert self._file is not None
        self._file.seek(self._end)
        rest = memoryview(block)
        while rest:
            rest = rest[self._file.write(rest) :]

    def _has_room(self, end: int) -> bool:
        if end > self._room:
            self._stop(f"{self.path.parent} has reached its size limit")
        elif not self._looked or end - self._looked > _LOOK_EACH:
            self._looked = end
            if shutil.disk_usage(self.path.parent).free < FREE_BYTES:
                self._stop(f"the disk of {self.path.parent} is almost full")
        return self.writes

    def _stop(self, why: str) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        self._note(f"The activation cache adds no more rows: {why}. Stored rows are still used; others are computed.")


def _header(key: bytes, tokens: int, checksum: int) -> bytes:
    header = _RECORD.pack(_MARK, key, tokens, checksum)
    return header + _SUM.pack(crc32(header))


def _parse(header: bytes | bytearray) -> tuple[bytes, int, int] | None:
    """Return the key, tokens and checksum of the values; None for anything that is not a complete header."""
    if len(header) != HEADER or header[_RECORD.size :] != _SUM.pack(crc32(header[: _RECORD.size])):
        return None
    mark, key, tokens, checksum = _RECORD.unpack(header[: _RECORD.size])
    return (key, tokens, checksum) if mark == _MARK else None
