"""Build the smallest input that a model accepts, from its configuration and the signature of its forward."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from types import MethodType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from gradgate.layers.media import IMAGE_SIZE, MEDIA, Takes, images, media_inputs, sounds

TOKENS = 4
TIMES = 21  # repetitions, to 64 tokens, for models that need more than a few

T = TypeVar("T")


def guesses(model: nn.Module) -> Iterator[dict[str, Any]]:
    """Yield keyword arguments for ``model.forward``, the likeliest first; nothing if nothing fits the model."""
    takes = _signature(model)
    if not any(name in takes for name in _MAKERS):
        yield from _inputs_of_inner(model, takes)
    config = next((m.config for m in model.modules() if hasattr(m, "config")), None)
    offered = [name for name in _MAKERS if name in takes]
    main = getattr(model, "main_input_name", None)
    main = main if main in _MAKERS else next(iter(offered), None)
    made: Iterator[dict[str, Tensor]] = (
        _MAKERS[main](model, config, takes) if main else _first_module_inputs(model, takes)
    )
    # Two parallel towers, such as CLIP's, need both inputs; a vision tower before a decoder runs only if it gets both.
    made = _whatever_works(_joint_inputs(model, config, takes), made)
    device = next(model.parameters()).device
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    for tensors in made:
        inputs = tensors | _companions(model, config, takes, tensors)
        yield {
            name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()
        } | ({"use_cache": False} if "use_cache" in takes else {})


def _inputs_of_inner(model: nn.Module, takes: dict[str, inspect.Parameter]) -> Iterator[dict[str, Any]]:
    """Yield inputs of the first transformers model inside a module: as one dictionary, or as keywords."""
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


def _joint_inputs(model: nn.Module, config: Any, takes: Takes) -> Iterator[dict[str, Tensor]]:
    """Yield all main inputs together: tokens with one placeholder per feature of the images and sounds."""
    if not any(name in takes for name in MEDIA) or "input_ids" not in takes:
        return
    ids = next(_token_inputs(model, config))
    for media, holes in media_inputs(model, config, takes):
        middle = torch.tensor([holes], dtype=ids.dtype)
        yield media | {"input_ids": torch.cat([ids[:, :1], middle, ids[:, 1:]], dim=1)}


def _whatever_works(*ways: Iterator[T]) -> Iterator[T]:
    """Yield what each way makes; if an unusual configuration breaks one, continue with the next."""
    for way in ways:
        with suppress(Exception):
            yield from way


def _companions(
    model: nn.Module, config: Any, takes: dict[str, inspect.Parameter], inputs: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return what a forward needs besides its main input: required masks and the decoder's tokens."""
    first = inputs.get("input_ids", next(iter(inputs.values())))
    images: dict[str, Tensor] = {}
    if "image_embeds_position_mask" in takes and {"pixel_values", "input_ids"} <= inputs.keys():
        places = torch.arange(first.shape[1] + getattr(config, "latent_query_num", 0)) >= first.shape[1]
        first = torch.cat([first, first.new_ones(1, len(places) - first.shape[1])], dim=1)
        images = {"input_ids": first, "image_embeds_position_mask": places[None]}
    wanted = {name for name, parameter in takes.items() if parameter.default is inspect.Parameter.empty}
    if "input_ids" in inputs:
        wanted.add("attention_mask")  # some models warn if it is absent
    more = {
        name: torch.full_like(first, fill)
        for name, fill in (("attention_mask", 1), ("token_type_ids", 0))
        if name in takes and name in wanted
    }
    if "lang_ids" in takes:
        more["lang_ids"] = torch.zeros(len(first), dtype=torch.long)
    if "bbox" in takes and "input_ids" in inputs:
        more["bbox"] = torch.zeros(*first.shape, 4, dtype=torch.long)
    if "qformer_input_ids" in takes and "input_ids" in inputs:
        more |= {"qformer_input_ids": torch.zeros_like(first), "qformer_attention_mask": torch.ones_like(first)}
    if "image_attention_mask" in takes and "pixel_values" in inputs:
        more["image_attention_mask"] = torch.ones(*first.shape, 1, dtype=torch.long)
    if "mm_token_type_ids" in takes and "input_ids" in inputs:  # 1 where a token stands for a piece of an image
        more["mm_token_type_ids"] = first.eq(getattr(config, "image_token_id", -1)).long()
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        # As long as the input: BART's classifier looks up the input's last token among the decoder's states.
        more["decoder_input_ids"] = inputs.get("input_ids", _token_ids(model, config))
    return more | images


def _signature(model: nn.Module) -> dict[str, inspect.Parameter]:
    # PEFT's forward takes any argument; the base model's signature names them.
    unwrap = getattr(model, "get_base_model", None)
    base = unwrap() if isinstance(unwrap, MethodType) else model
    return dict(inspect.signature(base.forward).parameters)


def _token_inputs(model: nn.Module, config: Any) -> Iterator[Tensor]:
    ids = _token_ids(model, config)
    yield ids
    yield torch.stack([ids, ids], dim=1)  # multiple choice: batch x choices x tokens
    yield torch.cat([ids[:, :-1]] * TIMES + [ids[:, -1:]], dim=1)  # for models that pool several times, such as Funnel


def _token_ids(model: nn.Module, config: Any) -> Tensor:
    """Return ordinary tokens and one end-of-text token, which the classification heads of BART and T5 look for."""
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


_MAKERS: dict[str, Callable[[nn.Module, Any, Takes], Iterator[dict[str, Tensor]]]] = {
    "input_ids": lambda model, config, takes: ({"input_ids": ids} for ids in _token_inputs(model, config)),
    "pixel_values": lambda model, config, takes: images(config, takes),
    "flattened_patches": lambda model, config, takes: images(config, takes),
    "input_values": lambda model, config, takes: sounds(config, takes),
    "input_features": lambda model, config, takes: sounds(config, takes),
}


def _first_module_inputs(model: nn.Module, takes: dict[str, inspect.Parameter]) -> Iterator[dict[str, Tensor]]:
    """Yield inputs that fit the first module with weights, for a model that is not from transformers."""
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
