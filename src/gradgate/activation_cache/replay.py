"""Runs the layers of a model up to a boundary and no further, or from the boundary up on given states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.activation_cache.rows import NotReusableError

Forward = Callable[..., Any]
_STATES = "hidden_states"  # what every layer of transformers calls them where they are not the first argument


@dataclass(frozen=True)
class Precision:
    """The types that the layers compute in, and the width of their output.

    Attributes:
        autocast: the type that autocast computes in; None where it is off.
        dtype: of the hidden states at the boundary.
        width: of the hidden states.
    """

    autocast: torch.dtype | None
    dtype: torch.dtype
    width: int


class _Reached(Exception):  # noqa: N818 - no error: it ends a forward pass at the boundary
    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class Replay:
    """Replaces the ``forward`` of the lowest ``depth`` layers of a stack for the time of a forward pass.

    The boundary is the input of the layer above them, or the output of the top layer where there is none: what runs
    between two layers is below it.

    Args:
        stack: all layers from the bottom; each takes hidden states of shape (batch, tokens, width) first.
        depth: 1 to all of them.
    """

    def __init__(self, stack: list[nn.Module], depth: int) -> None:
        self._below = stack[:depth]
        self._above = stack[depth] if depth < len(stack) else None
        self._own: list[tuple[nn.Module, Any]] = []
        self._nones: dict[nn.Module, int] = {}  # number of Nones after the states in a layer's output; -1 for no tuple
        self._skips = False

    def states(self, run: Callable[[], object]) -> tuple[Tensor, Precision]:
        """The hidden states at the boundary of the forward pass that ``run`` starts; it goes no further.

        Raises:
            NotReusableError: if a layer returns more than hidden states, or no layer runs.
        """
        seen: list[torch.dtype | None] = []

        def noting(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            seen.append(_autocast(_first(layer, args, kwargs)))
            output = own(*args, **kwargs)
            states = self._note_form(layer, output)
            if self._above is None and layer is self._below[-1]:
                raise _Reached(states)
            return output

        def stopping(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            raise _Reached(_first(layer, args, kwargs))

        self._patch(noting, stopping)
        try:
            run()
        except _Reached as reached:
            states = reached.states
        else:
            raise NotReusableError("its layers did not run")
        finally:
            self.release()
        if not seen or states.requires_grad:
            raise NotReusableError("something learns below its closed layers")
        return states, Precision(seen[0], states.dtype, states.shape[-1])

    def take_forms(self, other: Replay) -> None:
        """Know the forms in which layers return states from ``other``, whose layers are of the same classes."""
        self._nones = {mine: other._nones[theirs] for mine, theirs in zip(self._below, other._below, strict=True)}

    def feed(self, states: Tensor, precision: Precision) -> None:
        """Until :meth:`release`, the layers below the boundary compute nothing, and what is above takes ``states``.

        Args:
            states: shape (batch, tokens, width).
            precision: what they were computed in. A forward pass in another one runs all layers as usual.
        """

        def passing(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            given = _first(layer, args, kwargs)
            if layer is self._below[0]:
                self._skips = _autocast(given) == precision.autocast and given.shape == states.shape
            if not self._skips:
                return own(*args, **kwargs)
            is_top = self._above is None and layer is self._below[-1]
            return self._in_form(layer, states if is_top else given)

        def taking(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            if not self._skips:
                return own(*args, **kwargs)
            return own(states, *args[1:], **kwargs) if args else own(**{**kwargs, _STATES: states})

        self._skips = False
        self._patch(passing, taking)

    def release(self) -> None:
        """Give every layer its own ``forward`` back."""
        for layer, own in self._own:
            if own is None:
                vars(layer).pop("forward", None)
            else:
                vars(layer)["forward"] = own
        self._own = []

    def _patch(self, below: Forward, above: Forward) -> None:
        pairs = [(layer, below) for layer in self._below]
        for layer, forward in [*pairs, *([(self._above, above)] if self._above is not None else [])]:
            self._own.append((layer, vars(layer).get("forward")))
            # An instance attribute hides the method of the class from the layer's call.
            vars(layer)["forward"] = partial(forward, layer, layer.forward)

    def _note_form(self, layer: nn.Module, output: Any) -> Tensor:
        if isinstance(output, Tensor):
            self._nones[layer] = -1
            return output
        if isinstance(output, tuple) and isinstance(output[0], Tensor) and not any(x is not None for x in output[1:]):
            self._nones[layer] = len(output) - 1
            return output[0]
        raise NotReusableError(f"{type(layer).__name__} returns more than hidden states")

    def _in_form(self, layer: nn.Module, states: Tensor) -> Any:
        nones = self._nones[layer]
        return states if nones < 0 else (states, *[None] * nones)


def _first(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    states = args[0] if args else kwargs.get(_STATES)
    if not isinstance(states, Tensor):
        raise NotReusableError(f"{type(layer).__name__} does not take hidden states first")
    return states


def _autocast(tensor: Tensor) -> torch.dtype | None:
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
