"""Describe the device and the versions that figures belong to."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from typing import Any

_PACKAGES = ("gradgate", "transformers", "accelerate", "triton", "numba", "peft", "safetensors")


def describe(device: str) -> dict[str, Any]:
    """Return what figures depend on; those of another description are not resumed."""
    import torch

    import gradgate

    found: dict[str, Any] = {"device": "CPU, dry run", "memory_gib": None, "driver": None, "cuda": torch.version.cuda}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        torch.ones(1, device="cuda").sum().item()  # a device that is listed may still refuse work
        found |= {"device": properties.name, "memory_gib": round(properties.total_memory / 2**30, 1)}
        found |= {"driver": _driver(), "capability": f"{properties.major}.{properties.minor}"}
    versions = {name: _version(name) for name in _PACKAGES} | {"gradgate": gradgate.__version__}
    return found | {"python": platform.python_version(), "torch": torch.__version__, **versions}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _driver() -> str | None:
    """Return the version of the driver; None if nvidia-smi is absent."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return printed.splitlines()[0].strip() if printed.strip() else None
