"""List the packages that the GPU benchmark needs besides torch, and download their wheels.

They are for a machine without a network, with a torch of its own and all that this needs. Packages of gradgate that
the benchmark never imports, such as the store of studies, are left out.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

NEEDED = (
    "transformers", "accelerate", "datasets", "numba", "numpy", "pyarrow", "scikit-learn", "scipy", "matplotlib",
    "jinja2", "pydantic", "pyyaml", "typer", "rich", "regex", "safetensors", "filelock", "xxhash", "tqdm", "peft",
)  # fmt: skip
_TORCH = "torch"
_PYTHON = "3.12"
_TARGET = {
    "python_version": _PYTHON, "python_full_version": f"{_PYTHON}.0", "sys_platform": "linux", "os_name": "posix",
    "platform_system": "Linux", "platform_machine": "x86_64", "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}  # fmt: skip
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 24, 17)] + ["manylinux2014_x86_64"]


def main(words: list[str]) -> None:
    """Print the packages, one requirement a line, and download their wheels if asked to."""
    asked = _parser().parse_args(words)
    present = _names(asked.present.read_text(encoding="utf-8")) if asked.present else set()
    found = {name: version for name, version in needed(_TARGET).items() if name not in present}
    lines = [f"{name}=={version}" if version else name for name, version in found.items()]
    print("\n".join(lines))
    if asked.to is not None and lines:
        download(lines, asked.to)


def needed(environment: dict[str, str] | None = None) -> dict[str, str | None]:
    """Return name to version of all packages that are needed besides torch; None for one that is not installed here.

    Args:
        environment: markers of the machine; by default this one.
    """
    with_torch = _closure([_TORCH], environment)
    own = {name: version for name, version in _closure(NEEDED, environment).items() if name not in with_torch}
    return dict(sorted(own.items()))


def missing() -> list[str]:
    """Return the packages that are needed and not installed here."""
    return [name for name, version in needed().items() if version is None]


def download(lines: list[str], folder: Path) -> None:
    """Download wheels for Linux on x86-64 and Python 3.12 with pip, without what they require."""
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    options = ["--no-deps", "--only-binary=:all:", "--python-version", _PYTHON, "--implementation", "cp"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, *platforms, "--dest", str(folder), *lines]
    subprocess.run(command, check=True)
    print(
        f"\nOn the machine:\n  python3 -m pip install --no-index --no-deps --target site {folder}/*.whl\n"
        f"  PYTHONPATH=site make gpu",
        file=sys.stderr,
    )


def _closure(names: tuple[str, ...] | list[str], environment: dict[str, str] | None) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    waiting = [Requirement(name) for name in names]
    seen = set[tuple[str, str]]()
    while waiting:
        wanted = waiting.pop()
        name = _normal(wanted.name)
        for extra in ("", *sorted(wanted.extras)):
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting.extend(_required(name, extra, environment))
        found[name] = _version(name)
    return found


def _required(name: str, extra: str, environment: dict[str, str] | None) -> Iterator[Requirement]:
    try:
        texts = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    for text in texts:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({**(environment or {}), "extra": extra}):
            yield wanted


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _names(text: str) -> set[str]:
    """Return the names in what ``pip freeze`` prints, or in a list of names."""
    words = (re.split(r"[\s=<>@;\[,]", line.strip(), maxsplit=1)[0] for line in re.split(r"[\n,]", text))
    return {_normal(word) for word in words if word and not word.startswith("#")}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks gpu-wheels", description=str(__doc__).split("\n\n")[0])
    parser.add_argument("--to", type=Path, help="folder that the wheels are downloaded to (default: they are listed)")
    parser.add_argument("--present", type=Path, help="what the machine has: the output of its pip freeze, or names")
    return parser
