"""One tuner for each model: to a second one, what the first closed would look frozen for good."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import nn

from gradgate.errors import AttachError

# The method of the tuner that each model has now.
_ATTACHED: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()


def check_alone(model: nn.Module) -> None:
    """Refuse a model that has a tuner.

    Raises:
        AttachError: naming the method of the one that it has.
    """
    if model in _ATTACHED:
        raise AttachError(
            f"This model already has a tuner ({_ATTACHED[model]!r}), and what that one keeps closed would "
            f"look frozen for good to a second. Call its detach() first, or use it in a with block."
        )


def note_attached(model: nn.Module, method: str) -> None:
    """The model has a tuner with this method from now on."""
    _ATTACHED[model] = method


def note_detached(model: nn.Module) -> None:
    """The model has no tuner any more."""
    _ATTACHED.pop(model, None)
