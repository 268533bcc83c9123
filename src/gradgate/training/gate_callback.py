"""Run a tuner inside Hugging Face's Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.activation_cache import ActivationCache
from gradgate.distributed.shards import is_sharded
from gradgate.errors import RunError, UsageError
from gradgate.layers import LayerMap
from gradgate.measure import Batches
from gradgate.measure.batches import batches_of
from gradgate.methods.base import Method
from gradgate.methods.catalog import method as read_method
from gradgate.tuner import Tuner
from gradgate.tuner.float32_states import Float32States
from gradgate.tuner.masters import MasterPrecision, has_masters
from gradgate.tuner.optimizers import Optimizers, held_by
from gradgate.tuner.state import STATE_FILE, read_state, write_state


class GateCallback(TrainerCallback):  # type: ignore[misc]
    """Train with a method: ``Trainer(..., callbacks=[GateCallback("gradual:every=50")])``.

    The tuner attaches when training begins, after the optimizer was built with every parameter in it, and
    detaches when it ends. An optimizer that steps several others, such as Muon and AdamW from a factory of
    ``optimizer_cls_and_kwargs``, counts as all of them. The tuner's state is saved in each checkpoint as
    ``gradgate.json``, with ``gradgate.safetensors`` for methods that keep tensors, and restored on resume.

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
        self.activation_cache = (
            ActivationCache(folder=Path(activation_cache))
            if isinstance(activation_cache, str | Path)
            else activation_cache
        )
        self.frozen_dropout = frozen_dropout
        self.lr_scale = lr_scale
        self.master = master
        self.release_gradients = release_gradients
        self.tuner: Tuner | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Attach the tuner; if training resumes, restore its state from the checkpoint."""
        if self.release_gradients:
            _refuse_release(args)
        if self.tuner is not None:  # from an aborted training; its weights may have been replaced
            self.tuner.detach(audit=False)
        optimizer, dataloader = kwargs["optimizer"], kwargs["train_dataloader"]
        seed = args.seed if self.seed is None else self.seed
        checkpoint = _checkpoint(args, state)
        saved = None if checkpoint is None else read_state(checkpoint)
        if checkpoint is not None and saved is not None:
            _load_states(optimizer, checkpoint, saved)
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
            if checkpoint is None:
                raise
            raise RunError(f"Cannot resume from {checkpoint}: {error}") from None
        if state.global_step > 0 and saved is None:
            self.tuner.resume_at(state.global_step)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the tuner's state into the checkpoint that Trainer has just saved."""
        if self.tuner is None:
            return
        values = self.tuner.state_dict()  # collective: each process contributes its part of sharded tensors
        if state.is_world_process_zero:
            write_state(Path(args.output_dir) / f"checkpoint-{state.global_step}", values)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Detach the tuner."""
        if self.tuner is not None:
            best_weights_loaded = args.load_best_model_at_end and state.best_model_checkpoint is not None
            self.tuner.detach(audit=not best_weights_loaded)


def _checkpoint(args: TrainingArguments, state: TrainerState) -> Path | None:
    """Return the checkpoint to resume from; None if training begins, or it was saved without a tuner."""
    if state.global_step == 0:
        return None
    folders = [Path(args.output_dir) / f"checkpoint-{state.global_step}"]
    if isinstance(args.resume_from_checkpoint, str):
        folders.insert(0, Path(args.resume_from_checkpoint))
    return next((folder for folder in folders if (folder / STATE_FILE).is_file()), None)


def _refuse_release(args: TrainingArguments) -> None:
    """Refuse gradient release if Trainer acts on gradients between the backward pass and the step."""
    refused = {
        f"max_grad_norm={args.max_grad_norm}: clipping needs all gradients at once": args.max_grad_norm > 0,
        f"gradient_accumulation_steps={args.gradient_accumulation_steps}: a step needs several backward passes": (
            args.gradient_accumulation_steps > 1
        ),
        "fp16: gradients are scaled until the step": args.fp16,
    }
    reasons = [reason for reason, applies in refused.items() if applies]
    if reasons:
        raise UsageError(
            f"release_gradients does not go with {'; nor with '.join(reasons)}. Train without, or leave "
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
