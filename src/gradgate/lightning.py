"""Run the tuner inside Lightning's Trainer: ``gg.lightning.GateCallback``, from the extra ``gradgate[lightning]``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from math import ceil, isfinite
from typing import Any

from gradgate.errors import AttachError, RunError, UsageError

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.callbacks import GradientAccumulationScheduler
    from lightning.pytorch.utilities.rank_zero import rank_zero_warn
except ImportError:
    raise UsageError(
        "gg.lightning needs Lightning, which cannot be imported here: pip install 'gradgate[lightning]'."
    ) from None

from gradgate.layers import LayerMap, map_layers
from gradgate.measure import Batches
from gradgate.measure.batches import batches_of
from gradgate.methods.base import Method
from gradgate.methods.catalog import method as read_method
from gradgate.model_copies import put_back, replace
from gradgate.tuner import Tuner
from gradgate.tuner.masters import MasterPrecision, has_masters
from gradgate.tuner.optimizer_states import Float32States
from gradgate.tuner.state import resumed_by_plan


class GateCallback(Callback):  # type: ignore[misc]
    """Train with a method: ``Trainer(..., callbacks=[gg.lightning.GateCallback("gradual:every=50")])``.

    The tuner attaches when training starts, after ``configure_optimizers``, which must receive every parameter. Each
    training step then runs as one call of the module, as under DDP, so that closed layers at the bottom run without
    dropout. With manual optimization this applies only to what the module computes by calling itself. Several
    optimizers make one step together. The state is in Lightning's checkpoints, and restored when training resumes.
    Lightning logs :attr:`gradgate.Tuner.metrics` in each training step, and the module is free after an exception.

    The callback works with one device, DDP (``strategy="ddp_find_unused_parameters_true"`` for methods that close
    layers) and sharding by FSDP2 (``ModelParallelStrategy``). FSDP version 1 and DeepSpeed are rejected.

    Args:
        method: a method or its text.
        seed: of the method's random draws; None takes the one of ``seed_everything``, or 0.
        audit: see :class:`gradgate.Tuner`.
        layers: see :class:`gradgate.Tuner`; paths begin at the LightningModule.
        fisher_data: see :class:`gradgate.Tuner`; by default the training's batches, in an order of their own. Methods
            that measure need it if the data are a stream, or if the model does not take the batches.
        frozen_dropout: see :class:`gradgate.Tuner`.
        lr_scale: see :class:`gradgate.Tuner`.
        master: see :class:`gradgate.Tuner`.

    Attributes:
        tuner: the tuner of the current or latest training; None before the first.

    Raises:
        AttachError: when training starts, as :class:`gradgate.Tuner` does, or if another callback freezes layers;
            later, if the module calls ``toggle_optimizer``, which sets ``requires_grad`` too.
        RunError: if a checkpoint has another method, seed or optimizer.
    """

    def __init__(
        self,
        method: Method | str,
        *,
        seed: int | None = None,
        audit: bool | None = None,
        layers: LayerMap | str | None = None,
        fisher_data: Batches | None = None,
        frozen_dropout: bool = False,
        lr_scale: Mapping[str, float] | None = None,
        master: MasterPrecision | None = None,
    ) -> None:
        self.method = read_method(method)
        self.seed = seed
        self.audit = audit
        self.layers = layers
        self.fisher_data = fisher_data
        self.frozen_dropout = frozen_dropout
        self.lr_scale = lr_scale
        self.master = master
        self.tuner: Tuner | None = None
        self._state: Mapping[str, Any] = {}
        self._optimizer_states: list[Any] = []
        self._restore: Callable[[], None] | None = None

    def on_init_end(self, *_: Any, **__: Any) -> None:
        """Refuse transformers' Trainer, whose first event this is.

        Raises:
            AttachError: always.
        """
        raise AttachError(
            "gg.lightning.GateCallback is for Lightning's Trainer. For transformers', use gg.GateCallback with the "
            "same method."
        )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attach; if training resumes, continue from the checkpoint's state."""
        _refuse_finetuning(trainer)
        self._detach(audit=False)  # from an interrupted training
        done: int = trainer.global_step
        state, self._state = self._state, {}
        saved = state if done > 0 and state else None
        if done > 0 and saved is None:
            _check_resumable(self.method, trainer.ckpt_path)
        states, self._optimizer_states = self._optimizer_states, []
        if saved is not None and has_masters(saved):  # on Lightning's load, torch rounded them
            for optimizer, one in zip(trainer.optimizers, states, strict=bool(states)):
                with Float32States([optimizer]):
                    optimizer.load_state_dict(one)
        seed = int(os.environ.get("PL_GLOBAL_SEED", 0)) if self.seed is None else self.seed
        total, per_epoch = _steps(trainer, pl_module)
        try:
            self.tuner = Tuner(
                trainer.strategy.model,
                trainer.optimizers if len(trainer.optimizers) != 1 else trainer.optimizers[0],
                self.method,
                total_steps=total,
                steps_per_epoch=per_epoch,
                seed=seed,
                audit=self.audit,
                layers=self.layers if isinstance(self.layers, LayerMap) else map_layers(pl_module, self.layers),
                fisher_data=self.fisher_data or batches_of(trainer.train_dataloader, seed),
                state=saved,
                frozen_dropout=self.frozen_dropout,
                lr_scale=self.lr_scale,
                master=self.master,
            )
        except RunError as error:
            if saved is None:
                raise
            raise RunError(f"Cannot resume from {trainer.ckpt_path or 'the training before'}: {error}") from None
        called = trainer.strategy.model is not pl_module or not pl_module.automatic_optimization
        self._restore = (
            _shadow(pl_module, "toggle_optimizer", _refuse_toggling) if called else _call_for_each_step(pl_module)
        )
        if done > 0 and saved is None:
            self.tuner.resume_at(done // len(trainer.optimizers))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any, **__: Any) -> None:
        """Log the open share and the phase of the step that was just done."""
        for name, value in self.tuner.metrics.items() if self.tuner is not None else ():
            pl_module.log(name, value, on_step=True, on_epoch=False)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Detach."""
        self._detach(audit=True)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Detach, and restore the module."""
        self._detach(audit=False)

    def state_dict(self) -> dict[str, Any]:
        """Return the tuner's state, which Lightning stores in each checkpoint."""
        attached = self.tuner is not None and self._restore is not None
        return self.tuner.state_dict() if self.tuner and attached else dict(self._state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep a checkpoint's state until training starts."""
        self._state = state_dict

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Keep the optimizers' states of a checkpoint until training starts, and no state of a training before."""
        self._state = {}
        self._optimizer_states = list(checkpoint.get("optimizer_states", ()))

    def _detach(self, *, audit: bool) -> None:
        if self.tuner is None or self._restore is None:
            return
        self._state = self.tuner.state_dict()  # for later checkpoints, and for a training that continues
        self._restore()
        self._restore = None
        self.tuner.detach(audit=audit)


def _check_resumable(method: Method, checkpoint: Any) -> None:
    """Warn of a checkpoint without a state of the tuner; raise RunError if the method cannot resume without one."""
    lacking = f"{checkpoint or 'The training before'} has no state of a tuner: it was saved without GateCallback"
    remedy = "Resume from a checkpoint that was saved with it; or load the weights, and begin without ckpt_path."
    rank_zero_warn(resumed_by_plan(method, lacking, remedy))


def _steps(trainer: Trainer, module: LightningModule) -> tuple[int | None, int | None]:
    """Return the optimizer steps of the training and of an epoch; None if they cannot be known."""
    limit = trainer.max_steps // max(len(trainer.optimizers), 1) if trainer.max_steps > 0 else None
    schedulers = [c for c in trainer.callbacks if isinstance(c, GradientAccumulationScheduler)]
    if not module.automatic_optimization or any(len(scheduler.scheduling) > 1 for scheduler in schedulers):
        return limit, None
    batches: float = trainer.num_training_batches
    if not isfinite(batches):  # a stream
        return limit, None
    total: float = trainer.estimated_stepping_batches
    return int(total) if isfinite(total) else None, max(1, ceil(batches / trainer.accumulate_grad_batches))


def _call_for_each_step(module: LightningModule) -> Callable[[], None]:
    """Run ``training_step`` through the module's ``__call__``, where hooks see it; return a function that undoes it."""
    step = module.training_step

    @wraps(step)
    def call(*args: Any, **kwargs: Any) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            unshadow()  # first, so that calls within the step reach the real forward
            return step(*args, **kwargs)

        unshadow = _shadow(module, "forward", forward)
        try:
            return module(*args, **kwargs)
        finally:
            unshadow()

    return _shadow(module, "training_step", call)


def _refuse_finetuning(trainer: Trainer) -> None:
    """Refuse callbacks that freeze and unfreeze too, such as BackboneFinetuning and FinetuningScheduler."""
    others = [c for c in trainer.callbacks if any(kind.__name__ == "BaseFinetuning" for kind in type(c).__mro__)]
    if others:
        names = " and ".join(dict.fromkeys(type(callback).__name__ for callback in others))
        raise AttachError(
            f"{names} freezes and unfreezes layers too, and what it froze before the training would never be opened. "
            f"Only one callback may do so; remove {names}, or GateCallback."
        )


def _refuse_toggling(*_: Any, **__: Any) -> None:
    raise AttachError(
        "toggle_optimizer sets requires_grad of every parameter, as the gate does, and would reopen what was open "
        "before the step. Leave it out, and clear gradients that a step must not see with zero_grad."
    )


def _shadow(module: LightningModule, name: str, by: Callable[..., Any]) -> Callable[[], None]:
    """Shadow a module's method by an attribute; return the function that undoes it, which may be called repeatedly."""

    def undo() -> None:
        if vars(module).get(name) is by:
            put_back(module, name)

    replace(module, name, by)
    return undo
