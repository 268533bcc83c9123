"""Finds the lists of layers that a model runs one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from torch import nn

from gradgate.errors import LayerMapError, nearest
from gradgate.layers.names import canonical_name
from gradgate.layers.probe import Span, Trace

ROOT = "."
LISTED = 8  # candidates named in an error


@dataclass(frozen=True, eq=False)
class Stack:
    """A ModuleList or Sequential: its layers that hold parameters, in the order of their first run.

    ``spans`` has the runs of each layer; a layer that never ran has none.
    """

    path: str
    container: nn.Module
    layers: tuple[nn.Module, ...]
    spans: tuple[tuple[Span, ...], ...]

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
        """Whether some class of layer ran at least twice."""
        return self.runs > len({type(layer) for layer in self.layers})

    @property
    def mixes_features(self) -> bool:
        """Whether each layer has two matrices or more, as transformer layers do and convolutions do not."""
        return all(sum(p.ndim == 2 for p in layer.parameters()) >= 2 for layer in self.layers)

    def is_within(self, other: Stack) -> bool:
        return any(self.container is inner for layer in other.layers for inner in layer.modules())

    def overlaps(self, other: Stack) -> bool:
        return self.start < other.end and other.start < self.end


def find_stacks(model: nn.Module, trace: Trace) -> list[Stack]:
    """The stacks of the model's layers in the order in which they run; empty if there are none.

    The largest one leads. Lists within its layers (experts, sublayers) are parts of these layers. Another list counts
    too if it runs before or after it and its layers are of the same kind: the second tower of an encoder-decoder.
    """
    candidates = [stack for stack in _lists(model, trace) if _is_candidate(stack)]
    repeating = [stack for stack in candidates if stack.repeats]
    outer = _outermost(repeating or candidates)
    if not outer:
        return []
    lead = max(outer, key=lambda s: (s.mixes_features, s.size))
    # Lists that run in turns (one of attentions, one of feed-forwards): the first to run marks the depth.
    lead = min((s for s in outer if s.runs == lead.runs and s.overlaps(lead)), key=lambda s: s.start)
    chosen = [lead]
    classes = {type(layer) for layer in lead.layers}
    for stack in sorted(_outermost(candidates), key=lambda s: -s.size):
        alike = (lead.mixes_features and stack.mixes_features) or classes & {type(x) for x in stack.layers}
        if alike and not any(stack.overlaps(other) for other in chosen):
            chosen.append(stack)
    return sorted(chosen, key=lambda s: s.start)


def named_stacks(model: nn.Module, paths: str, trace: Trace | None) -> list[Stack]:
    """The stacks at the given comma separated paths, in running order where it is known.

    Raises:
        LayerMapError: if there is no list of layers at a path, with the nearest names.
    """
    modules = {canonical_name(raw) or ROOT: module for raw, module in model.named_modules()}
    lists = {path: m for path, m in modules.items() if isinstance(m, nn.ModuleList | nn.Sequential)}
    stacks = []
    for path in (part.strip() for part in paths.split(",")):
        if path not in lists:
            what = f"is a {type(modules[path]).__name__}" if path in modules else "does not exist"
            raise LayerMapError(
                f"layers={path!r} {what} in {type(model).__name__}. Expected the path of a ModuleList or Sequential, "
                f"or several with commas between them.{nearest(path, lists)} {describe_lists(model, trace)}"
            )
        stack = _stack(path, lists[path], trace or Trace(), by_class=False)
        if not stack.layers:
            raise LayerMapError(
                f"layers={path!r} names a list in which no module has parameters. {describe_lists(model, trace)}"
            )
        stacks.append(stack)
    if all(stack.runs for stack in stacks):
        stacks.sort(key=lambda s: s.start)
    return stacks


def describe_lists(model: nn.Module, trace: Trace | None) -> str:
    """A sentence with the model's largest lists of modules, for errors."""
    found = sorted((s for s in _lists(model, trace or Trace()) if s.layers), key=lambda s: -s.size)[:LISTED]
    listed = "; ".join(
        f"{stack.path!r} ({type(stack.container).__name__} of {len(stack.layers)}, {stack.size:,} parameters"
        + (f", {stack.runs} runs)" if trace else ")")
        for stack in found
    )
    return f"Lists of modules found: {listed}." if listed else "No lists of modules were found."


def _lists(model: nn.Module, trace: Trace) -> list[Stack]:
    return [
        _stack(canonical_name(raw) or ROOT, module, trace, by_class=isinstance(module, nn.Sequential))
        for raw, module in model.named_modules()
        if isinstance(module, nn.ModuleList | nn.Sequential)
    ]


def _is_candidate(stack: Stack) -> bool:
    """Layers ran, and they are made of modules: a list of bare Linears is rather a classifier."""
    return stack.runs > 0 and all(next(layer.children(), None) is not None for layer in stack.layers)


def _outermost(stacks: list[Stack]) -> list[Stack]:
    return [s for s in stacks if not any(s.is_within(other) for other in stacks if other is not s)]


def _stack(path: str, container: nn.Module, trace: Trace, *, by_class: bool) -> Stack:
    layers = [m for m in _flat(container) if next(m.parameters(), None) is not None]
    if by_class and layers:
        # A Sequential may hold embeddings, layers and a head too: the layers are the class that is repeated.
        kinds = Counter(type(m) for m in layers)
        main = max(kinds, key=lambda kind: (kinds[kind] > 1, _size(m for m in layers if type(m) is kind)))
        layers = [m for m in layers if type(m) is main]
    spans = {m: trace.spans(m) for m in layers}
    order = sorted(spans, key=lambda m: spans[m][0][0] if spans[m] else inf)
    return Stack(path, container, tuple(order), tuple(spans[m] for m in order))


def _size(modules: Iterable[nn.Module]) -> int:
    return sum({id(p): p.numel() for m in modules for p in m.parameters()}.values())


def _flat(container: nn.Module) -> list[nn.Module]:
    """The children; a ModuleList among them has no forward of its own, so its children stand for it."""
    return [
        inner
        for child in container.children()
        for inner in (_flat(child) if isinstance(child, nn.ModuleList) else (child,))
    ]
