"""Count the labels under the loss of each batch that a model receives in a looked step."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.auditing.discovery import chain

_IGNORED = -100  # ignore_index of torch's cross-entropy
_MOST = 64  # batches that are counted


class LabelCounter:
    """Reads the argument ``labels`` of the outermost module that takes it.

    A batch is counted when it comes, on its device; the counts are read at the next look. Models inside
    ``torch.compile`` get no hook, which would have them compiled again.

    Args:
        root: the outermost module.
        tokens: the list to which the counts are added.
    """

    def __init__(self, root: nn.Module, tokens: list[int]) -> None:
        self._tokens = tokens
        self._pending: list[Tensor] = []
        counter = weakref.ref(self)

        def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            one = counter()
            if one is not None:
                one._see(args, kwargs)

        module = _takes_labels(root)
        self._handle = None if module is None else module.register_forward_pre_hook(see, with_kwargs=True)

    def _see(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        labels = kwargs.get("labels")
        if labels is None and args and isinstance(args[0], Mapping):
            labels = args[0].get("labels")
        if isinstance(labels, Tensor) and torch.is_grad_enabled() and len(self._pending) < _MOST:
            with torch.no_grad():
                self._pending.append((labels != _IGNORED).sum())

    def look(self) -> None:
        """Read the counts of the batches since the last look."""
        if self._pending:
            self._tokens += [int(count) for count in torch.stack(self._pending).tolist()]
            self._pending = []
        if len(self._tokens) >= _MOST:
            self._remove()

    def finish(self) -> None:
        """Look a last time, and remove the hook."""
        self.look()
        self._remove()

    def _remove(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None


def _takes_labels(root: nn.Module) -> nn.Module | None:
    """Return the outermost module whose forward names ``labels``; around compiled modules, the outermost of all."""
    if any(_is_compiled(module) for module in root.modules()):
        return root if root.__dict__.get("_compiled_call_impl") is None else None
    named = (child for child in root.children() if hasattr(child, "config"))
    return next((module for module in (*chain(root), *named) if _has_labels(module)), None)


def _is_compiled(module: nn.Module) -> bool:
    return "_orig_mod" in module._modules or module.__dict__.get("_compiled_call_impl") is not None


def _has_labels(module: nn.Module) -> bool:
    try:
        return "labels" in inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return False
