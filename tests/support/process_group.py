"""Runs scenarios in one of several processes.

``python -m support.process_group FOLDER RANK GROUP`` runs those of a group and writes what failed to
``FOLDER/RANK.json``.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from support.replicas import Scenario
from support.sharded_training import SHARDED
from support.two_processes import MORE, SCENARIOS

# The number of processes, and what they run.
GROUPS: dict[str, tuple[int, dict[str, Scenario]]] = {
    "two": (2, SCENARIOS | SHARDED),
    "two with more methods": (2, MORE),
    "four": (4, SHARDED),
}


def main(folder: Path, rank: int, group: str) -> None:
    count, scenarios = GROUPS[group]
    torch.set_num_threads(1)
    meeting = f"file://{folder / 'meeting'}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count, timeout=timedelta(seconds=60))
    failures = {}
    for name, scenario in scenarios.items():
        torch.manual_seed(0)
        try:
            scenario()
        except BaseException:
            failures[name] = traceback.format_exc()
            (folder / f"{rank}.json").write_text(json.dumps(failures))
    (folder / f"{rank}.json").write_text(json.dumps({**failures, "done": True}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
