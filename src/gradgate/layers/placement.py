"""Assign each parameter of a model a depth, by when it runs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

from torch import nn

from gradgate.errors import some_of
from gradgate.layers.flow import kinds_of
from gradgate.layers.map import LayerMap, human
from gradgate.layers.names import canonical_name, named_parameters, tied_names
from gradgate.layers.networks import networks_of
from gradgate.layers.parts import adapted_modules, parts_of, prompts_of
from gradgate.layers.probe import Span, Trace
from gradgate.layers.quantized import weight_count, weight_shape
from gradgate.layers.stacks import Stack, in_running_order
from gradgate.layers.towers import ModelSection
from gradgate.layers.units import EMBEDDINGS, HEAD, Group, Weight

NAMED = 6  # parameter names listed in a note


class Observed(NamedTuple):
    """The record of a forward, and why there is none."""

    trace: Trace | None
    failure: str


class _Layer(NamedTuple):
    module: nn.Module
    stack: Stack
    spans: tuple[Span, ...]

    @property
    def first_pass(self) -> tuple[Span, ...]:
        """The runs on the first of several inputs that one stack encodes."""
        return self.spans[: max(1, len(self.spans) // self.stack.passes)]


class Placement:
    """One pass over the parameters that assigns each a depth: 0 embeddings, 1 to L layers, L+1 head.

    Args:
        model: without wrappers.
        sections: of the stacks whose layers are mapped.
        observed: what ran.
        frozen: modules in no group, by path: nothing in them can learn.
        beside: the stacks in these modules.
    """

    def __init__(
        self,
        model: nn.Module,
        sections: list[ModelSection],
        observed: Observed,
        frozen: Mapping[str, nn.Module],
        beside: Iterable[Stack],
    ) -> None:
        self.model, self.stacks = model, [section.stack for section in sections]
        self.sections = {section.stack: section for section in sections}
        self.trace, self.failure = observed
        self.frozen = frozen
        out = {id(parameter) for module in frozen.values() for parameter in module.parameters()}
        self.parameters = {name: p for name, p in named_parameters(model).items() if id(p) not in out}
        self.ties = tuple(tie for tie in tied_names(model) if tie[0] in self.parameters)
        self.layers = self._layers()
        self.runs = sorted((*span, depth) for depth, layer in enumerate(self.layers, 1) for span in layer.first_pass)
        self.depths: dict[int, list[int]] = {}  # id of a parameter -> depths of the layers that contain it
        for depth, layer in enumerate(self.layers, 1):
            for parameter in layer.module.parameters():
                self.depths.setdefault(id(parameter), []).append(depth)
        self.inside = {key: lowest for key, (lowest, *_) in self.depths.items()}
        in_layers = {inner for layer in self.layers for inner in layer.module.modules()}
        self.outside = {id(p) for m in model.modules() if m not in in_layers for p in m.parameters(recurse=False)}
        self.order = {name: index for index, name in enumerate(self.parameters)}
        # A tensor that a layer shares with the rest of the model marks no position.
        self.landmarks = [
            (self.order[name], self.inside[id(p)])
            for name, p in self.parameters.items()
            if id(p) in self.inside and id(p) not in self.outside
        ]
        self.modules = {canonical_name(raw): module for raw, module in model.named_modules()}
        self.networks = networks_of(sections)
        apart = (stack for stack in beside if all(stack.is_apart_from(other) for other in self.stacks))
        self.beside = frozenset().union(*(stack.marks for stack in apart))
        self.prompts = prompts_of(model) & self.parameters.keys()
        self.unused: set[str] = set()
        self.tower_inputs: list[str] = []

    def layer_map(self) -> LayerMap:
        depths = {name: self._depth(name, parameter) for name, parameter in self.parameters.items()}
        top = len(self.layers) + 1
        groups = []
        for depth in range(top + 1):
            names = tuple(name for name, at in depths.items() if at == depth)
            layer = self.layers[depth - 1] if 0 < depth < top else None
            group = Group(
                name=f"layers.{depth - 1}" if layer else HEAD if depth else EMBEDDINGS,
                depth=depth,
                parameter_names=names,
                parameter_count=sum(weight_count(self.parameters[name]) for name in names),
                stack=layer.stack.path if layer else "",
                uses=max(len(layer.spans), 1) if layer else 1,
                tower=self.sections[layer.stack].tower if layer else "" if depth else self._tower_of(names),
                network=self.sections[layer.stack].network if layer else "",
                passes=layer.stack.passes if layer else 1,
            )
            if names:
                groups.append(group)
        shared = self._shared(groups)
        return LayerMap(
            type(self.model).__name__,
            tuple(groups),
            self.ties,
            tuple(self._notes(groups, shared)),
            self._weights({name for group in groups if group.stack for name in group.parameter_names}),
            prompts=frozenset(self.prompts),
            shared=shared,
        )

    def _shared(self, groups: list[Group]) -> dict[str, tuple[str, ...]]:
        """Return the parameters that several layers contain, each with the names of all but its own."""
        layers = {group.depth: group.name for group in groups if group.stack}
        found = {}
        for group in groups:
            for name in group.parameter_names if group.stack else ():
                others = set(self.depths.get(id(self.parameters[name]), ())) & layers.keys() - {group.depth}
                if others:
                    found[name] = tuple(layers[depth] for depth in sorted(others))
        return found

    def _layers(self) -> list[_Layer]:
        """Return the layers from the bottom, network by network, without those whose parameters are in lower ones."""
        every = [
            _Layer(module, stack, spans)
            for stack in self.stacks
            for module, spans in zip(stack.layers, stack.spans, strict=True)
        ]
        every = in_running_order(every, [layer.spans for layer in every])
        first = list(dict.fromkeys(self.sections[layer.stack].network for layer in every))
        every.sort(key=lambda layer: first.index(self.sections[layer.stack].network))
        seen: set[int] = set()
        distinct = []
        for layer in every:
            parameters = {id(p) for p in layer.module.parameters()}
            if parameters - seen:
                distinct.append(layer)
            seen |= parameters
        return distinct

    def _weights(self, in_layers: Container[str]) -> dict[str, Weight]:
        parts = parts_of(self.model, [layer.module for layer in self.layers], self.trace)
        tables, adapted = _tables(self.model), adapted_modules(self.model)
        return {
            name: Weight(
                weight_shape(parameter),
                parts.get(id(parameter), "other" if name in in_layers else ""),
                id(parameter) in tables,
                adapted.get(id(parameter), ""),
            )
            for name, parameter in self.parameters.items()
        }

    def _depth(self, name: str, parameter: nn.Parameter) -> int:
        """Return where a parameter runs. Inputs of a tower that reads no tokens belong to the tower's lowest layer.

        A prompt that PEFT puts before the input is new, as a head is, and learns with it.
        """
        if name in self.prompts:
            return len(self.layers) + 1
        depth = self._depth_by_use(name, parameter)
        section = self._section_of(name)
        if depth == 0 and section and section.has_own_input:
            return next(at for at, layer in enumerate(self.layers, 1) if layer.stack is section.stack)
        return depth

    def _section_of(self, name: str) -> ModelSection | None:
        sections = self.sections.values()
        inside = next((section for section in sections if section.holds(name)), None)
        return inside or next((section for section in sections if section.surrounds(name)), None)

    def _tower_of(self, names: tuple[str, ...]) -> str:
        """Return the one tower of all these parameters, or "". Outside every tower, those that read tokens count.

        A table that several networks share belongs to each that contains it.
        """
        readers = {section.tower for section in self.sections.values() if section.tower and not section.has_own_input}
        towers: set[str] = set()
        ties = {tie[0]: tie for tie in self.ties} if self.networks else {}
        for alias in [alias for name in names for alias in ties.get(name, (name,))]:
            section = self._section_of(alias)
            towers |= {section.tower} if section else readers
        return towers.pop() if len(towers) == 1 else ""

    def _depth_by_use(self, name: str, parameter: nn.Parameter) -> int:
        used = self.trace.first_use.get(id(parameter)) if self.trace else None
        if self.trace and used is None:
            self.unused.add(name)
            return self.inside.get(id(parameter)) or self._depth_of_unused(name)
        # A tensor that a layer shares with the rest of the model goes by its first use, not by that layer.
        if id(parameter) in self.inside and (used is None or id(parameter) not in self.outside):
            return self.inside[id(parameter)]
        return self._depth_at(name, used) if used is not None else self._depth_by_registration(name)

    def _network_of(self, name: str) -> str | None:
        """Return the network of several that contains a parameter, else the only one whose layers it reads, or None."""
        inside = next((network for network, path in self.networks.items() if name.startswith(f"{path}.")), None)
        if inside is not None or not self.trace:
            return inside
        fed = self.trace.fed.get(id(self.parameters[name]), frozenset())
        read = {section.network for section in self.sections.values() if section.stack.marks & fed}
        return next(iter(read)) if len(read) == 1 else None

    def _in_network(self, name: str, depth: int) -> bool:
        """Return True if a layer belongs to the network that a parameter belongs to, or to no other."""
        network = self._network_of(name) if self.networks else None
        return network is None or self.sections[self.layers[depth - 1].stack].network == network

    def _depth_at(self, name: str, time: int) -> int:
        """Return the layer that ran then; between two, the lower one unless the parameter feeds the next tower."""
        if self.trace and self.beside & self.trace.fed.get(id(self.parameters[name]), frozenset()):
            return len(self.layers) + 1  # it projects what a frozen network returned
        runs = [run for run in self.runs if self._in_network(name, run[2])]
        started = [run for run in runs if run[0] <= time]
        coming = runs[len(started) :]
        if not started:
            return 0
        _, left, depth = started[-1]
        if time <= left:
            return depth
        return self._between(name, depth, coming[0][2]) if coming else len(self.layers) + 1

    def _depth_of_unused(self, name: str) -> int:
        """Place it by the run of the innermost module around it, if no layer ran in that; else by registration."""
        path = name
        while path:
            path = path.rpartition(".")[0]
            for entered, left in self.trace.spans(self.modules[path]) if self.trace and path in self.modules else ():
                if not any(entered < start < left for start, _, _ in self.runs):
                    return self._depth_at(name, entered)
        return self._depth_by_registration(name)

    @cached_property
    def tables(self) -> set[int]:
        """The ``id`` of each parameter of a table of embeddings."""
        return {id(p) for m in self.model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}

    def _depth_by_registration(self, name: str) -> int:
        if self.networks and self._network_of(name) is None:  # beside all networks, as projections and scales are
            return 0 if id(self.parameters[name]) in self.tables else len(self.layers) + 1
        landmarks = [landmark for landmark in self.landmarks if self._in_network(name, landmark[1])]
        below = [depth for index, depth in landmarks if index < self.order[name]]
        above = [depth for index, depth in landmarks if index > self.order[name]]
        if not below:
            return 0
        return self._between(name, below[-1], above[0]) if above else len(self.layers) + 1

    def _between(self, name: str, lower: int, upper: int) -> int:
        below, above = self.layers[lower - 1].stack, self.layers[upper - 1].stack
        if below is above:
            return lower
        # Patch embeddings belong to the vision tower above; a decoder's own embeddings are embeddings.
        coming = self.sections[above]
        if coming.network != self.sections[below].network:  # what no network contains, and several use
            return 0 if self._reads_inputs(name) else len(self.layers) + 1
        if coming.has_own_input and not self.sections[below].holds(name):
            return upper
        if _shared_parts(name, above.path) > _shared_parts(name, below.path) or self._reads_tokens(name, below):
            self.tower_inputs.append(name)
            return 0
        return lower

    def _reads_inputs(self, name: str) -> bool:
        """Return True if a parameter reads an input of the model and nothing that a layer returned."""
        fed = self.trace.fed.get(id(self.parameters[name]), frozenset()) if self.trace else frozenset()
        return bool(fed) and not any(stack.marks & fed for stack in self.stacks)

    def _reads_tokens(self, name: str, below: Stack) -> bool:
        """Return True if only tokens reach a parameter that runs after a tower with another input."""
        fed = self.trace.fed.get(id(self.parameters[name]), ()) if self.trace else ()
        kinds = kinds_of(fed)
        return self.sections[below].has_own_input and bool(kinds) and kinds <= {"text", "decoder"}

    def _notes(self, groups: list[Group], shared: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
        if len(self.stacks) > 1:
            where = "; ".join(f"{path} is {names}" for path, names in _towers(groups).items())
            yield f"{len(self.stacks)} stacks, in the order in which they run: {where}."
        if self.networks:
            yield f"{len(self.networks)} networks side by side, each with its own depth: {', '.join(self.networks)}."
        for path, module in self.frozen.items():
            count = sum(map(weight_count, module.parameters()))
            yield f"{path} cannot learn, so it is in no group: all of its {human(count)} parameters are frozen."
        if self.prompts:
            yield f"A prompt that learns with the head: {some_of(sorted(self.prompts), NAMED)}."
        if self.tower_inputs:
            yield f"Inputs of a later stack, counted as embeddings: {some_of(self.tower_inputs, NAMED)}."
        for group in groups:
            if group.uses > group.passes:
                yield (
                    f"{group.name} is one set of weights that runs {group.uses} times in a forward, "
                    f"so its {group.uses} depths open and close as one."
                )
            if names := [name for name in group.parameter_names if name in shared]:
                others = dict.fromkeys(layer for name in names for layer in shared[name])
                yield (
                    f"{group.name} shares weights with {some_of([*others], NAMED)}, and they open and close with "
                    f"{group.name}: {some_of(names, NAMED)}."
                )
        if self.trace is None:
            yield f"No forward could be run ({self.failure}), so every parameter is placed by position."
        elif not self.trace.first_use:
            yield "The parameters are sharded, so they are placed by when the modules that hold them run."
        else:
            yield from self._notes_on_unused(groups)

    def _notes_on_unused(self, groups: list[Group]) -> Iterator[str]:
        idle = [group.name for group in groups if group.stack and not self.layers[group.depth - 1].spans]
        if idle:
            yield f"Did not run in the traced forward pass, so placed by position: {some_of(idle, NAMED)}."
        for group in groups:
            names = [name for name in group.parameter_names if name in self.unused]
            if names and group.name not in idle:
                listed = some_of(names, NAMED)
                yield f"Not used in the traced forward pass, so placed in {group.name} by position: {listed}."
        if idle or len([name for name in self.unused if id(self.parameters[name]) in self.outside]) > NAMED:
            yield "To place it by use, pass an input that runs the whole model: map_layers(model, example={...})."


def _tables(model: nn.Module) -> set[int]:
    """Return the ``id`` of each parameter with one row per token: input and output tables, and their biases."""
    found = set()
    for ask in ("get_input_embeddings", "get_output_embeddings"):
        try:
            table = getattr(model, ask)()
        except (AttributeError, NotImplementedError):
            continue
        weight = getattr(table, "weight", None)
        if isinstance(weight, nn.Parameter):
            found |= {id(p) for p in table.parameters(recurse=False) if p.shape[:1] == weight.shape[:1]}
    return found


def _towers(groups: list[Group]) -> dict[str, str]:
    stacks: dict[str, list[str]] = {}
    for group in groups:
        if group.stack:
            stacks.setdefault(group.stack, []).append(group.name)
    return {path: " to ".join(dict.fromkeys((names[0], names[-1]))) for path, names in stacks.items()}


def _shared_parts(name: str, path: str) -> int:
    pairs = zip(name.split("."), path.split("."), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
