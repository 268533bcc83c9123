"""GateCallback inside a real Trainer is the tuner of a bare loop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import PreTrainedModel, TrainerCallback

from gradgate import Clock, GateCallback, Gradual, MethodState, map_layers, method
from gradgate.errors import AttachError, AuditError, NonFiniteError, RunError, UsageError
from gradgate.methods.timeline import foresee
from support.crossed import some_fast
from support.loop import Weights, assert_same_weights, build, moved, weights
from support.trainers import BATCH, ROWS, StopAt, trainer_of

PER_EPOCH = ROWS // BATCH
MASKED = "layer-graddrop:p=0.5,mask_target=update"


def without_dropout() -> PreTrainedModel:
    model = build("bert")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


class Recorder(TrainerCallback):
    """The plan, the loss' step and the moved groups at each step."""

    def __init__(self, gate: GateCallback) -> None:
        self.gate = gate
        self.plans: list[Any] = []
        self.open: list[set[str]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        assert self.gate.tuner is not None
        assert self.gate.tuner.clock.step == state.global_step
        self.plans.append(self.gate.tuner.plan)
        self.open.append({name for name, p in model.named_parameters() if p.requires_grad})


@some_fast(
    "text",
    ["freeze:layers=1", "gradual:every=3", "gradfreeze", "graddrop", "layer-graddrop:p=0.4", "graddrop-epoch-toggle"],
    ["gradual:every=3", "layer-graddrop:p=0.4", "graddrop-epoch-toggle"],
)
def test_what_is_open_at_each_step_is_what_was_foreseen(text: str, tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    chosen = method(text)
    gate = GateCallback(chosen, audit=True)
    recorder = Recorder(gate)
    trainer_of(model, tmp_path, gate, recorder).train()
    layers = map_layers(model)
    assert gate.tuner is not None
    foreseen = foresee(chosen, layers, Clock(0, PER_EPOCH, 12), seed=3)
    happened = gate.tuner.timeline
    assert happened.described(chosen, layers, 12) == foreseen
    for step, plan in enumerate(recorder.plans):
        assert plan == chosen.plan(Clock(step, PER_EPOCH, 12), layers, MethodState(seed=3))


def test_layers_that_open_late_learn(tmp_path: Path) -> None:
    """Trainer's optimizer holds what was open when it was built; the callback closes after that."""
    model = build("bert", dropout=True)
    before = weights(model)
    gate = GateCallback("gradual:every=4", audit=True)
    recorder = Recorder(gate)
    trainer_of(model, tmp_path, gate, recorder).train()
    assert moved(before, model) == set(before)
    assert len(recorder.open[0]) < len(recorder.open[5]) < len(recorder.open[11]) == len(before)


def test_closed_layers_keep_every_bit(tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    before = weights(model)
    trainer_of(model, tmp_path, GateCallback("freeze:layers=2", audit=True)).train()
    layers = map_layers(model)
    expected = {*layers["layers.2"].parameter_names, *layers["head"].parameter_names}
    assert moved(before, model) == expected
    assert all(p.requires_grad for p in model.parameters())


def test_full_is_the_trainer_without_the_callback(tmp_path: Path) -> None:
    plain, gated = build("bert", dropout=True), build("bert", dropout=True)
    trainer_of(plain, tmp_path).train()
    trainer_of(gated, tmp_path, GateCallback("full", audit=True)).train()
    assert_same_weights(plain, gated)


def test_gradient_accumulation_counts_optimizer_steps(tmp_path: Path) -> None:
    model = build("bert")
    model.accepts_loss_kwargs = False
    gate = GateCallback("gradual:every=2", audit=True)
    recorder = Recorder(gate)
    trainer_of(model, tmp_path, gate, recorder, gradient_accumulation_steps=4).train()
    assert gate.tuner is not None
    assert gate.tuner.clock == Clock(4, steps_per_epoch=2, total_steps=4)
    counts = [sum(not g.closed for g in plan.values()) for plan in recorder.plans]
    assert counts == [2, 3, 3, 5]


def test_accumulated_batches_equal_large_ones(tmp_path: Path) -> None:
    ends: list[Weights] = []
    for size, parts in ((8, 1), (2, 4)):
        model = without_dropout()
        model.accepts_loss_kwargs = False  # BERT takes them, but does not use them to average its loss
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": parts, "optim": "sgd"}
        trainer_of(model, tmp_path, GateCallback("graddrop:p=0.4", audit=True), **options).train()
        ends.append(weights(model))
    for one, other in zip(ends[0].values(), ends[1].values(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("text", ["fun:every=3,batches=1", MASKED])
def test_resuming_from_any_checkpoint_ends_with_the_same_bits(text: str, tmp_path: Path) -> None:
    unbroken = build("bert", dropout=True)
    gate = GateCallback(text, audit=True)
    saving = {"save_strategy": "steps", "save_steps": 1, "max_steps": 8}
    trainer_of(unbroken, tmp_path, gate, **saving).train()
    assert gate.tuner is not None
    for step in (2, 3, 7):
        resumed = build("bert", dropout=True)
        again = GateCallback(text, audit=True)
        trainer_of(resumed, tmp_path, again, max_steps=8).train(str(tmp_path / f"checkpoint-{step}"))
        assert_same_weights(unbroken, resumed)
        assert again.tuner is not None
        assert again.tuner.timeline.phases == gate.tuner.timeline.phases


def test_a_checkpoint_holds_the_tuners_state(tmp_path: Path) -> None:
    trainer_of(build("bert"), tmp_path, GateCallback("gradual:every=3"), save_strategy="steps", save_steps=5).train()
    state = json.loads((tmp_path / "checkpoint-5" / "gradgate.json").read_text())
    assert (state["method"], state["seed"], state["step"]) == ("gradual:every=3", 3, 5)


def test_a_checkpoint_without_a_state_resumes_by_its_step(tmp_path: Path) -> None:
    unbroken, resumed = build("bert", dropout=True), build("bert", dropout=True)
    trainer_of(unbroken, tmp_path, GateCallback("gradual:every=3"), save_strategy="steps", save_steps=5).train()
    checkpoint = tmp_path / "checkpoint-5"
    (checkpoint / "gradgate.json").unlink()
    trainer = trainer_of(resumed, tmp_path, GateCallback("gradual:every=3", audit=True))
    with pytest.warns(UserWarning, match=r"checkpoint-5 has no gradgate\.json.*Copy gradgate\.json"):
        trainer.train(resume_from_checkpoint=str(checkpoint))
    assert_same_weights(unbroken, resumed)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the method ``full``. Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("full")
    saving = {"save_strategy": "steps", "save_steps": 3, "max_steps": 3}
    trainer_of(build("bert"), folder, GateCallback("full"), **saving).train()
    return folder / "checkpoint-3"


@pytest.mark.parametrize("damage", ["", "{", '{"method": "full"}', "[]"])
def test_a_damaged_state_is_named(damage: str, checkpoint: Path, tmp_path: Path) -> None:
    file = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint-3")) / "gradgate.json"
    file.write_text(damage)
    with pytest.raises(RunError, match=r"checkpoint-3.gradgate\.json is damaged"):
        trainer_of(build("bert"), tmp_path, GateCallback("full")).train(resume_from_checkpoint=str(file.parent))


def test_a_checkpoint_of_another_method_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="has method 'full', this tuner has 'gradual'"):
        trainer_of(build("bert"), tmp_path, GateCallback("gradual")).train(resume_from_checkpoint=str(checkpoint))


def test_the_same_trainer_can_train_again(tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    gate = GateCallback("gradual:every=4", audit=True)
    recorder = Recorder(gate)
    trainer = trainer_of(model, tmp_path, gate, recorder)
    trainer.train()
    first = list(recorder.open)
    recorder.open.clear()
    before = weights(model)
    trainer.train()
    assert recorder.open == first
    assert moved(before, model) == set(before)


@some_fast("step", [5, 8], [5])
def test_training_again_after_it_broke_off(step: int, tmp_path: Path) -> None:
    """What the broken training had closed is open again before the next one starts."""
    unbroken, broken = build("bert", dropout=True), build("bert", dropout=True)
    trainer_of(unbroken, tmp_path / "a", GateCallback(MASKED, audit=True)).train()
    trainer = trainer_of(
        broken, tmp_path / "b", GateCallback(MASKED, audit=True), StopAt(step), save_strategy="steps", save_steps=3
    )
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.remove_callback(StopAt)
    trainer.train(resume_from_checkpoint=True)
    assert_same_weights(unbroken, broken)


@some_fast("text", ["gradual:every=6", MASKED], [MASKED])
def test_loading_the_best_weights_at_the_end_is_no_fault(text: str, tmp_path: Path) -> None:
    model = build("bert", dropout=True)

    class Worse(TrainerCallback):
        """The first evaluation is the best."""

        count = 0

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
            self.count += 1
            metrics["eval_loss"] = float(self.count)

    trainer = trainer_of(
        model,
        tmp_path,
        Worse(),
        GateCallback(text, audit=True),
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
    )
    trainer.train()
    assert all(p.requires_grad for p in model.parameters())


def test_evaluation_during_training_changes_nothing(tmp_path: Path) -> None:
    plain, evaluated = without_dropout(), without_dropout()
    options = {"num_train_epochs": 1}  # an evaluation draws from the generator that shuffles the next epoch
    trainer_of(plain, tmp_path, GateCallback("gradual:every=2", audit=True), **options).train()
    options |= {"eval_strategy": "steps", "eval_steps": 1}
    trainer_of(evaluated, tmp_path, GateCallback("gradual:every=2", audit=True), **options).train()
    assert_same_weights(plain, evaluated)


def test_a_callback_that_opens_a_closed_layer_is_caught(tmp_path: Path) -> None:
    class Opener(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            if state.global_step == 4:
                model.bert.encoder.layer[0].output.dense.weight.requires_grad_(True)

    model = build("bert")
    with pytest.raises(AuditError, match=r"bert\.encoder\.layer\.0\.output\.dense\.weight is closed in step 5"):
        trainer_of(model, tmp_path, GateCallback("freeze:layers=1", audit=True), Opener()).train()


def test_a_callback_that_writes_to_a_closed_layer_is_caught(tmp_path: Path) -> None:
    class Writer(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            if state.global_step == 9:
                model.bert.encoder.layer[0].output.dense.weight.data.mul_(1.01)

    with pytest.raises(AuditError, match=r"bert\.encoder\.layer\.0\.output\.dense\.weight is closed, but"):
        trainer_of(build("bert"), tmp_path, GateCallback("freeze:layers=1", audit=True), Writer()).train()


def test_a_frozen_model_given_to_trainer_is_named(tmp_path: Path) -> None:
    model = build("bert")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(True)
    with pytest.raises(AttachError, match="'head' would never open anything"):
        trainer_of(model, tmp_path, GateCallback("head")).train()


def test_a_loss_that_is_no_number_stops_the_training_at_its_step(tmp_path: Path) -> None:
    class Poison(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
            if state.global_step == 2:
                model.classifier.bias.data.fill_(torch.nan)

    with pytest.raises(NonFiniteError, match="gradients of step 3"):
        trainer_of(build("bert"), tmp_path, GateCallback("full"), Poison()).train()


def test_the_seed_is_the_trainers_unless_given(tmp_path: Path) -> None:
    for gate, seed in ((GateCallback("graddrop"), 3), (GateCallback("graddrop", seed=9), 9)):
        trainer_of(build("bert"), tmp_path, gate, max_steps=1).train()
        assert gate.tuner is not None
        assert gate.tuner.memory.seed == seed


def test_the_callback_takes_a_method_or_its_text() -> None:
    assert GateCallback(Gradual(every=3)).method == GateCallback("gradual:every=3").method == method("gradual:every=3")


def test_bf16_training_under_the_audit(tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    before = weights(model)
    trainer_of(model, tmp_path, GateCallback("gradual:every=3", audit=True), bf16=True).train()
    assert moved(before, model) == set(before)


def test_released_gradients_make_the_same_weights_in_trainer(tmp_path: Path) -> None:
    models = [without_dropout() for _ in range(2)]
    for number, model in enumerate(models):
        gate = GateCallback("gradual:every=3", release_gradients=bool(number))
        trainer_of(model, tmp_path / str(number), gate, max_grad_norm=0.0, max_steps=6).train()
    assert_same_weights(*models)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, r"max_grad_norm=1\.0: clipping needs all gradients"),
        ({"max_grad_norm": 0.0, "gradient_accumulation_steps": 2}, "gradient_accumulation_steps=2: a step needs"),
    ],
)
def test_gradients_that_trainer_needs_later_are_not_released(
    options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    gate = GateCallback("full", release_gradients=True)
    with pytest.raises(UsageError, match=reason):
        trainer_of(build("bert"), tmp_path, gate, **options).train()


def test_copies_on_several_gpus_are_refused(tmp_path: Path) -> None:
    trainer = trainer_of(build("bert"), tmp_path, GateCallback("freeze:layers=1"))
    trainer.args._n_gpu = 2
    with pytest.raises(AttachError, match=r"2 GPUs by DataParallel.*torchrun --nproc-per-node 2 SCRIPT"):
        trainer.train()


def test_each_node_that_saves_a_checkpoint_has_the_tuners_state(tmp_path: Path) -> None:
    class OnAnotherNode(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            state.is_world_process_zero = False

    options = {"save_strategy": "steps", "save_steps": 4, "save_on_each_node": True}
    trainer_of(build("bert"), tmp_path, GateCallback("gradual:every=4"), OnAnotherNode(), **options).train()
    checkpoints = list(tmp_path.glob("checkpoint-*"))
    assert checkpoints
    assert all((checkpoint / "gradgate.json").is_file() for checkpoint in checkpoints)
