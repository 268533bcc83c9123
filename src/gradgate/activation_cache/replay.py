"""Run the layers of a model up to a boundary and stop, or run them from the boundary up on stored states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.activation_cache.rows import NotReusableError

Forward = Callable[..., Any]
_STATES = "hidden_states"  # every layer of transformers uses this name if they are not the first argument


@dataclass(frozen=True)
class Precision:
    """The dtypes that the layers compute in, and the width of their output.

    Attributes:
        autocast: dtype of autocast; None if it is off.
        dtype: of the hidden states at the boundary.
        width: of the hidden states.
    """

    autocast: torch.dtype | None
    dtype: torch.dtype
    width: int


class _Reached(Exception):  # noqa: N818 - not an error: it ends a forward pass at the boundary
    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states


class PrefixReplay:
    """A replacement of the ``forward`` of the lowest ``depth`` layers of a stack, for one forward pass at a time.

    The boundary is the input of the layer above them, or the output of the top layer if there is none above: code
    between two layers runs below it.

    Args:
        stack: all layers from the bottom; each takes hidden states of shape (batch, tokens, width) first.
        depth: 1 to all of them.
    """

    def __init__(self, stack: list[nn.Module], depth: int) -> None:
        self._below = stack[:depth]
        self._above = stack[depth] if depth < len(stack) else None
        self._own: list[tuple[nn.Module, Any]] = []
        self._nones: dict[nn.Module, int] = {}  # Nones after the states in a layer's output; -1 if not a tuple
        self._skips = False

    def states(self, run: Callable[[], object]) -> tuple[Tensor, Precision]:
        """Return the hidden states at the boundary of the forward pass that ``run`` starts, and stop it there.

        Raises:
            NotReusableError: if a layer returns more than hidden states, or no layer runs.
        """
        seen: list[torch.dtype | None] = []

        def noting(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            seen.append(autocast_of(_first(layer, args, kwargs)))
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

    def take_forms(self, other: PrefixReplay) -> None:
        """Copy the forms in which layers return states from ``other``, whose layers have the same classes."""
        self._nones = {mine: other._nones[theirs] for mine, theirs in zip(self._below, other._below, strict=True)}

    def feed(self, states: Tensor, precision: Precision) -> None:
        """Skip the layers below the boundary until :meth:`release`, and pass ``states`` to those above.

        Args:
            states: shape (batch, tokens, width).
            precision: their precision. A forward pass in another one runs all layers as usual.
        """

        def passing(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            incoming = _first(layer, args, kwargs)
            if layer is self._below[0]:  # decide once per pass: this input has the precision and shape of the pass
                self._skips = autocast_of(incoming) == precision.autocast and incoming.shape == states.shape
            if not self._skips:
                return own(*args, **kwargs)
            is_top = self._above is None and layer is self._below[-1]
            return self._in_form(layer, states if is_top else incoming)

        def taking(layer: nn.Module, own: Forward, *args: Any, **kwargs: Any) -> Any:
            if not self._skips:
                return own(*args, **kwargs)
            return own(states, *args[1:], **kwargs) if args else own(**{**kwargs, _STATES: states})

        self._skips = False
        self._patch(passing, taking)

    @property
    def has_skipped(self) -> bool:
        """Whether the last forward pass since :meth:`feed` used the states."""
        return self._skips

    def release(self) -> None:
        """Restore every layer's own ``forward``."""
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


def autocast_of(tensor: Tensor) -> torch.dtype | None:
    """Return the dtype of autocast on a tensor's device; None if it is off."""
    kind = tensor.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
