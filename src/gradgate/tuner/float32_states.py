"""Load float32 optimizer states of 16-bit parameters without rounding them, as torch would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from gradgate.tuner.optimizers import held_by, nested

HALF = (torch.bfloat16, torch.float16)


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
