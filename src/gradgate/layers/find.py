"""Find the layers of a model and group its parameters by them."""

from __future__ import annotations

from collections.abc import Container, Mapping

from torch import Tensor, nn

from gradgate.errors import LayerMapError
from gradgate.layers.frozen import frozen_beside, left_out
from gradgate.layers.learning import learning_ids
from gradgate.layers.map import LayerMap
from gradgate.layers.names import named_parameters, reshard, unwrap
from gradgate.layers.networks import alone, idle_beside, in_one_whole, run_apart, with_networks
from gradgate.layers.placement import Observed, Placement
from gradgate.layers.probe import Trace, observe
from gradgate.layers.stacks import Stack, block_lists, describe_lists, find_stacks, named_stacks, unmistakable_stacks
from gradgate.layers.towers import find_sections, with_projectors
from gradgate.layers.units import Unit


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
    ``projector``. Empty groups are left out: a model that ends with its last layer has no ``head``.

    Networks that run side by side, such as query and passage encoders, are towers with their paths as names, each with
    a depth of its own (:attr:`LayerMap.axes`); what comes before and after their layers is in ``embeddings`` and
    ``head``. A network that did not run gets a forward of its own. One in which nothing can learn, such as a teacher,
    is in no group if others can. Lists of heads or experts, which run side by side, are not layers.

    Args:
        model: from transformers or any other module; also inside DDP, ``torch.compile`` or PEFT.
        layers: path of the ModuleList or Sequential that contains the layers, or several paths separated by commas
            (``"encoder.block,decoder.block"``; ``"."`` is the model itself); needed if they cannot be found. With it,
            the map can be made without a forward, from the order of registration.
        unit: size of the groups inside the layers: a whole ``layer``, a ``part`` of what runs in it
            (``layers.3.attention``) or a ``module`` (``layers.3.attention.q_proj``); see :meth:`LayerMap.at`.
        example: keyword arguments of ``model.forward`` for that forward; needed if they cannot be guessed.

    Raises:
        LayerMapError: if the layers cannot be found or are not clear, with the paths to choose from; if ``layers`` or
            ``example`` does not fit the model; for what is not a module.
    """
    model = unwrap(model)
    reshard(model)
    if next(model.parameters(), None) is None:
        raise LayerMapError(f"{type(model).__name__} has no parameters to group. Expected a model with weights.")
    learning = learning_ids(model)
    trace, failure = observe(model, example)
    trace = run_apart(model, trace, learning)
    reshard(model)
    stacks = find_stacks(model, trace, learning) if trace and layers is None else []
    if layers is not None:
        stacks = named_stacks(model, layers, trace)
    elif trace and stacks:
        stacks += idle_beside(model, stacks, learning, trace)
    else:
        stacks = unmistakable_stacks(model, learning)
        if not stacks:
            raise _not_found(model, trace, failure, learning)
        failure, trace = "no list of layers ran in it" if trace else failure, None
    sections = with_networks(model, find_sections(model, stacks, trace))
    sections = with_projectors(model, sections, named_parameters(model), trace)
    out: dict[str, nn.Module] = {}
    frozen: list[Stack] = []
    # One architecture stays whole, as does a model in which nothing can learn.
    parts = in_one_whole(model, sections) and not any(s.network for s in sections)
    learn = [s for s in sections if s.stack.can_learn(learning) or layers is not None or parts]
    if any(s.kind != "projector" for s in learn):
        frozen = [s.stack for s in sections if s not in learn]
        frozen += frozen_beside(model, [s.stack for s in learn], learning, trace)
        sections, out = alone(learn, frozen) if frozen else sections, left_out(model, frozen, learning)
    return Placement(model, sections, Observed(trace, failure), out, frozen).layer_map().at(unit)


def _not_found(model: nn.Module, trace: Trace | None, failure: str, learning: Container[int]) -> LayerMapError:
    name = type(model).__name__
    found = f"{describe_lists(model, trace)} "
    paths = ",".join(s.path for s in block_lists(model, learning)) or "encoder.block"
    by_hand = f'name the layers by hand, such as map_layers(model, layers="{paths}")'
    if trace is None:
        return LayerMapError(
            f"The layers of {name} cannot be found, as no forward could be run ({failure}). {found}"
            f"Give the input as map_layers(model, example={{...}}), or {by_hand}."
        )
    return LayerMapError(f"No list of layers ran in the forward of {name}. {found}{by_hand.capitalize()}.")
