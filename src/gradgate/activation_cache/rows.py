"""Read a batch of token ids into rows, each with a key over everything that its hidden states depend on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn

from gradgate.activation_cache.frozen_prefix import PrefixModules
from gradgate.layers import LayerMap, named_parameters

KEY_BYTES = 16
_PER_TOKEN = ("input_ids", "token_type_ids", "position_ids", "attention_mask")
# Arguments that only the head, the loss or the form of the output depends on.
_ABOVE = frozenset(
    {
        "labels",
        "start_positions",
        "end_positions",
        "next_sentence_label",
        "num_items_in_batch",
        "return_dict",
        "use_cache",
        "logits_to_keep",
        "fused_lm_head",  # of TRL
        "task_ids",
    }
)


class NotReusableError(Exception):
    """Raised if a forward pass cannot be served from a cache; the text says why."""


@dataclass(frozen=True)
class Row:
    """One row of a batch: its key, and the range of its tokens between padding."""

    key: bytes
    start: int
    end: int


@dataclass(frozen=True)
class Batch:
    """The rows of one forward pass.

    Attributes:
        inputs: token ids and their companions, each of shape (rows, tokens).
        rows: one per row of ``inputs``.
    """

    inputs: dict[str, Tensor]
    rows: list[Row]

    @property
    def tokens(self) -> int:
        """Tokens per row, with padding."""
        return self.inputs["input_ids"].shape[1]

    @property
    def padded(self) -> bool:
        """True if any row has padding."""
        return any(row.end - row.start < self.tokens for row in self.rows)

    def alone(self, index: int) -> dict[str, Tensor]:
        """Return one row as its own batch, without right padding; left padding sets the positions, so it stays."""
        end = self.rows[index].end
        return {name: tensor[index : index + 1, :end] for name, tensor in self.inputs.items()}

    def of(self, indices: list[int]) -> dict[str, Tensor]:
        """Return the inputs of some rows, with all padding."""
        return {name: tensor[indices] for name, tensor in self.inputs.items()}


def read_batch(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Batch:
    """Read the rows of a model's input.

    Raises:
        NotReusableError: if the hidden states may depend on more than tokens, their types and positions and a mask
            for padding at the ends, or if the call requests more than the top output.
    """
    if args:
        raise NotReusableError("the model is called with positional arguments")
    odd = [name for name, value in kwargs.items() if name not in _ABOVE and not _is_plain(name, value)]
    if odd:
        raise NotReusableError(f"the model is called with {', '.join(odd)}")
    per_token = {name: kwargs[name] for name in _PER_TOKEN if kwargs.get(name) is not None}
    if "input_ids" not in per_token or per_token["input_ids"].dim() not in (2, 3):  # 3: multiple choice
        raise NotReusableError("the model is called without a table of token ids")
    inputs = {name: tensor.reshape(-1, tensor.shape[-1]) for name, tensor in per_token.items()}
    shape = inputs["input_ids"].shape
    if any(tensor.shape != shape for tensor in inputs.values()) or 0 in shape:
        raise NotReusableError("the inputs differ in shape")
    return Batch(inputs, _rows(inputs))


def _is_plain(name: str, value: Any) -> bool:
    return value is None or value is False or (name in _PER_TOKEN and isinstance(value, Tensor))


def _rows(inputs: dict[str, Tensor]) -> list[Row]:
    columns = {name: tensor.detach().to("cpu", torch.int64) for name, tensor in inputs.items()}
    mask = columns.pop("attention_mask", None)
    if mask is not None and inputs["attention_mask"].is_floating_point():
        raise NotReusableError("the attention mask is not made of zeros and ones")
    rows, tokens = columns["input_ids"].shape
    spans = [(0, tokens)] * rows if mask is None else [_span(row) for row in mask]
    arrays = {name: column.numpy() for name, column in columns.items()}
    read = []
    for index, (start, end) in enumerate(spans):
        # Left padding shifts the positions of the tokens, so it is part of a row's key.
        state = blake2b(f"{start} {mask is not None} {sorted(arrays)}".encode(), digest_size=KEY_BYTES)
        for name in sorted(arrays):
            state.update(arrays[name][index, start:end].tobytes())
        read.append(Row(state.digest(), start, end))
    return read


def _span(mask: Tensor) -> tuple[int, int]:
    real = mask.nonzero().flatten()
    if not len(real) or bool((mask[real] != 1).any()) or int(real[-1] - real[0]) + 1 != len(real):
        raise NotReusableError("the attention mask is more than padding at the ends")
    return int(real[0]), int(real[-1]) + 1


# Entries of a configuration that describe the head, the training or its origin.
_WITHOUT_EFFECT = frozenset(
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


def fingerprint(
    model: nn.Module, layers: LayerMap, closed: Iterable[str], parts: PrefixModules, settings: Any
) -> bytes:
    """Return 16 bytes that are equal only for equal frozen weights and buffers, structure, software and ``settings``.

    The tokenizer and the data are not included: a row's key covers its token ids.

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
        "config": {k: v for k, v in values.items() if k not in _WITHOUT_EFFECT and "drop" not in k},
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
    """Return a module's type and settings; empty for dropout and for a module that only calls others."""
    is_leaf = next(module.children(), None) is None
    described = is_leaf or module.extra_repr()
    return f"{type(module).__name__}({module.extra_repr()})" if described and not _is_dropout(module) else ""


def _is_dropout(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.dropout._DropoutNd)


def _take(state: Any, name: str, tensor: Tensor) -> None:
    state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
    state.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
