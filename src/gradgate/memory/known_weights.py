"""Measure weights for an estimate, where there are any: those of a model, or of a folder on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import Tensor, nn

from gradgate import hub
from gradgate.deltas.stored_names import stored_names
from gradgate.deltas.weights import Checkpoint
from gradgate.errors import DeltaError, NonFiniteError
from gradgate.layers import LayerMap, named_parameters
from gradgate.measure import SignalRequest
from gradgate.measure.signal import matrices_of, signal_of_groups

MOST_ELEMENTS = 2**28
"""Elements of matrices that are measured for an estimate; more would take minutes."""


class KnownWeights:
    """Measures weights that exist before the training.

    Args:
        model: the one that is estimated; it is read unless its weights are on the meta device.
        source: name of the model whose files are read otherwise; None if there are none.
    """

    def __init__(self, model: nn.Module, source: str | None = None) -> None:
        self._parameters = {n: p.detach() for n, p in named_parameters(model).items()}
        self._source = source
        self._found: dict[SignalRequest, dict[str, float] | None] = {}

    def signal(self, request: SignalRequest, layers: LayerMap) -> dict[str, float] | None:
        """Return the signal-to-noise ratio of each group; None if the weights are unknown, or too large to measure.

        Args:
            request: names the groups.
            layers: the model's map, at the unit of the groups.
        """
        if request not in self._found:
            groups = {name: matrices_of(layers, name) for name in request.groups}
            self._found[request] = self._measured(groups, layers)
        return self._found[request]

    def _measured(self, groups: dict[str, list[str]], layers: LayerMap) -> dict[str, float] | None:
        names = [name for members in groups.values() for name in members]
        if sum(layers.weights[name].count for name in names) > MOST_ELEMENTS:
            return None
        if all(name in self._parameters and not self._parameters[name].is_meta for name in names):
            return _ratios(groups, lambda name: self._parameters[name])
        folder = None if self._source is None else Path(hub.model_source(self._source))
        if folder is None or not folder.is_dir():
            return None
        try:
            checkpoint = Checkpoint(folder, str(self._source))
        except DeltaError:  # a folder with a configuration alone
            return None
        try:
            stored = stored_names(layers, checkpoint)
            return _ratios(groups, lambda name: checkpoint.read(stored[name])) if stored.keys() >= {*names} else None
        finally:
            checkpoint.close()


def _ratios(groups: dict[str, list[str]], read: Callable[[str], Tensor]) -> dict[str, float] | None:
    try:
        return signal_of_groups(groups, read)
    except NonFiniteError:  # the training says so
        return None
