"""Time steps with float32 masters, and the way of optimizer states to pinned host memory and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.determinism import deterministic, differing
from benchmarks.gpu.figures import NONE_DIFFERS, Figure
from benchmarks.gpu.models import batch_of, decoder, encoder
from benchmarks.gpu.timing import medians
from gradgate.tuner.optimizer_states import OffloadedStates

_MOMENTS = 2**28  # elements of each of the two moments


def cases(bench: Bench) -> list[Case]:
    """Return the cases: masters, how fast states move, and that moved states are the same bits."""
    return [Case("masters", _masters), Case("states", _moved), Case("offloaded training", _offloaded)]


def _masters(bench: Bench) -> Iterator[Figure]:
    model = decoder(bench, "1 B")
    batch, layers = batch_of(bench, model, 1, 512), gg.map_layers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    times: dict[str, float] = {}
    rounded = 0
    for master in ("none", "float32"):
        with gg.Tuner(model, optimizer, "blocks:every=1000000", layers=layers, master=master, total_steps=10) as tuner:

            def step() -> None:
                model(**batch).loss.backward()
                optimizer.step()
                optimizer.zero_grad()

            times |= medians(bench, {master: step})
            if master == "float32":
                rounded = _not_rounded(model, tuner)
    yield Figure("blocks at 1 B, step without masters", 1e3 * times["none"], "ms")
    yield Figure("blocks at 1 B, step with masters over without", times["float32"] / times["none"], "x")
    yield Figure("weights that are not their rounded masters", rounded, "elements", NONE_DIFFERS)


def _not_rounded(model: torch.nn.Module, tuner: gg.Tuner) -> int:
    masters = {name.removeprefix("master/"): value for name, value in tuner.state_dict()["tensors"].items()}
    weights = [model.get_parameter(name).cpu() for name in masters]
    return differing(weights, [value.to(weight.dtype) for weight, value in zip(weights, masters.values(), strict=True)])


def _moved(bench: Bench) -> Iterator[Figure]:
    """Move the moments of one parameter to the host and back, next to a copy of as many bytes in pinned memory."""
    parameter = torch.nn.Parameter(torch.zeros(1000 if bench.dry else _MOMENTS, device=bench.device))
    optimizer = torch.optim.AdamW([parameter], lr=1e-5)
    parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    state = optimizer.state[parameter]
    size = state["exp_avg"].nbytes + state["exp_avg_sq"].nbytes
    before = {name: state[name].clone() for name in ("exp_avg", "exp_avg_sq")}
    host = torch.empty_like(parameter, device="cpu", pin_memory=bench.on_cuda)
    moments, pinned = OffloadedStates(), True

    def there() -> None:
        nonlocal pinned
        moments.offload(optimizer, [parameter])
        pinned = all(optimizer.state[parameter][name].is_pinned() for name in before)

    rivals: dict[str, Callable[[], object]] = {
        "pinned copy to the host": partial(_twice, host, parameter.detach()),
        "states to the host": there,
        "pinned copy back": partial(_twice, parameter.detach(), host),
        "states back": lambda: moments.fetch(optimizer, [parameter]),
    }
    for name, time in medians(bench, rivals, 1 if bench.dry else 4).items():
        yield Figure(name, size / time / 1e9, "GB/s")
    if bench.on_cuda:
        yield Figure("states on the host outside of pinned memory", int(not pinned), "tensors", NONE_DIFFERS)
    after = optimizer.state[parameter]
    differ = differing(before.values(), [after[name] for name in before])
    yield Figure("moments that differ after the way there and back", differ, "elements", NONE_DIFFERS)


def _twice(to: Tensor, source: Tensor) -> None:
    for _ in range(2):  # there are two moments
        to.copy_(source, non_blocking=True)
    if to.is_cuda or source.is_cuda:
        torch.cuda.synchronize()


def _offloaded(bench: Bench) -> Iterator[Figure]:
    """Train with states that move and states that stay: the weights must be the same bits."""
    trained = {state: _trained(bench, state) for state in ("keep", "offload")}
    differ = differing(trained["keep"], trained["offload"])
    yield Figure("weights that differ between state=offload and state=keep", differ, "elements", NONE_DIFFERS)


def _trained(bench: Bench, state: str) -> list[Tensor]:
    with deterministic():
        model = encoder(bench, layers=3)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        with gg.Tuner(model, optimizer, f"blocks:every=1,state={state}", total_steps=8):
            for number in range(8):
                torch.manual_seed(number)
                model(**batch_of(bench, model, 8, 64, seed=number)).loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in model.parameters()]
