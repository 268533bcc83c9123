"""Adapt Trainer to a run: exact accumulation and resume, and a stop at a NaN or infinite loss."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional
from transformers import Trainer

from gradgate import hub
from gradgate.distributed import launch
from gradgate.errors import NonFiniteError, UsageError
from gradgate.files import read_json, write_json
from gradgate.runs.folder import RunFolder
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.tasks.types import IGNORED
from gradgate.training import fsdp
from gradgate.training.checkpoint_weights import read_weights, write_weights
from gradgate.training.class_weights import ClassWeights
from gradgate.training.quantized import shown_as_adapted
from gradgate.training.split_loss import SplitLossTrainer


def check_complete(trainer: Trainer, folder: RunFolder) -> None:
    """Raise InterruptedRunError if a training stopped before its last step."""
    state = trainer.state
    if state.global_step < state.max_steps:
        raise InterruptedRunError(
            f"Stopped at step {state.global_step} of {state.max_steps}; the state is saved in {folder.path}. Run the "
            f"same command again to resume."
        )


WEIGHTS_FILE = "model.safetensors"
_REMEDY = "Lower lr=, raise warmup=, or use precision='fp32' or bf16."


class ExactTrainer(SplitLossTrainer):
    """A Trainer that resumes exactly, scores exactly, and stops when the loss becomes NaN or infinite.

    A model that :func:`gradgate.training.fsdp.shard` has sharded is not wrapped, like a model that transformers
    itself has sharded.
    """

    def __init__(self, **options: Any) -> None:
        with shown_as_adapted(options.get("model")):
            super().__init__(**options)
        self._sharded = fsdp.is_sharded(self.model)
        if self._sharded:  # Trainer and accelerate read these to tell that the model is already distributed
            self.is_distributed_loading_by_transformers = True
            self.model._is_fsdp_managed_module = True

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """Build the optimizer that the arguments name; raise UsageError if its package is not installed."""
        try:
            made: torch.optim.Optimizer = super().create_optimizer(*args, **kwargs)
        except (ImportError, ValueError) as error:  # Trainer raises either
            raise UsageError(
                f"optim={self.args.optim.value} cannot be built: {hub.first_line(error)}. Install the package that it "
                f"needs, or pass another one, such as adamw_torch."
            ) from error
        return made

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Run one forward and backward pass; raise NonFiniteError with the optimizer step if the loss is not finite."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        # In all processes at once: one that stopped alone would leave the others waiting for its gradients.
        launch.raise_together(None if bool(torch.isfinite(loss)) else self._non_finite(loss, args))
        return loss

    def _non_finite(self, loss: torch.Tensor, args: tuple[Any, ...]) -> NonFiniteError:
        """Return the error for a loss that is not finite, with its cause if one is found."""
        wrong = f"The loss of step {self.state.global_step + 1} is {float(loss)}."
        labels = args[1].get("labels") if len(args) > 1 else None
        if labels is not None and not bool(torch.isfinite(labels.float()).all()):
            return NonFiniteError(f"{wrong} A label is too large for float32. Correct the training data.")
        broken = [name for name, weight in self.model.named_parameters() if not bool(torch.isfinite(weight).all())]
        if broken and self.state.global_step == 0:
            return NonFiniteError(f"{wrong} The pretrained weights {broken[0]} are not finite. Pass another model=.")
        return NonFiniteError(f"{wrong} {_REMEDY}")

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score the dev split; raise NonFiniteError with the optimizer step if an output is not finite."""
        with self.telling_step():
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        return metrics

    @contextmanager
    def telling_step(self) -> Iterator[None]:
        """Add the optimizer step to a NonFiniteError of the body."""
        try:
            yield
        except NonFiniteError as error:
            raise NonFiniteError(f"After step {self.state.global_step}: {error}. {_REMEDY}") from None

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write a checkpoint's weights under their names in memory.

        ``save_pretrained`` renames the tensors of some models, and Trainer's resume, which knows only the names in
        memory, would silently restart such a model from its pretrained weights.
        """
        folder = Path(output_dir or self.args.output_dir)
        if self._sharded:
            fsdp.save_whole(self.model, folder / WEIGHTS_FILE)
        elif self.args.should_save:  # else another process does
            folder.mkdir(parents=True, exist_ok=True)
            write_weights(self.model, folder / WEIGHTS_FILE)

    def load_weights(self, folder: Path) -> None:
        """Load the weights that :meth:`save_model` wrote into the model."""
        if self._sharded:
            fsdp.load_whole(self.model, folder / WEIGHTS_FILE)
        else:
            read_weights(self.model, folder / WEIGHTS_FILE)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        self.load_weights(Path(resume_from_checkpoint))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self._sharded:
            fsdp.save_optimizer(self.optimizer.optimizer, Path(output_dir))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if self._sharded and checkpoint is not None:
            fsdp.load_optimizer(self.optimizer.optimizer, Path(checkpoint))
            scheduler = torch.load(Path(checkpoint) / "scheduler.pt", weights_only=True)
            self.lr_scheduler.load_state_dict(scheduler)
        else:
            super()._load_optimizer_and_scheduler(checkpoint)

    @contextmanager
    def _defer_fsdp_gradient_reduction(self) -> Iterator[None]:
        self.model.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.model.set_requires_gradient_sync(True)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        super()._save_checkpoint(*args, **kwargs)
        # Trainer has the losses since the latest log only in memory. A checkpoint between two logs, such as one at a
        # stop, must contain them, or the next logged loss would differ after a resume.
        since, losses = self._globalstep_last_logged, getattr(self, "_tr_loss", None)
        if since < self.state.global_step and losses is not None:
            folder = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            write_json(folder / self._losses_file, {"since": since, "sum": float(losses)})

    @property
    def _losses_file(self) -> str:
        """Name of the file in a checkpoint; each process has its own."""
        return f"losses-{self.args.process_index}.json"

    def _run_epoch(self, **kwargs: Any) -> None:
        # When resumed after the last step, but within an epoch, Trainer would take one more step.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        if not self.control.should_training_stop:
            if kwargs["resume_from_checkpoint"] and kwargs["epoch"] == kwargs["epochs_trained"]:
                self._load_losses(Path(kwargs["resume_from_checkpoint"]) / self._losses_file)
            super()._run_epoch(**kwargs)

    def _load_losses(self, file: Path) -> None:
        if file.is_file():
            saved = read_json(file)
            self._globalstep_last_logged = saved["since"]
            self._tr_loss.fill_(saved["sum"])


class RunTrainer(ExactTrainer):
    """Trains models whose heads compute their own loss, with exact accumulation.

    Args:
        class_weights: weight the loss of training; None leaves it to the head.
        options: those of Trainer.
    """

    def __init__(self, *, class_weights: ClassWeights | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.class_weights = class_weights

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return a batch's share of the mean loss over all batches that are accumulated for one step.

        Trainer leaves that to the model, but heads average over their own batch only, and those for answers count
        padding.
        """
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        if "start_positions" in inputs:
            loss = _span_loss(outputs, inputs)
        if self.class_weights is not None and model.training:
            loss = self.class_weights.loss(outputs["logits"], inputs["labels"])
        if num_items_in_batch is not None:
            processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
            loss = loss * ((self.items(inputs) != IGNORED).sum() / num_items_in_batch * processes)
        return (loss, outputs) if return_outputs else loss

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> Any:
        # Trainer counts labels; if these are positions of answers, a window is an item.
        return super()._get_num_items_in_batch([{"labels": self.items(batch)} for batch in batch_samples], device)

    def items(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the labels by which an accumulated batch is weighted: those in its mean loss."""
        items: torch.Tensor = batch["start_positions"] if "start_positions" in batch else batch["labels"]
        # A score may be -100, which among classes marks what is not in the loss.
        return torch.zeros(len(items), device=items.device) if items.is_floating_point() else items


def dev_scores(metrics: dict[str, Any]) -> dict[str, float]:
    """Return Trainer's evaluation metrics without their prefix and without timings."""
    timings = ("runtime", "samples_per_second", "steps_per_second", "model_preparation_time")
    named = {name.removeprefix("eval_"): value for name, value in metrics.items() if name.startswith("eval_")}
    return {name: float(value) for name, value in named.items() if name not in timings}


def _span_loss(outputs: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return half the sum of the mean cross-entropies of start and end, each over the windows of a batch.

    Models take padding for possible positions of an answer, so that the loss of a window depends on the longest one
    of its batch, and the loss of a batch on how it is split. Here padding does not count.

    Args:
        outputs: with ``start_logits`` and ``end_logits``, shape ``(windows, sub-words)``.
        batch: with ``start_positions`` and ``end_positions``, shape ``(windows,)``, and ``attention_mask``.
    """
    losses = []
    for side in ("start", "end"):
        logits = outputs[f"{side}_logits"].float().masked_fill(batch["attention_mask"] == 0, -torch.inf)
        losses.append(functional.cross_entropy(logits, batch[f"{side}_positions"]))
    return (losses[0] + losses[1]) / 2
