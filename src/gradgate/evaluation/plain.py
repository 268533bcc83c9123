"""Hand out the model of a finished run as its library knows it."""

from __future__ import annotations

from typing import Any

from gradgate.adapters.peft.kind import PeftKind
from gradgate.errors import UsageError
from gradgate.evaluation.finished import FinishedRun, load_base


def plain_model(run: FinishedRun, *, merge: bool = False) -> Any:
    """Return the model of a loaded run, in evaluation mode; the run must not be used afterwards.

    Args:
        run: as loaded.
        merge: merge an adapter of PEFT into the weights.

    Returns:
        A model of transformers, or a ``PeftModel`` for a run with an adapter of PEFT that is not merged. A bottleneck
        adapter runs inside the model, active, on the source language's adapter if the run has language adapters.

    Raises:
        UsageError: for a bottleneck adapter with ``merge``, which no weights can hold.
        AdapterError: for an adapter of PEFT that cannot be merged.
    """
    kind = None if run.config.adapter is None else run.config.adapter.kind
    if isinstance(kind, PeftKind):
        return (kind.merge(run.model) if merge else kind.wrapped(load_base(run), run.folder.model)).eval()
    if merge and kind is not None:
        raise UsageError(
            f"merge=True: the run in {run.folder.path} trained the bottleneck adapter {kind}, whose layers cannot be "
            f"merged into weights. Leave it out."
        )
    return run.model
