"""The settings of a run as Trainer takes them."""

from __future__ import annotations

import torch
from transformers import TrainingArguments

from gradgate.errors import RunError
from gradgate.training import launched
from gradgate.training.config import RunConfig
from gradgate.training.folder import RunFolder


def on_cpu(config: RunConfig) -> bool:
    """Whether the run is on the CPU: wished, or nothing else is there."""
    return config.device == "cpu" or not torch.accelerator.is_available()


def training_arguments(config: RunConfig, folder: RunFolder, examples: int) -> TrainingArguments:
    """What Trainer is told; a run scores and saves once an epoch where the configuration does not say otherwise.

    Args:
        config: of the run.
        folder: where its checkpoints go.
        examples: rows of the training split.

    Raises:
        RunError: if the precision needs a GPU and the run is on the CPU.
    """
    batches = -(-examples // (config.batch_size * launched.count()))
    steps_per_epoch = -(-batches // config.accumulate)
    usual = min(steps_per_epoch, config.steps or steps_per_epoch)
    cpu = on_cpu(config)
    if cpu and config.precision == "fp16":
        raise RunError("--precision fp16 needs a GPU, and this run is on the CPU. Use bf16 or fp32.")
    return TrainingArguments(
        output_dir=str(folder.checkpoints),
        per_device_train_batch_size=config.batch_size,
        per_device_eval_batch_size=max(64, config.batch_size),
        gradient_accumulation_steps=config.accumulate,
        learning_rate=config.peak_lr,
        lr_scheduler_type=config.schedule,
        warmup_steps=config.warmup,
        weight_decay=config.weight_decay,
        max_grad_norm=config.clip,
        seed=config.seed,
        use_cpu=cpu,
        bf16=config.precision == "bf16",
        fp16=config.precision == "fp16",
        eval_strategy="steps",
        eval_steps=config.eval_every or usual,
        save_strategy="steps",
        save_steps=config.save_every or usual,
        save_total_limit=2,
        logging_steps=max(1, usual // 10),
        report_to="none",
        dataloader_pin_memory=not cpu,
        ddp_backend="gloo" if cpu and launched.count() > 1 else None,
        ddp_find_unused_parameters=True,  # methods close what DDP would else wait for
        disable_tqdm=True,
        **config.length,
    )
