"""A method in an installed package of a user's own, found by its entry point."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradgate.methods import catalog
from support.command_line import Command

MODULE = """
from dataclasses import dataclass
from gradgate import Method, Plan

@dataclass(frozen=True, kw_only=True)
class Ends(Method):
    name = "ends"
    summary = "the lowest and the highest layers learn"
    source = "an example"
    each: int = 1

    def plan(self, clock, layers, memory):
        names = [group.name for group in layers.layers]
        return Plan.opening(layers, dict.fromkeys([*names[: self.each], *names[-self.each :], "head"], True))

not_a_method = 3
"""


def install(folder: Path, target: str) -> dict[str, str]:
    """The environment of a process in which a package with this entry point is installed."""
    (folder / "their_methods.py").write_text(MODULE)
    info = folder / "their_methods-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-methods\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[gradgate.methods]\nends = their_methods:{target}\n")
    return {**os.environ, "PYTHONPATH": str(folder)}


def gradgate(*words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gradgate", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_it_works_from_the_command_line(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "Ends")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(catalog, "_CATALOG", dict(catalog._CATALOG))
    monkeypatch.setitem(sys.modules, "their_methods", None)
    monkeypatch.delitem(sys.modules, "their_methods")
    drawn = command("plan", "--model", "sample", "-m", "ends:each=1", "--steps", "10")
    assert drawn.code == 0, drawn.err
    rows = {line.split()[0]: line.split()[-1] for line in drawn.out.splitlines() if line.startswith("layers.")}
    assert rows == {"layers.0": "100.0%", "layers.1": "0.0%", "layers.2": "0.0%", "layers.3": "100.0%"}


@pytest.mark.parametrize("words", [("methods",), ("plan", "--model", "sample", "-m", "ends", "--steps", "3")])
def test_what_is_no_method_is_refused_by_name(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = gradgate(*words, env=install(tmp_path, "not_a_method"))
    assert refused.returncode == 2
    assert "entry point 'ends' (their_methods:not_a_method) is not a class derived from Method" in refused.stderr
