"""Copy and pickle a model as it is without gradgate, although hooks, flags and attributes are set on it for a while.

Whatever puts a hook on a model notes it with :func:`noted`, and an attribute with :func:`replace`; a tuner holds
:class:`CleanCopies`. Then :func:`copy.deepcopy`, :mod:`pickle` and :func:`torch.save` leave them out.
"""

from __future__ import annotations

import copy
import copyreg
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from torch import Tensor, nn
from torch.nn import Parameter

_ABSENT = object()
_HANDLES: WeakSet[Any] = WeakSet()
_REPLACED: WeakKeyDictionary[nn.Module, dict[str, Any]] = WeakKeyDictionary()
_TAKEN_OFF: WeakKeyDictionary[nn.Module, Mapping[int, Any]] = WeakKeyDictionary()
_LEARNING: Counter[int] = Counter()
_CLASSES: Counter[type] = Counter()

Handle = TypeVar("Handle")


def noted(handle: Handle) -> Handle:
    """Note what torch returned for a hook, and return it; copies of the model lack the hook until it is removed."""
    _HANDLES.add(handle)
    return handle


def replace(module: nn.Module, name: str, value: Any) -> None:
    """Set an instance attribute of a module until :func:`put_back`; copies have what it was before."""
    before = _REPLACED.setdefault(module, {})
    before.setdefault(name, vars(module).get(name, _ABSENT))
    vars(module)[name] = value


def put_back(module: nn.Module, name: str) -> None:
    """Undo :func:`replace`."""
    before = _REPLACED.get(module, {}).pop(name, _ABSENT)
    if before is _ABSENT:
        vars(module).pop(name, None)
    else:
        vars(module)[name] = before


def only_in_copies(module: nn.Module, hooks: Mapping[int, Any]) -> None:
    """Let copies of a module have these forward hooks, by number, which were taken off it for a while."""
    _TAKEN_OFF[module] = hooks


class CleanCopies:
    """Makes copies and pickles of a model clean, from :meth:`begin` to :meth:`end`.

    Args:
        model: the model.
        learning: its parameters whose copies require a gradient, whatever the flag of the original is now.
    """

    def __init__(self, model: nn.Module, learning: Iterable[Tensor]) -> None:
        self._model = model
        self._learning: Collection[int] = [id(parameter) for parameter in learning]
        self._classes: Collection[type] = ()

    def begin(self) -> None:
        """Let copy and pickle ask :func:`_reduced` about the classes of the model's modules."""
        self._classes = {type(module) for module in self._model.modules()}
        for kind in self._classes:
            if kind not in copyreg.dispatch_table:
                copyreg.pickle(kind, _reduced)
        _CLASSES.update(self._classes)
        _LEARNING.update(self._learning)

    def end(self) -> None:
        """Leave copies to torch again."""
        _CLASSES.subtract(self._classes)
        _LEARNING.subtract(self._learning if self._classes else ())
        for kind in self._classes:
            if _CLASSES[kind] <= 0 and copyreg.dispatch_table.get(kind) is _reduced:
                del copyreg.dispatch_table[kind]
        self._classes = ()


class _Learning:
    """Stands for a parameter in a copied or pickled state, and becomes a parameter that requires a gradient."""

    def __init__(self, parameter: Parameter) -> None:
        self._parameter = parameter

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return copy.deepcopy(self._parameter, memo).requires_grad_(True)

    def __reduce__(self) -> tuple[Any, ...]:
        # A method of torch, so that the file loads where gradgate is not installed.
        return Tensor.requires_grad_, (self._parameter, True)


def _reduced(module: nn.Module) -> Any:
    """Return what ``__reduce_ex__`` does, with a state without what is noted here."""
    usual: Any = module.__reduce_ex__(4)
    state = usual[2] if isinstance(usual, tuple) and len(usual) > 2 else None
    # A shallow copy shares parameters and hooks with the original, as without a tuner.
    if not isinstance(state, dict) or sys._getframe(1).f_code is copy.copy.__code__:
        return usual
    return (*usual[:2], _cleaned(module, state), *usual[3:])


def _cleaned(module: nn.Module, state: dict[str, Any]) -> dict[str, Any]:
    numbers = {handle.id for handle in _HANDLES}
    state = {name: _without(value, numbers) if "_hooks" in name else value for name, value in state.items()}
    taken_off = _TAKEN_OFF.get(module)
    if taken_off:
        state["_forward_hooks"] = type(state["_forward_hooks"])({**taken_off, **state["_forward_hooks"]})
    for name, before in _REPLACED.get(module, {}).items():
        state.pop(name, None)
        if before is not _ABSENT:
            state[name] = before
    state["_parameters"] = {
        name: _Learning(p) if p is not None and not p.requires_grad and _LEARNING[id(p)] > 0 else p
        for name, p in state["_parameters"].items()
    }
    return state


def _without(table: Any, numbers: Collection[int]) -> Any:
    """Return one of a module's tables of hooks without those with the numbers."""
    if not isinstance(table, dict):
        return table
    return type(table)((number, hook) for number, hook in table.items() if number not in numbers)
