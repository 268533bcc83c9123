"""Identify the towers of a model: vision, audio and text models, projectors, encoder and decoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from torch import nn

from gradgate.layers.flow import Sources, declared_kinds, kinds_of
from gradgate.layers.names import canonical_name
from gradgate.layers.probe import Trace
from gradgate.layers.stacks import ROOT, Stack
from gradgate.layers.units import Kind

# If a stack's inputs are unknown, the names of the modules around it and of their configurations decide.
_WORDS: dict[Kind, tuple[str, ...]] = {
    "projector": ("qformer", "project", "connector", "resampler", "perceiver", "aligner"),
    "vision": ("vision", "visual", "image"),
    "audio": ("audio", "speech"),
    "decoder": ("decoder",),
    "encoder": ("encoder",),
    "text": ("text", "language"),
}


@dataclass(frozen=True, eq=False)
class ModelSection:
    """One of a model's stacks, and the module around it.

    Attributes:
        path: the largest module that contains this stack and no other.
        around: the largest module that contains this stack and no other kind of them; empty for text.
        branch: the child, of the module that contains all stacks, that contains this one.
        reads: kinds of the inputs that reach its layers: ``vision``, ``audio``, ``text``, ``decoder``.
        kind: what its inputs or its names show it to be: ``vision``, ``decoder``; empty if all stacks are alike.
        tower: its name: the kind, or the path of a network among several; empty if all stacks are one tower.
        network: the network that it belongs to; empty if all stacks belong to one.
        is_alone: True if no other stack is mapped, so that its inputs are the model's.
    """

    stack: Stack
    path: str
    branch: str
    reads: Sources
    kind: Kind | Literal[""] = ""
    tower: str = ""
    network: str = ""
    is_alone: bool = False
    around: str = ""

    def holds(self, name: str) -> bool:
        """Return True if a parameter or module is inside the section."""
        return _within(name, self.path)

    def surrounds(self, name: str) -> bool:
        """Return True if it is in the module around this stack and others of its kind."""
        return bool(self.around) and _within(name, self.around)

    @property
    def has_own_input(self) -> bool:
        """True if it reads something other than tokens, so that what runs before its layers belongs to it."""
        return (
            bool(self.kind)
            and not self.is_alone
            and (
                self.kind in ("vision", "audio", "projector")
                or (bool(self.reads) and not self.reads & {"text", "decoder"})
            )
        )


def find_sections(model: nn.Module, stacks: Sequence[Stack], trace: Trace | None) -> list[ModelSection]:
    """Return one section per stack, in the order of ``stacks``, with its tower.

    The inputs that reach a stack's layers in the recorded forward decide:

    - ``decoder``: the decoder's own tokens; ``encoder`` is the stack that runs before it.
    - ``vision`` or ``audio``: only pixels or only sound.
    - ``projector``: the same, but another module's stack has read them before; or tokens too, but a later stack reads
      both.
    - ``text``: tokens, alone or with the output of other towers.

    Stacks that all read the same are one tower without a name, unless their modules are named encoder and decoder.
    """
    trace = trace or Trace()
    paths = [_parts(stack.path) for stack in stacks]
    common = len(_common(paths))
    sections = []
    for stack, parts in zip(stacks, paths, strict=True):
        others = [other for other in paths if other is not parts]
        depth = max((len(_common([parts, other])) for other in others), default=0) + 1
        path = ".".join(parts[:depth])
        reads = _reads(stack, trace) or _declared(model, parts)
        sections.append(ModelSection(stack, path, ".".join(parts[: common + 1]), reads))
    kinds = by_reading(model, sections)
    return [
        replace(section, kind=kind, tower=kind, around=_around(kind, parts, zip(paths, kinds, strict=True)))
        for section, kind, parts in zip(sections, kinds, paths, strict=True)
    ]


def _around(kind: str, parts: Sequence[str], others: Iterable[tuple[Sequence[str], str]]) -> str:
    """Return the module around all stacks that see or hear, such as both of Llama 3.2's vision model."""
    if kind not in ("vision", "audio"):
        return ""
    depth = max((len(_common([parts, other])) for other, its in others if its != kind), default=-1) + 1
    return ".".join(parts[:depth])


def by_reading(model: nn.Module, sections: Sequence[ModelSection]) -> list[Kind | Literal[""]]:
    """Return the kind of each of these sections, as if there were no others; see :func:`find_sections`."""
    if len(sections) < 2:
        return [""] * len(sections)
    names = _by_reading(sections)
    if len(set(names)) > 1:
        return [name or _by_words(model, section.path) for name, section in zip(names, sections, strict=True)]
    words = [_by_words(model, section.path) for section in sections]
    return words if {"encoder", "decoder"} <= set(words) and all(words) else [""] * len(words)


def with_projectors(
    model: nn.Module, sections: list[ModelSection], parameters: Mapping[str, nn.Parameter], trace: Trace | None
) -> list[ModelSection]:
    """Return the sections, with a projector of one layer after each vision or audio tower that feeds another tower.

    A projector has the parameters that run between the two, outside the first, as in LLaVA's ``multi_modal_projector``;
    if there are none, the modules with matrices that run in the tower after its layers, as in Qwen2-VL's
    ``visual.merger``. If the tower did not run, position decides.
    """
    trace = trace or Trace()
    extended = []
    for place, section in enumerate(sections):
        extended.append(section)
        later = sections[place + 1 :]
        feeds = not section.stack.runs or any(section.reads & other.reads for other in later)
        if section.kind not in ("vision", "audio") or not later or not feeds or later[0].network != section.network:
            continue
        if later[0].kind in (section.kind, "projector") or (section.stack.runs and not later[0].stack.runs):
            continue
        if section.stack.runs:
            between = _used_between(section.stack, later[0].stack, parameters, trace)
        else:
            between = _registered_between(model, section.stack, later[0].stack, parameters)
        outside = {name: at for name, at in between.items() if not any(s.holds(name) for s in sections)}
        chosen = outside or _with_matrices(section, between, parameters)
        if chosen:
            extended.append(replace(_projector(model, section, chosen), network=section.network))
    return extended


def _used_between(below: Stack, above: Stack, parameters: Mapping[str, nn.Parameter], trace: Trace) -> dict[str, int]:
    """Return the parameters first used between two stacks without tokens among their inputs, and when."""
    uses = {name: trace.first_use.get(id(p), -1) for name, p in parameters.items()}
    return {
        name: at
        for name, at in uses.items()
        if below.end < at < above.start and "text" not in kinds_of(trace.fed.get(id(parameters[name]), ()))
    }


def _registered_between(
    model: nn.Module, below: Stack, above: Stack, parameters: Mapping[str, nn.Parameter]
) -> dict[str, int]:
    """Return the parameters between two stacks by position, without embeddings; for a tower that did not run."""
    tables = {id(p) for m in model.modules() if isinstance(m, nn.Embedding) for p in m.parameters()}
    order = {id(p): at for at, p in enumerate(parameters.values())}
    end, start = (
        pick(order[id(p)] for layer in stack.layers for p in layer.parameters() if id(p) in order)
        for pick, stack in ((max, below), (min, above))
    )
    return {name: order[id(p)] for name, p in parameters.items() if end < order[id(p)] < start and id(p) not in tables}


def _by_reading(sections: Sequence[ModelSection]) -> list[Kind | Literal[""]]:
    reads = [section.reads for section in sections]
    decoder = next((i for i, kinds in enumerate(reads) if "decoder" in kinds), None)
    last_of_text = max((i for i, kinds in enumerate(reads) if "text" in kinds and "decoder" not in kinds), default=-1)
    names: list[Kind | Literal[""]] = []
    for i, (section, kinds) in enumerate(zip(sections, reads, strict=True)):
        name: Kind | Literal[""] = ""
        if "decoder" in kinds:
            name = "decoder"
        elif decoder is not None and i == decoder - 1:  # the stack that runs just before the decoder feeds it
            name = "encoder"
        elif "text" in kinds:  # the last stack that reads tokens is the language model; earlier mixed ones feed it
            name = "text" if kinds == {"text"} or i == last_of_text else "projector"
        elif len(kinds) == 1:
            name = "vision" if "vision" in kinds else "audio"
            # A further stack in another module on the same input, such as a Q-Former, connects it to a later stack.
            before = [s for s, n in zip(sections, names, strict=False) if n == name and s.branch != section.branch]
            if before and any(kinds & later for later in reads[i + 1 :]):
                name = "projector"
        elif kinds and i + 1 < len(reads):
            name = "projector"
        names.append(name)
    return names


def _by_words(model: nn.Module, path: str) -> Kind | Literal[""]:
    named = path.lower()
    config = getattr(_submodule(model, path), "config", None)
    for text in (named, type(config).__name__.lower()):
        for tower, words in _WORDS.items():
            if any(word in text for word in words):
                return tower
    return ""


def _reads(stack: Stack, trace: Trace) -> Sources:
    """Return the kinds of input that reach any of the layers; inputs that join at a later layer count too."""
    return kinds_of(
        source for layer in stack.layers for part in layer.modules() for source in trace.reads.get(part, ())
    )


def _declared(model: nn.Module, parts: Sequence[str]) -> Sources:
    """Return what the innermost transformers model around a stack that never ran declares to read."""
    for end in range(len(parts), 0, -1):
        module = _submodule(model, ".".join(parts[:end]))
        if module is not None and hasattr(module, "config"):
            return declared_kinds(module)
    return frozenset()


def _with_matrices(
    section: ModelSection, between: Mapping[str, int], parameters: Mapping[str, nn.Parameter]
) -> dict[str, int]:
    """Return the parameters that run in a tower after its layers and belong to a child with a matrix."""
    inside = {name: time for name, time in between.items() if section.holds(name)}
    depth = len(_parts(section.path)) + 1
    heads = {tuple(_parts(name)[:depth]) for name in inside if parameters[name].dim() >= 2}
    return {name: time for name, time in inside.items() if tuple(_parts(name)[:depth]) in heads}


def _projector(model: nn.Module, section: ModelSection, times: Mapping[str, int]) -> ModelSection:
    """Build a section of one layer from the largest modules that contain only these parameters."""
    names = {canonical_name(raw): p for raw, p in model.named_parameters() if canonical_name(raw) in times}
    modules = {canonical_name(raw): module for raw, module in model.named_modules()}
    wanted = {id(p) for p in names.values()}
    tops: dict[str, nn.Module] = {}
    for name in names:
        parts = _parts(name)
        for end in range(1, len(parts)):
            path = ".".join(parts[:end])
            if {id(p) for p in modules[path].parameters()} <= wanted:
                tops[path] = modules[path]
                break
    loose = [p for name, p in names.items() if not any(_within(name, path) for path in tops)]
    layer = nn.ModuleList([*tops.values(), *([nn.ParameterList(loose)] if loose else [])])
    path = next(iter(tops), next(iter(names)))
    spans = ((min(times.values()), max(times.values())),) if section.stack.runs else ()
    stack = Stack(path, layer, (layer,), (spans,))
    return ModelSection(stack, path, path, section.reads, "projector", "projector")


def _submodule(model: nn.Module, path: str) -> nn.Module | None:
    return next((module for raw, module in model.named_modules() if canonical_name(raw) == path), None)


def _parts(path: str) -> list[str]:
    return [] if path == ROOT else path.split(".")


def _within(name: str, path: str) -> bool:
    return bool(path) and (name == path or name.startswith(path + "."))


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    return [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))]
