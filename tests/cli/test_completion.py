"""What a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gradgate.cli.completion import method_names, models_named, presets_named, tasks_named


def test_names_are_completed() -> None:
    assert method_names("graddrop") == ["graddrop", "graddrop-epoch", "graddrop-epoch-toggle"]
    assert "gradual:every=" in method_names("gradual:")
    assert method_names("fun:every=50,ba") == ["fun:every=50,batches="]
    assert method_names("nothing:") == []
    assert {"sample", "sample-nli"} <= set(tasks_named("sample"))
    assert models_named("sample-") == ["sample-decoder"]
    assert "elsa-table4" in presets_named("elsa")


@pytest.mark.parametrize(
    ("typed", "expected"), [("gradgate com", "compare"), ("gradgate compare --task sample-n", "sample-nli")]
)
def test_bash_is_told(typed: str, expected: str) -> None:
    words = typed.split()
    asked = {"_GRADGATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-X", "importtime", "-m", "gradgate"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True)
    assert expected in done.stdout.split()
    assert "| torch\n" not in done.stderr
