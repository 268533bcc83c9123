"""The examples in docstrings of the functions that people call."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from gradgate.api import compare, plan, recommend, train


@pytest.mark.slow
@pytest.mark.parametrize("module", [train, compare, plan, recommend], ids=lambda module: module.__name__)
def test_examples_run(module: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.failed == 0
