"""Make one white image or silent sound in each form that models take, with the tokens that stand for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

IMAGE_SIZE = 224  # pixels; for convolutional models, whose configuration has no size
SAMPLES = 4000  # a quarter of a second of audio at 16 kHz: about ten frames of a Wav2Vec2
FRAMES = 200  # of a spectrogram, if the configuration has no number

Inputs = dict[str, Tensor]
Takes = Mapping[str, inspect.Parameter]
_IMAGES, _SOUNDS = ("pixel_values", "flattened_patches"), ("input_values", "input_features")
MEDIA = (*_IMAGES, *_SOUNDS)


def media_inputs(model: nn.Module, config: Any, takes: Takes) -> Iterator[tuple[Inputs, list[int]]]:
    """Yield an image and a sound, if a forward takes them, with the tokens that stand for them in the text.

    Use the first form from which the model's own method makes features, and one placeholder per feature. For a model
    without such a method, yield each form.
    """
    ways = {
        "image": list(images(config, takes)) if any(name in takes for name in _IMAGES) else [],
        "audio": list(sounds(config, takes)) if any(name in takes for name in _SOUNDS) else [],
    }
    known: list[tuple[Inputs, list[int]]] = []
    unknown: list[Inputs] = []
    for kind, each in ways.items():
        token = _token(config, kind)
        ask = next((m for part in model.modules() if isinstance(m := _method(part, kind), MethodType)), None)
        if ask:
            counted = ((inputs, _feature_count(ask, inputs, model)) for inputs in each)
            inputs, count = next(((i, n) for i, n in counted if n), ({}, 0))
            known.append((inputs, [token] * count if token is not None else []))
        elif each:
            unknown = each
            known.append(({}, [token] if token is not None else []))
    fixed = dict(chain.from_iterable(inputs.items() for inputs, _ in known))
    tokens = list(chain.from_iterable(placeholders for _, placeholders in known))
    for inputs in unknown or [{}]:
        if fixed | inputs:
            yield fixed | inputs, tokens


def images(config: Any, takes: Takes) -> Iterator[Inputs]:
    """Yield one white image in each form, the likeliest first, with its size; some models take black for padding."""
    vision = _part(config, "vision", "image", "vit", "encoder")
    height, width = _pair(getattr(vision, "image_size", None) or IMAGE_SIZE)
    channels = next((c for n in ("num_channels", "in_channels", "in_chans") if (c := getattr(vision, n, None))), 3)
    channels = channels if isinstance(channels, int) else 3
    patch, _ = _pair(getattr(vision, "patch_size", None) or 16)
    area = channels * patch**2
    if "flattened_patches" in takes:
        yield {"flattened_patches": torch.ones(1, 4, 2 + area), "attention_mask": torch.ones(1, 4)}
    if "image_grid_thw" in takes:
        side = _pair(getattr(vision, "spatial_merge_size", None) or getattr(vision, "merge_kernel_size", None) or 1)[0]
        grid = {"image_grid_thw": torch.tensor([[1, side, side]])}
        yield {"pixel_values": torch.ones(side**2, area * getattr(vision, "temporal_patch_size", 1))} | grid
        yield {"pixel_values": torch.ones(side**2, channels, patch, patch)} | grid
    if "spatial_shapes" in takes:
        yield {
            "pixel_values": torch.ones(1, 16, area),
            "spatial_shapes": torch.tensor([[4, 4]]),
            "pixel_attention_mask": torch.ones(1, 16, dtype=torch.long),
        }
    if "aspect_ratio_ids" in takes:
        tiles = getattr(vision, "max_num_tiles", 1)
        yield {
            "pixel_values": torch.ones(1, 1, tiles, channels, height, width),
            "aspect_ratio_ids": torch.ones(1, 1, dtype=torch.long),
            "aspect_ratio_mask": torch.ones(1, 1, tiles, dtype=torch.long),
        }
    points = getattr(config, "image_grid_pinpoints", None)
    if points and "image_sizes" in takes:
        high, wide = min(points, key=lambda point: point[0] * point[1])
        tiles = 1 + (high // height) * (wide // width)
        yield {
            "pixel_values": torch.ones(1, tiles, channels, height, width),
            "image_sizes": torch.tensor([[high, wide]]),
        }
    frames = getattr(vision, "num_frames", None) or 1
    for sizes in ({}, {"image_sizes": torch.tensor([[height, width]])} if "image_sizes" in takes else None):
        if sizes is not None:
            yield {"pixel_values": torch.ones(1, channels, height, width)} | sizes
            yield {"pixel_values": torch.ones(1, frames, channels, height, width)} | sizes


def sounds(config: Any, takes: Takes) -> Iterator[Inputs]:
    """Yield one silent sound, as a waveform or as a spectrogram, with its masks."""
    audio = _part(config, "audio", "encoder", "speech_encoder")
    bins = next(
        (b for n in ("num_mel_bins", "feature_projection_input_dim", "input_dim") if (b := getattr(audio, n, None))), 0
    )
    longest = 2 * (getattr(audio, "max_source_positions", None) or 0)  # the only length that Whisper takes
    if "input_values" in takes:
        if bins:
            yield {"input_values": torch.zeros(1, getattr(audio, "max_length", 1024), bins)}
        yield {"input_values": torch.zeros(1, SAMPLES)}
    if "input_features" in takes:
        masks = [n for n in takes if "mask" in n and "feature" in n] + [
            n for n in ("audio_attention_mask",) if n in takes
        ]
        size = bins or getattr(audio, "hidden_size", 80)
        for frames in (FRAMES, longest) if longest else (FRAMES,):
            mask = dict.fromkeys(masks, torch.ones(1, frames, dtype=torch.long))
            yield {"input_features": torch.zeros(1, size, frames)} | mask
            yield {"input_features": torch.zeros(1, frames, size)} | mask


def _feature_count(ask: Callable[..., Any], inputs: Inputs, model: nn.Module) -> int:
    """Count the tokens that an image or a sound takes up, by the model's own method; 0 if that rejects the input."""
    takes = inspect.signature(ask).parameters.values()
    anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in takes)
    names = {parameter.name for parameter in takes}
    some = next(model.parameters())
    arguments = {
        name: value.to(some.device, some.dtype if value.is_floating_point() else None)
        for name, value in inputs.items()
        if anything or name in names
    }
    if "qformer_input_ids" in names:  # the instruction that goes with the image
        arguments["qformer_input_ids"] = torch.zeros(1, 2, dtype=torch.long, device=some.device)
        arguments["qformer_attention_mask"] = torch.ones_like(arguments["qformer_input_ids"])
    with suppress(Exception):  # any model code may run here, so anything may be raised
        output: Any = ask(**arguments)
        output = output[0] if isinstance(output, tuple) and not isinstance(output[0], Tensor) else output
        output = getattr(output, "pooler_output", output)
        features = output if isinstance(output, tuple | list) else [output]
        return sum(each.numel() // each.shape[-1] for each in features)
    return 0


def _method(module: nn.Module, kind: str) -> Any:
    return getattr(module, f"get_{kind}_features", None)


def _token(config: Any, kind: str) -> int | None:
    names = [f"{kind}_token_{end}" for end in ("id", "index")]
    token = next((value for name in names if (value := getattr(config, name, None)) is not None), None)
    return token if isinstance(token, int) else None


def _part(config: Any, *names: str) -> Any:
    """Return the first of these parts that a configuration has, or the configuration itself."""
    for name in names:
        for attribute in (f"{name}_config", name):
            part = getattr(config, attribute, None)
            if hasattr(part, "to_dict"):
                return part
    return config


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, Mapping):
        value = (value.get("height", IMAGE_SIZE), value.get("width", IMAGE_SIZE))
    return (value[-2], value[-1]) if isinstance(value, tuple | list) and len(value) > 1 else (_one(value), _one(value))


def _one(value: Any) -> int:
    return int(value[0] if isinstance(value, tuple | list) else value)
