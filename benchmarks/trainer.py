"""Time the same freezing in Hugging Face's Trainer: requires_grad by hand or one callback, 12 layers, width 384."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from torch import nn
from transformers import Trainer, TrainingArguments

import gradgate as gg
from benchmarks.models import batch_of, encoder
from benchmarks.timing import medians, rows

STEPS, ROWS = 8, 8
FROZEN = 9
OTHERS = ("by hand",)  # lines that time something else


def run(rounds: int = 5) -> list[str]:
    """Return one line per rival: a whole training of a few steps."""
    rivals = {
        "full, no callback": trainer(None),
        "full": trainer("full"),
        f"by hand: {FROZEN} of 12 closed": trainer(None, before=freeze),
        f"freeze:layers={FROZEN}": trainer(f"freeze:layers={FROZEN}"),
        "graddrop:p=0.2": trainer("graddrop:p=0.2"),
    }
    times = medians(rivals, rounds)
    _, _, by_hand, frozen, _ = times.values()
    return [*rows(f"{STEPS} steps", times), f"  freeze:layers={FROZEN} is {frozen / by_hand:.3f}x of the same by hand"]


def trainer(method: str | None, before: Callable[[nn.Module], None] | None = None) -> Callable[[], object]:
    model = encoder(layers=12)
    if before:
        before(model)
    columns = batch_of(ROWS * STEPS, 64)
    data = [{name: column[row] for name, column in columns.items()} for row in range(ROWS * STEPS)]
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=ROWS,
        num_train_epochs=1,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        use_cpu=True,
    )
    callbacks = [gg.GateCallback(method)] if method else []
    return lambda: Trainer(model, arguments, train_dataset=data, callbacks=callbacks).train()


def freeze(model: nn.Module) -> None:
    model.bert.embeddings.requires_grad_(False)
    model.bert.encoder.layer[:FROZEN].requires_grad_(False)
