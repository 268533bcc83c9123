"""Scripts as people write them: nothing is found in sound ones, and the fault of each faulty one is."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import gradgate as gg

SCRIPTS = Path(__file__).parent / "scripts"
SOUND = sorted(path.stem for path in (SCRIPTS / "sound").glob("*.py"))
NEEDS = {
    "lightning_module": "lightning",
    "sentence_encoder": "sentence_transformers",
    "sft": "trl",
    "trainer_lora": "peft",
}


def audited(kind: str, name: str) -> gg.auditing.session.Audit:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    with gg.audit() as found:
        runpy.run_path(str(SCRIPTS / kind / f"{name}.py"), run_name="__main__")
    return found


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_a_sound_script(name: str) -> None:
    found = audited("sound", name)
    assert found.steps >= 4
    assert found.learned.names
    assert [(each.kind, each.names) for each in found.findings] == []
