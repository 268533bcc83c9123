"""What ``gradgate doctor`` finds, and what it advises."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from gradgate.cli import diagnosis as doctor
from gradgate.cli.diagnosis import GIB, Check, check_arithmetic, check_disk, check_extras, check_packages, examine
from support.command_line import Command

NEEDED = [
    "torch>=2.6",
    "transformers<4",
    "no-such-package>=1",
    'peft>=0.18; extra == "peft"',
    'no-such-package>=2; extra == "llm"',
    'torch>=2.6; extra == "llm"',
    'old>=1; python_version < "3" and extra == "ray"',
]


def test_packages_that_are_absent_or_out_of_range_are_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: NEEDED)
    found = {check.about: check for check in check_packages()}
    assert list(found) == ["torch", "transformers", "no-such-package"]
    assert found["torch"].state == "ok"
    assert (found["transformers"].state, found["no-such-package"].found) == ("problem", "missing")
    assert "pip install 'transformers<4'" in found["transformers"].advice
    assert found["no-such-package"].advice == "pip install 'no-such-package>=1'"


def test_source_on_the_path_is_examined_without_what_it_requires(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", absent)
    monkeypatch.setattr(doctor, "version", absent)
    assert [(check.about, check.state) for check in check_packages()] == [("gradgate", "note")]
    assert list(check_extras()) == []


def test_extras_say_what_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "requires", lambda name: NEEDED)
    found = {check.about: check for check in check_extras()}
    assert list(found) == ["extra peft", "extra llm"]  # ray's is not for this Python
    assert found["extra llm"].state == "note"
    assert "no-such-package missing" in found["extra llm"].found
    assert found["extra llm"].advice == "only for tasks of kind generation: pip install 'gradgate[llm]'"


def test_a_cpu_without_instructions_for_16_bits_is_named() -> None:
    assert check_arithmetic(1e-3, 6e-4) == Check("arithmetic", "bf16 takes 0.6 times as long as fp32 on the CPU")
    slow = check_arithmetic(1e-3, 5e-2)
    assert slow.state == "note"
    assert "50.0 times" in slow.found
    assert "--precision at fp32" in slow.advice


@pytest.mark.parametrize(("free", "state"), [(0.5, "problem"), (5.0, "note"), (50.0, "ok")])
def test_free_space_is_that_of_the_folder_that_will_be_made(
    free: float, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda path: asked.append(path) or SimpleNamespace(free=free * GIB)
    )
    studies, models = check_disk(tmp_path / "not/yet")
    assert asked[0] == tmp_path
    assert (studies.state, models.state) == (state, state)
    assert f"{free:.1f} GiB" in studies.found


def test_everything_is_looked_at_here(tmp_path: Path) -> None:
    abouts = [check.about for check in examine(tmp_path)]
    assert {"python", "torch", "arithmetic", "threads", "memory", "disk for studies", "hub"} <= set(abouts)
    assert len(set(abouts)) == len(abouts)


def test_the_command_prints_advice_and_fails_where_something_is_broken(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [Check("torch", "3.0"), Check("disk", "full", "problem", "free some")]
    monkeypatch.setattr(doctor, "examine", lambda folder, network: some)
    said = command("doctor")
    assert said.code == 1
    assert "→ free some" in said.out
    assert "1 problems, 0 notes" in said.out
    assert json.loads(command("doctor", "--json").out)[1] == {
        "about": "disk", "found": "full", "state": "problem", "advice": "free some",
    }  # fmt: skip
    monkeypatch.setattr(doctor, "examine", lambda folder, network: some[:1])
    assert command("doctor").code == 0
