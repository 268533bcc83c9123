"""What Trainer has no event for: it breaks off, it logs, and it adds up losses of accumulated batches."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, Trainer, TrainerCallback

from gradgate import GateCallback, Tuner
from support.crossed import each_once
from support.loop import adamw, assert_same_weights, build, moved, weights
from support.trainers import StopAt, rows, trainer_of

EVENTS = ["on_train_begin", "on_epoch_begin", "on_step_begin", "on_step_end", "on_log", "on_save", "on_train_end"]
SHORT: dict[str, Any] = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2, "logging_steps": 1}


def raises_in(event: str, error: type[BaseException]) -> TrainerCallback:
    callback = TrainerCallback()

    def raise_error(*_: Any, **__: Any) -> None:
        raise error("enough")

    setattr(callback, event, raise_error)
    return callback


def is_free(model: PreTrainedModel) -> bool:
    hooked = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    return all(p.requires_grad for p in model.parameters()) and not hooked


@each_once("error", [KeyboardInterrupt, ValueError], "event", EVENTS)
def test_a_training_that_raises_frees_its_model(event: str, error: type[BaseException], tmp_path: Path) -> None:
    model = build("bert", dropout=True)
    gate = GateCallback("freeze:layers=2")
    trainer = trainer_of(model, tmp_path, gate, raises_in(event, error), **SHORT)
    with pytest.raises(error):
        trainer.train()
    assert gate.tuner is not None
    assert is_free(model)
    assert "log" not in vars(trainer)
    assert "_run_epoch" not in vars(trainer)
    plain = build("bert", dropout=True)
    plain.load_state_dict(model.state_dict())
    for one, callbacks in ((model, [GateCallback("full", audit=True)]), (plain, [])):
        trainer_of(one, tmp_path, *callbacks, max_steps=2).train()
    assert_same_weights(model, plain)


def test_a_signal_within_a_step_frees_the_model(tmp_path: Path) -> None:
    model = build("bert")
    before = weights(model)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored

    class Interrupted(Trainer):
        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            if self.state.global_step == 1:
                signal.raise_signal(signal.SIGINT)
            return super().training_step(*args, **kwargs)

    args = trainer_of(model, tmp_path, max_steps=3).args
    with pytest.raises(KeyboardInterrupt):
        Interrupted(model, args, train_dataset=rows(model), callbacks=[GateCallback("head")]).train()
    assert is_free(model)
    trainer_of(model, tmp_path, max_steps=2).train()
    assert moved(before, model) == set(before)


def test_a_callback_that_is_added_later_frees_it(tmp_path: Path) -> None:
    model = build("bert")
    trainer = trainer_of(model, tmp_path, max_steps=3)
    trainer.add_callback(GateCallback("freeze:layers=2"))
    trainer.add_callback(StopAt(2))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert is_free(model)
    assert not {"log", "_run_epoch", "_finalize_training", "compute_loss"} & set(vars(trainer))
    with Tuner(model, adamw(model), "full"):
        pass


def test_a_batch_size_that_is_halved_keeps_the_gate(tmp_path: Path) -> None:
    """Trainer's loop begins again after an error within ``train``."""
    model, failed = build("bert"), []

    class TooLarge(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if not failed:
                failed.append(state.global_step)
                raise RuntimeError("CUDA out of memory.")

    before, gate = weights(model), GateCallback("head", audit=True)
    trainer_of(model, tmp_path, gate, TooLarge(), auto_find_batch_size=True, max_steps=2).train()
    assert gate.tuner is not None
    assert gate.tuner.clock.step == 2
    assert moved(before, model) == set(gate.tuner.layers["head"].parameter_names)


# What is logged.


@pytest.mark.parametrize("added_late", [False, True])
def test_every_logged_loss_has_share_and_phase(added_late: bool, tmp_path: Path) -> None:
    model, gate, seen = build("bert"), GateCallback("gradual:every=2"), []
    shares: list[float] = []

    class Tracker(TrainerCallback):
        """Registered before the gate, as Trainer's integrations are."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            assert gate.tuner is not None
            shares.append(gate.tuner.open_fraction)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            seen.append(dict(logs))

    trainer = trainer_of(model, tmp_path, Tracker(), *([] if added_late else [gate]), max_steps=5, logging_steps=1)
    if added_late:
        trainer.add_callback(gate)
    trainer.train()
    for entries in (seen, trainer.state.log_history):
        logged = [entry for entry in entries if "loss" in entry]
        assert [entry["gradgate/open_share"] for entry in logged] == shares
        assert [entry["gradgate/phase"] for entry in logged] == [1, 2, 2, 3, 3]
    assert "gradgate/phase" not in seen[-1]
    assert "log" not in vars(trainer)


def test_a_resumed_training_logs_the_same(tmp_path: Path) -> None:
    logs = []
    for resumed in (None, str(tmp_path / "checkpoint-2")):
        trainer = trainer_of(build("bert"), tmp_path, GateCallback("gradual:every=1"), **SHORT)
        trainer.train(resume_from_checkpoint=resumed)
        logs.append([entry for entry in trainer.state.log_history if "loss" in entry])
    assert logs[0] == logs[1]
    assert len({entry["gradgate/phase"] for entry in logs[0]}) > 1


def test_a_class_that_overrides_log_gets_them_too(tmp_path: Path) -> None:
    class Own(Trainer):
        def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
            super().log({**logs, "own": 1.0}, *args, **kwargs)

    model = build("bert")
    args = trainer_of(model, tmp_path, max_steps=1, logging_steps=1).args
    trainer = Own(model, args, train_dataset=rows(model), callbacks=[GateCallback("head")])
    trainer.train()
    assert {"own", "gradgate/open_share", "loss"} <= trainer.state.log_history[0].keys()


# Accumulation.


class Mean(Trainer):
    """A loss of one's own, a mean over each batch."""

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        labels = inputs.pop("labels")
        return torch.nn.functional.cross_entropy(model(**inputs).logits, labels)


class Divided(Trainer):
    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        labels = inputs.pop("labels")
        loss = torch.nn.functional.cross_entropy(model(**inputs).logits, labels, reduction="sum")
        return loss / num_items_in_batch


ACCUMULATED: dict[str, tuple[str, type[Trainer], dict[str, Any], bool]] = {
    "a head that takes the mean": ("bert", Trainer, {}, True),
    "a mean of one's own": ("bert", Mean, {}, True),
    "with the remedy": ("bert", Trainer, {"model_accepts_loss_kwargs": False}, False),
    "with the newer remedy": ("bert", Mean, {"loss_is_scaled_for_ga": False}, False),
    "a loss that divides": ("bert", Divided, {}, False),
    "a language model": ("llama", Trainer, {}, False),
}


@pytest.mark.parametrize("case", ACCUMULATED)
def test_summed_losses_are_told_once(case: str, tmp_path: Path) -> None:
    name, kind, settings, told = ACCUMULATED[case]
    ends = []
    for size, parts in ((4, 1), (2, 2)):
        model = build(name)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": parts, "max_steps": 2}
        args = trainer_of(model, tmp_path, optim="sgd", max_grad_norm=0.0, **options).args
        trainer = kind(model, args, train_dataset=rows(model, 8), callbacks=[GateCallback("full")])
        vars(trainer).update(settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer.train()
        texts = [str(one.message) for one in caught if "gradient_accumulation_steps" in str(one.message)]
        assert len(texts) == (told and parts > 1)
        assert all("gradient_accumulation_steps=2: the loss of" in text for text in texts)
        assert all("Set trainer.model_accepts_loss_kwargs = False before train()" in text for text in texts)
        assert "compute_loss" not in vars(trainer)
        ends.append(weights(model))
    apart = max(float((one - other).abs().max()) for one, other in zip(ends[0].values(), ends[1].values(), strict=True))
    assert (apart > 1e-4) == told, "the warning is true"
