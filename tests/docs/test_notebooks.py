"""Notebooks of the documentation: code that runs from the first cell to the last, stored without outputs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs/notebooks").glob("*.ipynb"))
CALL = "__import__('subprocess').run([__import__('sys').executable, '-m', *f{words!r}.split()], check=True)"


def cells(notebook: Path) -> list[dict[str, Any]]:
    return [each for each in json.loads(notebook.read_text())["cells"] if each["cell_type"] == "code"]


def code(cell: dict[str, Any]) -> str:
    """The source of a cell, with shell commands as calls of this Python."""
    lines = "".join(cell["source"]).splitlines()
    return "\n".join(CALL.format(words=line[1:]) if line.startswith("!") else line for line in lines)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_code_and_no_outputs(notebook: Path) -> None:
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells(notebook))
    assert all(ast.parse(code(cell)) is not None for cell in cells(notebook))
    assert str(Path.home()) not in notebook.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_on_a_cpu(notebook: Path, tmp_path: Path) -> None:
    script = tmp_path / "notebook.py"
    script.write_text("\n".join(map(code, cells(notebook))))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run([sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "studies/free-gpu/report.html").is_file()
    assert (tmp_path / "studies/free-gpu-export/README.md").is_file()
