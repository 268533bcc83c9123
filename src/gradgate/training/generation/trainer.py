"""Train models that generate text: score a split by the loss of its tokens and, on request, by generated texts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradgate.errors import NonFiniteError
from gradgate.training.split_loss import TokenLossTrainer
from gradgate.training.trainer import ExactTrainer, RunTrainer

_LARGEST_EXPONENT = 700.0  # exp() of more overflows a float


class GenerationTrainer(TokenLossTrainer, ExactTrainer):
    """Scores a split by the mean loss of its tokens and their perplexity, and by texts if ``generates`` is set.

    Args:
        text_scores: generates texts for the current split with the model that is passed, and scores them.
        generates: whether each score includes the scores of texts.
        options: those of Trainer, without ``compute_metrics``.
    """

    def __init__(self, *, text_scores: Callable[[Any], dict[str, float]], generates: bool, **options: Any) -> None:
        self.text_scores, self.generates = text_scores, generates
        self._scores_dev = False
        super().__init__(**options)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Score the dev split; raise NonFiniteError with the optimizer step if its loss is not finite."""
        self._scores_dev = True
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            self._scores_dev = False

    def evaluation_loop(self, dataloader: Any, description: str, *_: Any, **options: Any) -> Any:
        """Score a split by its loss, without storing the model's outputs over the vocabulary."""
        output = super().evaluation_loop(dataloader, description, **{**options, "prediction_loss_only": True})
        name = next(name for name in output.metrics if name.endswith("_loss"))
        if self._scores_dev and not math.isfinite(output.metrics[name]):  # before anything is logged or stored
            raise NonFiniteError(f"the loss on dev is {output.metrics[name]}")
        prefix = name.removesuffix("loss")
        output.metrics[f"{prefix}perplexity"] = math.exp(min(output.metrics[name], _LARGEST_EXPONENT))
        if self.generates:
            scores = self.text_scores(self.accelerator.unwrap_model(self.model))
            output.metrics.update({f"{prefix}{metric}": value for metric, value in scores.items()})
        return output


class EncoderDecoderTrainer(GenerationTrainer, RunTrainer):
    """Trains encoder-decoders with the models' own loss."""
