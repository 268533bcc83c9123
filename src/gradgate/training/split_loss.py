"""Weight the losses of batches to the mean loss of a split, however it is batched and over however many processes."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Trainer

from gradgate.distributed import launch
from gradgate.tasks.types import IGNORED


class SplitLossTrainer(Trainer):  # type: ignore[misc]
    """A Trainer whose loss of a split is the mean over its rows, or over what :meth:`weight` counts."""

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> Any:
        """Run one forward pass; if losses are weighted here, add the loss of the rows that only this process has."""
        result = super().prediction_step(model, dict(inputs), prediction_loss_only, ignore_keys)  # TRL adds to inputs
        if self.weighs_losses and result[0] is not None:
            own, filled_up = self._own_rows(inputs)
            loss, part = float(result[0]), inputs
            # The last batch repeats rows of others, so their loss is computed again without them. Every process does
            # so, even without rows of its own: FSDP2 gathers weights in a forward pass, which takes all processes.
            if filled_up:
                part = self._prepare_inputs({name: value[: max(1, own)] for name, value in inputs.items()})
                with torch.no_grad(), self.compute_loss_context_manager():
                    loss = float(self.compute_loss(self.accelerator.unwrap_model(model), part))
            weight = self.weight(part) if own else 0
            self._dev_loss += torch.tensor([loss * weight, weight], dtype=torch.float64)
        return result

    @property
    def weighs_losses(self) -> bool:
        """True if this class averages the losses of batches; in one process, Trainer weights them by rows."""
        return launch.count() > 1

    def weight(self, batch: dict[str, Any]) -> int:
        """Return the weight of a batch's mean loss in the mean of its split: its number of rows."""
        return len(next(iter(batch.values())))

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Score a split; its loss is the mean over its rows, even if processes repeat some to fill up batches."""
        self._dev_loss = torch.zeros(2, dtype=torch.float64)
        output = super().evaluation_loop(*args, **kwargs)
        total, weights = launch.add_up(self._dev_loss).tolist()
        losses = [name for name in output.metrics if name.endswith("_loss")]
        if weights and losses:
            output.metrics[losses[0]] = total / weights
        return output

    def _own_rows(self, inputs: dict[str, Any]) -> tuple[int, bool]:
        """Return how many rows of this process's batch count, and True if the last batch was filled up with others."""
        rows, state = len(next(iter(inputs.values()))), self.accelerator.gradient_state
        if launch.count() == 1 or not state.end_of_dataloader or state.remainder <= 0:
            return rows, False
        return min(rows, max(0, state.remainder - rows * self.args.process_index)), True


class TokenLossTrainer(SplitLossTrainer):
    """Scores a split by the mean loss of its tokens."""

    @property
    def weighs_losses(self) -> bool:
        """True: a batch is weighted by its tokens."""
        return True

    def weight(self, batch: dict[str, Any]) -> int:
        """Return the number of tokens in the mean loss of a batch."""
        return int((self.learned(batch) != IGNORED).sum())

    def learned(self, batch: dict[str, Any]) -> Any:
        """Return the labels of a batch that are predicted."""
        return batch["labels"]
