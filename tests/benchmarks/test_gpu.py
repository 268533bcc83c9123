"""Test the command that measures everything on a GPU, by its dry run on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu.parts import PARTS

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow

# `gpu-wheels` lists neither, so no part may import them.
WITHOUT = """
import runpy, sys
sys.modules |= dict.fromkeys(("optuna", "sqlalchemy"))
runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)
"""


def dry(out: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "gpu", "--dry", "--out", str(out), *words],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "; 0 cases not measured" in done.stdout, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu")
    dry(folder)
    return folder


def test_each_part_has_figures(out: Path) -> None:
    figures = json.loads((out / "gpu.json").read_text(encoding="utf-8"))
    assert all(list(figure) == ["part", "value", "unit", "goal", "met"] for figure in figures)
    assert {figure["part"].split(":")[0] for figure in figures} == {part.name for part in PARTS}
    assert [figure["part"] for figure in figures if figure["met"] is False] == []


def test_the_page_names_machine_and_goals(out: Path) -> None:
    page = (out / "GPU.md").read_text(encoding="utf-8")
    assert "torch" in page
    assert "| " in page
    assert not (ROOT / "benchmarks/GPU.md").exists() or "dry" not in (ROOT / "benchmarks/GPU.md").read_text()


def test_a_second_call_measures_nothing_again(out: Path) -> None:
    before = (out / "gpu.json").read_bytes()
    dry(out)
    assert (out / "gpu.json").read_bytes() == before
