"""Time gradual unfreezing in one Lightning loop: by hand, with gradgate's tuner, and with finetuning-scheduler.

Six layers of width 384; one opens per epoch. Needs ``pip install lightning finetuning-scheduler``.
"""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.timing import medians, rows

STEPS, ROWS, LAYERS = 6, 8, 6
OTHERS = ("by hand", "finetuning-scheduler")  # lines that time something else


def run(rounds: int = 3) -> list[str]:
    """Return one line per rival: the whole schedule."""
    if importlib.util.find_spec("finetuning_scheduler") is None:
        return ["finetuning-scheduler is not installed, so nothing measured"]
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = medians({"by hand": by_hand, "gradgate": gradgate, "finetuning-scheduler": scheduler}, rounds)
    return rows(f"{LAYERS + 1} epochs of {STEPS} steps", times)


def fit(module: Any, *callbacks: Any) -> None:
    import lightning

    columns = batch_of(ROWS * STEPS, 64)
    data = [{name: column[row] for name, column in columns.items()} for row in range(ROWS * STEPS)]
    trainer = lightning.Trainer(
        max_epochs=LAYERS + 1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=any("Scheduler" in type(callback).__name__ for callback in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tempfile.mkdtemp(),
        callbacks=list(callbacks),
    )
    loader = DataLoader(data, batch_size=ROWS)
    trainer.fit(module, loader, validation_loader(data))


def validation_loader(data: list[Any]) -> DataLoader[Any]:
    """Return validation batches: finetuning-scheduler follows a validation loss, so all rivals compute one."""
    return DataLoader(data[:ROWS], batch_size=ROWS)


def module_of() -> Any:
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = encoder(LAYERS)

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            return self.model(**batch).loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("val_loss", self.model(**batch).loss)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=1e-5)

    return Classifier()


def phase_parameters() -> list[list[str]]:
    """Return the names that open in each epoch: head and top layer, then one layer more, last the embeddings."""
    groups = {group.name: [f"model.{name}" for name in group.parameter_names] for group in gg.map_layers(encoder())}
    order = [f"layers.{number}" for number in reversed(range(LAYERS))]
    return [groups["head"] + groups[order[0]], *(groups[name] for name in order[1:]), groups["embeddings"]]


def by_hand() -> None:
    import lightning

    class Unfreeze(lightning.Callback):
        def on_train_epoch_start(self, trainer: Any, module: Any) -> None:
            named = dict(module.named_parameters())
            if trainer.current_epoch == 0:
                for parameter in named.values():
                    parameter.requires_grad_(False)
            for name in phase_parameters()[trainer.current_epoch]:
                named[name].requires_grad_(True)

    fit(module_of(), Unfreeze())


def gradgate() -> None:
    import lightning

    class Attach(lightning.Callback):
        def on_train_start(self, trainer: Any, module: Any) -> None:
            self.tuner = gg.Tuner(module.model, trainer.optimizers[0], f"gradual:every={STEPS}")

        def on_train_end(self, trainer: Any, module: Any) -> None:
            self.tuner.detach()

    fit(module_of(), Attach())


def scheduler() -> None:
    import yaml
    from finetuning_scheduler import FinetuningScheduler, FTSCheckpoint

    phases = {
        number: {"params": names, "max_transition_epoch": number + 1} for number, names in enumerate(phase_parameters())
    }
    file = Path(tempfile.mkdtemp()) / "schedule.yaml"
    file.write_text(yaml.safe_dump(phases))
    fit(
        module_of(),
        FinetuningScheduler(ft_schedule=str(file), epoch_transitions_only=True, restore_best=False),
        FTSCheckpoint(monitor="val_loss"),
    )
