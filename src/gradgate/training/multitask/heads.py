"""Put the head of one of several tasks back onto the encoder that they were trained with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from transformers import AutoConfig

from gradgate.errors import RunError
from gradgate.files import remedy
from gradgate.runs.records import TaskRecord
from gradgate.settings.run import RunConfig
from gradgate.tasks import Kind, TaskData, TaskSpec
from gradgate.tasks.kinds.base import make_rows
from gradgate.training.pretrained import load_pretrained


def load_with_head(kind: Kind, spec: TaskSpec, task: TaskRecord, saved: RunConfig, tokenizer: Any, heads: Path) -> Any:
    """Return the whole model of one task: the encoder of ``saved`` with the head in ``heads``.

    Raises:
        RunError: if the head's file is absent, damaged or of another model.
    """
    settings = load_pretrained(AutoConfig, saved, "configuration", **kind.config_overrides(_described(spec, task)))
    if getattr(settings, "pad_token_id", None) is None:
        settings.pad_token_id = tokenizer.pad_token_id
    model = load_pretrained(kind.auto_model, saved, "model", config=settings)
    file = heads / f"{task.name}.safetensors"
    try:
        missing, unexpected = model.load_state_dict(load_file(file), strict=False)
    except (OSError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"Cannot read the head {file}: {reason} {remedy(file)}") from None
    outside = [name for name in missing if not name.startswith(f"{model.base_model_prefix}.")]
    if unexpected or outside:
        raise RunError(
            f"{file} is not the head of a {type(model).__name__} for {task.name}: it "
            f"{f'lacks {outside[0]}' if outside else f'has {unexpected[0]}'}. {remedy(file)}"
        )
    return model


def _described(spec: TaskSpec, task: TaskRecord) -> TaskData:
    """Return a task without rows, which says what its head looks like."""
    nothing = make_rows({}, {})
    return TaskData(spec, nothing, nothing, {}, task.labels, task.fingerprint or "", {})
