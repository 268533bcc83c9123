"""What a shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gradgate.cli.completion import method_names, models_named, presets_named, tasks_named

BASH = shutil.which("bash")


def test_names_are_completed() -> None:
    assert method_names("graddrop") == ["graddrop", "graddrop-epoch", "graddrop-epoch-toggle"]
    assert "gradual:every=" in method_names("gradual:")
    assert method_names("fun:every=50,ba") == ["fun:every=50,batches="]
    assert method_names("nothing:") == []
    assert {"sample", "sample-nli"} <= set(tasks_named("sample"))
    assert models_named("sample-") == ["sample-decoder"]
    assert "elsa-table4" in presets_named("elsa")


def test_bash_is_told() -> None:
    typed, expected = "gradgate compare --task sample-n", "sample-nli"
    words = typed.split()
    asked = {"_GRADGATE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-X", "importtime", "-m", "gradgate"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True)
    assert expected in done.stdout.split()
    assert "| torch\n" not in done.stderr


# Bash gives the words already broken at ':' and '=', and takes what follows the last of them.
BROKEN = {
    "compare -m full -m fun : every = 50,ba": ["50,batches="],
    "plan --task = sample-n": ["sample-nli"],
}


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_a_real_bash_completes_beyond_a_colon(tmp_path: Path) -> None:
    command = tmp_path / "gradgate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gradgate "$@"\n')
    command.chmod(0o755)
    lines = [f'eval "$(_GRADGATE_COMPLETE=source_bash {command})"']
    for words in BROKEN:
        lines += [f"COMP_WORDS=(gradgate {words})", "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))"]
        lines += [f"_gradgate_completion {command}", 'echo "${COMPREPLY[@]}"']
    assert BASH is not None
    done = subprocess.run([BASH, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    found = [line.split() for line in done.stdout.splitlines()]
    for words, (typed, expected) in zip(found, BROKEN.items(), strict=True):
        assert set(expected) <= set(words), typed
        assert all(word.startswith(typed.split()[-1].lstrip(":=")) for word in words), typed
