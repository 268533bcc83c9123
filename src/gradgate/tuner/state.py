"""The state of a tuner as it is saved, and what it must agree with to be taken up again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from gradgate.errors import RunError
from gradgate.tuner.gating import Gating
from gradgate.tuner.mixout import Mixing

ENTRIES = ("version", "method", "seed", "step", "notes", "open_sum", "timeline", "optimizer_parameters")
_INITIAL, _CHOSEN = "initial", "chosen"


def missing_entry(state: Mapping[str, Any]) -> str | None:
    """The first entry that something lacks to be a state."""
    return next((name for name in ENTRIES if name not in state), None)


def check_state(state: Mapping[str, Any], method: str, seed: int, optimizer_parameters: Sequence[str]) -> None:
    """Refuse what would continue another training.

    Raises:
        RunError: see :meth:`gradgate.Tuner.load_state_dict`.
    """
    missing = missing_entry(state)
    if missing:
        raise RunError(f"This is no state of a tuner: it has no {missing!r}.")
    for what, mine in (("method", method), ("seed", seed)):
        if state[what] != mine:
            raise RunError(f"The saved state has {what} {state[what]!r}, this tuner has {mine!r}.")
    if state["optimizer_parameters"] != optimizer_parameters:
        raise RunError(
            "The saved state belongs to an optimizer with other parameters or another order of them; its "
            "moments would land on the wrong tensors. Build model and optimizer as in the saved training."
        )


def tensors_of(mixing: Mixing | None, gating: Gating) -> dict[str, Tensor]:
    """What cannot be computed again: the weights at the start, and which ones were chosen."""
    by_kind = {_INITIAL: mixing.initial if mixing else {}, _CHOSEN: gating.chosen}
    return {f"{kind}/{name}": tensor for kind, tensors in by_kind.items() for name, tensor in tensors.items()}


def load_tensors(tensors: Mapping[str, Tensor], mixing: Mixing | None, gating: Gating) -> None:
    """The inverse of :func:`tensors_of`; RunError for tensors of another model."""
    by_kind: dict[str, dict[str, Tensor]] = {_INITIAL: {}, _CHOSEN: {}}
    for path, tensor in tensors.items():
        kind, _, name = path.partition("/")
        by_kind.setdefault(kind, {})[name] = tensor
    if mixing:
        mixing.load(by_kind[_INITIAL])
    gating.choose(by_kind[_CHOSEN])
