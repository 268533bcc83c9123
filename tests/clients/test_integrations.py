"""The plugin for axolotl and the script for LLaMA-Factory, as the guide prints them, train with the method."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import Trainer, TrainingArguments

from gradgate import AuditCallback, GateCallback
from support.clients import FIRST, SETTINGS, llama, tokenizer
from support.loop import moved, weights
from support.other_trainers import BasePlugin, put_module, run_exp_of, train_with_axolotl

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides/integrations.md"
FILES = dict(
    re.findall(r"^```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files of the guide, which modules are imported from."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


class Built:
    """Builds a trainer on a tiny decoder, and keeps it with its weights before the training."""

    def __call__(self, callbacks: list[Any]) -> Trainer:
        words = tokenizer()
        rows = [words(text) for text in 2 * FIRST]
        data = [{**row, "labels": row["input_ids"]} for row in rows]
        model = llama()
        self.before = weights(model)
        arguments = TrainingArguments(
            "trained", **{**SETTINGS, "save_strategy": "no", "per_device_train_batch_size": 1}
        )
        self.trainer = Trainer(model, arguments, train_dataset=data, callbacks=callbacks)
        return self.trainer

    @property
    def moved(self) -> set[str]:
        return moved(self.before, self.trainer.model)

    def callback(self, kind: type[Any]) -> Any:
        (found,) = (each for each in self.trainer.callback_handler.callbacks if isinstance(each, kind))
        return found


def check(built: Built) -> None:
    """The head and the top layer alone learned, as the layer below opens at step 100, and the audit saw the same."""
    assert {name.rpartition(".")[0] for name in built.moved} >= {"lm_head", "model.layers.2.mlp.up_proj"}
    assert not [
        name for name in built.moved if name.startswith(("model.embed_tokens", "model.layers.0", "model.layers.1"))
    ]
    gate, audit = built.callback(GateCallback), built.callback(AuditCallback)
    assert gate.tuner.clock.step == 4
    assert set(audit.report.learned.names) == built.moved


def test_the_plugin_of_axolotl_trains_with_the_method(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_module(monkeypatch, "axolotl.integrations.base", BasePlugin=BasePlugin)
    monkeypatch.delitem(sys.modules, "gradgate_axolotl", raising=False)
    built = Built()
    train_with_axolotl(folder / "axolotl.yaml", built)
    check(built)


def test_the_script_for_llama_factory_trains_with_the_method(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, read = Built(), []
    put_module(monkeypatch, "llamafactory.train.tuner", run_exp=run_exp_of(built, read))
    (folder / "train.yaml").write_text("finetuning_type: full\n")
    monkeypatch.setattr(sys, "argv", ["train_with_gradgate.py", "train.yaml"])
    runpy.run_path("train_with_gradgate.py", run_name="__main__")
    check(built)
    assert read == [{"finetuning_type": "full"}]


def test_axolotls_hooks_are_those_of_the_stand_in() -> None:
    base = pytest.importorskip("axolotl.integrations.base", reason="axolotl is not installed")
    for name, own in inspect.getmembers(BasePlugin, inspect.isfunction):
        assert list(inspect.signature(getattr(base.BasePlugin, name)).parameters) == list(
            inspect.signature(own).parameters
        )


def test_run_exp_takes_what_the_script_passes() -> None:
    tuner = pytest.importorskip("llamafactory.train.tuner", reason="LLaMA-Factory is not installed")
    assert list(inspect.signature(tuner.run_exp).parameters) == ["args", "callbacks"]
