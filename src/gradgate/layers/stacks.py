"""Find the lists of layers that a model runs one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

from torch import nn

from gradgate.errors import LayerMapError, nearest
from gradgate.layers.architectures import architectures, is_architecture
from gradgate.layers.flow import NOTHING, Sources, declared_kinds
from gradgate.layers.names import canonical_name
from gradgate.layers.probe import LISTS, Span, Trace, items_of

T = TypeVar("T")
ROOT = "."
LISTED = 8  # candidates listed in an error
CLEAR = 4  # a list with this many times the parameters of any other is unmistakable


@dataclass(frozen=True, eq=False)
class Stack:
    """A ModuleList, ModuleDict or Sequential with its layers that have parameters, in the order of their first run.

    ``spans`` lists the runs of each layer; a layer that never ran has none. ``reads`` has the sources that reach any
    module in the layers, ``marks`` those that stand for what the layers return, and ``entries`` the sources that reach
    each run of each layer.
    """

    path: str
    container: nn.Module
    layers: tuple[nn.Module, ...]
    spans: tuple[tuple[Span, ...], ...]
    reads: Sources = NOTHING
    marks: Sources = NOTHING
    entries: tuple[tuple[Sources, ...], ...] = ()

    @property
    def runs(self) -> int:
        return sum(map(len, self.spans))

    @property
    def start(self) -> int:
        return min(span[0] for spans in self.spans for span in spans)

    @property
    def end(self) -> int:
        return max(span[1] for spans in self.spans for span in spans)

    @property
    def size(self) -> int:
        return _size(self.layers)

    @property
    def repeats(self) -> bool:
        """True if some class of layer ran at least twice."""
        return self.runs > len({type(layer) for layer in self.layers})

    @property
    def mixes_features(self) -> bool:
        """True if each layer has at least two matrices, as transformer layers do and convolutions do not."""
        return all(sum(p.ndim == 2 for p in layer.parameters()) >= 2 for layer in self.layers)

    @property
    def passes(self) -> int:
        """Number of times that data enter the stack from outside: 2 if one set of layers encodes two inputs."""
        fresh = sum(not self.marks & sources for sources in self.entries[0]) if self.entries else 0
        return max(1, fresh)

    @property
    def is_side_by_side(self) -> bool:
        """True if several of its modules ran and none read what another returned, as heads, experts and networks do."""
        ran = [sources for sources in self.entries if sources]
        return len(ran) > 1 and bool(self.reads) and not any(self.marks & each for runs in ran for each in runs)

    @property
    def is_choice(self) -> bool:
        """True for a dictionary of which one module ran, as those of adapters by name."""
        return isinstance(self.container, nn.ModuleDict) and sum(map(bool, self.spans)) < 2

    def can_learn(self, learning: Container[int]) -> bool:
        """Return True if any parameter of the layers is among those that can learn, passed by ``id``."""
        return any(id(p) in learning for layer in self.layers for p in layer.parameters())

    def is_apart_from(self, other: Stack) -> bool:
        """Return True if neither stack read what the other returned, as far as was seen."""
        return bool(self.reads and other.reads) and not (self.reads & other.marks or other.reads & self.marks)

    def is_like(self, other: Stack) -> bool:
        """Return True if the two have layers of one class."""
        return not {type(x) for x in self.layers}.isdisjoint({type(x) for x in other.layers})

    def is_within(self, other: Stack) -> bool:
        return any(self.container is inner for layer in other.layers for inner in layer.modules())

    def runs_in_turns_with(self, other: Stack) -> bool:
        return (
            [len(spans) for spans in self.spans] == [len(spans) for spans in other.spans]
            and self.overlaps(other)
            and not self.is_within(other)
            and not other.is_within(self)
            and not set(self.layers) & set(other.layers)
            and not self.is_apart_from(other)
        )

    def overlaps(self, other: Stack) -> bool:
        return self.start < other.end and other.start < self.end


def find_stacks(model: nn.Module, trace: Trace, learning: Container[int]) -> list[Stack]:
    """Return the stacks of the model's layers in the order in which they run; empty if there are none.

    The largest one leads. Lists within its layers (experts, sublayers) are parts of these layers. Another list counts
    too if it runs before or after and its layers have the same kind: the second tower of an encoder-decoder. An inner
    model for images or sound that received no input has its own stack too, before those that ran. If nothing in the
    leading stack can learn, such as that of a teacher, the largest one that can and that reads nothing of it leads
    as well. Lists whose modules run side by side, such as heads and experts, are not layers, nor are lists of models.

    Args:
        model: the model that ran.
        trace: what ran.
        learning: the ``id`` of each parameter that can learn.
    """
    networks = set() if is_architecture(model) else set(architectures(model))
    lists = [
        stack for stack in _lists(model, trace) if stack.runs and not stack.is_side_by_side and not stack.is_choice
    ]
    lists = [s for s in lists if networks.isdisjoint(part for layer in s.layers for part in layer.modules())]
    chosen = _without_heads(_chosen(lists), networks, trace)
    if chosen and not any(stack.can_learn(learning) for stack in chosen):
        chosen += _chosen([s for s in lists if s.can_learn(learning) and all(s.is_apart_from(o) for o in chosen)])
    return [*_idle_towers(model, trace), *sorted(chosen, key=lambda s: s.start)] if chosen else []


def _chosen(lists: list[Stack]) -> list[Stack]:
    """Return the leading stack of these lists, and those of the same kind."""
    candidates = [stack for stack in lists if _has_blocks(stack)]
    outer = _outermost([stack for stack in candidates if stack.repeats] or candidates)
    if not outer:
        return []
    # Prefer transformer layers to convolutions, even if those have more parameters.
    lead = max(outer, key=lambda s: (s.mixes_features, s.size))
    lead = _joined([s for s in lists if s is lead or s.runs_in_turns_with(lead)])
    chosen = [lead]
    for stack in sorted(_outermost(candidates), key=lambda s: -s.size):
        if len(stack.layers) > 1 and sum(map(bool, stack.spans)) == 1:  # one of several heads ran
            continue
        alike = (lead.mixes_features and stack.mixes_features) or stack.is_like(lead)
        if alike and not any(stack.overlaps(o) and not stack.is_apart_from(o) for o in chosen) and stack is not lead:
            chosen.append(stack)
    return chosen


def _without_heads(chosen: list[Stack], networks: Iterable[nn.Module], trace: Trace) -> list[Stack]:
    """Leave out blocks on top of a model of transformers that mix no tokens: a head of several layers."""
    inside = {module for network in networks for module in network.modules()}
    lead = next((stack for stack in chosen if stack.container in inside), None)
    return [
        stack
        for stack in chosen
        if lead is None
        or stack.container in inside
        or not stack.reads & lead.marks
        or any(trace.marked(layer, "mixes") for layer in stack.layers)
    ]


def _idle_towers(model: nn.Module, trace: Trace) -> list[Stack]:
    """Return the largest list of layers of each inner model that declares to read no text and did not run."""
    found: list[Stack] = []
    for module in model.modules():
        if module is model or trace.spans(module) or not reads_no_text(module):
            continue
        inside = set(module.modules())
        lists = [s for s in _lists(model, trace) if s.container in inside and len(s.layers) > 1 and _has_blocks(s)]
        largest = max(_outermost(lists), key=lambda s: (s.mixes_features, s.size), default=None)
        if largest and not any(largest.container is s.container or s.is_within(largest) for s in found):
            found.append(largest)
    return found


def unmistakable_stacks(model: nn.Module, learning: Container[int]) -> list[Stack]:
    """Return the layers of a model that cannot be run: those of inner models without text, and the only other list.

    Lists in which nothing can learn do not count, unless nothing can learn in any. Return an empty list if a further
    list has more than a quarter of that list's parameters, or layers of the same class: another tower.
    """
    unseen = Trace()
    idle = _idle_towers(model, unseen)
    lists = [s for s in _untraced(model) if not any(_around(model, tower, s) for tower in idle)]
    lists = [s for s in lists if s.can_learn(learning)] or lists
    others = sorted(lists, key=lambda s: -s.size)
    if not others or any(s.size * CLEAR > others[0].size or s.is_like(others[0]) for s in others[1:]):
        return []
    return [*idle, others[0]]


def listed_blocks(model: nn.Module, trace: Trace) -> list[Stack]:
    """Return the lists of at least two modules that consist of modules, and are in no other such list."""
    return _outermost([s for s in _lists(model, trace) if len(s.layers) > 1 and _has_blocks(s)])


def _untraced(model: nn.Module) -> list[Stack]:
    """Return the lists of at least two transformer layers that are in no other, as registered."""
    lists = [s for s in _lists(model, Trace()) if len(s.layers) > 1 and _has_blocks(s) and s.mixes_features]
    return _outermost([s for s in lists if not isinstance(s.container, nn.ModuleDict)])  # heads have names, too


def block_lists(model: nn.Module, learning: Container[int]) -> list[Stack]:
    """Return the lists of transformer layers that can learn and are in no other, as registered: candidates to name."""
    return [stack for stack in _untraced(model) if stack.can_learn(learning)]


def _around(model: nn.Module, tower: Stack, stack: Stack) -> bool:
    """Return True if a list and a tower are in the same inner model that reads no text."""
    for module in model.modules():
        if (
            module is not model
            and hasattr(module, "config")
            and "text" not in getattr(module, "input_modalities", "text")
        ):
            inside = set(module.modules())
            if tower.container in inside and stack.container in inside:
                return True
    return False


def reads_no_text(module: nn.Module) -> bool:
    """Return True for a model with a configuration that declares to read images or sound alone."""
    return hasattr(module, "config") and "text" not in declared_kinds(module)


def named_stacks(model: nn.Module, paths: str, trace: Trace | None) -> list[Stack]:
    """Return the stacks at the comma separated paths, in running order if all of them ran.

    Raises:
        LayerMapError: if there is no list of layers at a path, with the nearest names.
    """
    modules = {canonical_name(raw) or ROOT: module for raw, module in model.named_modules()}
    lists = {path: m for path, m in modules.items() if isinstance(m, LISTS)}
    stacks = []
    for path in (part.strip() for part in paths.split(",")):
        if path not in lists:
            what = f"is a {type(modules[path]).__name__}" if path in modules else "does not exist"
            raise LayerMapError(
                f"layers={path!r} {what} in {type(model).__name__}. Expected the path of a ModuleList, ModuleDict "
                f"or Sequential, or several with commas between them.{nearest(path, lists)} "
                f"{describe_lists(model, trace)}"
            )
        stack = _stack(path, lists[path], trace or Trace(), by_class=False)
        if not stack.layers:
            raise LayerMapError(
                f"layers={path!r} names a list in which no module has parameters. {describe_lists(model, trace)} "
                f"Expected the path of one with parameters."
            )
        stacks.append(stack)
    if all(stack.runs for stack in stacks):
        stacks.sort(key=lambda s: s.start)
    return stacks


def in_running_order(items: Iterable[T], spans: Iterable[tuple[Span, ...]]) -> list[T]:
    """Sort items by the start of their first run; an item that never ran stays behind its predecessor."""
    starts = accumulate(spans, lambda last, runs: runs[0][0] if runs else last, initial=-1)
    return [item for _, item in sorted(zip(list(starts)[1:], items, strict=True), key=lambda pair: pair[0])]


def describe_lists(model: nn.Module, trace: Trace | None) -> str:
    """Describe the model's largest lists of modules in one sentence, for errors."""
    found = sorted((s for s in _lists(model, trace or Trace()) if s.layers), key=lambda s: -s.size)[:LISTED]
    listed = "; ".join(
        f"{stack.path!r} ({type(stack.container).__name__} of {len(stack.layers)}, {stack.size:,} parameters"
        + (f", {stack.runs} runs)" if trace else ")")
        for stack in found
    )
    return f"Lists of modules found: {listed}." if listed else "No lists of modules were found."


def _lists(model: nn.Module, trace: Trace) -> list[Stack]:
    return [
        _stack(canonical_name(raw) or ROOT, module, trace, by_class=not isinstance(module, nn.ModuleList))
        for raw, module in model.named_modules()
        if isinstance(module, LISTS)
    ]


def _has_blocks(stack: Stack) -> bool:
    """Return True if each layer consists of modules; a list of bare Linears is more likely a classifier."""
    return all(next(layer.children(), None) is not None for layer in stack.layers)


def _joined(stacks: list[Stack]) -> Stack:
    """Join lists that run in turns, such as XLM's attentions and feed-forwards: item i of each is layer i."""
    stacks = sorted(stacks, key=lambda s: s.start)
    if len(stacks) == 1:
        return stacks[0]
    layers = [nn.ModuleList(parts) for parts in zip(*(s.layers for s in stacks), strict=True)]
    spans = [
        tuple((runs[0][0], max(left for _, left in runs)) for runs in zip(*each, strict=True))
        for each in zip(*(s.spans for s in stacks), strict=True)
    ]
    return replace(
        stacks[0],
        layers=tuple(layers),
        spans=tuple(spans),
        reads=NOTHING.union(*(s.reads for s in stacks)),
        marks=NOTHING.union(*(s.marks for s in stacks)),
    )


def _outermost(stacks: list[Stack]) -> list[Stack]:
    return [s for s in stacks if not any(s.is_within(other) for other in stacks if other is not s)]


def _stack(path: str, container: nn.Module, trace: Trace, *, by_class: bool) -> Stack:
    layers = [m for m in items_of(container) if next(m.parameters(), None) is not None]
    if by_class and layers:
        # A Sequential or ModuleDict may contain embeddings, layers and a head: the layers are the repeated class.
        kinds = Counter(type(m) for m in layers)
        main = max(kinds, key=lambda kind: (kinds[kind] > 1, _size(m for m in layers if type(m) is kind)))
        layers = [m for m in layers if type(m) is main]
    spans = {m: trace.spans(m) for m in layers}
    order = in_running_order(layers, [spans[m] for m in layers])
    return Stack(
        path,
        container,
        tuple(order),
        tuple(spans[m] for m in order),
        NOTHING.union(*(trace.reads.get(part, NOTHING) for layer in order for part in layer.modules())),
        trace.list_marks.get(container, NOTHING),
        tuple(tuple(trace.entries.get(m, ())) for m in order),
    )


def _size(modules: Iterable[nn.Module]) -> int:
    return sum({id(p): p.numel() for m in modules for p in m.parameters()}.values())
