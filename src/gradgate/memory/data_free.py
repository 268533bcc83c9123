"""Let models of transformers run on tensors without values: where they would read some, the answer is fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import masking_utils
from transformers.integrations import moe

from gradgate.layers.probe import ONE_A_ROW

_PACKED = "find_packed_sequence_indices"
_LOOK_AT_MASKS = (_PACKED, "_ignore_causal_mask_sdpa", "_ignore_bidirectional_mask_sdpa")
_GROUPED = "grouped_mm"
_WITHOUT_LOOPS = (_GROUPED, "batched_mm")


@contextmanager
def data_free(model: nn.Module) -> Iterator[None]:
    """Keep a model from reading the values of its batch within the body.

    Rows count as complete: transformers reads them to find out, and builds a mask if there are none. The experts of a
    layer compute in one grouped product, which has the same sizes however tokens are divided among them. The caller
    restores the configurations.
    """
    with ExitStack() as changed:
        for name in _LOOK_AT_MASKS:
            if hasattr(masking_utils, name):
                look = (lambda position_ids: None) if name == _PACKED else _unpadded(getattr(masking_utils, name))
                changed.enter_context(mock.patch.object(masking_utils, name, look))
        # torch's own grouped product accepts nothing but bfloat16 on fake tensors.
        if hasattr(moe, "_grouped_mm"):
            changed.enter_context(mock.patch.object(moe, "_grouped_mm", _grouped))
        for module in model.modules():
            config: Any = getattr(module, "config", None)
            if getattr(config, "_experts_implementation", _GROUPED) not in _WITHOUT_LOOPS:
                config._experts_implementation = _GROUPED
        changed.enter_context(_OneEndPerRow())
        yield


class _OneEndPerRow(TorchFunctionMode):
    """Lets the classification heads of BART and T5 take the state of each row's end token: one per row."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.unique_consecutive or (func is Tensor.__getitem__ and _is_mask(args[1])):
            return ONE_A_ROW[func](*args)
        return func(*args, **(kwargs or {}))


def _is_mask(index: Any) -> bool:
    first = index[0] if isinstance(index, tuple) and index else index
    return isinstance(first, Tensor) and first.dtype == torch.bool


def _grouped(input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:  # noqa: A002 (the name in transformers)
    apply: Any = _GroupedProduct.apply
    product: Tensor = apply(input, weight)
    return product


class _GroupedProduct(torch.autograd.Function):
    """The sizes of torch's grouped product of rows with the experts' matrices, and what it keeps for backward."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        """Return an output without values; keep the rows only if the matrices learn."""
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward(rows.to(weight.dtype))
        ctx.shapes = tuple(rows.shape), rows.dtype, tuple(weight.shape), weight.dtype
        return weight.new_empty(rows.shape[0], weight.shape[-1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, Tensor | None]:
        """Return gradients without values, of what needs one."""
        (gradient,) = gradients
        rows, rows_type, weight, weight_type = ctx.shapes
        of_rows = gradient.new_empty(rows, dtype=rows_type) if ctx.needs_input_grad[0] else None
        of_weight = gradient.new_empty(weight, dtype=weight_type) if ctx.needs_input_grad[1] else None
        return of_rows, of_weight


def _unpadded(look: Callable[..., Any]) -> Callable[..., Any]:
    return lambda padding_mask=None, *args, **kwargs: look(None, *args, **kwargs)
