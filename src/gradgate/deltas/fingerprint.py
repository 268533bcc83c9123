"""Identify a model by a digest of the names, dtypes, shapes and bits of its weights.

The digest is XXH3 of 128 bits over one line per tensor, in the order of the names: name, dtype, shape and the XXH3 of
its bytes. The division of a checkpoint into files makes no difference. The hash runs at the speed of memory and does
not protect against somebody who builds another model with the same hash; they could as well change the base itself. The
digests of a file are cached while the process runs and the file's size and time are unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from xxhash import xxh3_128_hexdigest

from gradgate.deltas.bits import digest_of
from gradgate.deltas.safetensors_file import TensorEntry
from gradgate.deltas.weights import Checkpoint, Weights, grouped_by_file

T = TypeVar("T")
_MOST_THREADS = 4

Digests = dict[str, str]
"""XXH3 of a tensor's bytes, by the tensor's name."""

_KNOWN: dict[tuple[Path, int, int], Digests] = {}


def fingerprint(entries: Mapping[str, TensorEntry], digests: Mapping[str, str]) -> str:
    """Return the fingerprint of tensors, as 32 hexadecimal digits."""
    lines = (f"{name}\t{entries[name].dtype}\t{list(entries[name].shape)}\t{digests[name]}\n" for name in entries)
    return xxh3_128_hexdigest("".join(sorted(lines)).encode())


def digests_of(weights: Weights) -> Digests:
    """Return the digest of each tensor of a model, and close its files."""
    digests: Digests = {}
    for names in grouped_by_file(weights):
        known = _known(weights, names)
        missing = [name for name in names if name not in known]
        known |= dict(zip(missing, in_threads(lambda name: digest_of(weights.read(name)), missing), strict=True))
        digests |= {name: known[name] for name in names}
        weights.close()
    return digests


def _known(weights: Weights, names: list[str]) -> Digests:
    """Return the cached digests of the file with these tensors; the caller adds those that are missing."""
    if not isinstance(weights, Checkpoint) or not names:
        return {}
    file = weights.file_of(names[0]).resolve()
    status = file.stat()
    return _KNOWN.setdefault((file, status.st_size, status.st_mtime_ns), {})


def in_threads(work: Callable[[str], T], names: Iterable[str]) -> list[T]:
    """Return the result for each name, in order; threads help as hashing and comparing release the GIL."""
    with ThreadPoolExecutor(min(_MOST_THREADS, os.cpu_count() or 1)) as threads:
        return list(threads.map(work, names))
