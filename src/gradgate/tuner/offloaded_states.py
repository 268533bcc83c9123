"""Keep the optimizer states of closed parameters in host memory."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class OffloadedStates:
    """Moves an optimizer's states to the CPU and back.

    It notes which tensors it moved: what is in host memory anyway, such as Adam's count of steps or a state in paged
    memory, stays there.
    """

    def __init__(self) -> None:
        self._moved: dict[tuple[torch.optim.Optimizer, Tensor], dict[str, torch.device]] = {}

    def offload(self, optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor]) -> None:
        """Move the states of parameters that close to the CPU; those that are there already stay."""
        for parameter in parameters:
            state = optimizer.state.get(parameter, {})  # indexing would make one
            there = {key: value for key, value in state.items() if _can_move(value)}
            for key, value in there.items():
                self._moved.setdefault((optimizer, parameter), {})[key] = value.device
                state[key] = value.to("cpu")

    def fetch(self, optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor]) -> None:
        """Move the states of parameters that open back to their devices, with the same bits."""
        for parameter in parameters:
            moved = self._moved.pop((optimizer, parameter), {})
            state = optimizer.state.get(parameter, {})
            for key, device in moved.items():
                if isinstance(value := state.get(key), Tensor):
                    state[key] = value.to(device)

    def fetch_all(self) -> None:
        """Move everything back."""
        for optimizer, parameter in list(self._moved):
            self.fetch(optimizer, [parameter])


def _can_move(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type != "cpu" and not getattr(value, "is_paged", False)
