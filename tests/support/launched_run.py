"""One process of a run that torchrun launches; something may happen to one of them at a step.

``launched_run.py SETTINGS OUT [RANK STEP EVENT]``, where the settings are JSON and the event is ``kill`` (SIGKILL),
``stop`` (SIGTERM, as torchrun passes it on) or ``nan`` (a loss that is no number); or
``launched_run.py SETTINGS OUT until STEP``, which pauses the run there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch

from gradgate.errors import GradgateError
from gradgate.settings.run import make_config
from gradgate.training.run import train
from gradgate.training.trainer import RunTrainer


def happening(step: int, event: str) -> None:
    """Let the event happen in this process, in the step after so many."""
    usual, left = RunTrainer.compute_loss, [event]

    def compute_loss(self: RunTrainer, *args: Any, **kwargs: Any) -> Any:
        loss = usual(self, *args, **kwargs)
        if not left or self.state.global_step != step:
            return loss
        left.pop()
        if event == "nan":
            return loss * torch.nan
        signal.raise_signal(signal.SIGKILL if event == "kill" else signal.SIGTERM)
        return loss

    RunTrainer.compute_loss = compute_loss  # type: ignore[method-assign]


if __name__ == "__main__":
    torch.set_num_threads(1)
    settings, out, *event = sys.argv[1:]
    until = int(event[1]) if event and event[0] == "until" else None
    if event and event[0] == os.environ["RANK"]:
        happening(int(event[1]), event[2])
    try:
        train(make_config(**json.loads(settings)), Path(out), until=until)
    except GradgateError as error:
        print(f"process {os.environ['RANK']}: {error}", flush=True)
        sys.exit(error.exit_code)
