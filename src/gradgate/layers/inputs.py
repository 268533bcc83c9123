"""The smallest input that a model accepts, made from its configuration and the signature of its forward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

TOKENS = 4
SAMPLES = 4000  # a quarter of a second of audio: some ten frames of a Wav2Vec2
IMAGE_SIZE = 224  # of the convolutional models, whose configuration names none


def guesses(model: nn.Module) -> Iterator[dict[str, Any]]:
    """Keyword arguments for ``model.forward``, the likeliest first; none where nothing is known about the model."""
    takes = _signature(model)
    if not any(name in takes for name in _MAKERS):
        yield from _inputs_of_inner(model, takes)
    config = next((m.config for m in model.modules() if hasattr(m, "config")), None)
    offered = [name for name in _MAKERS if name in takes]
    main = getattr(model, "main_input_name", None)
    main = main if main in _MAKERS else next(iter(offered), None)
    made: Iterable[dict[str, Tensor]] = (
        ({main: value} for value in _MAKERS[main](model, config)) if main else _first_module_inputs(model, takes)
    )
    if len(offered) > 1:  # two towers side by side, such as CLIP's, want both; others run only where both are given
        made = chain(_joint_inputs(model, config, takes, offered), made)
    device = next(model.parameters()).device
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    for tensors in made:
        inputs = tensors | _companions(model, config, takes, tensors)
        yield {
            name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()
        } | ({"use_cache": False} if "use_cache" in takes else {})


def _inputs_of_inner(model: nn.Module, takes: dict[str, inspect.Parameter]) -> Iterator[dict[str, Any]]:
    """What the first model from transformers inside a module takes: as keywords, or in one dictionary."""
    inner = next((m for m in model.modules() if m is not model and getattr(m, "main_input_name", "") in _MAKERS), None)
    if inner is None:
        return
    name = _first_argument(takes)
    anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes.values())
    for inputs in guesses(inner):
        if name is not None:
            yield {name: inputs}
        if anything:
            yield inputs


def _joint_inputs(
    model: nn.Module, config: Any, takes: dict[str, inspect.Parameter], offered: list[str]
) -> Iterator[dict[str, Tensor]]:
    """Every main input at once: tokens with as many placeholders as the images and sounds have features."""
    pixels = _grid_inputs(model, config) if "image_grid_thw" in takes else {}
    others = pixels | {n: next(_MAKERS[n](model, config)) for n in offered if n != "input_ids" and n not in pixels}
    if "input_ids" not in offered:
        yield others
        return
    ids = next(_token_inputs(model, config))
    holes = []
    for kind, names in (("image", ("pixel_values", "image_grid_thw")), ("audio", ("input_features", "input_values"))):
        token = next(
            (t for end in ("id", "index") if (t := getattr(config, f"{kind}_token_{end}", None)) is not None), None
        )
        given = {name: others[name] for name in names if name in others}
        if token is not None and given:
            holes += [token] * _feature_count(model, kind, given)
    yield others | {"input_ids": torch.cat([ids[:, :1], torch.tensor([holes], dtype=ids.dtype), ids[:, 1:]], dim=1)}


def _grid_inputs(model: nn.Module, config: Any) -> dict[str, Tensor]:
    """One image of as many patches as are merged to one token, for models that take images of any size."""
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "spatial_merge_size", 1)
    channels = getattr(vision, "in_channels", None) or getattr(vision, "in_chans", None) or 3
    patch = channels * getattr(vision, "temporal_patch_size", 1) * vision.patch_size**2
    return {"pixel_values": torch.zeros(side * side, patch), "image_grid_thw": torch.tensor([[1, side, side]])}


def _feature_count(model: nn.Module, kind: str, inputs: dict[str, Tensor]) -> int:
    """How many tokens an image or a sound takes up, from the model's own method."""
    ask = getattr(model, f"get_{kind}_features", None)
    if not isinstance(ask, MethodType):
        return 0
    takes = inspect.signature(ask).parameters
    device = next(model.parameters()).device
    found: Any = ask(**{name: value.to(device) for name, value in inputs.items() if name in takes})
    found = getattr(found, "pooler_output", found)
    features = found if isinstance(found, tuple | list) else [found]
    return sum(each.numel() // each.shape[-1] for each in features)


def _companions(
    model: nn.Module, config: Any, takes: dict[str, inspect.Parameter], inputs: dict[str, Tensor]
) -> dict[str, Tensor]:
    """What a forward wants beside its main input: required masks, and the decoder's tokens."""
    first = inputs.get("input_ids", next(iter(inputs.values())))
    wanted = {name for name, parameter in takes.items() if parameter.default is inspect.Parameter.empty}
    if "input_ids" in inputs:
        wanted.add("attention_mask")  # its absence is worth a warning to some models
    more = {
        name: torch.full_like(first, fill)
        for name, fill in (("attention_mask", 1), ("token_type_ids", 0))
        if name in takes and name in wanted
    }
    if "mm_token_type_ids" in takes and "input_ids" in inputs:  # 1 where a token stands for a piece of an image
        more["mm_token_type_ids"] = first.eq(getattr(config, "image_token_id", -1)).long()
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        # As long as the input: BART's classifier looks up the input's last token among the decoder's states.
        more["decoder_input_ids"] = inputs.get("input_ids", _token_ids(model, config))
    return more


def _signature(model: nn.Module) -> dict[str, inspect.Parameter]:
    # PEFT's forward takes anything; the model inside says what it wants.
    unwrap = getattr(model, "get_base_model", None)
    base = unwrap() if isinstance(unwrap, MethodType) else model
    return dict(inspect.signature(base.forward).parameters)


def _token_inputs(model: nn.Module, config: Any) -> Iterator[Tensor]:
    ids = _token_ids(model, config)
    yield ids
    yield torch.stack([ids, ids], dim=1)  # multiple choice: batch x choices x tokens


def _token_ids(model: nn.Module, config: Any) -> Tensor:
    """Ordinary tokens and one end-of-text token, which the classification heads of BART and T5 look for."""
    vocabulary = _vocabulary_size(model)
    special = {
        value
        for name, value in (config.to_dict() if hasattr(config, "to_dict") else {}).items()
        if name.endswith(("_token_id", "_token_index")) and isinstance(value, int)
    }
    plain = list(islice((i for i in range(1, vocabulary) if i not in special), TOKENS)) or [0]
    ids = [plain[i % len(plain)] for i in range(TOKENS)]
    end = getattr(config, "eos_token_id", None)
    end = end[0] if isinstance(end, list) and end else end
    if isinstance(end, int) and 0 <= end < vocabulary:
        ids[-1] = end
    return torch.tensor([ids])


def _vocabulary_size(model: nn.Module) -> int:
    table = None
    if isinstance(find := getattr(model, "get_input_embeddings", None), MethodType):
        with suppress(NotImplementedError):
            table = find()
    if not isinstance(table, nn.Embedding):
        table = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
    return table.num_embeddings if table is not None else TOKENS


def _image_inputs(model: nn.Module, config: Any) -> Iterator[Tensor]:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or IMAGE_SIZE
    height, width = size if isinstance(size, tuple | list) else (size, size)
    channels = getattr(vision, "num_channels", 3)
    yield torch.zeros(1, channels, height, width)
    if frames := getattr(vision, "num_frames", None):
        yield torch.zeros(1, frames, channels, height, width)


def _wave_inputs(model: nn.Module, config: Any) -> Iterator[Tensor]:
    if bins := getattr(config, "num_mel_bins", None):
        yield torch.zeros(1, getattr(config, "max_length", 1024), bins)
    yield torch.zeros(1, SAMPLES)


def _spectrum_inputs(model: nn.Module, config: Any) -> Iterator[Tensor]:
    bins = getattr(config, "num_mel_bins", 80)
    yield torch.zeros(1, bins, 2 * getattr(config, "max_source_positions", 1500))


_MAKERS: dict[str, Callable[[nn.Module, Any], Iterator[Tensor]]] = {
    "input_ids": _token_inputs,
    "pixel_values": _image_inputs,
    "input_values": _wave_inputs,
    "input_features": _spectrum_inputs,
}


def _first_module_inputs(model: nn.Module, takes: dict[str, inspect.Parameter]) -> Iterator[dict[str, Tensor]]:
    """What the first module that has weights would take, for a module that is not from transformers."""
    name = _first_argument(takes)
    first = next((m for m in model.modules() if next(m.parameters(recurse=False), None) is not None), None)
    if name is None:
        return
    if isinstance(first, nn.Embedding):
        yield {name: torch.arange(TOKENS).remainder(first.num_embeddings)[None]}
    elif isinstance(first, nn.Linear):
        yield {name: torch.zeros(1, TOKENS, first.in_features)}
        yield {name: torch.zeros(1, first.in_features)}
    elif isinstance(first, nn.Conv2d):
        yield {name: torch.zeros(1, first.in_channels, IMAGE_SIZE, IMAGE_SIZE)}


def _first_argument(takes: dict[str, inspect.Parameter]) -> str | None:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return next((name for name, parameter in takes.items() if parameter.kind in positional), None)
