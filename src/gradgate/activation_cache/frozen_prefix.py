"""The closed groups at the bottom of a model: which modules they are, and their forward pass without dropout."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from torch import nn

from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.units import EMBEDDINGS, HEAD
from gradgate.methods.plan import Plan


def closed_prefix(plan: Plan, layers: LayerMap) -> tuple[str, ...]:
    """The closed groups from the bottom, up to the first that is not closed: embeddings, whole layers, head."""
    opened = {group.layer for group in layers if not plan[group.name].closed}
    return tuple(takewhile(lambda name: name not in opened, layers.at("layer").names))


def closed_layers(closed: Collection[str]) -> int:
    """How many layers a closed prefix holds, without embeddings and head."""
    return sum(name not in (EMBEDDINGS, HEAD) for name in closed)


@dataclass
class Parts:
    """The modules of a model, sorted by the parameters that they hold.

    Attributes:
        inside: those that hold parameters of the prefix alone, with everything in them.
        around: those that hold parameters of both kinds, or none; their own code may run below and above.
        above: the outermost of those that hold none of the prefix. The first of them to run ends the prefix.
    """

    inside: list[nn.Module] = field(default_factory=list)
    around: list[nn.Module] = field(default_factory=list)
    above: list[nn.Module] = field(default_factory=list)


def split(model: nn.Module, prefix: Collection[int]) -> Parts:
    """The parts of a model for a prefix, given as the ``id`` of each of its parameters."""
    parts = Parts()
    _sort(model, prefix, parts, set())
    return parts


def _sort(module: nn.Module, prefix: Collection[int], parts: Parts, seen: set[nn.Module]) -> None:
    if module in seen:
        return
    seen.add(module)
    held = {id(parameter) in prefix for parameter in module.parameters()}
    if held == {True}:
        fresh = [inner for inner in module.modules() if inner is module or inner not in seen]
        parts.inside += fresh
        seen.update(fresh)
    elif held == {False} and not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential):
        parts.above.append(module)
    else:
        # Lists are not called themselves, and a Sequential may be run through like one.
        (parts.around if held != {False} else parts.above).append(module)
        for child in module.children():
            _sort(child, prefix, parts, seen)


def parameter_ids(model: nn.Module, layers: LayerMap) -> dict[str, frozenset[int]]:
    """The ``id`` of each parameter, by group."""
    parameters = named_parameters(model)
    return {group.name: frozenset(id(parameters[name]) for name in group.parameter_names) for group in layers}


def layer_modules(model: nn.Module, layers: LayerMap) -> list[nn.Module]:
    """The modules of the layers from the bottom; empty unless they are one plain stack, each run once."""
    groups = layers.layers
    if len({group.stack for group in groups}) != 1 or layers.shared_layers:
        return []
    ids = parameter_ids(model, layers)
    found = []
    for index, group in enumerate(groups):
        try:
            module = model.get_submodule(f"{group.stack}.{index}".removeprefix("."))
        except AttributeError:
            return []
        own = {id(parameter) for parameter in module.parameters()}
        if not own or not own <= ids[group.name]:
            return []
        found.append(module)
    return found


Prepare = Callable[[tuple[Any, ...], dict[str, Any]], None]


class FrozenPrefix:
    """Runs the closed prefix in evaluation mode: dropout there would only add noise to what no longer learns.

    In training mode, a forward pass of the model runs in evaluation mode until the first module above the prefix is
    entered, and the modules of the prefix stay in it until the pass ends. What counts is the order of execution, so
    that dropout, layer drop and masking by code between the modules are off as well. The flags differ from the user's
    only within a forward pass, and are restored if it raises.

    Args:
        model: without wrappers such as DDP.
        layers: its layer map.
        prepare: called with the arguments of each such forward pass before a flag is touched.
        finish: called at its end.
    """

    def __init__(self, model: nn.Module, layers: LayerMap, prepare: Prepare, finish: Callable[[], None]) -> None:
        self._model = model
        self._ids = parameter_ids(model, layers)
        self._prepare, self._finish = prepare, finish
        self._closed: tuple[str, ...] = ()
        self._known: dict[tuple[str, ...], Parts] = {}
        self._parts = Parts()
        self._inside: list[nn.Module] = []
        self._around: list[nn.Module] = []
        self._hooks: list[Any] = []

    def follow(self, closed: tuple[str, ...]) -> None:
        """Take up another prefix, given as the names of its groups; an empty one removes every hook."""
        if closed == self._closed:
            return
        self.release()
        self._closed = closed
        if not closed:
            return
        self._parts = self.parts(closed)
        self._hooks = [
            self._model.register_forward_pre_hook(self._enter, with_kwargs=True),
            self._model.register_forward_hook(self._leave, always_call=True),
            *(module.register_forward_pre_hook(self._resume_training_mode) for module in self._parts.above),
        ]

    def parts(self, closed: tuple[str, ...]) -> Parts:
        """The modules inside, around and above a prefix."""
        if closed not in self._known:
            self._known[closed] = split(self._model, frozenset().union(*(self._ids[name] for name in closed)))
        return self._known[closed]

    def release(self) -> None:
        """Remove every hook."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._closed = [], ()

    def _enter(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model is not self._model or not model.training:  # hooks go along into copies of the model
            return
        if self._inside or self._around:  # a step of Lightning's, which calls the model itself once more
            return
        self._prepare(args, kwargs)
        self._inside = [module for module in self._parts.inside if module.training]
        self._around = [module for module in self._parts.around if module.training]
        for module in (*self._inside, *self._around):
            module.training = False

    def _resume_training_mode(self, *_: Any) -> None:
        for module in self._around:
            module.training = True
        self._around = []

    def _leave(self, model: nn.Module, *_: Any) -> None:
        if model is not self._model:
            return
        self._resume_training_mode()
        for module in self._inside:
            module.training = True
        self._inside = []
        self._finish()
