"""Lightning's Trainer with a gate: what is open, Lightning's accumulation, clipping and checkpoints."""

from __future__ import annotations

import copy
import csv
import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer

import gradgate as gg
from gradgate.errors import AttachError, RunError, UsageError
from support.crossed import each_once, some_fast
from support.loop import Weights, assert_same_weights, build, moved, weights
from support.tiny_models import tiny_batch
from support.tracked import tensorboard_points

lightning = pytest.importorskip("lightning.pytorch")

STEPS = 6
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}


class Module(lightning.LightningModule):
    """Computes in ``training_step`` alone, as most modules do."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bert = build("bert", dropout=True)
        self.scale = nn.Linear(3, 3)
        for module in self.bert.modules():
            if isinstance(module, nn.Dropout):
                module.p = dropout

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self.scale(self.bert(**batch).logits), batch["labels"])

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-2, weight_decay=0.1)


class Called(Module):
    """Calls itself, with one dictionary."""

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.scale(self.bert(**batch).logits)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        return nn.functional.cross_entropy(self(batch), batch["labels"])


class Manual(Called):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:  # type: ignore[override]
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(super().training_step(batch, batch_idx))
        optimizer.step()


class Two(Called):
    """Steps matrices and the rest by an optimizer of their own."""

    toggles = False

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def configure_optimizers(self) -> Any:
        matrices = [p for p in self.parameters() if p.dim() > 1]
        rest = [p for p in self.parameters() if p.dim() <= 1]
        return [torch.optim.SGD(matrices, lr=0.1, momentum=0.9), torch.optim.AdamW(rest, lr=1e-2)]

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:  # type: ignore[override]
        optimizers: Any = self.optimizers()
        if self.toggles:
            self.toggle_optimizer(optimizers[0])
        self.manual_backward(super().training_step(batch, batch_idx))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


class Toggles(Two):
    toggles = True


class Watcher(lightning.Callback):
    """Compares every weight before and after each step with the plan of the step."""

    def __init__(self, gate: Any) -> None:
        self.gate = gate
        self.opened: dict[int, set[str]] = {}
        self._before: Weights = {}

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, number: int) -> None:
        done = self.gate.tuner.clock.step
        if done not in self.opened:
            self.opened[done] = {group for group, gate in self.gate.tuner.plan.items() if not gate.closed}
            self._before = weights(module)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int) -> None:
        done = self.gate.tuner.clock.step
        if done not in self.opened:
            layers = self.gate.tuner.layers
            assert {layers.group_of(name).name for name in moved(self._before, module)} == self.opened[done - 1]


def fit(module: Any, gate: Any, *callbacks: Any, resume: Path | None = None, **options: Any) -> dict[int, set[str]]:
    """Train for two epochs of 3 batches, watched; returns what was open in the step after each number of steps."""
    columns = tiny_batch(module.bert, size=12)
    rows = [{name: column[row] for name, column in columns.items()} for row in range(12)]
    settings = {"accelerator": "cpu", "devices": 1, "max_epochs": 2, "enable_checkpointing": False, **QUIET, **options}
    watcher = Watcher(gate)
    trainer = lightning.Trainer(callbacks=[gate, watcher, *callbacks], **settings)
    trainer.fit(module, DataLoader(rows, batch_size=4), ckpt_path=resume)
    return watcher.opened


def saving(folder: Path) -> Any:
    """Saves after each epoch; Lightning gives other data to what resumes within one."""
    return lightning.callbacks.ModelCheckpoint(folder, filename="{step}", every_n_epochs=1, save_top_k=-1)


def gated(method: str, **options: Any) -> Any:
    return gg.lightning.GateCallback(method, audit=True, **options)


@each_once("method", ["gradual:every=2", "lisa:layers=1,every=2"], "kind", [Module, Called, Manual, Two])
def test_only_what_is_open_moves(kind: Any, method: str) -> None:
    module, gate = kind(), gated(method)
    opened = fit(module, gate, gradient_clip_val=None if kind in (Manual, Two) else 0.1)
    assert len(opened) == STEPS
    assert len({frozenset(groups) for groups in opened.values()}) > 1
    assert gate.tuner.layers.names == ("embeddings", "layers.0", "layers.1", "layers.2", "head")
    assert {"scale.weight", "scale.bias"} < set(gate.tuner.layers["head"].parameter_names)
    assert all(p.requires_grad for p in module.parameters())
    assert not {"forward", "training_step"} & set(vars(module))


@some_fast(
    "method",
    ["gradual:every=2", "graddrop:p=0.4", "fun:every=3,batches=1", "mixout:p=0.5"],
    ["fun:every=3,batches=1", "mixout:p=0.5"],
)
def test_a_checkpoint_resumes_with_the_same_bits(method: str, tmp_path: Path) -> None:
    class Keyword(Called):
        def forward(self, **batch: Tensor) -> Any:  # type: ignore[override]
            return self.bert(**batch)

        def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
            return nn.functional.cross_entropy(self.scale(self(**batch).logits), batch["labels"])

    whole, resumed, gate, again = Keyword(), Keyword(), gated(method), gated(method)
    fit(whole, gate, saving(tmp_path), enable_checkpointing=True)
    fit(resumed, again, resume=tmp_path / "step=3.ckpt")
    assert again.tuner.clock == gate.tuner.clock == gg.Clock(STEPS, steps_per_epoch=3, total_steps=STEPS)
    assert again.tuner.timeline.phases == gate.tuner.timeline.phases
    assert_same_weights(whole, resumed)


def test_masters_go_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Lightning has loaded the moments, and torch rounded them, before the tuner attaches."""
    whole, resumed = Called().bfloat16(), Called().bfloat16()
    fit(whole, gated("lisa:layers=1,every=2"), saving(tmp_path), enable_checkpointing=True)
    fit(resumed, gated("lisa:layers=1,every=2"), resume=tmp_path / "step=3.ckpt")
    assert_same_weights(whole, resumed)


def test_a_checkpoint_of_another_method_is_refused(tmp_path: Path) -> None:
    fit(Called(), gated("gradual:every=2"), saving(tmp_path), enable_checkpointing=True)
    with pytest.raises(RunError, match=r"Cannot resume from .*step=3.ckpt: .*method 'gradual:every=2', this tuner has"):
        fit(Called(), gated("gradual:every=3"), resume=tmp_path / "step=3.ckpt")


def test_a_checkpoint_without_a_gate_resumes_by_its_step(tmp_path: Path) -> None:
    gate = gated("gradual:every=2")
    fit(Called(), gated("full"), saving(tmp_path), enable_checkpointing=True)
    checkpoint = torch.load(tmp_path / "step=3.ckpt", weights_only=True)
    del checkpoint["callbacks"]["GateCallback"]
    torch.save(checkpoint, tmp_path / "plain.ckpt")
    with pytest.warns(
        UserWarning, match=r"plain\.ckpt has no state of a tuner.*resumes with the plan of 'gradual:every=2'"
    ):
        opened = fit(Called(), gate, resume=tmp_path / "plain.ckpt")
    assert {done: len(groups) for done, groups in opened.items()} == {3: 5, 4: 5, 5: 5}
    assert gate.tuner.clock.step == STEPS


def test_accumulated_batches_are_one_step() -> None:
    gate = gated("gradual:every=2")
    opened = fit(Module(), gate, accumulate_grad_batches=2)
    assert gate.tuner.clock == gg.Clock(4, steps_per_epoch=2, total_steps=4)
    assert [len(groups) for groups in opened.values()] == [2, 3, 3, 5]


@pytest.mark.parametrize("kind", [Module, Called])
def test_closed_layers_at_the_bottom_run_without_dropout(kind: Any) -> None:
    seen: dict[str, set[bool]] = {"embeddings": set(), "top": set()}
    module = kind(dropout=0.5)
    bert = module.bert.bert
    for name, part in (("embeddings", bert.embeddings.dropout), ("top", bert.encoder.layer[2].output.dropout)):
        part.register_forward_hook(
            lambda part, *_, name=name: seen[name].add(part.training) if torch.is_grad_enabled() else None
        )
    fit(module, gated("freeze:layers=2"))
    assert seen["top"] == {True}
    assert seen["embeddings"] == {False}
    assert all(part.training for part in module.modules())


def test_toggling_optimizers_is_refused() -> None:
    module = Toggles()
    with pytest.raises(AttachError, match=r"toggle_optimizer sets requires_grad of every parameter"):
        fit(module, gated("gradual:every=2"))
    assert "toggle_optimizer" not in vars(module)


@each_once(
    "event",
    ["on_train_start", "on_train_batch_start", "on_train_batch_end", "on_train_end"],
    "error",
    [ValueError, KeyboardInterrupt],
)
def test_a_training_that_raises_frees_its_module(event: str, error: type[BaseException]) -> None:
    def raise_error(*_: Any) -> None:
        raise error("enough")

    module, gate = Module(), gated("freeze:layers=2")
    breaks = lightning.Callback()
    setattr(breaks, event, raise_error)
    with pytest.raises((ValueError, SystemExit)):
        fit(module, gate, breaks)
    assert all(p.requires_grad for p in module.parameters())
    assert not {"training_step", "toggle_optimizer"} & set(vars(module))
    fit(module, gate)  # and the same gate trains again
    assert gate.tuner.clock.step == STEPS


def test_a_state_of_a_training_before_is_not_taken(tmp_path: Path) -> None:
    """The checkpoint has no state; the callback has one of another training."""
    gate = gated("mixout:p=0.5")
    fit(Called(), gate)
    fit(Called(), gated("full"), saving(tmp_path), enable_checkpointing=True)
    checkpoint = torch.load(tmp_path / "step=3.ckpt", weights_only=True)
    del checkpoint["callbacks"]["GateCallback"]
    torch.save(checkpoint, tmp_path / "plain.ckpt")
    with pytest.raises(RunError, match=r"plain\.ckpt has no state of a tuner.*without the weights that it began with"):
        fit(Called(), gate, resume=tmp_path / "plain.ckpt")


def test_a_module_is_copied_without_the_gate() -> None:
    copies = []

    class Copies(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
            copies.append(copy.deepcopy(module))

    module = Module()
    fit(module, gated("freeze:layers=2"), Copies(), max_epochs=1)
    for copied in copies:
        assert all(p.requires_grad for p in copied.parameters())
        assert not {"training_step", "toggle_optimizer", "forward"} & set(vars(copied))
    assert len(copies) == 3


def test_loggers_get_share_and_phase(tmp_path: Path) -> None:
    logger = lightning.loggers.CSVLogger(tmp_path, version=0)
    gate = gated("gradual:every=2")
    fit(Module(), gate, logger=logger, log_every_n_steps=1, accumulate_grad_batches=1)
    with (tmp_path / "lightning_logs/version_0/metrics.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    shares = [float(line["gradgate/open_share"]) for line in lines]
    assert [float(line["gradgate/phase"]) for line in lines] == [1, 2, 2, 3, 3, 3]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_tensorboard_gets_share_and_phase(tmp_path: Path) -> None:
    if importlib.util.find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed")
    logger = lightning.loggers.TensorBoardLogger(tmp_path, version=0)
    fit(Module(), gated("gradual:every=2"), logger=logger, log_every_n_steps=1, accumulate_grad_batches=1)
    points = tensorboard_points(tmp_path / "lightning_logs/version_0")
    assert [value for _, value in points["gradgate/phase"]] == [1, 2, 2, 3, 3, 3]
    assert points["gradgate/open_share"][-1][1] == 1.0


def test_methods_that_count_epochs_need_to_know_when_an_epoch_ends() -> None:
    with pytest.raises(gg.GradgateError, match="pass steps_per_epoch= to the tuner"):
        fit(Manual(), gated("gradfreeze"))


def test_without_lightning_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['lightning'] = None\n"
        "import gradgate as gg\n"
        "assert 'lightning' not in dir(gg) and 'torch' not in sys.modules\n"
        "try: gg.lightning\n"
        "except gg.GradgateError as error: print(type(error).__name__, error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{UsageError.__name__} gg.lightning needs Lightning")
    assert "pip install 'gradgate[lightning]'" in said


# Several networks, and other callbacks that freeze


class Distilled(Module):
    """Calls its networks in ``training_step`` alone; the teacher is the larger one."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = build("deberta-v2", dropout=True).requires_grad_(False)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        wanted = self.teacher(input_ids=batch["input_ids"]).logits
        return nn.functional.mse_loss(self.scale(self.bert(**batch).logits), wanted)


def test_a_student_learns_beside_its_teacher() -> None:
    module, gate = Distilled(), gated("gradual:every=2")
    opened = fit(module, gate)
    assert {group.stack for group in gate.tuner.layers.layers} == {"bert.bert.encoder.layer"}
    assert not any(name.startswith("teacher.") for group in gate.tuner.layers for name in group.parameter_names)
    assert opened[0] == {"layers.2", "head"}


class Schedule(lightning.callbacks.BaseFinetuning):
    def freeze_before_training(self, module: Any) -> None:
        self.freeze(module.bert.bert)

    def finetune_function(self, module: Any, epoch: int, optimizer: Any) -> None:
        pass


def test_another_freezing_callback_is_refused() -> None:
    with pytest.raises(AttachError, match=r"^Schedule freezes and unfreezes layers too, .*; remove Schedule, or Gate"):
        fit(Module(), gated("full"), Schedule())


def test_a_callback_of_the_other_library_is_refused() -> None:
    with pytest.raises(AttachError, match=r"use gg\.lightning\.GateCallback"):
        fit(Module(), gg.GateCallback("full"))
    with pytest.raises(AttachError, match=r"use gg\.GateCallback"):
        Trainer(build("bert"), callbacks=[gg.lightning.GateCallback("full")])
