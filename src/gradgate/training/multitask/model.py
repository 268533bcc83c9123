"""Share one encoder among the heads of several tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoConfig

from gradgate.errors import RunError
from gradgate.replacing import replaced
from gradgate.settings.run import RunConfig
from gradgate.tasks import Kind, TaskData
from gradgate.training.pretrained import load_for_task, load_pretrained, set_dropout

ENCODER = "encoder"


class MultitaskModel(nn.Module):
    """The models of several tasks over one encoder; a batch goes through the encoder and the head of its task.

    Args:
        encoder: the base model that all heads share.
        heads: task -> its ``AutoModelFor...`` model, without the base model.
    """

    def __init__(self, encoder: Any, heads: Mapping[str, Any]) -> None:
        super().__init__()
        self.config = encoder.config
        self.encoder = encoder
        self.tasks = tuple(heads)
        self.heads = nn.ModuleDict({_key(task): head for task, head in heads.items()})
        for head in heads.values():
            head._modules.pop(head.base_model_prefix, None)
            # An attribute of the head but not a submodule, so that the encoder's parameters are named only once.
            head.__dict__[head.base_model_prefix] = encoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        task_ids: Tensor | None = None,
        **inputs: Any,
    ) -> Any:
        """Return the output of one task's model.

        Args:
            input_ids, attention_mask, inputs: as that model takes them.
            task_ids: shape ``(rows,)``, int64, the index of the task of all rows; None is the first task.
        """
        task = self.tasks[0 if task_ids is None else int(task_ids[0])]
        tensors = {"input_ids": input_ids, "attention_mask": attention_mask}
        return self.head(task)(**{name: value for name, value in tensors.items() if value is not None}, **inputs)

    def head(self, task: str) -> nn.Module:
        """Return the model of a task, whose own parameters are those of its head."""
        return self.heads[_key(task)]

    def __getattr__(self, name: str) -> Any:
        # Trainer turns checkpointing on by a name that depends on the version of transformers.
        if "_checkpointing" in name:
            return getattr(self.encoder, name)
        return super().__getattr__(name)

    @property
    def base_model(self) -> Any:
        """The encoder, under the name that it has in models of transformers."""
        return self.encoder


def load_multitask(
    config: RunConfig,
    tasks: Mapping[str, tuple[Kind, TaskData]],
    tokenizer: Any,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[MultitaskModel, frozenset[str]]:
    """Load the pretrained encoder with a head per task; return it and the names of its fresh parameters.

    The encoder is the largest of those that the heads come with: some kinds of head omit the pooler, others need it.

    Raises:
        RunError: for a model that cannot be loaded, or has no encoder apart from its head.
    """
    heads: dict[str, Any] = {}
    encoder: Any = None
    fresh: set[str] = set()
    of_encoder: set[str] = set()
    for task, (kind, data) in tasks.items():
        model, missing = load_for_task(config, kind, data, tokenizer, _named(note, task))
        prefix = model.base_model_prefix
        base = model._modules.pop(prefix, None)
        if base is None:
            raise RunError(
                f"{type(model).__name__} has no encoder apart from its head, so tasks cannot share it. Train one "
                f"task at a time, or pass another model=."
            )
        inside = {name.removeprefix(f"{prefix}.") for name in missing if name.startswith(f"{prefix}.")}
        fresh |= {f"heads.{_key(task)}.{name}" for name in missing if not name.startswith(f"{prefix}.")}
        if encoder is None or _size(base) > _size(encoder):
            encoder, of_encoder = base, inside
        heads[task] = model
    return MultitaskModel(encoder, heads), frozenset(fresh | {f"{ENCODER}.{name}" for name in of_encoder})


def save_encoder(model: MultitaskModel, config: RunConfig, folder: Path) -> None:
    """Write the encoder as a pretrained model that knows nothing of the tasks."""
    model.encoder.save_pretrained(folder)
    settings = load_pretrained(AutoConfig, config, "configuration")
    set_dropout(settings, config.dropout)
    settings.architectures = [type(model.encoder).__name__]
    settings.dtype = model.encoder.dtype
    settings.save_pretrained(folder)


def save_heads(model: MultitaskModel, folder: Path) -> None:
    """Write ``TASK.safetensors`` for each task: its head's own tensors, under the names of its ``AutoModelFor...``."""
    folder.mkdir(parents=True, exist_ok=True)
    for task in model.tasks:
        tensors = {name: tensor.contiguous() for name, tensor in model.head(task).state_dict().items()}
        with replaced(folder / f"{task}.safetensors") as part:
            save_file(tensors, part, metadata={"format": "pt"})


def _named(note: Callable[[str], None], task: str) -> Callable[[str], None]:
    """Return a function that notes what concerns one task."""
    return lambda text: note(f"{task}: {text}")


def _key(task: str) -> str:
    """Return a task's key in a ModuleDict: without dots, and unlike ModuleDict's own attributes.

    No two tasks share one: :mod:`gradgate.tasks.multitask` refuses names that differ only in ``.`` and ``_``.
    """
    return f"{task.replace('.', '_')}_head"


def _size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
