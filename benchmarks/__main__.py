"""Run the benchmarks, all or those named, and print their ratios: ``make bench``, ``python -m benchmarks gate step``.

Ratios that are worse than those in RESULTS.md are named. ``--write`` puts the lines of those that ran there, each with
the machine that it ran on. ``python -m benchmarks gpu`` measures a GPU: see benchmarks/gpu.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.regressions import Regression, regressions

BENCHMARKS = (
    "gate",
    "step",
    "host",
    "units",
    "memory",
    "trainer",
    "activation_cache",
    "processes",
    "adapters",
    "masked_head",
    "unfreezing",
    "shared_prefix",
    "deltas",
    "large_models",
    "others_memory",
    "architectures",
    "curves",
    "audit",
    "power",
    "coverage",
    "family",
)
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(words: list[str]) -> None:
    if words[:1] in (["gpu"], ["gpu-wheels"]):
        import_module(f"benchmarks.gpu.{'command' if words[0] == 'gpu' else 'wheels'}").main(words[1:])
        return
    names = [word for word in words if word != "--write"] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"There is no benchmark {unknown[0]!r}. There are {', '.join(BENCHMARKS)}.")
    print(machine())
    worse: dict[str, list[Regression]] = {}
    for name in names:
        benchmark = import_module(f"benchmarks.{name}")
        title = str(benchmark.__doc__).strip()
        print(f"\n{title}\n", flush=True)
        lines = benchmark.run()
        print("\n".join(lines), flush=True)
        worse[name] = regressions(benchmark, recorded(name), lines)
        print("".join(f"{regression}\n" for regression in worse[name]), end="", flush=True)
        if "--write" in words:
            write(name, f"{title}\n\n{machine()}\n\n```\n" + "\n".join(lines) + "\n```\n")
    print(f"\nRegressed against RESULTS.md: {', '.join(name for name in names if worse[name]) or 'nothing'}.")


def recorded(name: str) -> list[str]:
    """Return the lines of one benchmark in RESULTS.md; none if it has no section there."""
    text = RESULTS.read_text() if RESULTS.is_file() else ""
    section = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    block = re.search(r"^```\n(.*?)^```", section[1], re.MULTILINE | re.DOTALL) if section else None
    return block[1].splitlines() if block else []


def machine() -> str:
    """Describe the machine that the figures belong to."""
    cpu = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()) if sys.platform == "linux" else None
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return (
        f"{cpu.group(1) if cpu else platform.processor()}, {torch.get_num_threads()} threads, {device}, "
        f"torch {torch.__version__}, Python {platform.python_version()}"
    )


def write(name: str, text: str) -> None:
    """Replace the section of one benchmark, and leave the others."""
    old = RESULTS.read_text() if RESULTS.is_file() else "# Results\n"
    head, *sections = re.split(r"^## ", old, flags=re.MULTILINE)
    kept = {section.split("\n", 1)[0]: section.split("\n", 1)[1].strip() for section in sections}
    kept[name] = text.strip()
    RESULTS.write_text(head.rstrip() + "\n" + "".join(f"\n## {key}\n\n{body}\n" for key, body in kept.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
