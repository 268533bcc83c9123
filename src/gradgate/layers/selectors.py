"""Select weights by one text, with the same syntax for every model and every option that takes it.

layers.top4/@norm/head               the top four layers, every norm and the head
layers.*.attention/!layers.0         the attention of all layers but the lowest
embeddings[32000:]/@lora             the rows of new tokens, and what LoRA has added
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from gradgate.errors import SelectorError, nearest
from gradgate.layers.map import LayerMap
from gradgate.layers.names import is_bias
from gradgate.layers.patterns import NamePattern
from gradgate.layers.units import EMBEDDINGS, HEAD, MARKS, PARTS, Group, Weight
from gradgate.specs import shown

if TYPE_CHECKING:
    from torch import nn

Rows = tuple[tuple[int, int], ...]
_TABLE = re.compile(r"(embeddings|head)(?:\[(-?[0-9]{,15}):(-?[0-9]{,15})\])?")
_LAYERS = re.compile(r"layers(?:\.(\*|N|N-N|topN|bottomN))?(?:\.([a-z]+)(?:\.(.+))?)?".replace("N", "[0-9]{1,9}"))
_TOWERS = ("vision", "audio", "text", "encoder", "decoder", "projector")
_MARKS = (*(f"@{name}" for name in (*PARTS[:-1], "lora", "bias", EMBEDDINGS, HEAD, *_TOWERS)),)
_EXPECTED = (
    "Expected terms with / between them: layers.3, layers.3-6, layers.top4, layers.bottom4, layers.*, each also with a "
    "part (layers.*.attention) and a module (layers.3.attention.q_proj); embeddings, head, also with rows "
    f"(embeddings[32000:]); {', '.join(_MARKS)}; re:REGEX; ! before a term excludes it"
)


class _Table(NamedTuple):
    """A group outside of the layers, with the bounds of its rows as they are written, if there are any."""

    group: str
    start: str | None
    stop: str | None


class _Layers(NamedTuple):
    """Layers, with a part and a module of them if the term has one."""

    which: str | None
    part: str | None
    module: str | None


@dataclass(frozen=True)
class Selection:
    """Weights of one model.

    Attributes:
        text: the selector.
        rows: canonical name of each parameter to the ranges of its selected rows, as (start, stop), in the model's
            order; a scalar has one row.
        shapes: full shapes of the same parameters.
    """

    text: str
    rows: Mapping[str, Rows]
    shapes: Mapping[str, tuple[int, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names of the parameters, in the model's order, including those with only some rows selected."""
        return tuple(self.rows)

    @property
    def partial(self) -> dict[str, Rows]:
        """Selected rows of the parameters that are only partly selected."""
        return {name: rows for name, rows in self.rows.items() if rows != _all(self.shapes[name])}

    @property
    def left_out(self) -> dict[str, Rows]:
        """The other rows of these parameters."""
        return {name: _without(_all(self.shapes[name]), rows) for name, rows in self.partial.items()}

    @property
    def count(self) -> int:
        """Number of selected elements."""
        return sum(map(self.count_of, self.rows))

    def count_of(self, name: str) -> int:
        """Return the number of selected elements of one parameter."""
        return prod(self.shapes[name][1:]) * sum(stop - start for start, stop in self.rows[name]) if name in self else 0

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def inverted(self, layers: LayerMap) -> Selection:
        """Return a selection of all weights of the model that are not in this one."""
        shapes = {name: weight.shape for name, weight in _weights(layers).items()}
        left = {name: _without(_all(shape), self.rows.get(name, ())) for name, shape in shapes.items()}
        rows = {name: ranges for name, ranges in left.items() if ranges}
        return Selection(f"all but {self.text}", rows, {name: shapes[name] for name in rows})


def select(model: nn.Module | LayerMap, text: str) -> Selection:
    """Return the weights that a selector names.

    Terms are separated by ``/`` and applied from left to right; ``!`` before a term excludes its weights.

    - ``layers.3``, ``layers.3-6``, ``layers.top4``, ``layers.bottom4``, ``layers.*``, ``embeddings`` and ``head`` are
      groups of the layer map; ``layers.*.attention`` is a part and ``layers.3.attention.q_proj`` a module of them.
      If several networks run side by side, ``top`` and ``bottom`` are those of each.
    - ``@attention @mlp @norm @experts @router @adapter`` are parts anywhere, ``@bias`` every bias, ``@lora`` what
      LoRA has added, ``@vision @audio @text @encoder @decoder @projector`` towers; so is each other name in
      :attr:`LayerMap.towers`, such as ``@query_encoder``.
    - ``re:REGEX`` is a full match on canonical parameter names.
    - ``embeddings[32000:]`` and ``head[32000:]`` are rows of the table with one row per token, counted as in slices.

    Args:
        model: a model, or its layer map.
        text: the selector.

    Raises:
        SelectorError: for a term that is not valid or selects nothing, with the nearest names.
    """
    terms = _terms(text)
    layers = (model if isinstance(model, LayerMap) else _map(model)).at("layer")
    found: dict[str, Rows] = {}
    reader = _Reader(layers, text)
    for excludes, term in terms:
        for name, rows in reader.rows_of(term).items():
            old = found.get(name, ())
            found[name] = _without(old, rows) if excludes else union(old, rows)
    weights = _weights(layers)
    chosen = {name: found[name] for name in weights if found.get(name)}
    if not chosen:
        raise SelectorError(f"The selector {shown(text)} selects nothing: its last terms exclude all others.")
    return Selection(text, chosen, {name: weights[name].shape for name in chosen})


def check_selector(text: str) -> None:
    """Check what of a selector can be checked before there is a model: the form of its terms.

    Args:
        text: the selector.

    Raises:
        SelectorError: for a term that is not valid for any model, with the nearest names.
    """
    for _, term in _terms(text):
        try:
            _parsed(term, (EMBEDDINGS, HEAD, "layers.*", *_MARKS))
        except ValueError as error:
            raise SelectorError(f"The selector {shown(text)}: {error}.") from None


def _terms(text: str) -> list[tuple[bool, str]]:
    """Return the terms of a selector, each with whether it excludes, without parsing them."""
    if not isinstance(text, str):
        raise SelectorError(f"{text!r:.80} is not a selector. Expected a text such as 'layers.top4/head'.")
    terms = [term.strip() for term in text.split("/")]
    pairs = [(term.startswith("!"), term.removeprefix("!").strip()) for term in terms]
    if not all(term for _, term in pairs):
        raise SelectorError(f"The selector {shown(text)} has an empty term. {_EXPECTED}.")
    if pairs[0][0]:
        raise SelectorError(
            f"The selector {shown(text)} begins with {terms[0]!r}, which excludes from nothing. Begin with what "
            f"to exclude it from, as in layers.*/{terms[0]}."
        )
    return pairs


def _parsed(term: str, known: Iterable[str]) -> NamePattern | _Table | _Layers | str:
    """Parse a term; of a mark, which may be a tower that only some models have, return the name.

    Args:
        term: without ``!``.
        known: terms to suggest in place of one that is not valid.

    Raises:
        ValueError: for a term that is not valid for any model, without the final dot.
    """
    if term.startswith("re:"):
        try:
            return NamePattern(term.removeprefix("re:"))
        except ValueError as error:
            raise ValueError(f"{shown(term)} {error}. Expected one for parameter names") from None
    if term.startswith("@") and term != "@":
        return term[1:]
    if table := _TABLE.fullmatch(term):
        return _Table(*table.groups())
    layers = _LAYERS.fullmatch(term)
    if layers is None:
        raise ValueError(f"{shown(term)} is not a valid selector term.{nearest(term, known)} {_EXPECTED}")
    found = _Layers(*layers.groups())
    if found.part is not None and found.part not in PARTS:
        raise ValueError(
            f"{shown(term)}: there is no part {found.part!r}.{nearest(found.part, PARTS)} Parts: {', '.join(PARTS)}"
        )
    return found


def _map(model: nn.Module) -> LayerMap:
    from gradgate.layers.find import map_layers  # imports torch

    return map_layers(model)


class _Reader:
    """Reader of the terms of one selector on one model."""

    def __init__(self, layers: LayerMap, text: str) -> None:
        self.layers, self.text = layers, text
        self.weights = _weights(layers)
        towers = (f"@{name}" for name in layers.towers if name not in MARKS)
        self.marks = tuple(dict.fromkeys((*_MARKS, *towers)))

    def rows_of(self, term: str) -> dict[str, Rows]:
        """Return the rows that a term selects, by parameter."""
        try:
            parsed = _parsed(term, self._known())
        except ValueError as error:
            raise self._error(str(error)) from None
        match parsed:
            case _Table(group, start, stop) if start is not None and stop is not None:
                return self._of_table(term, group, start, stop)
            case _Table(group):
                return self._whole(term, self._of_group(group))
            case _Layers():
                return self._whole(term, self._in_layers(term, parsed))
            case NamePattern():
                return self._whole(term, self._matching(term, parsed))
            case str():
                return self._whole(term, self._marked(parsed))

    def _known(self) -> Iterator[str]:
        yield from (*self.layers.names, *_MARKS)
        yield from (f"layers.{end}{n}" for end in ("top", "bottom") for n in range(1, self.layers.layer_count + 1))
        yield from self.layers.at("part").names if self.layers.weights else ()

    def _whole(self, term: str, names: Iterable[str]) -> dict[str, Rows]:
        found = {name: _all(self.weights[name].shape) for name in names}
        if not found:
            there = [mark for mark in self.marks if self._has(mark)]
            raise self._error(
                f"{shown(term)} matches nothing.{nearest(term, [*there, *self.weights])} "
                f"Its groups are {', '.join(self.layers.names)}; it has {' '.join(there)}"
            )
        return found

    def _has(self, mark: str) -> bool:
        return next(iter(self._marked(mark[1:])), None) is not None

    def _marked(self, word: str) -> Iterator[str]:
        if (mark := f"@{word}") not in self.marks:
            raise self._error(
                f"there is no mark {shown(mark)}.{nearest(mark, self.marks)} Known: {' '.join(self.marks)}"
            )
        if word in (EMBEDDINGS, HEAD):
            return iter(self._of_group(word))
        if word not in MARKS:  # a tower
            return (name for group in self.layers if group.tower == word for name in group.parameter_names)
        fits: Callable[[str], bool] = lambda name: self.weights[name].part == word  # noqa: E731
        if word == "bias":
            fits = is_bias
        elif word == "lora":
            fits = lambda name: ".lora_" in name  # noqa: E731
        return filter(fits, self.weights)

    def _matching(self, term: str, pattern: NamePattern) -> list[str]:
        try:
            return pattern.matches(self.weights)
        except ValueError as error:
            raise self._error(f"{shown(term)} {error}. Expected one for parameter names") from None

    def _of_group(self, name: str) -> tuple[str, ...]:
        return self.layers[name].parameter_names if name in self.layers else ()

    def _of_table(self, term: str, group: str, start: str, stop: str) -> dict[str, Rows]:
        """Return the rows of a group's table; for a tied head, those of the tensor shared with the embeddings."""
        weights = self.weights
        tables = [name for name in self._of_group(group) if weights[name].rows]
        if group == HEAD and not any(len(weights[name].shape) > 1 for name in tables):
            tied = {name for tie in self.layers.ties for name in tie}
            tables += [name for name in self._of_group(EMBEDDINGS) if weights[name].rows and name in tied]
        if not tables:
            raise self._error(
                f"{shown(term)}: the {group} of this model have no table with one row per token; leave the rows out"
            )
        sizes = {name: weights[name].shape[0] for name in tables}
        wanted = slice(int(start) if start else None, int(stop) if stop else None)
        bounds = [int(number) for number in (start, stop) if number]
        found: dict[str, Rows] = {}
        for name, size in sizes.items():
            first, last, _ = wanted.indices(size)
            if any(not -size <= number <= size for number in bounds) or first >= last:
                raise self._error(f"{shown(term)} selects no row: the table {name} has {size} rows, 0 to {size - 1}")
            found[name] = ((first, last),)
        if len(set(found.values())) > 1:
            several = ", ".join(f"{name} with {size} rows" for name, size in sizes.items())
            raise self._error(f"{shown(term)} selects other tokens in each of the tables: {several}. Expected one size")
        return found

    def _in_layers(self, term: str, wanted: _Layers) -> Iterator[str]:
        part, module = wanted.part, wanted.module
        chosen = self._layers(term, wanted.which or "*")
        if part is None:
            return (name for group in chosen for name in group.parameter_names)
        unit = self.layers.at("part" if module is None else "module")
        numbers = {group.name for group in chosen}
        # A name is as short as its layer allows: one layer's `q` is the `SelfAttention.q` of another.
        return (
            name
            for group in unit
            if group.layer in numbers and _is_module(group.name.removeprefix(f"{group.layer}."), part, module)
            for name in group.parameter_names
        )

    def _layers(self, term: str, which: str) -> tuple[Group, ...]:
        every = self.layers.layers
        count = len(every)
        if which == "*":
            return every
        if which.startswith(("top", "bottom")):
            wanted = int(which.removeprefix("top").removeprefix("bottom"))
            shortest = min(map(len, self.layers.axes))  # networks side by side each have a top and a bottom
            if not 1 <= wanted <= shortest:
                raise self._error(f"{shown(term)}: expected 1 to {shortest} layers, got {wanted}")
            ends = slice(-wanted, None) if which.startswith("top") else slice(wanted)
            return tuple(group for axis in self.layers.axes for group in axis[ends])
        first, _, last = which.partition("-")
        low, high = int(first), int(last or first)
        if low > high or high >= count:
            raise self._error(f"{shown(term)}: expected layers from 0 to {count - 1}, the lower first, got {which}")
        return every[low : high + 1]

    def _error(self, message: str) -> SelectorError:
        context = "" if shown(self.text) in message else f"The selector {shown(self.text)} on {self.layers.model}: "
        return SelectorError(f"{context}{message}.")


def _is_module(name: str, part: str, module: str | None) -> bool:
    """Return True for the name of a part, or of a module of it that ends like another."""
    if module is None:
        return name == part
    return name.startswith(f"{part}.") and f".{name}".endswith(f".{module}")


def _weights(layers: LayerMap) -> Mapping[str, Weight]:
    """Return a map's description of its parameters; for a map made by hand, which has only names, an empty one."""
    return layers.weights or {name: Weight(()) for group in layers for name in group.parameter_names}


def _all(shape: tuple[int, ...]) -> Rows:
    return ((0, shape[0] if shape else 1),)


def union(one: Rows, other: Rows) -> Rows:
    """Merge two sets of ranges, in order and without overlap."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted((*one, *other)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return tuple(merged)


def _without(rows: Rows, away: Rows) -> Rows:
    left = list(rows)
    for start, stop in away:
        left = [
            piece
            for low, high in left
            for piece in ((low, min(high, start)), (max(low, stop), high))
            if piece[0] < piece[1]
        ]
    return tuple(left)
