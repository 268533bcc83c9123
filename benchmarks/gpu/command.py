"""Read the command line of ``python -m benchmarks gpu``."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gpu import machine, wheels
from benchmarks.gpu.page import summary
from benchmarks.gpu.parts import PARTS
from benchmarks.gpu.processes import Processes
from benchmarks.gpu.record import Records
from benchmarks.gpu.session import Runs, Session, in_this_process

_OWN = Path(__file__).parents[1]  # where the repository's own page is
_START = 90.0  # seconds for a process to import torch and reach the device


def main(words: list[str]) -> None:
    """Measure, and print what is measured."""
    began = time.monotonic()
    asked = _parser().parse_args(words)
    parts = [part for part in PARTS if not asked.parts or part.name in asked.parts]
    out = asked.out or (Path(tempfile.mkdtemp(prefix="gradgate-gpu-")) if asked.dry else _OWN)
    found, run = _found(asked.dry)
    records = Records(out)
    record = records.of(found)
    if asked.again:
        record.forget([part.name for part in parts])
    print(", ".join(f"{name} {value}" for name, value in found.items() if value is not None), flush=True)
    device = "cpu" if asked.dry else "cuda"
    seconds = asked.minutes * 60 - (time.monotonic() - began)
    session = Session(records, record, parts, device, asked.dry, seconds, run, partial(print, flush=True))
    waiting = session.measure()
    if waiting:
        print(f"No time was left for {', '.join(waiting)}. The same command continues there.")
    print(f"{summary(record)} {time.monotonic() - began:.0f} s in all. Written to {out}.")


def _found(dry: bool) -> tuple[dict[str, Any], Runs]:
    """Return the description of the machine, and how parts are run on it."""
    if dry:
        return machine.describe("cpu"), in_this_process
    if absent := wheels.missing():
        sys.exit(
            f"These packages are missing: {', '.join(absent)}. 'make gpu-wheels OUT=wheels' downloads them on a "
            f"machine with a network, and says how to install them here without one."
        )
    for way in ("forkserver", "spawn"):
        processes = Processes(way)
        found = processes.call(partial(machine.describe, "cuda"), _START)
        if found is not None:
            return found, processes.run
    sys.exit(
        "No CUDA device can be used by torch: 'python -m gradgate doctor' says what it sees. On a CPU, "
        "'python -m benchmarks gpu --dry' runs every part on tiny shapes."
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu", description=_DESCRIPTION)
    parser.add_argument("parts", nargs="*", type=_named, metavar="PART", help=f"of {', '.join(p.name for p in PARTS)}")
    parser.add_argument("--minutes", type=_minutes, default=8.0, help="for everything together (default: 8)")
    parser.add_argument("--out", type=Path, help="folder of gpu.json, GPU.md and gpu-cases.json (default: benchmarks)")
    parser.add_argument("--again", action="store_true", help="measure again what was measured before")
    parser.add_argument("--dry", action="store_true", help="run every part on a CPU on tiny shapes, without processes")
    return parser


_DESCRIPTION = (
    "Measure what gradgate promises on a GPU. A second call measures what is left: cases that ended are left out "
    "if device and versions are the same. Without --out, a dry run writes to a temporary folder."
)


def _named(word: str) -> str:
    names = [part.name for part in PARTS]
    if word not in names:
        raise argparse.ArgumentTypeError(f"there is no part {word!r}; expected one of {', '.join(names)}")
    return word


def _minutes(word: str) -> float:
    try:
        minutes = float(word)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < float("inf"):
        raise argparse.ArgumentTypeError(f"{word!r}: expected minutes, a number above 0")
    return minutes
