"""Translate the names of tensors in AdapterHub's files to the modules of a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from gradgate.adapters.architectures import INVERTIBLE
from gradgate.adapters.build import norm_copy
from gradgate.errors import AdapterFileError

# The names of the same places in older versions of their library.
_OLD_PARTS = (
    ("attention_text_task_adapters", "adapters"),
    ("attention_text_lang_adapters", "adapters"),
    ("layer_text_task_adapters", "adapters"),
    ("layer_text_lang_adapters", "adapters"),
    ("invertible_lang_adapters", INVERTIBLE),
)
_KEY = re.compile(rf"(?P<place>(?:.*?\.)?(?:adapters|{INVERTIBLE}))\.(?P<name>[^.]+)\.(?P<rest>.+)")
_LAYER = re.compile(r"(?:^|\.)layers?\.(\d+)\.")
_NORM_BEFORE, _DOWN_NORM = "adapter_norm_before.", "adapter_down.0."
_LISTED = 3

States = dict[nn.Module, dict[str, Tensor]]


def prefix_of(model: Any) -> str:
    """Return the prefix of the base model's names in a model's state dict: ``"bert."``, or "" in a bare model."""
    return "" if model.base_model is model else f"{model.base_model_prefix}."


def stem_of(model: Any) -> str:
    """Return the prefix that the base model's names may have in a file, whether or not this model has a head."""
    return f"{model.base_model_prefix}."


def name_in(keys: Iterable[str]) -> str | None:
    """Return the name of the adapter whose tensors these are; None if they belong to none or to several."""
    names = {match["name"] for key in keys if (match := _KEY.fullmatch(_modern(key)))}
    return names.pop() if len(names) == 1 else None


def written(modules: Mapping[str, nn.Module], name: str, prefix: str) -> dict[str, Tensor]:
    """Return the tensors of one adapter by their names in a file."""
    tensors = {}
    for place, module in modules.items():
        for key, tensor in module.state_dict().items():
            tensors[f"{prefix}{place}.{name}.{key}"] = _plain(tensor)
            # Their library has two names for a new norm before the bottleneck.
            if key.startswith(_DOWN_NORM) and "adapter_down.1.weight" in module.state_dict():
                alias = _NORM_BEFORE + key.removeprefix(_DOWN_NORM)
                tensors[f"{prefix}{place}.{name}.{alias}"] = _plain(tensor)
    return tensors


def written_norms(norms: Mapping[str, nn.Module], prefix: str) -> dict[str, Tensor]:
    """Return the tensors of the layer norms that an adapter tunes, by the names of the model's own."""
    return {
        f"{prefix}{path}.{key}": _plain(tensor)
        for path, norm in norms.items()
        for key, tensor in norm.state_dict().items()
    }


def read(
    tensors: Mapping[str, Tensor],
    name: str,
    stem: str,
    modules: Mapping[str, nn.Module],
    left_out: Collection[int],
    where: str,
) -> States:
    """Build the state of each module from the tensors of a file, each of which must have its place.

    Args:
        tensors: by their names in the file.
        name: of the adapter in the file.
        stem: of the base model's names; those with and without it are read.
        modules: place to module.
        left_out: numbers of layers whose tensors are ignored.
        where: the file, for messages.

    Raises:
        AdapterFileError: if a tensor is missing, has no place, or has another shape.
    """
    states: States = {module: {} for module in modules.values()}
    strange = []
    for key, tensor in tensors.items():
        match = _KEY.fullmatch(_modern(key))
        place = _without(match["place"], stem) if match and match["name"] == name else None
        if match is not None and place is not None and place in modules:
            rest = match["rest"]
            if rest.startswith(_NORM_BEFORE):
                rest = _DOWN_NORM + rest.removeprefix(_NORM_BEFORE)
            states[modules[place]][rest] = tensor
        elif place is None or _layer(place) not in left_out:
            strange.append(key)
    names = {module: f"{place}.{name}" for place, module in modules.items()}
    _check(states, names, strange, where)
    return states


def read_norms(tensors: Mapping[str, Tensor], stem: str, norms: Mapping[str, nn.Module], where: str) -> States:
    """Build the state of each tuned layer norm, as :func:`read` does for the modules."""
    states: States = {norm: {} for norm in norms.values()}
    strange = []
    for key, tensor in tensors.items():
        path, _, rest = _without(key, stem).rpartition(".")
        if path in norms:
            states[norms[path]][rest] = tensor
        else:
            strange.append(key)
    _check(states, {norm: path for path, norm in norms.items()}, strange, where)
    return states


def norms_for(tensors: Iterable[str], stem: str, base: nn.Module, where: str) -> dict[str, nn.Module]:
    """Return a copy of each layer norm of the model that the tensors name."""
    paths = dict.fromkeys(_without(key, stem).rpartition(".")[0] for key in tensors)
    modules = dict(base.named_modules())
    unknown = [path for path in paths if path not in modules]
    if unknown:
        raise AdapterFileError(
            f"{where} has a layer norm {unknown[0]!r}, which this model does not have. Load it into the model that it "
            "was trained on."
        )
    return {path: norm_copy(modules[path]) for path in paths}


def _check(states: States, names: Mapping[nn.Module, str], strange: list[str], where: str) -> None:
    if strange:
        raise AdapterFileError(
            f"{where} has {len(strange)} tensors that have no place in this model, such as {_listed(sorted(strange))}. "
            f"It was written for another model, or its configuration does not belong to its weights. Load "
            f"it into the model that it was trained on, or fetch it again."
        )
    missing = [
        f"{names[module]}.{key}" for module, state in states.items() for key in module.state_dict() if key not in state
    ]
    if missing:
        raise AdapterFileError(
            f"{where} lacks {len(missing)} tensors of the adapter, such as {_listed(missing)}. "
            f"It is incomplete, or was written for a model with fewer layers. Fetch it again, or load it into "
            f"that model."
        )
    for module, state in states.items():
        own = module.state_dict()
        for key in (*own, *sorted(state.keys() - own.keys())):  # in a fixed order, as a file has none
            if key not in own or own[key].shape != state[key].shape:
                expected = tuple(own[key].shape) if key in own else "no such tensor"
                raise AdapterFileError(
                    f"{where}: {names[module]}.{key} has shape {tuple(state[key].shape)}, expected {expected}. "
                    f"Its configuration does not belong to its weights, or the model is another."
                )


def _modern(key: str) -> str:
    for old, new in _OLD_PARTS:
        key = key.replace(old, new)
    return key


def _without(path: str, stem: str) -> str:
    return path.removeprefix(stem)


def _layer(place: str) -> int | None:
    match = _LAYER.search(place)
    return int(match[1]) if match else None


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().clone().contiguous()


def _listed(keys: list[str]) -> str:
    return ", ".join(keys[:_LISTED]) + (" ..." if len(keys) > _LISTED else "")
