"""Act in a running Trainer where it has no event for callbacks: an exception, what is logged, a loss that is summed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from gradgate.errors import GradgateWarning

End = Callable[[], None]


def ends_on_exception(trainer: Any, end: End) -> None:
    """Call ``end`` if ``trainer.train`` raises, Ctrl-C included; for as long as the trainer exists."""
    _shadow(trainer, "train", partial(_guarded, trainer.train, end))


def in_training(trainer: Any, end: End, metrics: Callable[[], Mapping[str, float]]) -> End:
    """Act in one training, which is already running.

    Args:
        trainer: which trains.
        end: called if an epoch or the end of the training raises, unless :func:`ends_on_exception` sees to it.
        metrics: returns what is logged with each loss.

    Returns:
        A function that restores the trainer's methods.
    """
    undo: list[End] = []
    if hasattr(trainer, "log"):
        undo.append(_shadow(trainer, "log", partial(_with_metrics, trainer.log, metrics)))
    if "train" not in vars(trainer):  # the callback was added after the trainer was made
        names = [name for name in ("_run_epoch", "_finalize_training") if hasattr(trainer, name)]
        undo += [_shadow(trainer, name, partial(_guarded, getattr(trainer, name), end)) for name in names]
    if sums_losses(trainer):
        undo.append(_warn_of_sum(trainer))

    def leave() -> None:
        for one in undo:
            one()

    return leave


def sums_losses(trainer: Any) -> bool:
    """Return True if Trainer adds up the losses of accumulated batches without dividing by their number."""
    if not hasattr(trainer, "compute_loss") or getattr(trainer.args, "torch_compile", False):
        return False  # a compiled loss does not show what it uses
    scaled = getattr(trainer, "loss_is_scaled_for_ga", None)
    if scaled is None:
        takes_items = getattr(trainer, "model_accepts_loss_kwargs", False)
        scaled = takes_items or getattr(trainer, "compute_loss_func", None) is not None
    return bool(scaled) and getattr(trainer.args, "gradient_accumulation_steps", 1) > 1


def _warn_of_sum(trainer: Any) -> End:
    """Warn once if the first loss of a training does not divide by the number of items that Trainer passes."""

    def watched(*args: Any, **kwargs: Any) -> Any:
        put_back()
        items = kwargs.get("num_items_in_batch")
        if not isinstance(items, Tensor):
            return own(*args, **kwargs)
        with _Uses(items) as uses:
            loss = own(*args, **kwargs)
        if not uses.seen:
            warnings.warn(_summed(trainer), GradgateWarning, stacklevel=2)
        return loss

    own = trainer.compute_loss
    put_back = _shadow(trainer, "compute_loss", update_wrapper(watched, own))
    return put_back


def _summed(trainer: Any) -> str:
    parts = trainer.args.gradient_accumulation_steps
    return (
        f"gradient_accumulation_steps={parts}: the loss of {type(trainer.model).__name__} is a mean over each batch "
        f"and does not use num_items_in_batch, but Trainer adds the {parts} losses without dividing, so gradients "
        f"are {parts} times those of one large batch. Set trainer.model_accepts_loss_kwargs = False before "
        f"train(), or let the loss divide by num_items_in_batch."
    )


class _Uses(TorchFunctionMode):
    """Sees whether any function of torch gets one tensor."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__()
        self.seen = False
        self._tensor = tensor

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.seen |= any(value is self._tensor for value in (*args, *kwargs.values()))
        return function(*args, **kwargs)


def _guarded(own: Callable[..., Any], end: End, *args: Any, **kwargs: Any) -> Any:
    try:
        return own(*args, **kwargs)
    except BaseException:
        end()
        raise


def _with_metrics(
    own: Callable[..., Any], metrics: Callable[[], Mapping[str, float]], logs: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    return own({**logs, **metrics()} if "loss" in logs else logs, *args, **kwargs)


def _shadow(trainer: Any, name: str, by: Any) -> End:
    """Shadow a method by an attribute of the trainer; return the function that undoes it."""
    before = vars(trainer).get(name)
    shadow = update_wrapper(by, getattr(trainer, name))

    def put_back() -> None:
        if vars(trainer).get(name) is not shadow:
            return
        del vars(trainer)[name]
        if before is not None:
            vars(trainer)[name] = before

    vars(trainer)[name] = shadow
    return put_back
