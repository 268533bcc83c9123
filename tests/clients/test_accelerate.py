"""A loop of accelerate's with a tuner: wrapped optimizer, accumulation, clipping and saved states, also with PEFT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import GradientState

from gradgate import Tuner
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, batch, build, moved, weights

peft = pytest.importorskip("peft")


@pytest.fixture(autouse=True)
def _no_loader_of_another_training() -> None:
    """A training that another test has cut off leaves its loader in the state that all accelerators share."""
    GradientState._reset_state()


def plain() -> Any:
    return build("bert")


def adapted() -> Any:
    torch.manual_seed(0)
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], init_lora_weights=False)
    return peft.get_peft_model(build("bert"), config)


def train(model: Any, method: str, *, save: Path | None = None, resume: Path | None = None) -> Tuner:
    """Six steps of two batches each, saved after three, or from there on."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    model, optimizer = accelerator.prepare(model, adamw(model))
    with Tuner(model, optimizer, method, total_steps=6, audit=True) as tuner:
        accelerator.register_for_checkpointing(tuner)
        if resume is not None:
            accelerator.load_state(str(resume))
        groups = {name: tuner.layers.group_of(name).name for name in trained}
        for number in range(2 * tuner.clock.step, 12):
            before, plan, done = weights(model), tuner.plan, tuner.clock.step
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch(model, number)).loss)
                accelerator.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
            assert tuner.clock.step == done + (number % 2)
            opened = {group for group in groups.values() if plan[group].open} if number % 2 else set()
            assert {groups[name] for name in moved(before, model)} == opened
            if save is not None and number == 5:
                accelerator.save_state(str(save))
    return tuner


@each_once("model", [plain, adapted], "method", ["gradual:every=2", "lisa:layers=1,every=2"])
def test_only_what_is_open_moves_and_a_saved_state_resumes(method: str, model: Any, tmp_path: Path) -> None:
    whole, resumed = model(), model()
    tuner = train(whole, method, save=tmp_path)
    again = train(resumed, method, resume=tmp_path)
    assert again.timeline.phases == tuner.timeline.phases
    assert len(tuner.timeline.phases) > 1
    assert_same_weights(whole, resumed)
