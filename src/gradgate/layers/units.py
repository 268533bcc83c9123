"""Split a layer map's groups into units: layers, their parts or their modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

EMBEDDINGS, HEAD = "embeddings", "head"
Unit = Literal["layer", "part", "module"]
Kind = Literal["encoder", "decoder", "vision", "audio", "text", "projector"]
PARTS = ("attention", "mlp", "norm", "experts", "router", "adapter", "other")
MARKS = frozenset({*PARTS, "lora", "bias", EMBEDDINGS, HEAD})  # names that selectors use for other things than towers


@dataclass(frozen=True)
class Weight:
    """A layer map's description of one parameter.

    Attributes:
        shape: of the full tensor.
        part: ``attention``, ``mlp``, ``norm``, ``experts``, ``router``, ``adapter`` or ``other``; empty in
            the embeddings and the head except for norms and adapters.
        rows: True if each row belongs to one token: a table of embeddings, or an output layer over tokens.
        adapts: the path of the module that PEFT adapts with this parameter; empty for all other parameters.
    """

    shape: tuple[int, ...]
    part: str = ""
    rows: bool = False
    adapts: str = ""

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True)
class Group:
    """Parameters that open and close together.

    ``depth`` is 0 for the embeddings, 1 to L for the layers from the bottom, L+1 for the head. For a layer, ``stack``
    is the path of the list that contains it, and ``uses`` counts its runs per forward: more than ``passes``, the runs
    of the whole stack, if depths share it. ``tower`` is the tower that the group belongs to: a kind such as ``vision``,
    or the path of one network among several, such as ``query_encoder``; empty in a model of one stack, and for a group
    that several towers use. ``network`` names the network of a layer if several run side by side. In a map by parts or
    modules, ``layer`` is the name of the group's layer; otherwise the group's own name.
    """

    name: str
    depth: int
    parameter_names: tuple[str, ...]
    parameter_count: int
    stack: str = ""
    uses: int = 1
    layer: str = ""
    tower: str = ""
    network: str = ""
    passes: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "layer", self.layer or self.name)


def split(groups: tuple[Group, ...], weights: Mapping[str, Weight], unit: Unit) -> tuple[Group, ...]:
    """Return the groups, with each layer split into units, in the order of the parameters."""
    if unit == "layer":
        return groups
    units: list[Group] = []
    for group in groups:
        if group.name in (EMBEDDINGS, HEAD):
            units.append(group)
            continue
        members: dict[str, list[str]] = {}
        for name, unit_name in _unit_names(group, weights, unit).items():
            members.setdefault(unit_name, []).append(name)
        units += [
            replace(
                group,
                name=unit_name,
                parameter_names=tuple(names),
                parameter_count=sum(weights[name].count for name in names),
                layer=group.name,
            )
            for unit_name, names in members.items()
        ]
    return tuple(units)


def _unit_names(group: Group, weights: Mapping[str, Weight], unit: Unit) -> dict[str, str]:
    """Return the name of the unit of each parameter of a layer."""
    of_part = {name: f"{group.name}.{weights[name].part}" for name in group.parameter_names}
    if unit == "part":
        return of_part
    # LoRA begins with B = 0, so A alone has no gradient: what PEFT adds to one module opens and closes together.
    paths = {name: weights[name].adapts or name.rpartition(".")[0] for name in of_part}
    modules: dict[str, dict[str, None]] = {}
    for name, part in of_part.items():
        modules.setdefault(part, {})[paths[name]] = None
    within = _common_path(group.parameter_names)
    ends = {part: _shortest_ends(list(inside), within) for part, inside in modules.items()}
    named = {name: ends[part][paths[name]] for name, part in of_part.items()}
    return {
        name: part if named[name] == part.rpartition(".")[2] else f"{part}.{named[name]}"
        for name, part in of_part.items()
    }


def _shortest_ends(paths: list[str], within: str) -> dict[str, str]:
    """Return the shortest end of each dotted path that no other path has, at most its length within the layer."""
    shortest = {}
    for path in paths:
        words = path.removeprefix(within).split(".")
        ends = [".".join(words[-count:]) for count in range(1, len(words) + 1)]
        alone = (end for end in ends if sum(f".{other}".endswith(f".{end}") for other in paths) == 1)
        shortest[path] = next(alone, ends[-1])
    return shortest


def _common_path(names: tuple[str, ...]) -> str:
    """Return the path of modules that contains all of these parameters, with a trailing dot."""
    common = []
    for words in zip(*(name.split(".")[:-1] for name in names), strict=False):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return "".join(f"{word}." for word in common)
