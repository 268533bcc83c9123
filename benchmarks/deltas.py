"""Measure deltas of a 1 GB encoder: the size of the file, the time to make one, and to switch between two.

Floors: for the size, the bytes of the trained weights, or 8 bytes per single float32 element; for making, reading both
models once at the speed of the disk (or its cache) and writing the delta; for a switch, copying its bytes in memory. A
single element costs a cache line of 64 bytes, read and written, so sparse deltas have a pass over as many lines.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors import safe_open
from torch import Tensor, nn
from transformers import BertForSequenceClassification

from benchmarks.models import encoder
from benchmarks.timing import medians, rows
from gradgate import deltas, gates
from gradgate.deltas.delta import INDICES

LAYERS, WIDTH = 16, 1024
_LINE = 64
OTHERS = ("read both", "copy as many", "change as many")  # lines that time something else
TOP = (*(f"bert.encoder.layer.{layer}." for layer in range(12, LAYERS)), "bert.pooler.", "classifier.")
Wanted = Callable[[str, Tensor], Tensor | None]


def run(rounds: int = 3) -> list[str]:
    """Return a block per way to train: top quarter of the layers, 2 % of the elements of each matrix, biases."""
    lines: list[str] = []
    with TemporaryDirectory() as folder:
        place = Path(folder)
        base = encoder(LAYERS, WIDTH).eval()
        base.save_pretrained(place / "base")
        files = {}
        for name, wanted in (("top layers", _top), ("2 % of matrices", _sparse), ("biases", _biases)):
            changed, file = _trained(base, place / "trained", wanted), place / f"{len(files)}.safetensors"
            lines += _created(name, place, file, changed, rounds)
            files[name] = file
        lines += _switched(place, base, files, rounds)
    return lines


def _top(name: str, tensor: Tensor) -> Tensor | None:
    return torch.ones_like(tensor) if name.startswith(TOP) else None


def _biases(name: str, tensor: Tensor) -> Tensor | None:
    return torch.ones_like(tensor) if name.endswith("bias") else None


def _sparse(name: str, tensor: Tensor) -> Tensor | None:
    if tensor.dim() != 2 or ".layer." not in name:
        return None
    key = gates.key(seed=0, stream="sparse", name=name, draw=0)
    return gates.mask(tensor.numel(), lo=0.0, hi=0.02, key=key).view(tensor.shape).float()


def _trained(base: BertForSequenceClassification, folder: Path, wanted: Wanted) -> int:
    """Write a trained model; return the bytes of the ideal file."""
    model = copy.deepcopy(base)
    ideal = 0
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            change = wanted(name, parameter)
            if change is not None:
                parameter.add_(change, alpha=0.5)
                count = int(change.count_nonzero())
                ideal += parameter.nbytes if count == parameter.numel() else 8 * count
    model.save_pretrained(folder)
    return ideal


def _created(name: str, place: Path, file: Path, ideal: int, rounds: int) -> list[str]:
    from gradgate.deltas import fingerprint

    def create() -> None:
        fingerprint._KNOWN.clear()  # as in a process of its own
        deltas.create(place / "trained", place / "base", file)

    def floor() -> None:
        sizes = sum(_read(place / part / "model.safetensors") for part in ("trained", "base"))
        _write(place / "floor", min(file.stat().st_size, sizes))

    create()
    times = medians({"read both, write as much": floor, "create": create}, rounds)
    size = file.stat().st_size
    both = 2 * (place / "base/model.safetensors").stat().st_size
    speed = both / times["create"] / 1e9
    return [
        *rows(f"{name}: {size / 1e6:.2f} MB, {size / ideal:.4f}x of the ideal", times),
        f"  {speed:.2f} GB/s of both models",
    ]


def _read(file: Path) -> int:
    buffer, size = bytearray(1 << 22), 0
    with file.open("rb", buffering=0) as opened:
        while count := opened.readinto(buffer):
            size += count
    return size


def _write(file: Path, size: int) -> None:
    block = bytes(1 << 22)
    with file.open("wb") as opened:
        for _ in range(size // len(block)):
            opened.write(block)
        opened.flush()
        os.fsync(opened.fileno())


def _lines_of(file: Path) -> int:
    """Count the cache lines with an element that a delta changes."""
    delta = deltas.load(file)
    whole = sum(entry.bytes for entry in delta.whole.values()) // _LINE
    with safe_open(file, framework="pt") as opened:
        places = [opened.get_tensor(name + INDICES) for name in delta.sparse]
    return whole + sum((held * 4 // _LINE).unique_consecutive().numel() for held in places)


def _switched(place: Path, base: nn.Module, files: dict[str, Path], rounds: int) -> list[str]:
    bank = deltas.Bank(base)
    for name, file in files.items():
        bank.add(name, file)
    lines = []
    for name, file in files.items():
        count = file.stat().st_size // 4
        one, other = torch.zeros(count), torch.ones(count)  # a sparse delta has half of its bytes in places

        def switch(name: str = name) -> None:
            bank.activate(name)
            bank.base()

        def copies(one: Tensor = one, other: Tensor = other) -> None:
            one.copy_(other)
            one.copy_(other)

        touched = torch.ones(_lines_of(file) * _LINE // 4)

        def passes(touched: Tensor = touched) -> None:
            touched.add_(1)
            touched.add_(1)

        floors = {"copy as many bytes, twice": copies, "change as many cache lines, twice": passes}
        times = medians({**floors, "activate, then base": switch}, 5 * rounds)
        lines += rows(f"switch {name}, {file.stat().st_size / 1e6:.2f} MB", times)
    bank.detach()
    return lines
