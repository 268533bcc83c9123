"""Compare a trained model to its base, and choose the smallest storage of each tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from gradgate.deltas.bits import count_changed
from gradgate.deltas.delta import FLOATS, INDICES, VALUES, Origin, can_cast
from gradgate.deltas.fingerprint import digests_of, fingerprint, in_threads
from gradgate.deltas.patched import RENAMED, Mapped
from gradgate.deltas.plain_model import check_comparable
from gradgate.deltas.safetensors_file import TensorEntry, sum_bytes
from gradgate.deltas.weights import Weights, grouped_by_file
from gradgate.errors import DeltaError

_MOST_INT32 = 2**31
Stored = Literal["not", "sparse", "whole"]


@dataclass(frozen=True)
class Change:
    """The change of one tensor of the trained model.

    Attributes:
        stored: ``not`` if it is bit for bit the base's, after a cast if the dtype differs.
        count: elements that differ from the base's; all elements if the base lacks the tensor.
    """

    stored: Stored
    count: int


@dataclass(frozen=True)
class Changes:
    """The changes of a trained model relative to its base.

    Attributes:
        trained, base: the weights.
        origin: the delta's metadata, without method, task and files.
        found: the change of each tensor of the trained model.
    """

    trained: Weights
    base: Mapped
    origin: Origin
    found: dict[str, Change]

    @cached_property
    def entries(self) -> dict[str, TensorEntry]:
        """Tensors of the delta."""
        entries: dict[str, TensorEntry] = {}
        for name, change in self.found.items():
            entry = self.trained.entries[name]
            if change.stored == "whole":
                entries[name] = entry
            elif change.stored == "sparse":
                entries[name + INDICES] = TensorEntry(index_type(entry.elements), (change.count,))
                entries[name + VALUES] = TensorEntry(entry.dtype, (change.count,))
        return entries

    @property
    def bytes(self) -> int:
        """Size of the delta's tensors, in bytes."""
        return sum_bytes(self.entries.values())


def index_type(elements: int) -> str:
    """Return the dtype of indices into a tensor with this number of elements."""
    return "I32" if elements < _MOST_INT32 else "I64"


def compare(trained: Weights, base: Weights, name: str | None = None) -> Changes:
    """Compare every bit of a trained model with its base, some tensors at a time.

    Args:
        trained, base: the weights.
        name: the base's name for the record; by default its location.

    Raises:
        DeltaError: if a file is damaged, or the two models have no tensor in common.
    """
    _check_names(trained)
    check_comparable(trained, base)
    names = Origin(
        base=name or base.where,
        base_fingerprint=fingerprint(base.entries, digests_of(base)),
        prefix=name_prefixes(trained.entries, base.entries),
        older_names=any(older in key for key in trained.entries for older, _ in RENAMED),
    )
    all_of_base = Mapped(base, names)
    shared = [key for key in trained.entries if key in all_of_base.entries]
    if not shared:
        raise DeltaError(
            f"{trained.where} has no tensor of the base {base.where}: {', '.join(list(trained.entries)[:3])} there, "
            f"{', '.join(list(base.entries)[:3])} in the base. Pass the base that it was trained from."
        )
    left_out = tuple(sorted(set(base.entries) - {all_of_base.name_in_base(key) for key in shared}))
    origin = replace(names, left_out=left_out, dtype=_cast(trained.entries, all_of_base.entries))
    theirs = Mapped(base, origin)
    found: dict[str, Change] = {}
    for keys in grouped_by_file(trained):
        found |= dict(zip(keys, in_threads(lambda key: _change(key, trained, theirs), keys), strict=True))
        trained.close()
        theirs.close()
    shapes = {
        key: trained.entries[key].shape
        for key, change in found.items()
        if change.stored == "sparse" and trained.entries[key].shape != theirs.entries[key].shape
    }
    dtypes = {
        key: trained.entries[key].dtype
        for key, change in found.items()
        if change.stored != "whole" and trained.entries[key].dtype != theirs.entries[key].dtype
    }
    return Changes(trained, theirs, replace(origin, shapes=shapes, dtypes=dtypes), found)


def _check_names(trained: Weights) -> None:
    taken = [name for name in trained.entries if name.endswith((INDICES, VALUES))]
    if taken:
        raise DeltaError(
            f"{trained.where} has a tensor {taken[0]!r}, a name that deltas reserve for single elements. Rename it."
        )


def _change(name: str, trained: Weights, base: Mapped) -> Change:
    mine = trained.entries[name]
    theirs = base.entries.get(name)
    if theirs is None or not comparable(mine, theirs, base.own_dtype(name)):
        return Change("whole", mine.elements)
    tensor, of_base = trained.read(name), base.read(name, mine.dtype)
    return stored_best(mine, theirs, count_changed(tensor, of_base, cast=mine.dtype != base.own_dtype(name)))


def comparable(mine: TensorEntry, theirs: TensorEntry, own: str) -> bool:
    """Return True if a tensor's dtype is the base's or can be cast from it, and its shape differs only in rows.

    Args:
        mine: of the trained model.
        theirs: of the base, after the cast that all of its tensors had.
        own: dtype in the base's files.
    """
    rows_only = bool(mine.shape) and mine.shape[1:] == theirs.shape[1:] and len(mine.shape) == len(theirs.shape)
    of_a_kind = mine.dtype == theirs.dtype or can_cast(own, mine.dtype)
    return of_a_kind and mine.item_bytes in (1, 2, 4, 8) and (mine.shape == theirs.shape or rows_only)


def stored_best(mine: TensorEntry, theirs: TensorEntry, count: int) -> Change:
    """Return the smaller form of a tensor with ``count`` changed elements; ``whole`` if both are equally large."""
    if count == 0 and mine.shape == theirs.shape:
        return Change("not", 0)
    sparse = count * (TensorEntry(index_type(mine.elements), ()).bytes + mine.item_bytes)
    return Change("sparse" if sparse < mine.bytes else "whole", count)


def name_prefixes(trained: Collection[str], base: Collection[str]) -> tuple[str, str]:
    """Return the prefixes that map names of the trained model to the base's: either class may add one."""
    mine = Counter(name.partition(".")[0] + "." for name in trained if "." in name)
    theirs = Counter(name.partition(".")[0] + "." for name in base if "." in name)
    choices = [("", ""), *((word, "") for word in mine), *(("", word) for word in theirs)]
    return max(choices, key=lambda pair: _matches(trained, base, *pair))


def _matches(trained: Collection[str], base: Collection[str], mine: str, theirs: str) -> int:
    stripped = (name[len(mine) :] for name in trained if name.startswith(mine))
    return sum(theirs + name in base for name in stripped)


def _cast(trained: Mapping[str, TensorEntry], base: Mapping[str, TensorEntry]) -> str | None:
    """Return the dtype that most floating-point tensors were cast to before training; None if most were not cast."""
    pairs = [(base[name].dtype, entry.dtype) for name, entry in trained.items() if name in base]
    floats = [(before, after) for before, after in pairs if {before, after} <= set(FLOATS)]
    if not floats:
        return None
    dtype, count = Counter(after for _, after in floats).most_common(1)[0]
    return dtype if count > sum(before == after for before, after in floats) else None
