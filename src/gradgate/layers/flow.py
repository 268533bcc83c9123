"""Follow a model's inputs through its forward: which of them reach each module and each parameter's first use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from torch import Tensor, nn

Sources = frozenset[str]
NOTHING: Sources = frozenset()

_MODALITIES = {
    "vision": ("pixel", "image", "video", "visual", "vision", "patches"),
    "audio": ("input_features", "input_values", "audio", "speech", "wave"),
    "text": ("input_ids", "inputs_embeds", "text", "language"),
}
_MARK = "_gradgate_sources"
_IN_PLACE = {"__setitem__"}  # changes its first argument and returns None
_BESIDE = ("mask", "position", "grid", "sizes", "shape", "token_type", "cache", "labels", "lengths")
_PASSED = "\0"  # begins the name of a list that data passed; no argument is named so
_numbers = count()


def marked(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a forward with each content tensor marked with its own name.

    Masks, positions and sizes stay unmarked: they accompany every input and do not show where data comes from.
    """
    return {name: _marked(name, value) for name, value in inputs.items()}


def _marked(name: str, value: Any) -> Any:
    if isinstance(value, Mapping) and not hasattr(value, "to"):  # a model inside takes its inputs in one dictionary
        return marked(value)
    if not isinstance(value, Tensor) or any(word in name for word in _BESIDE):
        return value
    return _mark(value.view_as(value), frozenset({name}))


def sources_of(value: object) -> Sources:
    """Return the names of the inputs that went into any tensor of a value."""
    return NOTHING.union(*(getattr(tensor, _MARK, NOTHING) for tensor in _tensors(value)))


def pass_on(func: Any, given: tuple[Any, ...], result: object) -> None:
    """Mark what an operation returned or changed with the inputs that went into its arguments."""
    sources = sources_of(given)
    if not sources:
        return
    args = given[0]
    changed = args[:1] if getattr(func, "__name__", "") in _IN_PLACE else ()
    inputs = None
    for tensor in _tensors((result, changed)):
        if tensor.is_floating_point():
            _mark(tensor, sources | getattr(tensor, _MARK, NOTHING))
            continue
        # Whole numbers carry no gradient: the tokens that a generator draws begin a network of their own.
        inputs = frozenset(s for s in sources if not s.startswith(_PASSED)) if inputs is None else inputs
        _mark(tensor, inputs | getattr(tensor, _MARK, NOTHING))


def new_list_mark() -> str:
    """Return a source that stands for what the items of one list of modules return; none is returned twice."""
    return f"{_PASSED}{next(_numbers)}"


def mark_passed(output: object, marks: Sources) -> None:
    """Mark the floating point tensors that an item of lists returned with the marks of these lists."""
    for tensor in _tensors(output):
        if tensor.is_floating_point():
            _mark(tensor, marks | getattr(tensor, _MARK, NOTHING))


def modality(source: str) -> str:
    """Return the kind of a keyword argument: ``decoder``, ``vision``, ``audio``, ``text``, or empty if unknown."""
    if source.startswith("decoder_"):
        return "decoder"
    return next((kind for kind, words in _MODALITIES.items() if any(word in source for word in words)), "")


def kinds_of(sources: Iterable[str]) -> Sources:
    """Return the kinds of these inputs; unknown ones are left out."""
    return frozenset(filter(None, map(modality, sources)))


def declared_kinds(module: nn.Module) -> Sources:
    """Return what a transformers model reads: by the name of its configuration, else as it declares."""
    named = modality(type(getattr(module, "config", None)).__name__.lower())
    declared = getattr(module, "input_modalities", "text")
    return frozenset({named}) if named else kinds_of([declared] if isinstance(declared, str) else declared)


def _mark(tensor: Tensor, sources: Sources) -> Tensor:
    # A parameter outlives the forward, so a mark on it would leak into the next one.
    if not isinstance(tensor, nn.Parameter):
        setattr(tensor, _MARK, sources)
    return tensor


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
