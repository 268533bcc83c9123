"""Find the tensors of a checkpoint that hold the parameters of a layer map."""

from __future__ import annotations

from gradgate.deltas.weights import Checkpoint
from gradgate.layers import LayerMap


def stored_names(layers: LayerMap, checkpoint: Checkpoint) -> dict[str, str]:
    """Return parameter to the name of its tensor in the files: the same, or with one prefix more or less."""
    entries = checkpoint.entries
    prefixes = dict.fromkeys(name.partition(".")[0] for name in entries)
    found: dict[str, str] = {}
    for name, weight in layers.weights.items():
        candidates = (name, name.partition(".")[2], *(f"{prefix}.{name}" for prefix in prefixes))
        fitting = (other for other in candidates if other in entries and entries[other].shape == weight.shape)
        if stored := next(fitting, None):
            found[name] = stored
    return found
