"""What ``torch.compile`` needs where parameters open and close: room for graphs, and gradients that are not shared."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

MOST_PATTERNS = 64
_LIMITS = ("recompile_limit", "accumulated_recompile_limit")


def in_use() -> bool:
    """Whether anything was compiled in this process: its backward pass may hand one tensor to several parameters."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    return module is not None and getattr(module, "FRAME_COUNTER", 1) > 0


class GraphLimits:
    """Raises dynamo's limits on graphs of one function as parameters open and close, until :meth:`release`.

    ``torch.compile`` makes a graph for each set of parameters that require a gradient, and after 8 of them would run
    the function without compiling from then on. Each new set gets as much room as one model has: graphs for training,
    evaluation and other shapes. Methods that draw from very many sets get room for the first 64; compile layer by layer
    to have few graphs (``for layer in layers: layer.compile()``).
    """

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._room: dict[str, int] = {}
        self._added: dict[str, int] = dict.fromkeys(_LIMITS, 0)

    def admit(self, pattern: Hashable) -> None:
        """Make room for the graphs of a set of open parameters, if it is new."""
        if pattern not in self._seen and len(self._seen) < MOST_PATTERNS:
            self._seen.add(pattern)
        config = _config()
        if config is None:
            return
        for name in _LIMITS:
            room = self._room.setdefault(name, getattr(config, name))
            missing = room * (len(self._seen) - 1) - self._added[name]
            if missing > 0:
                self._add(config, name, missing)

    def release(self) -> None:
        """Take back the room."""
        config = _config()
        for name in _LIMITS if config is not None else ():
            self._add(config, name, -self._added[name])
        self._seen.clear()

    def _add(self, config: Any, name: str, amount: int) -> None:
        setattr(config, name, getattr(config, name) + amount)
        self._added[name] += amount


def _config() -> Any:
    """Dynamo's settings; None as long as nothing has loaded it, so that nothing can have been compiled."""
    return getattr(sys.modules.get("torch._dynamo"), "config", None)
