"""Run the commands that measure models on the device and on the CPU, and compare what they print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from typer.testing import CliRunner

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.figures import Figure, Goal

_CLOSE = Goal("at most", 1e-3, always=True)


def cases(bench: Bench) -> list[Case]:
    """Return the signal-to-noise ratios of a model, and the analyses of a run."""
    return [Case("layers --snr", _signals), Case("analyze", _analyzed)]


def _signals(bench: Bench) -> Iterator[Figure]:
    here, cpu = (_printed("layers", "sample", "--snr", "--device", on) for on in (bench.device.type, "cpu"))
    pairs = zip(here["signals"], cpu["signals"], strict=True)
    furthest = max(abs(one["snr"] / other["snr"] - 1.0) for one, other in pairs if other["snr"])
    yield Figure("layers --snr, largest difference of a ratio from the CPU's", furthest, "of it", _CLOSE)


def _analyzed(bench: Bench) -> Iterator[Figure]:
    with TemporaryDirectory() as folder:
        run = gg.train(
            steps=4,
            batch_size=16,
            train_size=64,
            eval_every=4,
            languages="en",
            device=bench.device.type,  # type: ignore[arg-type]
            out=Path(folder, "run"),
            quiet=True,
        )
        commands: dict[str, list[str]] = {
            "representations": ["--tokens", "200"],
            "landscape": ["--rows", "16", "--points", "2", "--plane", "0"],
        }
        for name, options in commands.items():
            found = []
            for on in (bench.device.type, "cpu"):
                out = str(Path(folder, f"{name}-{on}"))
                printed = _printed("analyze", name, str(run.path), *options, "--device", on, "--out", out)
                found.append(list(_numbers(printed)))
            furthest = max(abs(one - other) / max(1.0, abs(other)) for one, other in zip(*found, strict=True))
            yield Figure(f"analyze {name}, largest difference from the CPU's", furthest, "", _CLOSE)


def _numbers(value: Any) -> Iterator[float]:
    """Yield all fractions in a JSON value, in their order."""
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)


def _printed(*words: str) -> Any:
    """Return what a command prints as JSON."""
    from gradgate.cli import app

    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    if result.exit_code:
        raise RuntimeError(f"gradgate {' '.join(words)} ended with {result.exit_code}: {result.output}")
    return json.loads(result.stdout)
