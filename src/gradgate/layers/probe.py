"""Record one tiny forward pass: when each module ran, and when each parameter was first used."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from gradgate.errors import LayerMapError
from gradgate.layers.flow import Sources, mark_passed, marked, new_list_mark, pass_on, sources_of
from gradgate.layers.inputs import guesses
from gradgate.torch_state import preserved_state

Span = tuple[int, int]
LISTS = (nn.ModuleList, nn.ModuleDict, nn.Sequential)
"""Modules whose children may be the layers of a model."""

# Answers on the meta device, where tensors have no values: a mask is all ones, and no token is padding.
_WITHOUT_DATA: dict[Any, bool] = {Tensor.item: True, Tensor.__bool__: True, Tensor.__contains__: False}
# The sizes of these results depend on values too: the classification heads of BART and T5 take the state of each row's
# end token, and generated inputs have one per row.
ONE_A_ROW: dict[Any, Callable[..., Tensor]] = {
    torch.unique_consecutive: lambda counts, *_: counts[:1],
    Tensor.__getitem__: lambda states, index: _first_states(states, index),
}


# What an operation shows about the part of a layer that it runs in; products of two activations mix tokens.
_MIXES = frozenset({"scaled_dot_product_attention", "matmul", "bmm", "baddbmm", "einsum"})
_VIEWS = frozenset({
    "__get__", "__getitem__", "chunk", "contiguous", "expand", "flatten", "narrow", "permute", "reshape", "select",
    "split", "squeeze", "t", "to", "transpose", "type_as", "unbind", "unsqueeze", "view",
})  # fmt: skip
_OF_WEIGHT = "_gradgate_of_weight"
_ATTENDS = "multi_head_attention_forward"  # of nn.MultiheadAttention, projections included
_MARKS = {
    **dict.fromkeys(("relu", "relu_", "gelu", "silu", "elu", "leaky_relu", "mish", "tanh", "sigmoid"), "activates"),
    **dict.fromkeys(("layer_norm", "rms_norm", "group_norm", "batch_norm", "rsqrt", "sqrt", "pow"), "normalizes"),
    **dict.fromkeys(("topk", "argmax"), "routes"),
}


@dataclass(eq=False)
class Trace:
    """A record of what ran when. Times count events from 0; a span is (entered, left).

    Attributes:
        calls: the runs of each module.
        first_use: ``id`` of a parameter to the time of the first operation on it.
        marks: kind of operation to its times: ``mixes`` (attention's products of two activations), ``activates``,
            ``normalizes`` and ``routes`` (a choice of experts).
        reads: the names of the model's inputs that reach each module.
        fed: ``id`` of a parameter to the inputs that reach the first operation on it.
        list_marks: list of modules to the sources that stand for what its items returned; see ``reads`` and ``fed``.
        entries: item of a list to the sources that reached each of its runs.
    """

    calls: dict[nn.Module, list[Span]] = field(default_factory=dict)
    first_use: dict[int, int] = field(default_factory=dict)
    marks: dict[str, list[int]] = field(default_factory=dict)
    reads: dict[nn.Module, Sources] = field(default_factory=dict)
    fed: dict[int, Sources] = field(default_factory=dict)
    list_marks: dict[nn.Module, Sources] = field(default_factory=dict)
    entries: dict[nn.Module, list[Sources]] = field(default_factory=dict)

    def spans(self, module: nn.Module) -> tuple[Span, ...]:
        """Return the runs of a module. If it ran without being called, derive one from its parameters' uses."""
        if module in self.calls:
            return tuple(self.calls[module])
        uses = [self.first_use[id(p)] for p in module.parameters() if id(p) in self.first_use]
        return ((min(uses), max(uses)),) if uses else ()

    def marked(self, module: nn.Module, kind: str) -> bool:
        """Return True if an operation of this kind ran within the module."""
        times = self.marks.get(kind, [])
        return any(bisect_left(times, entered) < bisect_left(times, left) for entered, left in self.spans(module))

    def append(self, later: Trace) -> None:
        """Add the record of another forward, as if it ran after this one."""
        end = 1 + max((left for spans in self.calls.values() for _, left in spans), default=-1)
        for module, spans in later.calls.items():
            self.calls.setdefault(module, []).extend((entered + end, left + end) for entered, left in spans)
        for tensor_id, at in later.first_use.items():
            self.first_use.setdefault(tensor_id, at + end)
        for kind, times in later.marks.items():
            self.marks.setdefault(kind, []).extend(at + end for at in times)
        for module, sources in later.reads.items():
            self.reads[module] = self.reads.get(module, frozenset()) | sources
        self.fed = later.fed | self.fed
        for container, marks in later.list_marks.items():
            self.list_marks[container] = self.list_marks.get(container, frozenset()) | marks
        for item, entries in later.entries.items():
            self.entries.setdefault(item, []).extend(entries)


def observe(model: nn.Module, example: Mapping[str, Tensor] | None = None) -> tuple[Trace | None, str]:
    """Run one forward and return its trace, or None and the reason why no forward could be run.

    Args:
        model: not wrapped in DDP or ``torch.compile``.
        example: keyword arguments of ``forward``; by default made from the model's configuration.

    Raises:
        LayerMapError: if the example does not fit the model.
    """
    if example is not None:
        device = next(model.parameters()).device
        moved = {k: v.to(device) if isinstance(v, Tensor) else v for k, v in example.items()}
        try:
            return _watch(model, moved), ""
        except Exception as error:
            raise LayerMapError(
                f"The forward of {type(model).__name__} fails on the example ({', '.join(example)}): {error}. "
                f"Expected the keyword arguments of its forward."
            ) from error
    failure = ""
    try:
        for inputs in guesses(model):
            try:
                return _watch(model, inputs), ""
            except Exception as error:  # any model code may run here, so anything may be raised
                failure = failure or f"{type(error).__name__}: {error}"
    except Exception as error:  # a configuration unlike any known
        failure = failure or f"{type(error).__name__}: {error}"
    return None, failure or "the arguments of its forward are unknown"


def _watch(model: nn.Module, inputs: Mapping[str, Any]) -> Trace:
    trace = Trace()
    clock = _Clock()
    entered: dict[nn.Module, list[int]] = {}
    lists = [module for module in model.modules() if isinstance(module, LISTS)]
    trace.list_marks = {container: frozenset({new_list_mark()}) for container in lists}
    passed: dict[nn.Module, Sources] = {}
    for container, marks in trace.list_marks.items():
        for item in items_of(container):
            passed[item] = passed.get(item, frozenset()) | marks

    def enter(module: nn.Module, args: object, kwargs: object) -> None:
        sources = sources_of((args, kwargs))
        trace.reads[module] = trace.reads.get(module, frozenset()) | sources
        if module in passed:
            trace.entries.setdefault(module, []).append(sources)
        entered.setdefault(module, []).append(clock.tick())

    def leave(module: nn.Module, args: object, output: object) -> None:
        trace.calls.setdefault(module, []).append((entered[module].pop(), clock.tick()))
        if module in passed:
            mark_passed(output, passed[module])

    with preserved_state(model, training=False), ExitStack() as hooks:
        if "torch._dynamo" in sys.modules:  # else nothing can have been compiled, and its import is slow
            hooks.enter_context(torch.compiler.set_stance("force_eager"))
        for module in model.modules():
            hooks.callback(module.register_forward_pre_hook(enter, with_kwargs=True).remove)
            hooks.callback(module.register_forward_hook(leave).remove)
        hooks.enter_context(_FirstUse({id(p) for p in model.parameters()}, trace, clock))
        hooks.enter_context(_simple_settings(model))
        model(**marked(inputs))
    return trace


def items_of(container: nn.Module) -> list[nn.Module]:
    """Return the children; a ModuleList has no forward of its own, so its children replace it."""
    return [
        inner
        for child in container.children()
        for inner in (items_of(child) if isinstance(child, nn.ModuleList) else (child,))
    ]


@contextmanager
def _simple_settings(model: nn.Module) -> Iterator[None]:
    """Turn caches off for the body, and on the meta device run experts by products that need no values.

    Caches of mixed layers expect attention in each layer. Grouped products and sorting by expert fail without data.
    """
    wanted: dict[str, Any] = {"use_cache": False}
    if next(model.parameters()).is_meta:
        wanted["_experts_implementation_internal"] = "batched_mm"
    found: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    configs = {id(config): config for config in found if config is not None}.values()
    before = [(c, name, value) for c in configs for name in wanted if (value := getattr(c, name, None))]
    try:
        for config, name, _ in before:
            setattr(config, name, wanted[name])
        yield
    finally:
        for config, name, value in before:
            setattr(config, name, value)


class _Clock:
    def __init__(self) -> None:
        self.now = -1

    def tick(self) -> int:
        self.now += 1
        return self.now


class _FirstUse(TorchFunctionMode):
    """A mode that records the time of the first operation that computes something from each parameter."""

    def __init__(self, watched: set[int], trace: Trace, clock: _Clock) -> None:
        super().__init__()
        self.watched, self.trace, self.clock = watched, trace, clock

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = _call(func, args, kwargs)
        pass_on(func, (args, kwargs), result)
        # `weight.dtype`, `weight.size()` and `weight.new_zeros()` look at a parameter without its values.
        name = getattr(func, "__name__", "")
        if any(_tensors(result)) and not name.startswith("new_") and not name.endswith("_like"):
            used = [tensor_id for tensor_id in _tensors((args, kwargs)) if tensor_id in self.watched]
            for tensor_id in used:
                if tensor_id not in self.trace.first_use:
                    self.trace.first_use[tensor_id] = self.clock.tick()
                    self.trace.fed[tensor_id] = sources_of((args, kwargs))
            # A product with a parameter is a projection; only one of two activations mixes tokens.
            kind = _MARKS.get(name, "")
            if name == _ATTENDS or (name.strip("_") in _MIXES and not used and not _reads_weight(args, kwargs)):
                kind = "mixes"
            if kind:
                self.trace.marks.setdefault(kind, []).append(self.clock.tick())
            if name in _VIEWS and (used or _reads_weight(args[:1], {})):
                tree_map_only(Tensor, lambda view: setattr(view, _OF_WEIGHT, True), result)
        return result


def _reads_weight(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if a view of a parameter is among the arguments: a product with it is a projection, too."""
    return any(getattr(each, _OF_WEIGHT, False) for each in (*args, *kwargs.values()))


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function; if it mixes floating dtypes, which most operations refuse outside autocast, use float32."""
    try:
        return func(*args, **kwargs)
    except RuntimeError:
        if func in _WITHOUT_DATA and args[0].is_meta:
            return _WITHOUT_DATA[func]
        if func in ONE_A_ROW and args[0].is_meta:
            return ONE_A_ROW[func](*args)
        dtypes: set[torch.dtype] = set()
        tree_map_only(Tensor, lambda t: dtypes.add(t.dtype), (args, kwargs))
        if sum(dtype.is_floating_point for dtype in dtypes) < 2:
            raise
        args, kwargs = tree_map_only(Tensor, lambda t: t.float() if t.is_floating_point() else t, (args, kwargs))
        return func(*args, **kwargs)


def _first_states(states: Tensor, index: Any) -> Tensor:
    """Return as many elements as the boolean mask has rows."""
    mask = index[0] if isinstance(index, tuple) else index
    return states.flatten(0, mask.dim() - 1)[: mask.shape[0]]


def _tensors(value: object) -> Iterator[int]:
    if isinstance(value, Tensor):
        yield id(value)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
