"""Time the switch between deltas of a model on the device, against copies of as many bytes from pinned memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.determinism import differing
from benchmarks.gpu.figures import NONE_DIFFERS, Figure
from benchmarks.gpu.models import encoder, save
from benchmarks.gpu.timing import medians
from gradgate import deltas, gates

Change = Callable[[str, Tensor], bool | Tensor]


def cases(bench: Bench) -> list[Case]:
    """Return one case per way to train."""
    changed: dict[str, Change] = {
        "top quarter of the layers": _top,
        "2 % of the matrices": _sparse,
        "biases": lambda name, _: name.endswith("bias"),
    }
    return [Case(name, partial(_switched, name, change)) for name, change in changed.items()]


def _top(name: str, tensor: Tensor) -> bool:
    """Return True for the top quarter of twelve layers; in a dry run's three, for the top one."""
    return any(f".layer.{layer}." in name for layer in (2, 9, 10, 11)) and ".layer.2.1" not in name


def _sparse(name: str, tensor: Tensor) -> bool | Tensor:
    if tensor.dim() != 2 or ".layer." not in name:
        return False
    key = gates.key(seed=0, stream="sparse", name=name, draw=0)
    return gates.mask(tensor.numel(), lo=0.0, hi=0.02, key=key).view(tensor.shape)


def _switched(kind: str, change: Change, bench: Bench) -> Iterator[Figure]:
    base = encoder(bench).eval()
    with TemporaryDirectory() as folder:
        trained = copy.deepcopy(base).cpu()
        _change(trained, change)
        save(base, Path(folder, "base"))
        save(trained, Path(folder, "trained"))
        file = Path(folder, "task.safetensors")
        deltas.create(Path(folder, "trained"), Path(folder, "base"), file)
        size = file.stat().st_size
        bank = deltas.Bank(base)
        bank.add("task", file)
        yield from _timed(kind, size, bank, base, trained, bench)
        bank.detach()


def _timed(kind: str, size: int, bank: deltas.Bank, base: Any, trained: Any, bench: Bench) -> Iterator[Figure]:
    before = [parameter.detach().clone() for parameter in base.parameters()]
    bank.activate("task")
    differ = differing(base.parameters(), trained.parameters())
    bank.base()
    differ += differing(base.parameters(), before)
    host = torch.ones(size, dtype=torch.uint8, pin_memory=bench.on_cuda)
    on_device = torch.empty_like(host, device=bench.device)

    def switch() -> None:
        bank.activate("task")
        bank.base()

    rivals = {"copies": lambda: (on_device.copy_(host), on_device.copy_(host)), "switch": switch}
    times = medians(bench, rivals)
    yield Figure(f"{kind}, delta", size / 1e6, "MB")
    yield Figure(f"{kind}, activate and back to the base", 1e3 * times["switch"], "ms")
    yield Figure(f"{kind}, over two copies of the delta", times["switch"] / times["copies"], "x")
    yield Figure(
        f"{kind}, weights that differ", differ, "elements", NONE_DIFFERS, "from the trained model and the base"
    )


def _change(model: Any, change: Change) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            where = change(name, parameter)
            if where is not False:
                parameter.add_(torch.as_tensor(where).to(parameter.dtype), alpha=0.5)
