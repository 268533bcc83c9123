"""Run several trained models of one base: store shared weights once, and run shared lowest layers once."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from gradgate.activation_cache.frozen_prefix import layer_modules, parameter_ids
from gradgate.activation_cache.replay import PrefixReplay
from gradgate.deltas.application import apply
from gradgate.deltas.bits import flat_bits
from gradgate.deltas.delta import Delta
from gradgate.deltas.plain_model import check_plain_weights
from gradgate.errors import DeltaError, UsageError
from gradgate.layers import map_layers
from gradgate.layers.units import EMBEDDINGS

_OF_ALL_LAYERS = ("output_hidden_states", "output_attentions", "past_key_values")
"""Outputs that need every layer to run."""
_OF_HEAD = frozenset(
    {
        "_name_or_path",
        "architectures",
        "classifier_dropout",
        "finetuning_task",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "transformers_version",
    }
)
"""Settings that may differ between models with a prefix in common."""


class SharedPrefix:
    """The trained models of several deltas, called as one: one output per task, with one run of the shared prefix.

    The prefix is the embeddings and the lowest layers whose weights are bit for bit the same in all models, as after
    ``freeze:layers=9``. It runs once per call, then each model's own layers and head. The outputs equal those of the
    separate models; on the CPU bit for bit, in batches of the same shape. Weights that are the same in several models
    share one tensor, so the memory is that of one model plus what the others changed.

    Models whose layers are not one plain stack, such as encoder-decoders, run one after another.

    Args:
        base: folder or name of the model that the deltas belong to, or that model, whose own folder is read; None for
            the one named in each delta.
        deltas: files, one per task.

    Attributes:
        models: the trained models, in evaluation mode.
        depth: number of layers in the prefix; 0 if none are shared from the bottom.

    Raises:
        DeltaError: without a delta, or for one that is damaged, of another base, or of a class that transformers lacks.
        UsageError: for one delta that is not in a list.
    """

    def __init__(
        self,
        base: str | os.PathLike[str] | transformers.PreTrainedModel | None,
        deltas: Sequence[str | os.PathLike[str] | Delta],
    ) -> None:
        if isinstance(deltas, str | os.PathLike | Delta):
            raise UsageError(f"deltas={str(deltas)!r:.120}: expected a list of deltas, one per task, got one alone.")
        place = base.name_or_path if isinstance(base, transformers.PreTrainedModel) else base
        self._share([_model_of(place, delta) for delta in deltas])

    @classmethod
    def of(cls, models: Sequence[nn.Module]) -> SharedPrefix:
        """Build a shared prefix from loaded models. The models change: equal weights become one tensor.

        Args:
            models: from transformers, on one device.
        """
        shared = cls.__new__(cls)
        shared._share(list(models))
        return shared

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return one output per model, in their order, without gradients.

        Calls from several threads wait for each other.
        """
        with self._lock, torch.no_grad():
            if self._replays and not any(self._asks(name, kwargs.get(name)) for name in _OF_ALL_LAYERS):
                return self._from_prefix(args, kwargs)
            return tuple(model(*args, **kwargs) for model in self.models)

    def _asks(self, name: str, given: Any) -> bool:
        """Return True if a call asks for an output that needs every layer; None leaves it to the configurations."""
        if given is not None:
            return bool(given)
        return any(bool(getattr(getattr(model, "config", None), name, False)) for model in self.models)

    def _from_prefix(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        # A cache of keys and values would lack the layers that did not run.
        extra = {"use_cache": False} if self._may_cache and "use_cache" not in kwargs else {}
        first = self._replays[0]
        states, precision = first.states(lambda: self.models[0](*args, **kwargs, **extra))
        outputs = []
        for model, replay in zip(self.models, self._replays, strict=True):
            replay.take_forms(first)
            replay.feed(states, precision)
            try:
                outputs.append(model(*args, **kwargs, **extra))
            finally:
                replay.release()
        return tuple(outputs)

    def _share(self, models: list[nn.Module]) -> None:
        if not models:
            raise DeltaError("A shared prefix needs one delta or more, but got none. Pass the files.")
        self.models = tuple(model.eval() for model in models)
        self._lock = threading.Lock()
        self._may_cache = all("use_cache" in signature(model.forward).parameters for model in models)
        for other in self.models[1:]:
            _make_one(self.models[0], other)
        stacks, self.depth = _shared_layers(self.models)
        self._replays = [PrefixReplay(stack, self.depth) for stack in stacks] if self.depth else []


def _model_of(base: str | os.PathLike[str] | None, delta: str | os.PathLike[str] | Delta) -> nn.Module:
    with tempfile.TemporaryDirectory(prefix="gradgate-", ignore_cleanup_errors=True) as folder:
        place = apply(delta, base, Path(folder) / "model")
        check_plain_weights(place, f"The model of {getattr(delta, 'path', delta)}")
        config = transformers.AutoConfig.from_pretrained(place)
        name = next(iter(config.architectures or ()), None)
        kind = getattr(transformers, name or "", None)
        if kind is None:
            raise DeltaError(
                f"The configuration of {delta} names the class {name!r}; expected one of transformers. Load the models "
                f"yourself, and pass them to SharedPrefix.of."
            )
        model: nn.Module = kind.from_pretrained(place)
        return model


def _make_one(first: nn.Module, other: nn.Module) -> None:
    """Replace tensors of ``other`` by those of ``first`` if both have the same bits and name in their bases."""
    mine, theirs = (getattr(model, "base_model", model) for model in (first, other))
    parameters: dict[str, nn.Parameter] = dict(mine.named_parameters(remove_duplicate=False))
    for name, tensor in list(theirs.named_parameters(remove_duplicate=False)):
        if name in parameters and _same(parameters[name], tensor):
            path, _, leaf = name.rpartition(".")
            theirs.get_submodule(path)._parameters[leaf] = parameters[name]


def _same(one: Tensor, other: Tensor) -> bool:
    alike = (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
    return alike and (one is other or torch.equal(flat_bits(one), flat_bits(other)))


def _shared_layers(models: Sequence[nn.Module]) -> tuple[list[list[nn.Module]], int]:
    """Return the layers of each model, and the number from the bottom with the same tensors in all.

    The number is 0 if the embeddings differ, or the configurations in more than the head.
    """
    maps = [map_layers(model) for model in models]
    stacks = [layer_modules(model, layers) for model, layers in zip(models, maps, strict=True)]
    embeddings = [parameter_ids(model, of)[EMBEDDINGS] for model, of in zip(models, maps, strict=True)]
    alike = len({len(stack) for stack in stacks}) == 1 and all(ids == embeddings[0] for ids in embeddings)
    if not alike or any(_below_the_head(model) != _below_the_head(models[0]) for model in models):
        return stacks, 0
    depth = 0
    for layers in zip(*stacks, strict=True):
        distinct = {tuple(id(parameter) for parameter in layer.parameters()) for layer in layers}
        if len(distinct) > 1 or not all(_same_buffers(layers[0], layer) for layer in layers):
            break
        depth += 1
    return stacks, depth


def _below_the_head(model: nn.Module) -> dict[str, Any] | None:
    """Return the settings of a model that its head does not have alone; None without any."""
    config = getattr(model, "config", None)
    return None if config is None else {k: v for k, v in config.to_dict().items() if k not in _OF_HEAD}


def _same_buffers(one: nn.Module, other: nn.Module) -> bool:
    """Return True for equal buffers, such as the statistics of batch norms, which training changes unasked."""
    mine, theirs = dict(one.named_buffers()), dict(other.named_buffers())
    return mine.keys() == theirs.keys() and all(_same(tensor, theirs[name]) for name, tensor in mine.items())
