"""Compute the key that identifies a mask, and the hash that it selects, in plain Python.

A key is 64 bits from the seed, the stream, the parameter's name and the draw. The hash of an element is two rounds of a
32-bit integer mixer, each keyed by one half of the key. The mixer is "lowbias32" of C. Wellons' hash-prospector
(https://github.com/skeeto/hash-prospector).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from gradgate.layers.names import canonical_name

MULTIPLIER_1 = 0x7FEB352D
MULTIPLIER_2 = 0x846CA68B
WORD = 0xFFFFFFFF
BLOCK = 2**32


def key(*, seed: int, stream: str, name: str, draw: int) -> int:
    """Return the key of one mask, the same on every machine, process and device.

    Args:
        seed: the run's seed.
        stream: purpose of the mask, such as ``"graddrop"``; two streams never share a mask.
        name: the parameter's name; prefixes of wrappers (``module.``, ``_orig_mod.``) are ignored.
        draw: the optimizer step or epoch that the mask belongs to.

    Returns:
        An integer in ``[0, 2**64)``.
    """
    digest = _begun(int(seed), stream, name).copy()
    digest.update(_counted_draw(int(draw)))
    return int.from_bytes(digest.digest(), "little")


@lru_cache(maxsize=2**14)
def _begun(seed: int, stream: str, name: str) -> blake2b:
    """Hash the words that all masks of a parameter share; each draw continues from a copy."""
    return blake2b(b"".join(_counted(word) for word in (str(seed), stream, canonical_name(name))), digest_size=8)


@lru_cache(maxsize=2**6)
def _counted_draw(draw: int) -> bytes:
    return _counted(str(draw))


def _counted(word: str) -> bytes:
    return f"{len(word)}:{word}".encode()


@lru_cache
def window(lo: float, hi: float) -> tuple[int, int]:
    """Return the first and the end of the 32-bit hash values ``h`` with ``lo <= h / 2**32 < hi``."""
    if not 0.0 <= lo <= hi <= 1.0:
        raise ValueError(f"A gate's window must lie in [0, 1], with lo <= hi; got lo={lo}, hi={hi}. Correct its edges.")
    # Rounded up: h / 2**32 >= edge if and only if h >= ceil(edge * 2**32).
    first, end = (-int(-(edge * 2**32) // 1) for edge in (lo, hi))
    return first, end


def mix(value: int) -> int:
    """Apply one round of the mixer to a 32-bit word."""
    value ^= value >> 16
    value = value * MULTIPLIER_1 & WORD
    value ^= value >> 15
    value = value * MULTIPLIER_2 & WORD
    return value ^ value >> 16


def block_key(key: int, block: int) -> tuple[int, int]:
    """Return the two 32-bit round keys for the 2**32 elements of a block: the high half of an index acts here."""
    low, high = key & WORD, key >> 32 & WORD
    if not block:  # mix(0) is 0
        return low, high
    return low ^ mix(block * 0x9E3779B9 & WORD), high ^ mix(block * 0x85EBCA6B & WORD)


def hash_at(key: int, index: int) -> int:
    """Return the 32-bit hash of one element."""
    first, second = block_key(key, index // BLOCK)
    return mix(mix(index % BLOCK ^ first) ^ second)


def uniform(key: int, index: int = 0) -> float:
    """Return one number in [0, 1) under a key, to decide for a group or layer at once."""
    return hash_at(key, index) / BLOCK
