"""Tell the networks of a model apart, such as query and passage encoders, and name their towers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import replace

from torch import nn

from gradgate.layers.architectures import architecture_around, architectures, is_architecture
from gradgate.layers.flow import new_list_mark
from gradgate.layers.learning import is_frozen
from gradgate.layers.names import canonical_name
from gradgate.layers.probe import LISTS, Trace, items_of, observe
from gradgate.layers.stacks import Stack, listed_blocks, reads_no_text
from gradgate.layers.towers import ModelSection, by_reading
from gradgate.layers.units import MARKS

_NO_FORWARD = ("_forward_unimplemented", "LightningModule.forward")


def with_networks(model: nn.Module, sections: Sequence[ModelSection]) -> list[ModelSection]:
    """Return the sections with the network that each belongs to, if there are several.

    Stacks belong to different networks if none of them read what the other returned: they run side by side on inputs of
    their own. Inside a class of transformers this counts only if the inputs differ in kind, as in CLIP. Elsewhere a
    network, and each tower in it, is named by the part of its path that tells it from the others; a model of
    transformers that feeds another one is such a tower too.
    """
    numbers = _components([section.stack for section in sections])
    if in_one_architecture(model, sections):
        kinds = [{s.tower for s, n in zip(sections, numbers, strict=True) if n == number} for number in set(numbers)]
        if len(kinds) < 2 or "" in set().union(*kinds) or sum(map(len, kinds)) > len(set().union(*kinds)):
            return list(sections)
        return [replace(s, network=str(s.tower)) for s in sections]
    owners = [(number, architecture_around(model, s.stack.path)) for s, number in zip(sections, numbers, strict=True)]
    towers = {(s.tower, owner) for s, owner in zip(sections, owners, strict=True)}
    if len(set(owners)) < 2:
        return list(sections)
    names = _names(sections, owners)
    distinct = all(s.tower for s in sections) and len({tower for tower, _ in towers}) == len(towers)
    several = len(set(numbers)) > 1
    named = []
    for section, owner, number in zip(sections, owners, numbers, strict=True):
        own = [s for s, other in zip(sections, owners, strict=True) if other == owner]
        kind = by_reading(model, own)[own.index(section)] if len(own) > 1 else section.kind
        tower = section.tower if distinct else f"{names[owner]}.{kind}" if len(own) > 1 and kind else names[owner]
        first = next(o for o, n in zip(owners, numbers, strict=True) if n == number)
        named.append(replace(section, kind=kind, tower=tower, network=names[first] if several else ""))
    return named


def in_one_architecture(model: nn.Module, sections: Sequence[ModelSection]) -> bool:
    """Return True if all stacks are in one model of transformers."""
    around = {architecture_around(model, section.stack.path) for section in sections}
    return is_architecture(model) or (len(around) == 1 and "" not in around)


def networks_of(sections: Sequence[ModelSection]) -> dict[str, str]:
    """Return the path of each network that runs side by side with others, by name; empty if there is one network."""
    names = dict.fromkeys(section.network for section in sections)
    if len(names) < 2:
        return {}
    paths = {name: [s.stack.path.split(".") for s in sections if s.network == name] for name in names}
    return {
        name: ".".join(_own_prefix(own, [p for other, ps in paths.items() if other != name for p in ps]))
        for name, own in paths.items()
    }


def alone(sections: Sequence[ModelSection], beside: Sequence[Stack]) -> list[ModelSection]:
    """Return what is left of a model's sections if the stacks next to them are in no group.

    A single stack keeps the name that tells it from the others; the towers of a single network are named by their kind.
    """
    if len(sections) == 1 and beside:
        path = _own_prefix([sections[0].stack.path.split(".")], [stack.path.split(".") for stack in beside])
        return [replace(sections[0], tower=sections[0].tower or _last_word(path), is_alone=True, network="")]
    if len({section.network for section in sections}) > 1:
        return list(sections)
    by_kind = len({section.kind for section in sections} - {""}) == len(sections)
    return [replace(s, tower=s.kind if by_kind else s.tower, network="") for s in sections]


def run_apart(model: nn.Module, trace: Trace | None, learning: Container[int]) -> Trace | None:
    """Return the trace with a forward of each network that did not run and can learn; each gets an input of its own.

    Without a trace, the networks run apart if there are several, frozen ones included, or if the module has no forward
    of its own, as a LightningModule whose training step calls its parts.
    """
    without_forward = _lacks_forward(model)
    every = [] if is_architecture(model) else list(architectures(model))
    parts = [module for module in every if not is_frozen(module, learning)]
    if trace is None and without_forward and not parts:
        parts = [child for child in model.children() if any(id(p) in learning for p in child.parameters())]
    if trace is None and len(every) < 2 and not without_forward:
        return None
    if len({reads_no_text(part) for part in parts}) > 1:  # images and text may feed each other: find_stacks places them
        return trace
    for part in parts:
        if trace is not None and _has_run(part, every, trace):
            continue
        of_part, _ = observe(part)
        if of_part is not None and trace is None:
            trace = of_part
        elif of_part is not None and trace is not None:
            trace.append(of_part)
    return trace


def idle_beside(model: nn.Module, chosen: Sequence[Stack], learning: Container[int], trace: Trace) -> list[Stack]:
    """Return the lists that did not run and can learn, with layers like those of a stack that ran: other networks."""
    if is_architecture(model):
        return []
    modules = {canonical_name(raw): module for raw, module in model.named_modules()}

    every = list(architectures(model))

    def ran(path: str) -> bool:
        around = architecture_around(model, path)
        return bool(around) and _has_run(modules[around], every, trace)

    return [
        # It reads nothing that another one returned.
        replace(stack, reads=frozenset({new_list_mark()}))
        for stack in listed_blocks(model, trace)
        if not stack.runs
        and stack.can_learn(learning)
        and any(stack.is_like(other) for other in chosen)
        and not any(stack.is_within(other) or stack.container is other.container for other in chosen)
        and not ran(stack.path)
    ]


def _has_run(network: nn.Module, every: Sequence[nn.Module], trace: Trace) -> bool:
    """Return True if a layer of a network ran that it shares with no other; tables may be shared."""
    shared = {module for other in every if other is not network for module in other.modules()}
    lists = [module for module in network.modules() if isinstance(module, LISTS)]
    own = [item for container in lists for item in items_of(container) if item not in shared]
    return any(module in trace.calls for module in own or network.modules())


def _lacks_forward(model: nn.Module) -> bool:
    return "forward" not in vars(model) and type(model).forward.__qualname__.endswith(_NO_FORWARD)


def _components(stacks: Sequence[Stack]) -> list[int]:
    """Return a number for each stack, equal for those that are connected by what they read of each other."""
    numbers = list(range(len(stacks)))
    for i, one in enumerate(stacks):
        for j, other in enumerate(stacks[:i]):
            if not one.is_apart_from(other):
                numbers = [numbers[j] if number == numbers[i] else number for number in numbers]
    return numbers


def _names(sections: Sequence[ModelSection], owners: Sequence[tuple[int, str]]) -> dict[tuple[int, str], str]:
    """Return the shortest name of each network that is unique: the end of the first part of its path of its own."""
    paths: dict[tuple[int, str], list[list[str]]] = {}
    for section, owner in zip(sections, owners, strict=True):
        paths.setdefault(owner, []).append(section.stack.path.split("."))
    prefixes = {
        owner: _own_prefix(own, [path for other, each in paths.items() if other != owner for path in each])
        for owner, own in paths.items()
    }
    short = {owner: _last_word(prefix) for owner, prefix in prefixes.items()}
    counts = Counter(short.values())
    return {
        owner: name if counts[name] == 1 and name not in MARKS else ".".join(prefixes[owner])
        for owner, name in short.items()
    }


def _own_prefix(own: list[list[str]], others: list[list[str]]) -> list[str]:
    """Return the shortest path that all of a network's stacks and no others are under; else its first stack's."""
    shared = own[0]
    for path in own[1:]:
        shared = shared[: _same(shared, path)]
    for end in range(1, len(shared) + 1):
        if not any(other[:end] == shared[:end] for other in others):
            return shared[:end]
    return own[0]


def _same(one: list[str], other: list[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _last_word(path: list[str]) -> str:
    """Return the end of a path from its last word on: ``query``, or ``members.0`` where a number follows."""
    start = next((i for i in range(len(path) - 1, -1, -1) if not path[i].isdecimal()), 0)
    return ".".join(path[start:])
