"""Trainer with an optimizer that steps several others: GateCallback follows each of them, and resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import Trainer

from gradgate import GateCallback, map_layers
from gradgate.errors import AttachError
from support.crossed import some_fast
from support.loop import assert_same_weights, build, moved, weights
from support.optimizers import Factory, Joined, matrices, muon_and_adamw
from support.trainers import StopAt, trainer_of

METHODS = ["gradual:every=3", "graddrop:p=0.4,mask_target=update+layerwise-lr:decay=0.8", "lisa:layers=1,state=drop"]


def trainer(folder: Path, gate: GateCallback, *others: Any, **options: Any) -> Trainer:
    """With an optimizer factory, as Trainer takes it for Muon or Dion; dropout is on."""
    made = trainer_of(build("bert", dropout=True), folder, gate, *others, **options)
    made.optimizer_cls_and_kwargs = (Factory, {"lr": 1e-2})
    return made


@some_fast("method", METHODS, METHODS[1:2])
def test_a_training_that_was_stopped_ends_as_if_it_had_not_been(method: str, tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 4, "max_steps": 8}
    unbroken = trainer(tmp_path / "unbroken", GateCallback(method, audit=True), **saving)
    unbroken.train()
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "broken", GateCallback(method, audit=True), StopAt(6), **saving).train()
    gate = GateCallback(method, audit=True)
    resumed = trainer(tmp_path / "broken", gate, **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "broken/checkpoint-4"))
    assert gate.tuner is not None
    assert [type(one).__name__ for one in gate.tuner.optimizers] == ["Muon", "AdamW"]
    assert gate.tuner.clock.step == 8
    assert_same_weights(unbroken.model, resumed.model)


def test_closed_layers_hold_and_both_optimizers_learn(tmp_path: Path) -> None:
    made = trainer(tmp_path, GateCallback("freeze:layers=2", audit=True), max_grad_norm=0.5)
    before = weights(made.model)
    made.train()
    layers = map_layers(made.model)
    expected = {*layers["layers.2"].parameter_names, *layers["head"].parameter_names}
    assert moved(before, made.model) == expected
    joined = made.optimizer.optimizer
    assert isinstance(joined, Joined)
    assert joined.muon.state
    assert joined.adamw.state
    assert all(group["lr"] < 1e-2 for group in joined.muon.param_groups)  # the schedule reaches the inner optimizers


def test_an_optimizer_that_is_passed_in_is_followed_too(tmp_path: Path) -> None:
    model = build("bert")
    gate = GateCallback("gradual:every=3", audit=True)
    made = trainer_of(model, tmp_path, gate)
    made.optimizer = Joined(*muon_and_adamw(model))
    made.train()
    assert gate.tuner is not None
    assert gate.tuner.clock.step == 12


def test_a_factory_that_leaves_weights_out_is_refused(tmp_path: Path) -> None:
    class Forgetful(Factory):
        def __call__(self, model: nn.Module, **options: Any) -> Joined:
            norms = [p for name, p in model.named_parameters() if "LayerNorm" in name]
            return Joined(torch.optim.Muon(matrices(model)), torch.optim.AdamW(norms))

    made = trainer(tmp_path, GateCallback("full"))
    made.optimizer_cls_and_kwargs = (Forgetful, {})
    with pytest.raises(AttachError, match=r"^bert\.embeddings\.\S+ and \d+ more will be opened .*\(Muon and AdamW\)"):
        made.train()


@pytest.mark.filterwarnings("ignore:.*counts its steps")
def test_a_schedule_free_training_resumes_and_holds(tmp_path: Path) -> None:
    """Trainer switches the optimizer to evaluation and back at each evaluation."""
    pytest.importorskip("schedulefree")
    options = {
        "optim": "schedule_free_adamw",
        "lr_scheduler_type": "constant",
        "eval_strategy": "steps",
        "eval_steps": 2,
        "save_strategy": "steps",
        "save_steps": 4,
        "max_steps": 8,
    }
    method = "lisa:layers=1,every=1,state=keep"

    def made(folder: str, *others: Any) -> Trainer:
        gate = GateCallback(method, audit=True)
        return trainer_of(build("bert", dropout=True), tmp_path / folder, gate, *others, **options)

    unbroken = made("unbroken")
    unbroken.train()
    with pytest.raises(KeyboardInterrupt):
        made("broken", StopAt(6)).train()
    resumed = made("broken")
    resumed.train(resume_from_checkpoint=str(tmp_path / "broken/checkpoint-4"))
    assert_same_weights(unbroken.model, resumed.model)
