"""Build the arguments of Trainer from the configuration of a run."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.training_args import OptimizerNames

from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError, nearest
from gradgate.runs.folder import RunFolder
from gradgate.settings.run import RunConfig

_WITH_WARMUP = {"constant": "constant_with_warmup"}
"""The schedules of transformers that have no warm-up, and those that have one."""
_LEAST_SCORED = 64


def scored_rows(batch_size: int) -> int:
    """Return the rows of a forward pass that scores, by those of one that trains; generation has only as many."""
    return max(_LEAST_SCORED, batch_size)


def on_cpu(config: RunConfig) -> bool:
    """Return True if the run is on the CPU, by its configuration or for lack of an accelerator."""
    return config.device == "cpu" or not torch.accelerator.is_available()


def training_arguments(config: RunConfig, folder: RunFolder, examples: int, **changes: Any) -> TrainingArguments:
    """Build the arguments of Trainer; by default, a run scores and saves once per epoch.

    Args:
        config: of the run.
        folder: of the run, for its checkpoints.
        examples: rows of the training split.
        changes: arguments that replace those of the configuration.

    Raises:
        RunError: if the precision needs a GPU and the run is on the CPU.
        UsageError: for an optimizer that Trainer does not know.
    """
    if on_cpu(config) and config.pass_precision == "fp16":
        raise RunError("precision='fp16' needs a GPU, and this run is on the CPU. Use bf16 or fp32.")
    usual = _every_run(config, folder) | _optimization(config) | _intervals(config, examples)
    return _arguments(usual | changes)


def _arguments(values: dict[str, Any]) -> TrainingArguments:
    """Build Trainer's arguments; they report to no tracker but the given ones, whatever the environment turns on.

    A process takes one GPU: on several, Trainer would train copies with DataParallel, on batches as many times larger.
    """
    arguments = TrainingArguments(**values)
    arguments.report_to = values["report_to"]
    arguments._n_gpu = min(1, arguments.n_gpu)
    return arguments


def _checkpointing(config: RunConfig) -> dict[str, Any]:
    """Return the argument that turns checkpointing on, by its name in this version of transformers."""
    names = [item.name for item in fields(TrainingArguments) if item.name.endswith("_checkpointing")]
    return {min(names): True} if config.checkpointing else {}  # activation_ is the newer one of two


def _optimizer(config: RunConfig) -> dict[str, Any]:
    """Return the argument of the optimizer, if any; raise UsageError for a name that Trainer does not know."""
    if config.optim is None:
        return {}
    known = [str(name.value) for name in OptimizerNames]
    if config.optim not in known:
        raise UsageError(
            f"optim={config.optim}: Trainer has no such optimizer.{nearest(config.optim, known)} Known: "
            f"{', '.join(known)}."
        )
    return {"optim": config.optim}


def _every_run(config: RunConfig, folder: RunFolder) -> dict[str, Any]:
    cpu = on_cpu(config)
    return {
        "output_dir": str(folder.checkpoints),
        "per_device_eval_batch_size": scored_rows(config.batch_size),
        "use_cpu": cpu,
        "bf16": config.pass_precision == "bf16",
        "fp16": config.pass_precision == "fp16" and not cpu,
        "report_to": [],
        "dataloader_pin_memory": not cpu,
        "disable_tqdm": True,
    }


def _optimization(config: RunConfig) -> dict[str, Any]:
    return dict(
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.accumulate,
        learning_rate=config.peak_lr,
        lr_scheduler_type=_WITH_WARMUP.get(config.schedule, config.schedule),
        warmup_steps=config.warmup,
        weight_decay=config.weight_decay,
        max_grad_norm=config.clip,
        seed=config.seed,
        ddp_backend="gloo" if on_cpu(config) and launch.count() > 1 else None,
        ddp_find_unused_parameters=True,  # DDP would wait for the gradients of frozen parameters
        **_checkpointing(config),
        **_optimizer(config),
        **config.length,
    )


def _intervals(config: RunConfig, examples: int) -> dict[str, Any]:
    """Return the arguments of scoring, saving and logging: by default once per epoch, with ten losses per epoch."""
    batches = -(-examples // (config.batch_size * launch.count()))
    steps_per_epoch = -(-batches // config.accumulate)
    usual = min(steps_per_epoch, config.steps or steps_per_epoch)
    return {
        "eval_strategy": "steps",
        "eval_steps": config.eval_every or usual,
        "save_strategy": "steps",
        "save_steps": config.save_every or usual,
        "save_total_limit": 2,
        "logging_steps": max(1, usual // 10),
    }


def scoring_arguments(config: RunConfig, folder: RunFolder, batch_size: int | None = None) -> TrainingArguments:
    """Build the arguments of a Trainer that only scores a finished run, in its precision if this device has it.

    Args:
        config, folder: of the run.
        batch_size: rows per forward pass; by default as during training.
    """
    size = {} if batch_size is None else {"per_device_eval_batch_size": batch_size}
    return _arguments(_every_run(config, folder) | size)
