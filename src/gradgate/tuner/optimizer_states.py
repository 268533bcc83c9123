"""Keep optimizer states: those of closed parameters in host memory, saved float32 ones of 16-bit parameters exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from gradgate.tuner.optimizers import held_by, nested

HALF = frozenset({torch.bfloat16, torch.float16})


class Float32States:
    """Lets ``load_state_dict`` of optimizers keep saved float32 states, from :meth:`attach` to :meth:`release`.

    ``torch.optim.Optimizer.load_state_dict`` casts every state to the type of its parameter.
    """

    def __init__(self, optimizers: Iterable[torch.optim.Optimizer]) -> None:
        self._optimizers = list({id(one): one for outer in optimizers for one in nested(outer)}.values())
        self._saved: dict[torch.optim.Optimizer, Mapping[str, Any]] = {}
        self._hooks: list[Any] = []

    def attach(self) -> None:
        """Register the hooks."""
        for optimizer in self._optimizers:
            self._hooks.append(optimizer.register_load_state_dict_pre_hook(self._before))
            self._hooks.append(optimizer.register_load_state_dict_post_hook(self._after))

    def release(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def __enter__(self) -> Float32States:
        self.attach()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def rounded(self) -> str | None:
        """Return the name of an optimizer with a state in 16 bits; None if there is none."""
        for optimizer in self._optimizers:
            for parameter in held_by(optimizer):
                state = optimizer.state.get(parameter, {})  # indexing would make one
                values = state.values() if parameter.dtype in HALF else ()
                if any(isinstance(value, Tensor) and value.dtype == parameter.dtype for value in values):
                    return type(optimizer).__name__
        return None

    def _before(self, optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
        self._saved[optimizer] = saved

    def _after(self, optimizer: torch.optim.Optimizer) -> None:
        saved = self._saved.pop(optimizer)
        # Saved states are numbered by parameter, in the order of the saved groups.
        numbers = chain.from_iterable(group["params"] for group in saved["param_groups"])
        for number, parameter in zip(numbers, held_by(optimizer), strict=True):
            if parameter.dtype not in HALF:
                continue
            state = optimizer.state.get(parameter, {})
            for key, value in saved["state"].get(number, {}).items():
                cast = state.get(key)
                if isinstance(value, Tensor) and isinstance(cast, Tensor) and value.dtype == torch.float32:
                    state[key] = value.to(cast.device, copy=True)


class OffloadedStates:
    """Moves an optimizer's states to the CPU and back, through pinned memory where they are on CUDA.

    It notes which tensors it moved: what is in host memory anyway, such as Adam's count of steps or a state in paged
    memory, stays there.
    """

    def __init__(self) -> None:
        self._moved: dict[tuple[torch.optim.Optimizer, Tensor], dict[str, torch.device]] = {}

    def offload(self, optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor]) -> None:
        """Move the states of parameters that close to the CPU; those on the CPU stay."""
        pinned = set[torch.device]()
        for parameter in parameters:
            state = optimizer.state.get(parameter, {})  # indexing would make one
            there = {key: value for key, value in state.items() if _can_move(value)}
            for key, value in there.items():
                self._moved.setdefault((optimizer, parameter), {})[key] = value.device
                if type(value) is Tensor and value.is_cuda:
                    state[key] = _pinned_copy(value)
                    pinned.add(value.device)
                else:
                    state[key] = value.to("cpu")
        for device in pinned:  # copies to pinned memory run on their own, and the next step may read these
            torch.cuda.current_stream(device).synchronize()

    def fetch(self, optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor]) -> None:
        """Move the states of parameters that open back to their devices, with the same bits."""
        for parameter in parameters:
            moved = self._moved.pop((optimizer, parameter), {})
            state = optimizer.state.get(parameter, {})
            for key, device in moved.items():
                if isinstance(value := state.get(key), Tensor):
                    # The device's own work waits for a copy from pinned memory; the program does not.
                    state[key] = value.to(device, non_blocking=True)

    def fetch_all(self) -> None:
        """Move everything back."""
        for optimizer, parameter in list(self._moved):
            self.fetch(optimizer, [parameter])


def _pinned_copy(value: Tensor) -> Tensor:
    """Return a copy in pinned memory, which is several times faster than another one; it may not be done yet."""
    return torch.empty_like(value, device="cpu", pin_memory=True).copy_(value, non_blocking=True)


def _can_move(value: object) -> bool:
    return isinstance(value, Tensor) and value.device.type != "cpu" and not getattr(value, "is_paged", False)
