"""Scripts as people write them: nothing is found in sound ones, and the fault of each faulty one is."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import gradgate as gg
from gradgate.auditing.findings import Kind
from support.crossed import some_fast

SCRIPTS = Path(__file__).parent / "scripts"
SOUND = sorted(path.stem for path in (SCRIPTS / "sound").glob("*.py"))
FAULTS: dict[str, tuple[Kind, str]] = {
    "used_up_generator": ("empty_group", ""),
    "features_without_gradient": ("no_gradient", "encoder.embeddings.word_embeddings.weight"),
    "head_after_optimizer": ("replaced", "classifier.weight"),
    "table_after_optimizer": ("replaced", "lm_head.weight"),
    "lora_of_other_names": ("partial_coverage", ""),
    "rate_below_rounding": ("lost_update", "bert.encoder.layer.1.output.dense.weight"),
    "nothing_to_predict": ("zero_tokens", ""),
    "frozen_later": ("moved_while_frozen", "bert.encoder.layer.0.output.dense.weight"),
    "decay_of_zero": ("zero_learning_rate", "bert.encoder.layer.0.output.dense.weight"),
    "head_in_two_optimizers": ("in_two_groups", "classifier.weight"),
    "module_without_encoder": ("not_in_optimizer", "encoder.encoder.layer.0.output.dense.weight"),
    "head_no_longer_tied": ("untied", ""),
    "resumed_with_all_open": ("unexpected", "bert.encoder.layer.0.output.dense.weight"),
    "teacher_in_optimizer": ("unexpected", "bert.encoder.layer.0.output.dense.weight"),
    "average_written_back": ("moved_while_frozen", "bert.embeddings.word_embeddings.weight"),
    "new_tokens_closed": ("partial_coverage", "base_model.model.model.embed_tokens.weight"),
    "zeroed_before_step": ("no_gradient", "classifier.weight"),
    "loaded_in_half": ("not_finite", "bert.embeddings.word_embeddings.weight"),
    "copied_after_optimizer": ("replaced", "classifier.weight"),
}
NEEDS = {
    "lora_of_other_names": "peft",
    "merged_adapter": "peft",
    "new_tokens_closed": "peft",
    "module_without_encoder": "lightning",
    "lightning_module": "lightning",
    "sentence_encoder": "sentence_transformers",
    "sft": "trl",
    "trainer_lora": "peft",
}


def audited(kind: str, name: str) -> gg.auditing.session.Audit:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    with gg.audit() as found:
        script = runpy.run_path(str(SCRIPTS / kind / f"{name}.py"), run_name="__main__")
    del script  # the model lives to the end of the script, as in a process of its own
    return found


@pytest.mark.parametrize("name", SOUND)
def test_nothing_is_found_in_a_sound_script(name: str) -> None:
    found = audited("sound", name)
    assert found.steps >= 4
    assert found.learned.names
    assert [(each.kind, each.names) for each in found.findings] == []
    assert found.report.notes == ()


def test_each_faulty_script_has_a_known_fault() -> None:
    assert {path.stem for path in (SCRIPTS / "faulty").glob("*.py")} == {*FAULTS}


# Each kind of finding once, and a second time where another part of the package finds it.
FAST = set(FAULTS) - {"table_after_optimizer", "copied_after_optimizer", "teacher_in_optimizer", "new_tokens_closed"}


@some_fast("name", list(FAULTS), FAST)
def test_the_fault_of_a_script_is_found(name: str) -> None:
    kind, parameter = FAULTS[name]
    found = audited("faulty", name)
    named = {each.kind: each.names for each in found.findings}
    assert kind in named, named
    assert not parameter or parameter in named[kind]
