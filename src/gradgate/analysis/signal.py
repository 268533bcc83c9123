"""The signal-to-noise ratios of a model on disk, read one matrix at a time: the model's weights are never built."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from gradgate.deltas.stored_names import stored_names
from gradgate.deltas.weights import Checkpoint, find_folder
from gradgate.errors import RunError, UsageError
from gradgate.layers import LayerMap
from gradgate.measure.signal import matrices_of, signal_of_groups
from gradgate.methods.spectrum import clearest, kinds_of


@dataclass(frozen=True)
class Signal:
    """The ratio of one unit of a model.

    Attributes:
        kind: such as ``attention.q_proj``, with the tower before it where there are several.
        group: its name in the layer map.
        snr: see :func:`gradgate.measure.signal.signal_to_noise`; the mean over the unit's matrices.
        chosen: whether ``spectrum`` opens it.
    """

    kind: str
    group: str
    snr: float
    chosen: bool


def signals_on_disk(
    model: str,
    layers: LayerMap,
    share: float,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    progress: Callable[[int, int], None] = lambda total, done: None,
) -> tuple[list[Signal], list[str]]:
    """Return the ratios of all units with matrices, by kind and from the bottom, and the matrices that no file has.

    Args:
        model: folder, hub name or ``sample``.
        layers: its map, at the unit that is wanted.
        share: of each kind that counts as chosen, in (0, 1].
        device: that matrices are measured on; ``auto`` is a GPU if there is one.
        progress: called with how many matrices there are and how many are done; a large one takes a minute.

    Raises:
        UsageError: for another share, or if the files hold none of the matrices.
        DeltaError: if there is no such model, or its files are damaged.
        NonFiniteError: for a weight that is not finite.
        RunError: for ``cuda`` without a GPU.
    """
    place = _place(device)
    if not 0.0 < share <= 1.0:
        raise UsageError(f"share={share}: expected a number above 0 and at most 1, such as 0.25.")
    checkpoint = Checkpoint(find_folder(model), model)
    stored = stored_names(layers, checkpoint)
    kinds = kinds_of(layers)
    wanted = {name: matrices_of(layers, name) for names in kinds.values() for name in names}
    stored_of = {group: [name for name in names if name in stored] for group, names in wanted.items()}
    absent = [name for names in wanted.values() for name in names if name not in stored]
    if not any(stored_of.values()):
        raise _nothing_to_measure(model, absent)
    order = {name: done for done, name in enumerate(name for names in stored_of.values() for name in names)}

    def read(name: str) -> Tensor:
        progress(len(order), order[name])
        return checkpoint.read(stored[name]).to(place)

    with closing(checkpoint):
        ratios = signal_of_groups(stored_of, read)
        progress(len(order), len(order))
    kinds = {kind: [name for name in names if name in ratios] for kind, names in kinds.items()}
    chosen = set(clearest(kinds, ratios, share))
    return [Signal(kind, n, ratios[n], n in chosen) for kind, names in kinds.items() for n in names], absent


def _place(device: str) -> torch.device:
    if device == "cuda" and not torch.cuda.is_available():
        raise RunError("device='cuda', but torch sees no CUDA device. Use device='cpu' or auto.")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def _nothing_to_measure(model: str, absent: list[str]) -> UsageError:
    """Return the error for a model without matrices: its files lack them, or it has none."""
    return UsageError(
        f"The files of {model} have none of the matrices of its configuration, such as {absent[0]}. "
        f"Expected weights as save_pretrained writes them."
        if absent
        else f"{model} has no matrix in its layers, so there is nothing to measure. Expected a transformer."
    )
