"""Adapt TRL's ``SFTTrainer`` to a run: its loss, with exact resume and scores. Needs ``gradgate[llm]``."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer

from gradgate.training.generation.packing import packing_collator
from gradgate.training.generation.trainer import GenerationTrainer


class DecoderTrainer(GenerationTrainer, SFTTrainer):  # type: ignore[misc]
    """Trains decoders with TRL's loss on rows that are already token ids.

    Args:
        args: of the run.
        packed: whether a training row has several examples, which must not attend to one another.
        options: as of :class:`GenerationTrainer`; the collator is TRL's.
    """

    aux_loss_enabled: bool

    def __init__(self, *, args: TrainingArguments, packed: bool, **options: Any) -> None:
        super().__init__(args=_sft_config(args), **options)
        self._packed = packed
        self.model_accepts_loss_kwargs = True  # TRL's loss takes the number of tokens, whatever the model does
        self._loss_shifts_labels = False  # as counted below

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> Any:
        return super()._get_num_items_in_batch([{"labels": self.learned(batch)} for batch in batch_samples], device)

    def learned(self, batch: dict[str, Any]) -> Any:
        """Return all labels but the first, which has no token before it to predict it from."""
        return batch["labels"][..., 1:]

    def get_train_dataloader(self) -> Any:
        """Return the batches; packed rows are joined to one row, whose positions separate the examples."""
        usual = self.data_collator
        if self._packed:
            self.data_collator: Any = packing_collator(usual.pad_token_id)
        try:
            return super().get_train_dataloader()
        finally:
            self.data_collator = usual

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """Score a split by its tokens alone; TRL adds the loss that balances a mixture's experts."""
        adds, self.aux_loss_enabled = self.aux_loss_enabled, False
        try:
            return super().evaluation_loop(*args, **kwargs)
        finally:
            self.aux_loss_enabled = adds

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log what Trainer logs; TRL's running means would not be the same after a resume."""
        for means in self._metrics.values():
            means.clear()
        super().log(logs, start_time)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: checkpoints of a run are not published."""

    def _send_telemetry(self) -> None:
        """Do nothing: a run sends no telemetry."""


def _sft_config(args: TrainingArguments) -> SFTConfig:
    changes = {"max_length": None, "dataset_kwargs": {"skip_prepare_dataset": True}}
    config = SFTConfig(**{**args.to_dict(), "hub_token": args.hub_token, **changes})  # to_dict hides the token
    config.report_to = args.report_to  # SFTConfig adds those that the environment turns on
    config._n_gpu = min(1, config.n_gpu)  # one GPU per process: TRL refuses DataParallel
    return config
