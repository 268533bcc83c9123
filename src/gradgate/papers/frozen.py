"""Read and write the labels of the Elsa paper's arms, such as ``frozen 9/12``."""

from __future__ import annotations

from dataclasses import dataclass

_WORD = "frozen"


@dataclass(frozen=True)
class FrozenLayers:
    """Layers at the bottom of a model that its training leaves as they were.

    Attributes:
        closed: number of these.
        layers: number of all layers of the model.
    """

    closed: int
    layers: int

    @property
    def share(self) -> float:
        """The share of the layers that is closed."""
        return self.closed / self.layers

    def __str__(self) -> str:
        return f"{_WORD} {self.closed}/{self.layers}"


def read_frozen(label: str) -> FrozenLayers | None:
    """Return the layers that a label names; None for another label, such as ``baseline``."""
    word, _, numbers = label.partition(" ")
    if word != _WORD:
        return None
    closed, _, layers = numbers.partition("/")
    return FrozenLayers(int(closed), int(layers))


def frozen_share(label: str) -> float | None:
    """Return the share of frozen layers of ``frozen 9/12``: 0.75; None for another label."""
    found = read_frozen(label)
    return None if found is None else found.share
