"""Find the layers of a model and group its parameters by them."""

from __future__ import annotations

from collections.abc import Container, Mapping

from torch import Tensor, nn

from gradgate.errors import LayerMapError, some_of
from gradgate.layers.frozen import frozen_beside, left_out
from gradgate.layers.learning import learning_ids
from gradgate.layers.map import LayerMap
from gradgate.layers.names import named_parameters, reshard, unwrap
from gradgate.layers.networks import alone, idle_beside, in_one_architecture, run_apart, with_networks
from gradgate.layers.offloaded import check_can_be_mapped
from gradgate.layers.placement import Observed, Placement
from gradgate.layers.probe import Trace, observe
from gradgate.layers.stacks import Stack, block_lists, describe_lists, find_stacks, named_stacks, unmistakable_stacks
from gradgate.layers.towers import find_sections, with_projectors
from gradgate.layers.units import Unit

_NAMED = 3  # parameters named in a message


def map_layers(
    model: nn.Module,
    layers: str | None = None,
    *,
    unit: Unit = "layer",
    example: Mapping[str, Tensor] | None = None,
) -> LayerMap:
    """Group a model's parameters by depth: ``embeddings``, ``layers.0`` (bottom) to ``layers.{L-1}``, ``head``.

    One forward pass over a few tokens (or one blank image) shows what runs when. Names are ignored, and the model is
    left unchanged. The layers are the largest outermost list of modules that run in turn, plus a second tower if there
    is one (the encoder's layers, then the decoder's). Parameters inside a layer belong to its group. Others are placed
    by their first use: before the layers in ``embeddings``, after them in ``head``, between two layers in the lower
    one, but the decoder's own embeddings in ``embeddings``. Unused parameters are placed by their position in the
    model, with a note; so are all parameters if no forward can be run and one list of layers is unmistakable. What runs
    before the layers of a vision or audio tower is in its lowest layer; what runs between it and the next tower is a
    ``projector``. Empty groups are left out. Networks side by side, such as query and passage encoders, are towers
    named by their paths, with an axis of depth each (:attr:`LayerMap.axes`); one that the forward does not run is run
    by itself. A network in which nothing can learn, such as a teacher, is in no group if others can.

    Args:
        model: from transformers or any other module; also inside DDP, ``torch.compile`` or PEFT.
        layers: path of the ModuleList, ModuleDict or Sequential with the layers, or several paths separated by commas
            (``"encoder.block,decoder.block"``; ``"."`` is the model itself); needed if they cannot be found. With it,
            the map can be made without a forward, from the order of registration.
        unit: size of the groups inside the layers: a whole ``layer``, a ``part`` of what runs in it
            (``layers.3.attention``) or a ``module`` (``layers.3.attention.q_proj``); see :meth:`LayerMap.at`.
        example: keyword arguments of ``model.forward`` for that forward; needed if they cannot be guessed.

    Raises:
        LayerMapError: if the layers cannot be found, with the paths to choose from, ``layers`` or ``example`` does
            not fit the model, or a ``device_map`` offloads parts of it to the CPU or to disk.
    """
    for name, value, kind in (("layers", layers, str), ("example", example, Mapping)):
        if value is not None and not isinstance(value, kind):
            raise LayerMapError(
                f"{name}={value!r:.80} has the type {type(value).__name__}; expected the path of a list of layers as "
                f"layers, and a dictionary of inputs as example."
            )
    model = unwrap(model)
    check_can_be_mapped(model)
    reshard(model)
    learning = learning_ids(model)
    stacks, observed = _stacks(model, layers, _observed(model, example, learning), learning)
    return _placed(model, stacks, observed, learning, chosen=layers is not None).layer_map().at(unit)


def fitting_map(model: nn.Module, layers: LayerMap | str | None) -> LayerMap:
    """Return a layer map that was passed, if it belongs to this model; otherwise make it, as :func:`map_layers`.

    Raises:
        LayerMapError: if the map names what the model lacks, lacks what can learn, or has other shapes, as one of
            another model does, or one made before adapters were added.
    """
    if not isinstance(layers, LayerMap):
        return map_layers(model, layers=layers)
    parameters = named_parameters(unwrap(model))
    mapped = {name for group in layers for name in group.parameter_names}
    faults = {
        "has {} that the model lacks": mapped - parameters.keys(),
        "lacks {} of the model": {name for name, p in parameters.items() if p.requires_grad} - mapped,
        "has another shape of {}": {
            name
            for name in mapped & parameters.keys() & layers.weights.keys()
            if parameters[name].is_floating_point() and tuple(parameters[name].shape) != layers.weights[name].shape
        },
    }
    for fault, names in faults.items():
        if names:
            raise LayerMapError(
                f"The layer map of {layers.model} {fault.format(some_of(sorted(names), _NAMED))}, so it belongs to "
                f"another model, or to this one before a change. Map the model as it is now: gg.map_layers(model)."
            )
    return layers


def _observed(model: nn.Module, example: Mapping[str, Tensor] | None, learning: Container[int]) -> Observed:
    """Run a forward of the model and, apart from it, of each network that it does not run."""
    if next(model.parameters(), None) is None:
        raise LayerMapError(f"{type(model).__name__} has no parameters to group. Expected a model with weights.")
    trace, failure = observe(model, example)
    trace = run_apart(model, trace, learning)
    reshard(model)
    return Observed(trace, failure)


def _stacks(
    model: nn.Module, layers: str | None, observed: Observed, learning: Container[int]
) -> tuple[list[Stack], Observed]:
    """Return the stacks of layers, and what of the forward counts for them: nothing if none of them ran in it."""
    trace, failure = observed
    if layers is not None:
        return named_stacks(model, layers, trace), observed
    stacks = find_stacks(model, trace, learning) if trace else []
    if trace and stacks:
        return [*stacks, *idle_beside(model, stacks, learning, trace)], observed
    stacks = unmistakable_stacks(model, learning)
    if not stacks:
        raise _not_found(model, trace, failure, learning)
    return stacks, Observed(None, "no list of layers ran in it" if trace else failure)


def _placed(
    model: nn.Module, stacks: list[Stack], observed: Observed, learning: Container[int], *, chosen: bool
) -> Placement:
    """Place all that is not in a network without anything that can learn.

    One architecture stays whole, as do stacks that were chosen by hand and a model in which nothing can learn.
    """
    sections = with_networks(model, find_sections(model, stacks, observed.trace))
    sections = with_projectors(model, sections, named_parameters(model), observed.trace)
    whole = chosen or (in_one_architecture(model, sections) and not any(section.network for section in sections))
    learn = [section for section in sections if whole or section.stack.can_learn(learning)]
    frozen: list[Stack] = []
    if any(section.kind != "projector" for section in learn):
        frozen = [section.stack for section in sections if section not in learn]
        frozen += frozen_beside(model, [section.stack for section in learn], learning, observed.trace)
    mapped = alone(learn, frozen) if frozen else sections
    return Placement(model, mapped, observed, left_out(model, frozen, learning), frozen)


def _not_found(model: nn.Module, trace: Trace | None, failure: str, learning: Container[int]) -> LayerMapError:
    name = type(model).__name__
    found = f"{describe_lists(model, trace)} "
    paths = ",".join(s.path for s in block_lists(model, learning)) or "encoder.block"
    by_hand = f'name the layers by hand, such as map_layers(model, layers="{paths}")'
    if trace is None:
        return LayerMapError(
            f"The layers of {name} cannot be found, as no forward could be run ({failure}). {found}"
            f"Pass the input as map_layers(model, example={{...}}), or {by_hand}."
        )
    return LayerMapError(f"No list of layers ran in the forward of {name}. {found}{by_hand.capitalize()}.")
