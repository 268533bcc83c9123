"""Find the closed groups at the bottom of a model, and run their forward pass without dropout."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from torch import nn

from gradgate.layers import LayerMap, named_parameters
from gradgate.layers.units import EMBEDDINGS, HEAD
from gradgate.methods.plan import Plan
from gradgate.model_copies import noted
from gradgate.torch_state import RESCALES


def closed_prefix(plan: Plan, layers: LayerMap) -> tuple[str, ...]:
    """Return the closed groups from the bottom, up to the first that is not closed: embeddings, layers, head.

    Networks side by side each have a bottom; the embeddings and the head are common to all of them. An open prompt
    feeds the lowest layer, so that nothing is below what is open.
    """
    if layers.prompts and not plan[HEAD].closed:
        return ()
    opened = {group.layer for group in layers if not plan[group.name].closed}
    whole = layers.at("layer")
    if len(whole.axes) < 2:
        return tuple(takewhile(lambda name: name not in opened, whole.names))
    if EMBEDDINGS in opened:
        return ()
    closed = [EMBEDDINGS] if EMBEDDINGS in whole else []
    for axis in whole.axes:
        closed += takewhile(lambda name: name not in opened, (group.name for group in axis))
    return tuple(closed)


def closed_layers(closed: Collection[str]) -> int:
    """Return the number of layers in a closed prefix, without embeddings and head."""
    return sum(name not in (EMBEDDINGS, HEAD) for name in closed)


@dataclass
class PrefixModules:
    """The modules of a model, sorted by their parameters.

    Attributes:
        inside: modules with parameters of the prefix only, and all their submodules.
        around: modules with parameters of both kinds, or none; their own code may run below and above.
        above: the outermost modules without parameters of the prefix. The first of them to run ends the prefix.
    """

    inside: list[nn.Module] = field(default_factory=list)
    around: list[nn.Module] = field(default_factory=list)
    above: list[nn.Module] = field(default_factory=list)


def split(model: nn.Module, prefix: Collection[int]) -> PrefixModules:
    """Sort a model's modules for a prefix, which is passed as the ``id`` of each of its parameters."""
    parts = PrefixModules()
    _sort(model, prefix, parts, set())
    return parts


def _sort(module: nn.Module, prefix: Collection[int], parts: PrefixModules, seen: set[nn.Module]) -> None:
    if module in seen:
        return
    seen.add(module)
    in_prefix = {id(parameter) in prefix for parameter in module.parameters()}
    if in_prefix == {True}:
        fresh = [inner for inner in module.modules() if inner is module or inner not in seen]
        parts.inside += fresh
        seen.update(fresh)
    elif in_prefix == {False} and not isinstance(module, nn.ModuleList | nn.ModuleDict | nn.Sequential):
        parts.above.append(module)
    else:
        # A list is never called itself, and code may loop over a Sequential too, so their children count.
        (parts.around if in_prefix != {False} else parts.above).append(module)
        for child in module.children():
            _sort(child, prefix, parts, seen)


def parameter_ids(model: nn.Module, layers: LayerMap) -> dict[str, frozenset[int]]:
    """Return the ``id`` of each parameter, by group."""
    parameters = named_parameters(model)
    return {group.name: frozenset(id(parameters[name]) for name in group.parameter_names) for group in layers}


def layer_modules(model: nn.Module, layers: LayerMap) -> list[nn.Module]:
    """Return the modules of the layers from the bottom; empty unless they are one plain stack, each run once."""
    groups = layers.layers
    if len({group.stack for group in groups}) != 1 or any(group.uses > 1 for group in groups) or layers.prompts:
        return []
    ids = parameter_ids(model, layers)
    modules = []
    for index, group in enumerate(groups):
        try:
            module = model.get_submodule(f"{group.stack}.{index}".removeprefix("."))
        except AttributeError:
            return []
        in_module = {id(parameter) for parameter in module.parameters()}
        if not in_module or not in_module <= ids[group.name]:
            return []
        modules.append(module)
    return modules


def is_noisy(module: nn.Module) -> bool:
    """Return True if NEFTune adds noise to the module's output in training mode, as transformers and TRL set it up."""
    return getattr(module, "neftune_noise_alpha", None) is not None


Prepare = Callable[[tuple[Any, ...], dict[str, Any]], None]


class FrozenPrefix:
    """Hooks that run the closed prefix in evaluation mode: dropout in frozen layers would only add noise.

    In training mode, a forward pass of the model runs in evaluation mode until the first module above the prefix is
    entered, and the modules of the prefix stay in it until the pass ends. The order of execution decides, so that
    dropout, layer drop and masking by code between the modules are off as well. A table with NEFTune's noise stays in
    training mode: who turns that on means it for what learns above. The flags differ from the user's only within a
    forward pass, and are restored if it raises.

    Args:
        model: without wrappers such as DDP.
        layers: its layer map.
        prepare: called with the arguments of each such forward pass before a flag changes.
        finish: called at the end of each pass.
    """

    def __init__(self, model: nn.Module, layers: LayerMap, prepare: Prepare, finish: Callable[[], None]) -> None:
        self._model = model
        self._ids = parameter_ids(model, layers)
        self._prepare, self._finish = prepare, finish
        self._closed: tuple[str, ...] = ()
        self._known: dict[tuple[str, ...], PrefixModules] = {}
        self._parts = PrefixModules()
        self._inside: list[nn.Module] = []
        self._around: list[nn.Module] = []
        self._hooks: list[Any] = []

    def follow(self, closed: tuple[str, ...]) -> None:
        """Switch to another prefix, passed as the names of its groups; an empty one removes every hook."""
        if closed == self._closed:
            return
        self.release()
        self._closed = closed
        if not closed:
            return
        self._parts = self.parts(closed)
        self._hooks = [
            noted(self._model.register_forward_pre_hook(self._enter, with_kwargs=True)),
            noted(self._model.register_forward_hook(self._leave, always_call=True)),
            *(noted(module.register_forward_pre_hook(self._resume_training_mode)) for module in self._parts.above),
        ]

    def parts(self, closed: tuple[str, ...]) -> PrefixModules:
        """Return the modules inside, around and above a prefix."""
        if closed not in self._known:
            self._known[closed] = split(self._model, frozenset().union(*(self._ids[name] for name in closed)))
        return self._known[closed]

    def release(self) -> None:
        """Remove every hook."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._closed = [], ()

    def _enter(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if model is not self._model or not model.training:  # copies of the model share the hooks
            return
        if self._inside or self._around:  # nested: a step of Lightning calls the model once more
            return
        self._prepare(args, kwargs)
        self._inside = [module for module in self._parts.inside if module.training and not is_noisy(module)]
        self._around = [module for module in self._parts.around if module.training and not hasattr(module, RESCALES)]
        _train(self._inside, False)
        _train(self._around, False)

    def _resume_training_mode(self, *_: Any) -> None:
        _train(self._around, True)
        self._around = []

    def _leave(self, model: nn.Module, *_: Any) -> None:
        if model is not self._model:
            return
        self._resume_training_mode()
        _train(self._inside, True)
        self._inside = []
        self._finish()


def _train(modules: Sequence[nn.Module], mode: bool) -> None:
    """Set the training flags of modules, and not of what is in them, past the slow ``Module.__setattr__``."""
    for module in modules:
        flags = vars(module)
        if "training" in flags:
            flags["training"] = mode
        else:  # scripted: it is in C++
            module.training = mode
