"""Define the layer map: groups of parameters in depth order, and how they print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import get_args

from gradgate.errors import LayerMapError, nearest
from gradgate.layers.names import canonical_name
from gradgate.layers.units import EMBEDDINGS, HEAD, Group, Unit, Weight, split


@dataclass(frozen=True)
class LayerMap:
    """The groups of one model in depth order. Each parameter is in exactly one group; empty groups are left out.

    Networks in which nothing can learn, such as a frozen teacher, are in no group if others can; a note names them.

    Iterating yields the groups, ``map["layers.3"]`` is one of them, and printing the map shows a tree. ``ties`` lists
    the names that share one tensor: the first of them is in a group. ``notes`` are sentences on what is unusual.
    ``weights`` describes each parameter, and ``unit`` is the size of the groups inside the layers. ``frozen`` lists the
    names of parameters that never learn, such as a backbone under adapters; a tuner sets them. ``prompts`` lists those
    in the head that come before the layers: PEFT's prompts, which learn as a head does. ``shared`` has the parameters
    that several layers run, each with the names of these layers except its own.
    """

    model: str
    groups: tuple[Group, ...]
    ties: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    weights: Mapping[str, Weight] = field(default_factory=dict, repr=False, compare=False)
    unit: Unit = "layer"
    frozen: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    prompts: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    _group_names: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = {name: group.name for group in self.groups for name in group.parameter_names}
        owner |= {alias: owner[tie[0]] for tie in self.ties for alias in tie}
        object.__setattr__(self, "_group_names", owner)

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Group:
        if name in self._by_name:
            return self._by_name[name]
        raise LayerMapError(
            f"{self.model} has no group {name!r}; it has {', '.join(self.names)}.{nearest(name, self.names)}"
        )

    @cached_property
    def _by_name(self) -> dict[str, Group]:
        return {group.name: group for group in self.groups}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the groups, from the bottom."""
        return tuple(group.name for group in self.groups)

    @cached_property
    def layers(self) -> tuple[Group, ...]:
        """The groups of the layers, from the bottom, without embeddings and head."""
        return tuple(group for group in self.groups if group.name not in (EMBEDDINGS, HEAD))

    def with_frozen(self, names: Iterable[str]) -> LayerMap:
        """Return the same map with exactly these parameters marked as frozen."""
        frozen = frozenset(names)
        return self if frozen == self.frozen else replace(self, frozen=frozen)

    def can_learn(self, group: str) -> bool:
        """Return True if at least one parameter of the group is not frozen."""
        return not self.frozen.issuperset(self[group].parameter_names)

    @property
    def towers(self) -> dict[str, tuple[Group, ...]]:
        """Layers from the bottom by tower, in the order in which the towers run; empty for a model of one stack."""
        towers: dict[str, tuple[Group, ...]] = {}
        for group in self.layers:
            if group.tower:
                towers[group.tower] = (*towers.get(group.tower, ()), group)
        return towers

    @cached_property
    def axes(self) -> tuple[tuple[Group, ...], ...]:
        """Layers from the bottom by network: one tuple unless the model has several networks side by side.

        The towers of one network, such as encoder and decoder, follow each other on its axis.
        """
        axes: dict[str, list[Group]] = {}
        for group in self.layers:
            axes.setdefault(group.network, []).append(group)
        return tuple(map(tuple, axes.values()))

    @property
    def layer_count(self) -> int:
        """Number of layers, or of their units in a map by parts or modules."""
        return len(self.layers)

    def at(self, unit: Unit) -> LayerMap:
        """Return the same map with groups of another size inside the layers.

        ``part`` makes groups such as ``layers.3.attention``, ``module`` such as ``layers.3.attention.q_proj``: the
        modules with parameters of their own, under the shortest end of their path that is unique within the part.
        All that PEFT adds to one module, such as the two matrices of LoRA, is one group: ``layers.3.adapter.q_proj``.

        Raises:
            LayerMapError: for any other unit.
        """
        if unit not in get_args(Unit):
            raise LayerMapError(f"unit={unit!r} is not a unit. Expected one of {', '.join(get_args(Unit))}.")
        if unit == self.unit:
            return self
        if not self.weights:
            raise LayerMapError(
                f"This map does not describe its parameters, so it has no {unit}s. Build it with map_layers()."
            )
        return self._at[unit]

    @cached_property
    def _at(self) -> dict[Unit, LayerMap]:
        whole = self._whole_layers()
        return {unit: replace(self, groups=split(whole, self.weights, unit), unit=unit) for unit in get_args(Unit)}

    def _whole_layers(self) -> tuple[Group, ...]:
        members: dict[str, list[Group]] = {}
        for group in self.groups:
            members.setdefault(group.layer, []).append(group)
        order = {name: place for place, name in enumerate(self.weights)}
        return tuple(
            replace(
                groups[0],
                name=layer,
                parameter_names=tuple(
                    sorted((name for group in groups for name in group.parameter_names), key=lambda n: order.get(n, 0))
                ),
                parameter_count=sum(group.parameter_count for group in groups),
            )
            for layer, groups in members.items()
        )

    @property
    def parameter_count(self) -> int:
        return sum(group.parameter_count for group in self.groups)

    @property
    def shared_layers(self) -> bool:
        """True if one set of weights runs at several depths, as in ALBERT."""
        return any(group.uses > group.passes for group in self.groups)

    def group_of(self, parameter_name: str) -> Group:
        """Return the group of a parameter, by any of its names, with or without the prefixes that wrappers add.

        Raises:
            LayerMapError: if the model has no such parameter.
        """
        name = canonical_name(parameter_name)
        if name not in self._group_names:
            raise LayerMapError(
                f"{self.model} has no parameter {name!r}.{nearest(name, self._group_names)} "
                f"Expected a name from its named_parameters(), except those that a note leaves out."
            )
        return self[self._group_names[name]]

    def __str__(self) -> str:
        total = self.parameter_count
        rows = [
            (group.name, human(group.parameter_count), f"{group.parameter_count / max(total, 1):.1%}", where)
            for group, where in zip(self.groups, self._places(), strict=True)
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        tower = max(len(group.tower) for group in self.groups)
        lines = [f"{self.model}: {human(total)} parameters, {self.layer_count} layer{'s'[: self.layer_count > 1]}"]
        for row, group in zip(rows, self.groups, strict=True):
            branch = "└─" if row is rows[-1] else "├─"
            name = row[0].ljust(widths[0]) + (f"  {group.tower:<{tower}}" if tower else "")
            count, share = row[1].rjust(widths[1]), row[2].rjust(widths[2])
            lines.append(f"{branch} {name}  {count}  {share}  {row[3]}")
        lines += [f"tied: {' = '.join(tie)}" for tie in self.ties]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _places(self) -> list[str]:
        """Return the shortest paths that contain only a group's parameters, one text per group."""
        below: dict[str, Counter[str]] = {}
        for group in self.groups:
            for name in group.parameter_names:
                for prefix in _prefixes(name):
                    below.setdefault(prefix, Counter())[group.name] += 1
        return [
            ", ".join(
                dict.fromkeys(
                    next(prefix for prefix in _prefixes(name) if len(below[prefix]) == 1)
                    for name in group.parameter_names
                )
            )
            for group in self.groups
        ]


def human(count: int) -> str:
    """Format a count of parameters with a unit: ``"950"``, ``"12.3K"``, ``"109.5M"``, ``"7.2B"``."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _prefixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
