"""What the tests of other libraries' trainers share: a tiny decoder, texts, and a look at each step from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, TrainerCallback

from gradgate import GateCallback
from support.loop import Weights, moved, weights
from support.tiny_folders import WORDS, word_tokenizer

FIRST = ["the day was good", "a road seems happy", "the house was warm", "the film was very good"]
SECOND = ["the day was bad", "a road seems sad", "the house was dark", "the film was not good"]
SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 2,
    "max_steps": 4,
    "save_strategy": "steps",
    "save_steps": 2,
    "learning_rate": 1e-2,
    "weight_decay": 0.1,
    "max_grad_norm": 0.1,
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
    "seed": 3,
}


def llama(kind: type[PreTrainedModel] = LlamaForCausalLM, **options: Any) -> PreTrainedModel:
    """A random Llama of 3 layers, over the words of the tiny tokenizer."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    config = LlamaConfig(vocab_size=len(WORDS), num_key_value_heads=1, max_position_embeddings=64, **sizes, **special)
    config.update(options)
    torch.manual_seed(0)
    return kind(config)


def tokenizer() -> Any:
    return word_tokenizer(pad_token="[PAD]", bos_token="[CLS]", eos_token="[SEP]")


def table(**columns: list[Any]) -> Dataset:
    """Eight rows."""
    return Dataset.from_dict({name: 2 * values for name, values in columns.items()})


class Watcher(TrainerCallback):
    """Compares every weight before and after each step with the plan of the step."""

    def __init__(self, gate: GateCallback) -> None:
        self.gate = gate
        self.opened: list[set[str]] = []
        self._before: Weights = {}
        self._trained: set[str] = set()

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self._trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        tuner = self.gate.tuner
        assert tuner is not None
        assert tuner.clock.step == state.global_step
        self.opened.append({group for group, gate in tuner.plan.items() if gate.open})
        self._before = weights(model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        tuner = self.gate.tuner
        assert tuner is not None
        changed = moved(self._before, model)
        assert changed <= self._trained
        groups = {tuner.layers.group_of(name).name for name in changed}
        holding = {tuner.layers.group_of(name).name for name in self._trained}
        assert groups == self.opened[-1] & holding, "exactly what the plan opens moves"


def train_and_resume(build: Any, method: str, folder: Path) -> Any:
    """Train 4 steps; train again from the checkpoint after 2; both must end with the same bits. Returns the trainer.

    Args:
        build: makes the client's trainer, given the callbacks and the settings.
        method: of the gate.
        folder: of the checkpoints.
    """
    ends = []
    for checkpoint in (None, str(folder / "checkpoint-2")):
        gate = GateCallback(method, seed=0, audit=True)
        watcher = Watcher(gate)
        trainer = build([gate, watcher], {**SETTINGS, "output_dir": str(folder)})
        trainer.train(resume_from_checkpoint=checkpoint)
        assert gate.tuner is not None
        assert gate.tuner.clock.step == 4
        ends.append((weights(trainer.model), gate.tuner.timeline.phases, watcher.opened))
    (whole, phases, opened), (resumed, again, opened_again) = ends
    assert opened[2:] == opened_again
    assert len({frozenset(groups) for groups in opened}) > 1, "the method opens or closes something on the way"
    assert phases == again
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    return trainer
