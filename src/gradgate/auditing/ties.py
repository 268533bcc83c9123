"""Follow shared tensors, which a training may tear apart: an output layer that shares the table of embeddings."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from gradgate.auditing.adapters import base_model_of
from gradgate.auditing.fingerprints import Fingerprint, differs
from gradgate.layers.names import canonical_name, tied_names

_SMALLEST = 64  # elements; smaller tables are equal by chance, such as tables of zeros


class Ties:
    """Pairs of names that share one tensor when training begins, or that the model's configuration ties.

    Args:
        model: before the first step.
        prints: fingerprints of its parameters at that time.
    """

    def __init__(self, model: nn.Module, prints: Mapping[str, Fingerprint | None]) -> None:
        self._shared = {frozenset((tie[0], other)) for tie in tied_names(model) for other in tie[1:]}
        self._broken: set[frozenset[str]] = set()
        self._meant = _equal_tables(model, prints) | _configured(model)

    def look(self, model: nn.Module) -> None:
        """Note which of the shared tensors are not shared any more."""
        now: dict[str, int] = {}
        for raw, parameter in model.named_parameters(remove_duplicate=False):
            now[canonical_name(raw)] = id(parameter)
        for pair in self._shared:
            one, other = sorted(pair)
            if one in now and other in now and now[one] != now[other]:
                self._broken.add(pair)

    def broken(self, learned: set[str], prints: Mapping[str, Fingerprint | None]) -> list[list[str]]:
        """Return the pairs that came apart: no longer shared, or meant to be equal and different in the end."""
        apart = {
            pair
            for pair in self._meant
            if pair & learned and differs(*(prints.get(name) for name in sorted(pair))) is not False
        }
        return sorted(sorted(pair) for pair in self._broken | apart)


def _equal_tables(model: nn.Module, prints: Mapping[str, Fingerprint | None]) -> set[frozenset[str]]:
    """Return tables of embeddings and output layers that are different tensors with equal bits."""
    tables: dict[type, list[str]] = {nn.Embedding: [], nn.Linear: []}
    for path, module in model.named_modules():
        kind = next((kind for kind in tables if isinstance(module, kind)), None)
        name = canonical_name(f"{path}.weight" if path else "weight")
        if kind is not None and prints.get(name) is not None:
            tables[kind].append(name)
    large = {canonical_name(raw) for raw, each in model.named_parameters() if each.numel() >= _SMALLEST}
    return {
        frozenset((one, other))
        for one in tables[nn.Embedding]
        for other in tables[nn.Linear]
        if {one, other} <= large and differs(prints[one], prints[other]) is False
    }


def _configured(model: nn.Module) -> set[frozenset[str]]:
    """Return the tables that transformers' configuration ties, and that are two tensors of one shape."""
    inner = base_model_of(model)
    tied = getattr(getattr(inner, "config", None), "tie_word_embeddings", False)
    if not tied or not getattr(inner, "_tied_weights_keys", None):
        return set()
    try:
        tables = [getattr(each(), "weight", None) for each in (inner.get_input_embeddings, inner.get_output_embeddings)]
    except (AttributeError, NotImplementedError):
        return set()
    first, second = tables
    if first is None or second is None or first is second or first.shape != second.shape:
        return set()
    names = {id(each): canonical_name(raw) for raw, each in model.named_parameters(remove_duplicate=False)}
    pair = frozenset(names[id(table)] for table in tables if id(table) in names)
    return {pair} if len(pair) == 2 else set()
