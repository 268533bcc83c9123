"""Fingerprint tensors without a copy of them: one pass over their bits, on their device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradgate.deltas.bits import digest_of, flat_bits
from gradgate.distributed.shards import local

_AT_ONCE = 1 << 22  # elements mixed at a time on a device, so that little memory is taken
_FIRST = 1 << 12  # elements of which one is nonzero in nearly every gradient
_ODD = (0x2545F4914F6CDD1D, 0x1B873593CC9E2D51)


class Fingerprint(NamedTuple):
    """A digest of a tensor's bits. Two can be compared if their kinds are equal: device, dtype and shape.

    Tensors with equal bits have equal fingerprints; others differ but for a chance of about 2 ** -64.
    """

    kind: str
    digest: str


def fingerprints(tensors: Sequence[Tensor]) -> list[Fingerprint | None]:
    """Return the fingerprints of tensors, of shards those of this process; None for tensors without data.

    On the CPU the digest is XXH3, elsewhere a sum of mixed bits that is computed there. The device is waited for once.
    """
    found: list[Fingerprint | None] = []
    kinds: dict[int, str] = {}
    pending: dict[int, Tensor] = {}
    for place, tensor in enumerate(tensors):
        data = _data(tensor)
        if data is None:
            found.append(None)
            continue
        kind = f"{data.device.type} {data.dtype} {tuple(data.shape)}"
        if data.device.type == "cpu":
            found.append(Fingerprint(kind, digest_of(data)))
        else:
            found.append(None)
            kinds[place], pending[place] = kind, mixed_sum(data)
    for place, digest in _values(pending).items():
        found[place] = Fingerprint(kinds[place], f"{digest}")
    return found


def differs(before: Fingerprint | None, after: Fingerprint | None) -> bool | None:
    """Return True if two fingerprints stand for different bits; None if they cannot be compared."""
    if before is None or after is None or before.kind != after.kind:
        return None
    return before.digest != after.digest


@torch.no_grad()
def mixed_sum(tensor: Tensor) -> Tensor:
    """Return the sum of a tensor's mixed bits, each with its place, as a scalar of int64 on its device."""
    bits = flat_bits(tensor.contiguous())
    total = torch.zeros((), dtype=torch.int64, device=bits.device)
    for start in range(0, bits.numel(), _AT_ONCE):
        part = bits[start : start + _AT_ONCE].to(torch.int64)
        part = part + torch.arange(start, start + part.numel(), device=bits.device) * _ODD[0]
        for odd in _ODD:
            part = (part ^ (part >> 29)) * odd
        total += part.sum()
    return total


@torch.no_grad()
def nonzero(tensors: Sequence[Tensor]) -> list[bool]:
    """Return for each tensor whether an element is not zero; NaN counts as one. The device is waited for once."""
    found = [False] * len(tensors)
    pending: dict[int, Tensor] = {}
    for place, tensor in enumerate(tensors):
        data = _data(tensor)
        if data is None or not data.numel():
            continue
        if data.device.type == "cpu":
            flat = data.reshape(-1)
            found[place] = bool(flat[:_FIRST].any()) or bool(flat[_FIRST:].any())
        else:
            pending[place] = data.any().to(torch.int64)
    for place, value in _values(pending).items():
        found[place] = bool(value)
    return found


@torch.no_grad()
def finite(tensors: Sequence[Tensor]) -> list[bool]:
    """Return for each tensor whether no element is NaN or infinite. The device is waited for once."""
    ends: dict[int, Tensor] = {}
    for place, tensor in enumerate(tensors):
        data = _data(tensor)
        if data is not None and data.numel() and data.is_floating_point():
            data = data.float() if data.element_size() == 1 else data  # torch has no extremes of 8 bits
            ends[place] = torch.stack(data.aminmax()).isfinite().all().to(torch.int64)  # NaN wins over all others
    found = _values(ends)
    return [bool(found.get(place, 1)) for place in range(len(tensors))]


def _data(tensor: Tensor) -> Tensor | None:
    """Return the elements of this process; None if there are none to read."""
    data = local(tensor)[0]
    if data.is_sparse:
        data = data._values()
    readable = not data.is_meta and data.layout is torch.strided and data.element_size() in (1, 2, 4, 8)
    return data if readable else None


def _values(scalars: Mapping[int, Tensor]) -> dict[int, int]:
    """Return the values of scalars by their places, in one transfer per device."""
    values: dict[int, int] = {}
    for device in {scalar.device for scalar in scalars.values()}:
        there = {place: scalar for place, scalar in scalars.items() if scalar.device == device}
        values.update(zip(there, torch.stack(list(there.values())).tolist(), strict=True))
    return values


class Sample:
    """A few elements of a 16-bit tensor, by which the share of lost updates is estimated.

    Args:
        tensor: before the first step.
    """

    SIZE = 256

    def __init__(self, tensor: Tensor) -> None:
        flat = local(tensor)[0].reshape(-1)
        self._every = max(1, flat.numel() // self.SIZE)
        self._before = self._of(flat).clone()
        self._learning = torch.zeros_like(self._before, dtype=torch.bool)

    def see_gradient(self, gradient: Tensor) -> None:
        """Note which of the elements have a gradient."""
        if not gradient.is_sparse:
            self._learning |= self._of(local(gradient)[0].reshape(-1)) != 0

    def moved_share(self, tensor: Tensor) -> float | None:
        """Return the share of the elements with a gradient that have changed; None for fewer than 16."""
        now = self._of(local(tensor)[0].reshape(-1))
        if now.shape != self._before.shape or now.device != self._before.device or now.dtype != self._before.dtype:
            return None
        learning = int(self._learning.sum())
        return int(((now != self._before) & self._learning).sum()) / learning if learning >= 16 else None

    def _of(self, flat: Tensor) -> Tensor:
        return flat[:: self._every][: self.SIZE]
