"""Describe what each group of a model lets through to the optimizer in the next step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Literal, get_args

from gradgate.errors import MethodError, nearest
from gradgate.layers import LayerMap

Scope = Literal["encoder", "attention"]
_ATTENTION = re.compile(r"(^|[._])(\w*attn|\w*attentions?|mha)([._]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Gate:
    """A filter that a gradient passes on its way to the optimizer.

    Element ``i`` of a parameter passes if and only if ``lo <= u_i < hi``, with ``u_i`` uniform in [0, 1) under the
    gate's stream and draw; what passes is multiplied by ``scale``.

    Attributes:
        lo, hi: the window; (0, 1) lets everything pass, an empty one nothing.
        scale: factor on what passes.
        stream: a name of the mask's purpose; masks of two streams are independent.
        draw: the step or epoch that the mask belongs to; gates with equal draws have equal masks.
        each_step: whether ``draw`` is the number of steps done, so that each step has a new mask.
        hold: True: what does not pass is bit-identical after the step (``mask_target="update"``). False: only its
            gradient is zero, and momentum and weight decay may still move it (``mask_target="grad"``).
        scope: ``encoder`` gates every parameter of the group; ``attention`` only the weight matrices of its attention
            modules.
        noise: standard deviation of a normal factor with mean 1 on what passes; 0 for none.
        chosen: pass the elements that the method's last :class:`gradgate.measure.SelectionRequest` chose, instead of a
            window; ``hi - lo`` is their share.
        momentum: move the elements of each matrix with the largest momentum, once the optimizer has processed the
            gradient, which passes whole; ``hi - lo`` is their share, and vectors are open. Needs Adam or AdamW.
        lr: factor on the learning rate, above 0. Unlike ``scale`` it has its full effect in optimizers that divide the
            gradient by its size, and on decoupled weight decay.
    """

    lo: float = 0.0
    hi: float = 1.0
    scale: float = 1.0
    stream: str = ""
    draw: int = 0
    each_step: bool = False
    hold: bool = True
    scope: Scope = "encoder"
    noise: float = 0.0
    chosen: bool = False
    momentum: bool = False
    lr: float = 1.0

    def __post_init__(self) -> None:
        numbers = (self.lo, self.hi, self.lr)
        fits = all(isinstance(number, Real) for number in numbers) and min(numbers) >= 0.0  # rates may underflow to 0
        if not (fits and self.lo <= 1.0 and self.hi <= 1.0):
            raise MethodError(
                f"A gate cannot have lo={self.lo!r}, hi={self.hi!r} and lr={self.lr!r}. Expected lo and hi from 0 to "
                f"1, and lr above 0; Gate(hi=0.0) is closed."
            )
        if self.scope not in get_args(Scope):
            raise MethodError(f"A gate cannot have scope={self.scope!r}. Expected {' or '.join(get_args(Scope))}.")

    @cached_property
    def share(self) -> float:
        """Expected share of elements that pass."""
        return max(0.0, self.hi - self.lo)

    @cached_property
    def closed(self) -> bool:
        """Whether nothing passes and nothing may move."""
        return self.share == 0.0 and self.hold

    @cached_property
    def dropped(self) -> bool:
        """Whether no gradient passes, yet the optimizer acts on a gradient of zero."""
        return self.share == 0.0 and not self.hold

    @cached_property
    def open(self) -> bool:
        """Whether everything passes unchanged, at any learning rate."""
        return self.lo <= 0.0 and self.hi >= 1.0 and self.scale == 1.0 and self.noise == 0.0

    @cached_property
    def sparse(self) -> bool:
        """Whether some elements pass, or all with a factor."""
        return not self.open and self.share > 0.0

    @cached_property
    def masks_gradients(self) -> bool:
        """Whether some elements of a gradient are multiplied before the optimizer sees it."""
        return self.sparse and not self.momentum

    @cached_property
    def masks_weights(self) -> bool:
        """Whether some elements may not move though the others do."""
        return self.sparse and self.hold and self.share < 1.0

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """All but the mask and the learning rate; equal for gates that close, open and mask alike."""
        return self.lo, self.hi, self.scale, self.hold, self.scope, self.noise, self.chosen, self.momentum

    def masks(self, name: str, dim: int) -> bool:
        """Return False for a parameter of the group that is open although the gate is sparse.

        Args:
            name: of the parameter.
            dim: its number of dimensions.
        """
        if self.scope == "attention" and (dim < 2 or _ATTENTION.search(name) is None):
            return False
        return not (self.momentum and dim < 2)


OPEN = Gate()
CLOSED = Gate(lo=0.0, hi=0.0)
_ENDS = ("embeddings", "head")


def _gate(name: str, given: bool | Gate) -> Gate:
    if isinstance(given, Gate):
        return given
    if given not in (True, False):
        raise MethodError(
            f"{name}={given!r:.80} is not a gate. Expected True, False or a Gate, such as Gate(lr=0.5) for half the "
            f"learning rate."
        )
    return OPEN if given else CLOSED


class Plan(Mapping[str, Gate]):
    """One gate per group for the next step; iterates from the bottom up.

    Raises:
        MethodError: for a value that is not a gate; :meth:`opening` also takes True and False.
    """

    def __init__(self, gates: Mapping[str, Gate]) -> None:
        self._gates = dict(gates)
        if wrong := [name for name, gate in self._gates.items() if not isinstance(gate, Gate)]:
            raise MethodError(
                f"{wrong[0]}={self._gates[wrong[0]]!r:.80} is not a gate. Expected a Gate for each group; "
                f"Plan.opening(layers, {{{wrong[0]!r}: True}}) closes the others."
            )

    def __getitem__(self, group: str) -> Gate:
        return self._gates[group]

    def __iter__(self) -> Iterator[str]:
        return iter(self._gates)

    def __len__(self) -> int:
        return len(self._gates)

    def __repr__(self) -> str:
        words = {name: "open" if g == OPEN else "closed" if g.closed else repr(g) for name, g in self._gates.items()}
        return f"Plan({', '.join(f'{name}: {word}' for name, word in words.items())})"

    @classmethod
    def opening(cls, layers: LayerMap, groups: Mapping[str, bool | Gate]) -> Plan:
        """Return a plan with every group of the map.

        Args:
            layers: the layer map.
            groups: True for a group that opens, or its gate; the others are closed. ``embeddings`` and ``head`` are
                ignored if the model has none.

        Raises:
            MethodError: for any other group that the map does not have, or a value that is neither.
        """
        if not isinstance(groups, Mapping):
            raise MethodError(f"groups={groups!r:.80}: expected a mapping such as {{'head': True}}.")
        unknown = [name for name in groups if name not in layers and name not in _ENDS]
        if unknown:
            near = nearest(unknown[0], layers.names)
            raise MethodError(f"There is no group {unknown[0]!r}.{near} Known: {', '.join(layers.names)}.")
        return cls({name: _gate(name, groups.get(name, False)) for name in layers.names})
