"""The smallest input that a model accepts, made from its configuration and the signature of its forward."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

TOKENS = 4
SAMPLES = 4000  # a quarter of a second of audio: some ten frames of a Wav2Vec2
IMAGE_SIZE = 224  # of the convolutional models, whose configuration names none


def guesses(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keyword arguments for ``model.forward``, the likeliest first; none where nothing is known about the model."""
    anchor = next(model.parameters())
    takes = _signature(model)
    config = next((m.config for m in model.modules() if hasattr(m, "config")), None)
    known = {
        "input_ids": _token_inputs,
        "pixel_values": _image_inputs,
        "input_values": _wave_inputs,
        "input_features": _spectrum_inputs,
    }
    preferred = getattr(model, "main_input_name", None)
    main = preferred if preferred in known else next((name for name in takes if name in known), None)
    made = known[main](model, config) if main else _first_module_inputs(model, takes)
    for inputs in made:
        main_input = next(iter(inputs.values()))
        for name in ("attention_mask", "token_type_ids"):
            if name in takes and takes[name].default is inspect.Parameter.empty:
                inputs[name] = torch.full_like(main_input, int(name == "attention_mask"))
        if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
            inputs["decoder_input_ids"] = main_input if main == "input_ids" else _token_ids(model, config)
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        yield {
            name: value.to(anchor.device, dtype if value.is_floating_point() else None)
            for name, value in inputs.items()
        }


def _signature(model: nn.Module) -> dict[str, inspect.Parameter]:
    base = model.get_base_model() if callable(getattr(model, "get_base_model", None)) else model
    return dict(inspect.signature(base.forward).parameters)


def _token_inputs(model: nn.Module, config: Any) -> Iterator[dict[str, Tensor]]:
    ids = _token_ids(model, config)
    yield {"input_ids": ids}
    yield {"input_ids": torch.stack([ids, ids], dim=1)}  # multiple choice: batch x choices x tokens


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
    try:
        table = model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        table = None
    if not isinstance(table, nn.Embedding):
        table = next((m for m in model.modules() if isinstance(m, nn.Embedding)), None)
    return table.num_embeddings if table is not None else TOKENS


def _image_inputs(model: nn.Module, config: Any) -> Iterator[dict[str, Tensor]]:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or IMAGE_SIZE
    height, width = size if isinstance(size, tuple | list) else (size, size)
    channels = getattr(vision, "num_channels", 3)
    yield {"pixel_values": torch.zeros(1, channels, height, width)}
    if frames := getattr(vision, "num_frames", None):
        yield {"pixel_values": torch.zeros(1, frames, channels, height, width)}


def _wave_inputs(model: nn.Module, config: Any) -> Iterator[dict[str, Tensor]]:
    if bins := getattr(config, "num_mel_bins", None):
        yield {"input_values": torch.zeros(1, getattr(config, "max_length", 1024), bins)}
    yield {"input_values": torch.zeros(1, SAMPLES)}


def _spectrum_inputs(model: nn.Module, config: Any) -> Iterator[dict[str, Tensor]]:
    bins = getattr(config, "num_mel_bins", 80)
    yield {"input_features": torch.zeros(1, bins, 2 * getattr(config, "max_source_positions", 1500))}


def _first_module_inputs(
    model: nn.Module, takes: dict[str, inspect.Parameter]
) -> Iterator[dict[str, Tensor]]:
    """What the first module that has weights would take, for a module that is not from transformers."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    name = next((n for n, p in takes.items() if p.kind in positional), None)
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
