"""What identifies one mask: a 64-bit key from the seed, the stream, the parameter's name and the draw."""

from __future__ import annotations

from hashlib import blake2b

from gradgate.layers import canonical_name


def key(*, seed: int, stream: str, name: str, draw: int) -> int:
    """The key of one mask, the same on every machine, process and device.

    Args:
        seed: the run's seed.
        stream: what the mask is for, such as ``"graddrop"``; two streams never share a mask.
        name: the parameter's name; prefixes of wrappers (``module.``, ``_orig_mod.``) do not count.
        draw: the optimizer step or epoch that the mask belongs to.

    Returns:
        An integer in ``[0, 2**64)``.
    """
    words = [str(int(seed)), stream, canonical_name(name), str(int(draw))]
    digest = blake2b("".join(f"{len(word)}:{word}" for word in words).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def window(lo: float, hi: float) -> tuple[int, int]:
    """First and end of the 32-bit hash values ``h`` with ``lo <= h / 2**32 < hi``."""
    if not (0.0 <= lo <= 1.0 and 0.0 <= hi <= 1.0):
        raise ValueError(f"A gate's window must lie in [0, 1]; got lo={lo}, hi={hi}.")
    first, end = (-int(-(edge * 2**32) // 1) for edge in (lo, hi))
    return first, max(first, end)
