"""Store adapters in the checkpoints of Hugging Face's Trainer, which saves and loads only the base model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.adapters.files import restore, save
from gradgate.adapters.stack import added
from gradgate.calling_trainer import resumed_checkpoint, saved_checkpoint
from gradgate.errors import AdapterFileError

FOLDER = "adapters"


class AdapterCallback(TrainerCallback):  # type: ignore[misc]
    """Save the adapters in each checkpoint, and load them on resume and with the best model.

    ``Trainer(model, ..., callbacks=[AdapterCallback()])``. Without it a resumed training, or
    ``load_best_model_at_end``, would continue with the current adapters. Put it before a ``GateCallback``, which may
    measure the model when training begins. The checkpoint has them in ``adapters/NAME``, as :func:`save` writes them,
    without the head, which is in Trainer's own file.
    """

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Write the adapters into the checkpoint that was just saved."""
        if args.should_save:  # also on the other nodes, with save_on_each_node=True
            folder = saved_checkpoint(self, args, state.global_step) / FOLDER
            for name in added(kwargs["model"]):
                save(kwargs["model"], name, folder / name, head=False)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Load the adapters of the checkpoint from which training resumes."""
        if state.global_step > 0 and added(kwargs["model"]):
            checkpoint = resumed_checkpoint(self, args, state.global_step)
            if not (checkpoint / FOLDER).is_dir():
                raise AdapterFileError(
                    f"{checkpoint} has no adapters, so training cannot resume from it. It was saved without this "
                    f"callback; start again with an AdapterCallback."
                )
            restore(kwargs["model"], checkpoint / FOLDER)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Load the adapters of the best checkpoint, if Trainer loaded its model."""
        if args.load_best_model_at_end and state.best_model_checkpoint is not None and added(kwargs["model"]):
            restore(kwargs["model"], Path(state.best_model_checkpoint) / FOLDER)
