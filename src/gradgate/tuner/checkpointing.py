"""Activation checkpointing beside closed layers: backward must end at the lowest open one, and must reach it."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from gradgate.errors import AttachError


class Checkpointing:
    """What activation checkpointing does to one model while layers at its bottom are closed.

    For it transformers marks the output of the embeddings as requiring a gradient, so that backward would run
    through, and recompute, every closed layer. Checkpoints that are not reentrant need no such mark.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._unmarked: list[Any] = []
        self._bottom_closed = False

    def follow(self, bottom_closed: bool) -> None:
        """Mark the embeddings' output, or not, for the coming step.

        Args:
            bottom_closed: whether nothing in the lowest group learns.

        Raises:
            AttachError: if it is closed and checkpoints are reentrant: they give the layers above no gradient.
        """
        if bottom_closed == self._bottom_closed:
            return
        if not bottom_closed:
            self.release()
            return
        functions = _functions(self._model)
        if any(function.keywords.get("use_reentrant", True) for function in functions):
            raise AttachError(
                "Reentrant activation checkpointing gives layers above closed ones no gradient, or runs backward "
                'through all of them. Use activation_checkpointing_kwargs={"use_reentrant": False}.'
            )
        self._bottom_closed = True
        if functions:
            models: list[Any] = [m for m in self._model.modules() if getattr(m, "_require_grads_hooks", None)]
            for model in models:
                model.disable_input_require_grads()
            self._unmarked = models

    def release(self) -> None:
        """Mark the embeddings' output again where it was marked before."""
        unmarked, self._unmarked = self._unmarked, []
        self._bottom_closed = False
        for model in unmarked:
            model.enable_input_require_grads()


def _functions(model: nn.Module) -> list[partial[Any]]:
    """The checkpointing functions in use, as transformers sets them; of others nothing is known."""
    modules: list[Any] = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False) is True]
    functions = [getattr(module, "_gradient_checkpointing_func", None) for module in modules]
    return [function for function in functions if isinstance(function, partial)]
