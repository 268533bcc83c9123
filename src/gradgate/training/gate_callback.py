"""Run a tuner inside Hugging Face's Trainer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.activation_cache import ActivationCache
from gradgate.calling_trainer import calling_trainer, resumed_checkpoint, saved_checkpoint
from gradgate.distributed.shards import is_sharded
from gradgate.errors import AttachError, GradgateWarning, RunError, UsageError
from gradgate.layers import LayerMap
from gradgate.measure import Batches
from gradgate.measure.batches import batches_of
from gradgate.methods.base import Method
from gradgate.methods.catalog import method as read_method
from gradgate.places import check_folder, typed_path
from gradgate.training.running_trainer import ends_on_exception, in_training
from gradgate.tuner import Tuner
from gradgate.tuner.masters import MasterPrecision, has_masters
from gradgate.tuner.optimizer_states import Float32States
from gradgate.tuner.optimizers import Optimizers, held_by
from gradgate.tuner.state import STATE_FILE, TENSORS_FILE, read_state, resumed_by_plan, write_state


class GateCallback(TrainerCallback):  # type: ignore[misc]
    """Train with a method: ``Trainer(..., callbacks=[GateCallback("gradual:every=50")])``.

    The tuner attaches when training begins, after the optimizer was built with every parameter in it, and
    detaches when it ends or raises. An optimizer that steps several others, such as Muon and AdamW from a factory of
    ``optimizer_cls_and_kwargs``, counts as all of them. The tuner's state is saved in each checkpoint as
    ``gradgate.json``, with ``gradgate.safetensors`` for methods that keep tensors, and restored on resume, from any
    folder. With each loss, Trainer logs :attr:`gradgate.Tuner.metrics`. A warning says so if Trainer adds up the losses
    of accumulated batches without dividing.

    Args:
        method: a method or its text.
        seed: of the method's random draws; None takes the Trainer's ``args.seed``.
        audit: see :class:`gradgate.Tuner`.
        layers: see :class:`gradgate.Tuner`.
        fisher_data: see :class:`gradgate.Tuner`; by default the training's batches, in an order of their own. Methods
            that measure need it if the data are a stream, or if the model does not take the batches.
        activation_cache: see :class:`gradgate.ActivationCache`; pass a folder for a cache with its defaults.
        frozen_dropout: see :class:`gradgate.Tuner`.
        lr_scale: see :class:`gradgate.Tuner`.
        master: see :class:`gradgate.Tuner`.
        release_gradients: see :class:`gradgate.Tuner`; Trainer must not clip (``max_grad_norm=0``) or accumulate.

    Attributes:
        tuner: the tuner of the current or latest training; None before the first.
    """

    def __init__(
        self,
        method: Method | str,
        *,
        seed: int | None = None,
        audit: bool | None = None,
        layers: LayerMap | str | None = None,
        fisher_data: Batches | None = None,
        activation_cache: ActivationCache | str | Path | None = None,
        frozen_dropout: bool = False,
        lr_scale: Mapping[str, float] | None = None,
        master: MasterPrecision | None = None,
        release_gradients: bool = False,
    ) -> None:
        self.method = read_method(method)
        self.seed = seed
        self.audit = audit
        self.layers = layers
        self.fisher_data = fisher_data
        if isinstance(activation_cache, str) and not activation_cache.strip():
            raise UsageError(f"activation_cache={activation_cache!r}: expected a folder; '.' is the current one.")
        if isinstance(activation_cache, str):
            check_folder("activation_cache", activation_cache)
        self.activation_cache = (
            ActivationCache(folder=typed_path(activation_cache))
            if isinstance(activation_cache, str | Path)
            else activation_cache
        )
        self.frozen_dropout = frozen_dropout
        self.lr_scale = lr_scale
        self.master = master
        self.release_gradients = release_gradients
        self.tuner: Tuner | None = None
        self._leave_trainer: Callable[[], None] = _nothing

    @property
    def setup(self) -> None:
        """Refuse Lightning's Trainer, which calls this first.

        Raises:
            AttachError: always.
        """
        raise AttachError(
            "gg.GateCallback is for transformers' Trainer. For Lightning's, use gg.lightning.GateCallback with the "
            "same method (pip install 'gradgate[lightning]')."
        )

    on_exception = setup  # Lightning looks it up to pass on what setup raised

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Make the tuner detach if training raises, for which Trainer has no event."""
        caller = calling_trainer(self)
        if caller is not None:
            ends_on_exception(caller.trainer, self._break_off)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Attach the tuner; if training resumes, restore its state from the checkpoint."""
        _refuse_copies(args)
        if self.release_gradients:
            _refuse_release(args)
        self._break_off()  # of a training that was aborted; its weights may have been replaced
        optimizer, dataloader = kwargs["optimizer"], kwargs["train_dataloader"]
        seed = args.seed if self.seed is None else self.seed
        checkpoint = resumed_checkpoint(self, args, state.global_step) if state.global_step > 0 else None
        saved = _saved_state(checkpoint, optimizer, self.method)
        try:
            self.tuner = Tuner(
                kwargs["model"],
                optimizer,
                self.method,
                total_steps=state.max_steps,
                steps_per_epoch=_steps_per_epoch(args, dataloader),
                seed=seed,
                audit=self.audit,
                layers=self.layers,
                fisher_data=self.fisher_data or batches_of(dataloader, seed),
                state=saved,
                activation_cache=self.activation_cache,
                frozen_dropout=self.frozen_dropout,
                lr_scale=self.lr_scale,
                master=self.master,
                release_gradients=self.release_gradients,
            )
        except RunError as error:
            if saved is None:
                raise
            raise RunError(f"Cannot resume from {checkpoint}: {error}") from None
        if state.global_step > 0 and saved is None:
            self.tuner.resume_at(state.global_step)
        caller = calling_trainer(self)
        if caller is not None:
            self._leave_trainer = in_training(caller.trainer, self._break_off, self._metrics)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the tuner's state into the checkpoint that Trainer has just saved."""
        if self.tuner is None:
            return
        values = self.tuner.state_dict()  # collective: each process contributes its part of sharded tensors
        if args.should_save:  # also on the other nodes, with save_on_each_node=True
            write_state(saved_checkpoint(self, args, state.global_step), values)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Detach the tuner."""
        if self.tuner is not None:
            best_weights_loaded = args.load_best_model_at_end and state.best_model_checkpoint is not None
            self.tuner.detach(audit=not best_weights_loaded)
        self._leave_trainer()

    def _break_off(self) -> None:
        """Free the model and the trainer after a training that did not end."""
        if self.tuner is not None:
            self.tuner.detach(audit=False)
        self._leave_trainer()

    def _metrics(self) -> Mapping[str, float]:
        return {} if self.tuner is None else self.tuner.metrics


def _nothing() -> None:
    """Do nothing: no trainer was changed."""


def _saved_state(checkpoint: Path | None, optimizer: Any, method: Method) -> dict[str, Any] | None:
    """Return the tuner's state in the checkpoint to resume from, with the optimizer's reloaded; None without one.

    Raises:
        RunError: if the checkpoint has none, and the method cannot resume by the step alone.
    """
    if checkpoint is None:
        return None
    if (checkpoint / STATE_FILE).is_file():
        saved = read_state(checkpoint)
        _load_states(optimizer, checkpoint, saved)
        return saved
    lacking = f"{checkpoint} has no {STATE_FILE}: it was saved without GateCallback, or the file was not copied with it"
    remedy = (
        f"Copy {STATE_FILE}, and {TENSORS_FILE} if there is one, from the checkpoint that was saved; or start a new "
        f"training from its weights, without resume_from_checkpoint."
    )
    warnings.warn(resumed_by_plan(method, lacking, remedy), GradgateWarning, stacklevel=2)
    return None


def _refuse_copies(args: TrainingArguments) -> None:
    """Refuse DataParallel, whose copies of the model are not the one that the tuner attached to."""
    if args.n_gpu > 1:
        raise AttachError(
            f"Trainer would train copies of the model on {args.n_gpu} GPUs by DataParallel, and the tuner works on the "
            f"model itself. Start one process per GPU, 'torchrun --nproc-per-node {args.n_gpu} SCRIPT', or let it see "
            f"one: CUDA_VISIBLE_DEVICES=0."
        )


def _refuse_release(args: TrainingArguments) -> None:
    """Refuse gradient release if Trainer acts on gradients between the backward pass and the step."""
    refused = {
        f"max_grad_norm={args.max_grad_norm}: clipping needs all gradients at once": (args.max_grad_norm or 0) > 0,
        f"gradient_accumulation_steps={args.gradient_accumulation_steps}: a step needs several backward passes": (
            args.gradient_accumulation_steps > 1
        ),
        "fp16: gradients are scaled until the step": args.fp16,
    }
    reasons = [reason for reason, applies in refused.items() if applies]
    if reasons:
        raise UsageError(
            f"release_gradients cannot be combined with {'; or with '.join(reasons)}. Train without, or leave "
            f"release_gradients out."
        )


def _load_states(optimizer: Any, checkpoint: Path, saved: Mapping[str, Any]) -> None:
    """Reload the optimizer states of masters, which torch rounded when Trainer loaded them without the tuner.

    Sharded optimizers are left alone: Trainer's file has the states of one process, and
    :func:`gradgate.training.fsdp.load_optimizer` keeps their bits.
    """
    file, optimizers = checkpoint / "optimizer.pt", Optimizers(optimizer)
    if has_masters(saved) and file.is_file() and not any(is_sharded(p) for one in optimizers for p in held_by(one)):
        with Float32States(optimizers):
            optimizer.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))


def _steps_per_epoch(args: TrainingArguments, dataloader: Any) -> int | None:
    try:
        batches: int = len(dataloader)
    except TypeError:
        return None
    accumulated: int = args.gradient_accumulation_steps
    return max(1, -(-batches // accumulated))
