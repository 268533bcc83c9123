"""Time one training step of BERT-base with an adapter against full fine-tuning, 8 x 64 tokens on the CPU.

If GRADGATE_ADAPTERHUB names the Python of an environment with AdapterHub's own library, that library takes turns, next
to full fine-tuning with the torch and transformers of that environment.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.timing import Rivals, medians, rows
from gradgate import adapters

BATCH, TOKENS = 8, 64
TARGET = 0.75
OTHERS = ("AdapterHub",)  # lines that time something else
KINDS = (None, "seq_bn", "double_seq_bn")


def run(rounds: int = 9) -> list[str]:
    """Return one line per rival; ratios to full fine-tuning."""
    rivals: Rivals = {kind or "full": stepper(kind) for kind in KINDS}
    with original() as theirs:
        times = medians(rivals | theirs, rounds)
    lines = rows("step", times)
    ratio = times["seq_bn"] / times["full"]
    lines.append(f"  seq_bn is {ratio:.3f}x of full fine-tuning, and must be at most {TARGET}x")
    lines += [
        f"  {name} takes {times[name] / times[f'AdapterHub: {name}']:.3f}x the time of AdapterHub's library"
        for name in (kind or "full" for kind in KINDS)
        if theirs
    ]
    return (
        lines if theirs else [*lines, "  AdapterHub's library was not measured: set GRADGATE_ADAPTERHUB to its Python"]
    )


def stepper(kind: str | None) -> Callable[[], None]:
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig())
    if kind:
        adapters.add(model, "task", kind)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    batch = {
        "input_ids": torch.randint(5, 30000, (BATCH, TOKENS)),
        "labels": torch.randint(0, 2, (BATCH,)),
    }

    def step() -> None:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@contextmanager
def original() -> Iterator[Rivals]:
    """Yield the rivals of AdapterHub's library; none without its environment."""
    python = os.environ.get("GRADGATE_ADAPTERHUB")
    if not python:
        yield {}
        return
    script = Path(__file__).with_name("original_adapters.py")
    # Passed as text: if run as a file, this folder's module of the same name would hide their package.
    command = [python, "-c", script.read_text(), str(torch.get_num_threads())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told, heard = process.stdin, process.stdout

        def ask(name: str) -> Callable[[], None]:
            def step() -> None:
                told.write(f"{name}\n")
                told.flush()
                if heard.readline() != "done\n":
                    raise RuntimeError(f"{script.name} has ended; run it by hand to see why")

            return step

        if heard.readline() != "ready\n":
            raise RuntimeError(f"{script.name} does not start; run it by hand to see why")
        yield {f"AdapterHub: {kind or 'full'}": ask(kind or "full") for kind in KINDS}
        told.close()
