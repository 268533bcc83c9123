"""Translate the names of Hugging Face's ``TrainingArguments`` into gradgate's."""

from __future__ import annotations

_NAMES = {
    "learning_rate": "lr",
    "num_train_epochs": "epochs",
    "num_epochs": "epochs",
    "max_steps": "steps",
    "num_training_steps": "steps",
    "per_device_train_batch_size": "batch_size",
    "per_device_eval_batch_size": "batch_size",
    "train_batch_size": "batch_size",
    "eval_batch_size": "batch_size",
    "gradient_accumulation_steps": "accumulate",
    "warmup_ratio": "warmup",
    "warmup_steps": "warmup",
    "lr_scheduler_type": "schedule",
    "max_grad_norm": "clip",
    "optimizer": "optim",
    "bf16": "precision='bf16'",
    "fp16": "precision='fp16'",
    "torch_dtype": "weights",
    "dtype": "weights",
    "gradient_checkpointing": "checkpointing",
    "use_cpu": "device='cpu'",
    "no_cuda": "device='cpu'",
    "output_dir": "out",
    "eval_steps": "eval_every",
    "eval_strategy": "eval_every",
    "evaluation_strategy": "eval_every",
    "save_steps": "save_every",
    "save_strategy": "save_every",
    "metric_for_best_model": "metric",
    "max_seq_length": "max_length",
    "model_max_length": "max_length",
    "model_name_or_path": "model",
    "model_name": "model",
    "task_name": "task",
    "dataset_name": "task",
    "data_seed": "seed",
    "validation_file": "dev_file",
    "eval_file": "dev_file",
}
"""A name of Trainer -> gradgate's, with a value where it is one of several."""


def gradgate_name(name: str) -> str | None:
    """Return gradgate's name for a name of Trainer, as ``lr=`` or ``precision='bf16'``; None for another name.

    Args:
        name: as typed, in Python's spelling or a flag's.
    """
    ours = _NAMES.get(name.lstrip("-").replace("-", "_"))
    return ours if ours is None or "=" in ours else f"{ours}="
