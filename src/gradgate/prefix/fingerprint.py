"""One digest of everything that the hidden states of a row depend on besides the row itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.layers import LayerMap, named_parameters
from gradgate.prefix.parts import Parts

# Of a configuration, what says something about the head, the training or where it came from.
_NO_MATTER = frozenset(
    {
        "problem_type",
        "id2label",
        "label2id",
        "num_labels",
        "_name_or_path",
        "transformers_version",
        "architectures",
        "dtype",
        "torch_dtype",
        "finetuning_task",
        "task_specific_params",
    }
)


def fingerprint(model: nn.Module, layers: LayerMap, closed: Iterable[str], parts: Parts, settings: Any) -> bytes:
    """16 bytes: equal only for equal frozen weights and buffers, structure, software and ``settings``.

    The tokenizer and the data need no part in it: a row is known by its token ids.

    Args:
        closed: names of the groups of the prefix.
        parts: its modules.
        settings: JSON values, such as the precision.
    """
    parameters = named_parameters(model)
    config: Any = getattr(model, "config", None)
    values = config.to_dict() if hasattr(config, "to_dict") else {}
    about = {
        "settings": settings,
        "software": [version("torch"), version("transformers"), torch.get_float32_matmul_precision()],
        "modules": [text for module in parts.inside if (text := _described(module))],
        "attention": getattr(config, "_attn_implementation", None),
        "config": {k: v for k, v in values.items() if k not in _NO_MATTER and "drop" not in k},
    }
    state = blake2b(json.dumps(about, sort_keys=True, default=str).encode(), digest_size=16)
    for group in closed:
        for name in layers[group].parameter_names:
            _take(state, name, parameters[name])
    for number, module in enumerate((*parts.inside, *parts.around)):
        for name, buffer in module.named_buffers(recurse=False):
            _take(state, f"{number} {name}", buffer)
    return state.digest()


def _described(module: nn.Module) -> str:
    """What a module computes, where it says so itself; nothing for one that only calls others, and for dropout."""
    is_leaf = next(module.children(), None) is None
    told = is_leaf or module.extra_repr()
    return f"{type(module).__name__}({module.extra_repr()})" if told and not _is_dropout(module) else ""


def _is_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd)


def _take(state: Any, name: str, tensor: Tensor) -> None:
    state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
    state.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
