"""Hugging Face's Trainer, put right where a run needs it exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_model
from transformers import Trainer

from gradgate.errors import NonFiniteError

WEIGHTS_FILE = "model.safetensors"
_REMEDY = "Lower --lr, raise --warmup, or use --precision fp32 or bf16."


class RunTrainer(Trainer):  # type: ignore[misc]
    """A Trainer that accumulates exactly, resumes exactly, and stops when the loss is no number any more."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """A batch's part in the mean loss over all batches that are accumulated for one step.

        Trainer leaves that to the model, but classification heads take the mean over the batch that they see.
        """
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
        if num_items_in_batch is not None:
            processes = self.accelerator.num_processes if self.args.average_tokens_across_devices else 1
            loss = loss * ((inputs["labels"] != -100).sum() / num_items_in_batch * processes)
        return (loss, outputs) if return_outputs else loss

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """One forward and backward pass; NonFiniteError names the optimizer step."""
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        if not bool(torch.isfinite(loss)):
            raise NonFiniteError(f"The loss of step {self.state.global_step + 1} is {float(loss)}. {_REMEDY}")
        return loss

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score the dev split; NonFiniteError names the optimizer step."""
        try:
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        except NonFiniteError as error:
            raise NonFiniteError(f"After step {self.state.global_step}: {error}. {_REMEDY}") from None
        return metrics

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write a checkpoint's weights under their names in memory.

        ``save_pretrained`` renames the tensors of some models, and Trainer's resume, which knows only the names in
        memory, would start such a model from its pretrained weights again without a word.
        """
        if not self.args.should_save:  # another process does
            return
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self.model, str(folder / WEIGHTS_FILE))

    def _run_epoch(self, **kwargs: Any) -> None:
        # Resumed after the last step, but within an epoch, Trainer would take one step more.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(**kwargs)
