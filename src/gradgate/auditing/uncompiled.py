"""Run the audit's own code as it is where the training's optimizer step is compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def uncompiled(work: Callable[..., None]) -> Callable[..., None]:
    """Return a hook that ``torch.compile`` neither traces nor compiles, nor what the hook calls.

    ``torch._dynamo`` is not imported for it; as long as nobody has, nothing is compiled.
    """

    def hook(*args: Any) -> None:
        dynamo = sys.modules.get("torch._dynamo")
        (work if dynamo is None else dynamo.disable(work))(*args)

    hook._torchdynamo_disable = True  # type: ignore[attr-defined]
    return hook
