"""Let models of transformers run on tensors without values: where they would read some, the answer is fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from torch import nn
from transformers import masking_utils
from transformers.integrations import moe

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
        # torch's own grouped product accepts nothing but bfloat16 on fake tensors; the substitute has the same sizes.
        if hasattr(moe, "_can_use_grouped_mm"):
            changed.enter_context(mock.patch.object(moe, "_can_use_grouped_mm", lambda *_: False))
        for module in model.modules():
            config: Any = getattr(module, "config", None)
            if getattr(config, "_experts_implementation", _GROUPED) not in _WITHOUT_LOOPS:
                config._experts_implementation = _GROUPED
        yield


def _unpadded(look: Callable[..., Any]) -> Callable[..., Any]:
    return lambda padding_mask=None, *args, **kwargs: look(None, *args, **kwargs)
