"""Adapt the backward pass above closed layers: where checkpointing ends it, and how many graphs compiling may make."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn

from gradgate.errors import AttachError
from gradgate.model_copies import noted, only_in_copies
from gradgate.tuner.effect import ComingStep, Effect, OptimizerStep


class Checkpointing(Effect):
    """Ends the backward pass at the lowest open layer of a model with activation checkpointing.

    With checkpointing, or after ``enable_input_require_grads``, transformers marks the output of the
    embeddings as requiring a gradient, so that backward would run through, and recompute, every closed layer.
    Checkpoints that are not reentrant need no such mark.

    Args:
        model: without wrappers such as DDP.
        groups: the parameters of each group that may open, by canonical name, from the bottom up.
    """

    on_model: ClassVar[bool] = True

    def __init__(self, model: nn.Module, groups: Mapping[str, Mapping[str, Tensor]]) -> None:
        self._model, self._groups = model, groups
        self._bottom = frozenset(next(iter(groups.values())))
        self._lowest = ""
        self._bottom_closed = False
        self._unsure = False
        self._marks: dict[nn.Module, dict[int, Any]] = {}
        self._hooks: list[Any] = []

    def on_plan(self, coming: ComingStep) -> None:
        """Mark the embeddings' output if and only if anything in the lowest group learns.

        Raises:
            AttachError: if nothing in it learns and checkpoints are reentrant: the layers above would get no gradient.
        """
        self._lowest = next(group for group, own in self._groups.items() if coming.opened & own.keys())
        bottom_closed = self._bottom.isdisjoint(coming.opened)
        if bottom_closed == self._bottom_closed:
            return
        if not bottom_closed:
            self.release()
            return
        functions, unknown = _functions(self._model)
        if any(function.keywords.get("use_reentrant", True) for function in functions):
            raise AttachError(
                "Reentrant activation checkpointing gives layers above closed ones no gradient, or runs backward "
                'through all of them. Use activation_checkpointing_kwargs={"use_reentrant": False}.'
            )
        self._bottom_closed = True
        marked = [module for module in self._model.modules() if _marks(module)] if not unknown else []
        self._unsure = bool(marked) and not functions
        for module in marked:
            self._unmark(module)
            # Code that turns checkpointing off and on within a step, as DPO's does, adds the mark again.
            self._hooks.append(noted(module.register_forward_pre_hook(lambda module, _: self._unmark(module))))

    def before_step(self, step: OptimizerStep) -> None:
        """Check in the first step that a custom checkpointing function does not need the mark.

        Raises:
            AttachError: if the lowest open group has no gradient, and so would not learn.
        """
        if not self._unsure:
            return
        self._unsure = False
        lowest = [parameter for parameter in self._groups[self._lowest].values() if step.holds(parameter)]
        if lowest and all(parameter.grad is None for parameter in lowest):
            raise AttachError(
                f"No parameter of {self._lowest} has a gradient, though it is open. Reentrant activation "
                f"checkpointing above closed layers gives none: call torch.utils.checkpoint.checkpoint with "
                f"use_reentrant=False."
            )

    def release(self) -> None:
        """Restore the mark on the embeddings' output if it was removed."""
        for hook in self._hooks:
            hook.remove()
        for module, marks in self._marks.items():
            for number, mark in list(_marks(module).items() or marks.items())[-1:]:  # one is enough
                module._forward_hooks[number] = mark
            only_in_copies(module, {})
        self._marks, self._hooks = {}, []
        self._bottom_closed = self._unsure = False

    def _unmark(self, module: nn.Module) -> None:
        marks = _marks(module)
        if marks:
            self._marks[module] = marks
            only_in_copies(module, dict([*marks.items()][-1:]))
        for number in marks:
            del module._forward_hooks[number]


def _marks(module: nn.Module) -> dict[int, Any]:
    """Return the hooks that mark a module's output, by number: each call of transformers and PEFT adds one more."""
    hooks = module._forward_hooks.items()
    return {n: hook for n, hook in hooks if getattr(hook, "__name__", "").startswith("make_inputs_require_grad")}


def _functions(model: nn.Module) -> tuple[list[partial[Any]], bool]:
    """Return the checkpointing functions that transformers set, and whether there are others, of unknown kind."""
    modules: list[Any] = [m for m in model.modules() if getattr(m, "gradient_checkpointing", False) is True]
    functions = [getattr(module, "_gradient_checkpointing_func", None) for module in modules]
    known = [function for function in functions if isinstance(function, partial)]
    return known, bool(modules) and not known


MOST_PATTERNS = 64
_LIMITS = ("recompile_limit", "accumulated_recompile_limit")


def in_use() -> bool:
    """Return True if anything was compiled: its backward pass may share one tensor between several parameters."""
    module = sys.modules.get("torch._dynamo.convert_frame")
    return module is not None and getattr(module, "FRAME_COUNTER", 1) > 0


class GraphLimits(Effect):
    """Raises dynamo's limits on graphs of one function as parameters open and close, until :meth:`release`.

    ``torch.compile`` makes a graph for each set of parameters that require a gradient, and after 8 of them would run
    the function without compiling from then on. Each new set gets as much room as one model has: graphs for training,
    evaluation and other shapes. Methods that draw from many sets get room for the first 64; compile layer by layer
    to have few graphs (``for layer in layers: layer.compile()``).
    """

    on_model: ClassVar[bool] = True

    def __init__(self) -> None:
        self._seen: set[Hashable] = set()
        self._room: dict[str, int] = {}
        self._added: dict[str, int] = dict.fromkeys(_LIMITS, 0)

    def on_plan(self, coming: ComingStep) -> None:
        """Make room for one more graph if the plan opens a combination of groups that is new."""
        pattern = tuple(gate.share > 0.0 for gate in coming.plan.values())
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
        """Restore dynamo's limits."""
        config = _config()
        for name in _LIMITS if config is not None else ():
            self._add(config, name, -self._added[name])
        self._seen.clear()

    def _add(self, config: Any, name: str, amount: int) -> None:
        setattr(config, name, getattr(config, name) + amount)
        self._added[name] += amount


def _config() -> Any:
    """Return dynamo's settings; None if dynamo is not loaded, so that nothing can have been compiled."""
    return getattr(sys.modules.get("torch._dynamo"), "config", None)
