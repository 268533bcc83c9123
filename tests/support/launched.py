"""Launch programs in two processes, as users do: by torchrun or by accelerate.

As a program, this file trains one run in each process: ``launched.py SETTINGS OUT [RANK STEP EVENT]``, where the
settings are JSON and the event is ``kill`` (SIGKILL), ``stop`` (SIGTERM, as torchrun passes it on) or ``nan`` (the loss
of that step becomes NaN); or ``launched.py SETTINGS OUT until STEP``, which pauses the run there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from gradgate.errors import GradgateError
from gradgate.settings.run import make_config
from gradgate.training.run import train
from gradgate.training.trainer import RunTrainer

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = (
    *("-m", "accelerate.commands.launch", "--multi_gpu"),
    *("--num_processes", "2", "--main_process_port", "0"),
)


def launch(launcher: tuple[str, ...], *program: object) -> subprocess.CompletedProcess[str]:
    """Run a program and its words in two processes, to their end."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "GRADGATE_AUDIT": "1"}
    words = [sys.executable, *launcher, *map(str, program)]
    return subprocess.run(words, env=environment, text=True, capture_output=True)


def launch_run(settings: dict[str, Any], out: Path, *event: object) -> subprocess.CompletedProcess[str]:
    """Train a run in two processes by torchrun."""
    values = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
    return launch(TORCHRUN, __file__, json.dumps(values), out, *event)


def happening(step: int, event: str) -> None:
    """Let the event happen in this process, after ``step`` steps."""
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
