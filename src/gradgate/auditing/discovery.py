"""Find the models that an optimizer trains among the live objects, and what of them is worth a name."""

from __future__ import annotations

import gc
import sys
from collections.abc import Container, Iterable, Iterator
from types import FrameType

from torch import nn

from gradgate.layers.names import unwrap

_SHARED_BY = ("GraphModule", "ScriptModule")


def models_trained(wanted: Container[int]) -> list[nn.Module]:
    """Return the outermost modules with at least one wanted parameter, or one that has a gradient.

    Nothing is called on the modules, and no other object's attribute is read. A module whose parameters all belong to
    others, such as a traced graph, is left out.

    Args:
        wanted: ``id`` of parameters.
    """
    if len(_outermost(wanted)) > 1:
        gc.collect()  # dead models in cycles may still have gradients; it takes longer than the search
    return _outermost(wanted)


def _outermost(wanted: Container[int]) -> list[nn.Module]:
    modules = [one for one in gc.get_objects() if issubclass(type(one), nn.Module) and "_modules" in one.__dict__]
    inside = {id(child) for one in modules for child in one._modules.values() if child is not None}
    roots = [one for one in modules if id(one) not in inside and _is_trained(one, wanted)]
    roots.sort(key=lambda one: (_is_copy(one), -sum(1 for _ in one.parameters())))
    found: list[nn.Module] = []
    covered: set[int] = set()
    for root in roots:
        members = {id(parameter) for parameter in root.parameters()}
        if not members <= covered:
            found.append(root)
            covered |= members
    return found


def variables_of_callers() -> dict[int, str]:
    """Return the variables that are modules in the functions that run now, by ``id``.

    Of several names of a module, it is the outermost function's.
    """
    found: dict[int, str] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        variables = list(frame.f_locals.items())
        found.update((id(value), name) for name, value in variables if issubclass(type(value), nn.Module))
        frame = frame.f_back
    return found


def _is_trained(module: nn.Module, wanted: Container[int]) -> bool:
    return any(
        id(parameter) in wanted or (parameter.is_leaf and parameter.grad is not None)
        for parameter in module.parameters()
    )


def _is_copy(module: nn.Module) -> bool:
    return any(kind.__name__ in _SHARED_BY for kind in type(module).__mro__)


def chain(root: nn.Module) -> Iterator[nn.Module]:
    """Yield a module without its wrappers, then each only child that has all of its parameters.

    The first that has a layer map gives the names, as a loss or a trainer's module around a model has none.
    """
    module: nn.Module | None = root
    while module is not None:
        model = unwrap(module)
        yield model
        module = _only_child(model)


def _only_child(module: nn.Module) -> nn.Module | None:
    children = [child for child in module.children() if next(child.parameters(), None) is not None]
    own = next(module.parameters(recurse=False), None)
    return children[0] if own is None and len(children) == 1 else None


def is_replicated(root: nn.Module) -> bool:
    """Return True if the model is inside DistributedDataParallel."""
    return any(isinstance(module, nn.parallel.DistributedDataParallel) for module in root.modules())


def ids(parameters: Iterable[object]) -> set[int]:
    """Return the ``id`` of each."""
    return {id(parameter) for parameter in parameters}
