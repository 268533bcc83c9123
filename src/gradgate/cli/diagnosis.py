"""Check what this machine and this installation can do, what is slow on them, and why."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from statistics import median
from typing import Literal

from packaging.requirements import Requirement

from gradgate import hub

GIB = 2**30
_LITTLE_DISK, _TOO_LITTLE_DISK = 10 * GIB, GIB
_SIDE = 256  # of the matrices that are multiplied
_TIMES = 7
_SLOW = 1.5  # a smaller dtype is slow if it takes more than this many times as long as float32
_PURPOSES = {
    "peft": "LoRA, DoRA, IA3 and PEFT's other adapters",
    "llm": "tasks of kind generation",
    "quantized": "models and optimizers in 4 and 8 bits",
    "lightning": "the callback for Lightning",
    "postgres": "studies whose queue is on a database server",
    "ray": "studies on a Ray cluster",
    "mcp": "the server for coding agents",
}

State = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        about: what was checked.
        found: the result on this machine.
        state: ``problem`` if something will fail, ``note`` if something is slow or absent.
        advice: what to do; empty if all is well.
    """

    about: str
    found: str
    state: State = "ok"
    advice: str = ""


def examine(folder: Path, *, network: bool = False) -> list[Check]:
    """Check the packages, the device, arithmetic, threads, memory, disk and the hub.

    Args:
        folder: where studies will be written.
        network: also ask whether the Hugging Face hub answers; nothing else uses the network.
    """
    return [
        Check("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *check_packages(),
        *check_extras(),
        *_check_device(),
        check_arithmetic(*time_arithmetic()),
        *_check_threads(),
        _check_memory(),
        *check_disk(folder),
        _check_hub(network),
    ]


def check_packages() -> Iterator[Check]:
    """Check the packages that gradgate requires against the ranges that it declares."""
    if _version("gradgate") is None:
        advice = "what it requires is not known, and not checked: pip install -e . in the folder of its source"
        yield Check("gradgate", "on the path, not installed", "note", advice)
    for requirement in _requirements():
        if "extra" in str(requirement.marker or ""):
            continue
        found = _version(requirement.name)
        if found is None:
            yield Check(requirement.name, "missing", "problem", f"pip install '{_range(requirement)}'")
        elif not requirement.specifier.contains(found, prereleases=True):
            wanted = f"gradgate needs {_range(requirement)}: pip install '{_range(requirement)}'"
            yield Check(requirement.name, found, "problem", wanted)
        else:
            yield Check(requirement.name, found)


def check_extras() -> Iterator[Check]:
    """Check the optional packages, by the extra that installs them."""
    for extra, purpose in _PURPOSES.items():
        wanted = [one for one in _requirements() if _is_of(one, extra)]
        if not wanted:
            continue
        found = {one.name: _version(one.name) for one in wanted}
        wrong = [
            one.name
            for one in wanted
            if (have := found[one.name]) is None or not one.specifier.contains(have, prereleases=True)
        ]
        listed = ", ".join(f"{name} {installed or 'missing'}" for name, installed in found.items())
        if wrong:
            advice = f"only for {purpose}: pip install 'gradgate[{extra}]'"
            yield Check(f"extra {extra}", listed, "note", advice)
        else:
            yield Check(f"extra {extra}", listed)


def time_arithmetic() -> tuple[float, float]:
    """Time a product of two 256 x 256 matrices on one CPU thread; return median seconds in float32 and bfloat16."""
    import torch

    from gradgate.torch_state import cpu_threads

    taken = []
    with cpu_threads(1):
        for dtype in (torch.float32, torch.bfloat16):
            one = torch.ones(_SIDE, _SIDE, dtype=dtype)
            times = []
            for _ in range(_TIMES):
                start = time.perf_counter()
                one @ one
                times.append(time.perf_counter() - start)
            taken.append(median(times))
    return taken[0], taken[1]


def check_arithmetic(float32: float, bfloat16: float) -> Check:
    """Check whether the CPU gains from 16 bits, by the seconds of the same product in both dtypes."""
    ratio = bfloat16 / max(float32, 1e-9)
    found = f"bf16 takes {ratio:.1f} times as long as fp32 on the CPU"
    if ratio <= _SLOW:
        return Check("arithmetic", found)
    advice = "the CPU has no instructions for it: leave --precision at fp32 and --weights at float32 without a GPU"
    return Check("arithmetic", found, "note", advice)


def check_disk(folder: Path) -> Iterator[Check]:
    """Check the free space for studies and for downloaded models."""
    from huggingface_hub import constants

    for about, place in (("disk for studies", folder), ("disk for models", Path(constants.HF_HUB_CACHE))):
        there = next(path for path in (place.absolute(), *place.absolute().parents) if path.exists())
        free = shutil.disk_usage(there).free
        found = f"{free / GIB:.1f} GiB free at {there}"
        if not os.access(there, os.W_OK):
            yield Check(about, f"{found}, which cannot be written", "problem", "pass a writable folder as --out")
        elif free < _TOO_LITTLE_DISK:
            yield Check(about, found, "problem", "free some: a checkpoint takes three times the size of what learns")
        elif free < _LITTLE_DISK:
            advice = "enough for small models; --no-keep-model and --store delta keep less"
            yield Check(about, found, "note", advice)
        else:
            yield Check(about, found)


def _requirements() -> list[Requirement]:
    try:
        return [Requirement(text) for text in requires("gradgate") or ()]
    except PackageNotFoundError:  # its source is on the path, which is enough to run it
        return []


def _is_of(requirement: Requirement, extra: str) -> bool:
    """Return True if an extra requires a package here that gradgate itself does not."""
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _range(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _check_device() -> Iterator[Check]:
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    if not torch.cuda.is_available():
        built = "this torch is built for CUDA" if torch.version.cuda else "this torch is built for the CPU alone"
        mps = "; Apple's GPU is there, which --device auto does not take" if torch.backends.mps.is_available() else ""
        advice = f"{built}; models of more than some 100 M parameters need hours here{mps}"
        yield Check("device", f"no CUDA GPU; CPU with {capability}", "note", advice)
        return
    for number in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(number)
        yield Check(f"device cuda:{number}", f"{device.name}, {device.total_memory / GIB:.0f} GiB")
    if _version("triton") is None:
        advice = "gates and audits on the GPU run without their kernels, which is slower: pip install triton"
        yield Check("triton", "missing", "note", advice)


def _check_threads() -> Iterator[Check]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    used = torch.get_num_threads()
    found = f"{used} of torch for {cores} core{'s' * (cores != 1)}"
    if used > cores:
        yield Check("threads", found, "note", f"they wait for each other: pass --threads {cores}, or OMP_NUM_THREADS")
    else:
        yield Check("threads", found)
    if os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE" and not torch.cuda.is_available():
        advice = "threads that wait take the cores of other runs: export OMP_WAIT_POLICY=PASSIVE where several train"
        yield Check("waiting threads", "they spin", "note", advice)


def _check_memory() -> Check:
    import psutil  # a dependency of accelerate

    memory = psutil.virtual_memory()
    found = f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free"
    if memory.available < 2 * GIB:
        return Check("memory", found, "note", "close other programs; 'gradgate memory' says what a training takes")
    return Check("memory", found)


def _check_hub(network: bool) -> Check:
    from huggingface_hub import get_token

    token = "a token is set" if get_token() else "no token is set, which private and gated models need"
    if hub.is_offline():
        advice = "models and data come from folders and the cache alone; unset HF_HUB_OFFLINE to download"
        return Check("hub", "HF_HUB_OFFLINE is set", "note", advice)
    if not network:
        return Check("hub", f"not asked (--network asks it); {token}")
    error = hub.ask("model", "google-bert/bert-base-uncased")
    if hub.is_answer(error):
        return Check("hub", f"it answers; {token}")
    assert error is not None
    advice = "pass folders as --model and --data, or set HTTPS_PROXY or HF_ENDPOINT"
    return Check("hub", f"no answer: {hub.first_line(error)}", "problem", advice)
