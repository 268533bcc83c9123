"""Training with adapters: every method works on them, the base model keeps every bit, and Trainer resumes exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import gradgate as gg
from gradgate import adapters
from gradgate.errors import AdapterFileError
from support.catalog_table import is_kind
from support.crossed import each_once, some_fast
from support.every_method import example
from support.loop import adamw, assert_same_weights, build, fisher_data, moved, same, train, weights
from support.tiny_models import LAYERS
from support.trainers import StopAt, trainer_of

SMALL = {"every": 2, "p": 0.5, "batches": 1, "share": 0.5}
STEPS, PER_EPOCH = 6, 2


KINDS = ["pfeiffer+inv:reduction=2", "houlsby:size=4"]


def adapted(name: str = "bert", kind: str = "pfeiffer:reduction=2") -> PreTrainedModel:
    model = build(name)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    adapters.add(model, "task", kind)
    return model


def learning(model: nn.Module) -> set[str]:
    return {name for name, p in model.named_parameters() if p.requires_grad}


@each_once("entry", [entry for entry in gg.methods() if is_kind(entry)], "kind", KINDS)
def test_a_method_of_each_kind_trains_adapters_and_leaves_the_base_as_it_is(entry: gg.MethodInfo, kind: str) -> None:
    leaves_the_base_as_it_is(entry, kind)


@pytest.mark.slow
@pytest.mark.parametrize("entry", gg.methods(), ids=lambda entry: entry.name)
def test_every_method_trains_adapters_and_leaves_the_base_as_it_is(entry: gg.MethodInfo) -> None:
    leaves_the_base_as_it_is(entry, KINDS[0])


def leaves_the_base_as_it_is(entry: gg.MethodInfo, kind: str) -> None:
    model = adapted(kind=kind)
    before, learns = weights(model), learning(model)
    optimizer = adamw(model)
    method = example(entry, LAYERS, **SMALL)
    with gg.Tuner(
        model, optimizer, method, total_steps=STEPS, steps_per_epoch=PER_EPOCH, seed=1, fisher_data=fisher_data(model)
    ):
        train(model, optimizer, STEPS)
    changed = moved(before, model)
    assert changed
    assert changed <= learns
    adapters.remove(model)
    base = build("bert")
    head = {name for name, _ in model.named_parameters() if name.startswith("classifier")}
    assert moved(weights(base), model) <= head


@each_once(
    "text",
    [
        "gradual:every=2",
        "lpft:every=2",
        "fun:every=2,batches=1",
        "graddrop:p=0.5,mask_target=update",
        "freeze:layers=2",
    ],
    "name",
    ["roberta", "distilbert", "deberta-v2", "electra", "mpnet", "llama-classifier"],
)
def test_a_layer_opens_with_its_adapter(text: str, name: str) -> None:
    model = adapted(name, "double_seq_bn_inv:reduction=2")
    optimizer = adamw(model)
    learns, layers = learning(model), gg.map_layers(model)
    tuner = gg.Tuner(model, optimizer, text, total_steps=STEPS, seed=1, fisher_data=fisher_data(model))
    previous = weights(model)
    for number in range(STEPS):
        plan = tuner.plan
        opened = {n for group in layers if not plan[group.name].closed for n in group.parameter_names} & learns
        train(model, optimizer, [number])
        changed = moved(previous, model)
        assert changed
        assert changed <= opened
        ups = {n for n in opened if n.endswith("adapter_up.weight")}
        assert ups <= changed
        previous = weights(model)
    tuner.detach()
    assert learning(model) == learns


def test_the_unfreezing_order_goes_through_the_adapters_of_the_layers() -> None:
    model = adapted(kind="pfeiffer+inv:reduction=2")
    with gg.Tuner(model, adamw(model), "gradual:every=2") as tuner:
        groups = tuner._gating.groups
        assert all(".adapters.task." in name for layer in range(LAYERS) for name in groups[f"layers.{layer}"])
        assert all(f"layer.{layer}." in name for layer in range(LAYERS) for name in groups[f"layers.{layer}"])
        assert groups["embeddings"]
        assert all(".invertible_adapters.task." in name for name in groups["embeddings"])
        assert groups["head"] == ["classifier.weight", "classifier.bias"]


def test_a_frozen_language_adapter_under_a_task_adapter_keeps_every_bit() -> None:
    model = build("bert")
    adapters.add(model, "lang", "pfeiffer+inv:reduction=2", train=False)
    adapters.add(model, "task", "pfeiffer:reduction=2")
    adapters.activate(model, "lang", "task")
    before, optimizer = weights(model), adamw(model)
    train(model, optimizer, 3)
    changed = moved(before, model)
    assert any(".task." in name for name in changed)
    assert not any(".lang." in name for name in changed)


class KeepWeights(TrainerCallback):
    def __init__(self) -> None:
        self.by_step: dict[int, Any] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        self.by_step[state.global_step] = weights(model)


@some_fast("kind", ["pfeiffer:reduction=2", "houlsby:size=4"], ["houlsby:size=4"])
def test_a_training_resumed_in_trainer_is_the_unbroken_one(kind: str, tmp_path: Path) -> None:
    def trainer(model: PreTrainedModel, folder: str, *more: TrainerCallback) -> Any:
        callbacks = adapters.AdapterCallback(), gg.GateCallback("gradual:every=2"), *more
        return trainer_of(model, tmp_path / folder, *callbacks, save_strategy="steps", save_steps=4)

    unbroken = adapted(kind=kind)
    trainer(unbroken, "unbroken").train()
    with pytest.raises(KeyboardInterrupt):
        trainer(adapted(kind=kind), "broken", StopAt(6)).train()
    resumed = adapted(kind=kind)
    trainer(resumed, "broken").train(resume_from_checkpoint=True)
    assert_same_weights(unbroken, resumed)
    saved = load_file(tmp_path / "broken" / "checkpoint-4" / "model.safetensors")
    plain = build("bert")
    assert saved.keys() == plain.state_dict().keys()
    assert all(same(tensor, plain.state_dict()[key]) for key, tensor in saved.items() if key.startswith("bert."))


def test_the_best_model_has_the_adapters_that_it_had(tmp_path: Path) -> None:
    model, kept = adapted(), KeepWeights()
    trainer = trainer_of(
        model, tmp_path, adapters.AdapterCallback(), kept, learning_rate=0.2, num_train_epochs=3,
        save_strategy="epoch", eval_strategy="epoch", load_best_model_at_end=True,
    )  # fmt: skip
    trainer.train()
    best = int(trainer.state.best_model_checkpoint.rpartition("-")[2])
    assert best < trainer.state.global_step
    assert all(same(tensor, kept.by_step[best][name]) for name, tensor in weights(model).items())


def test_each_node_saves_its_adapters_if_each_saves_its_checkpoints(tmp_path: Path) -> None:
    arguments = TrainingArguments(output_dir=str(tmp_path), save_on_each_node=True, use_cpu=True)
    state = TrainerState(global_step=4, is_world_process_zero=False)  # as on a second node
    adapters.AdapterCallback().on_save(arguments, state, TrainerControl(), model=adapted())
    assert (tmp_path / "checkpoint-4" / "adapters" / "task" / "adapter.safetensors").is_file()


def test_resuming_from_a_checkpoint_without_adapters_is_refused(tmp_path: Path) -> None:
    trainer_of(adapted(), tmp_path, save_strategy="steps", save_steps=4, max_steps=4).train()
    again = trainer_of(adapted(), tmp_path, adapters.AdapterCallback(), max_steps=8)
    with pytest.raises(AdapterFileError, match=r"checkpoint-4 has no adapters"):
        again.train(resume_from_checkpoint=True)


def test_trainer_saves_a_base_model_that_loads_as_before(tmp_path: Path) -> None:
    model = adapted()
    trainer = trainer_of(model, tmp_path, adapters.AdapterCallback())
    trainer.train()
    trainer.save_model(str(tmp_path / "out"))
    adapters.save(model, "task", tmp_path / "task")
    again = type(model).from_pretrained(tmp_path / "out")
    adapters.activate(again, adapters.load(again, tmp_path / "task"))
    assert_same_weights(again, model)
    ids = torch.arange(4, 12).unsqueeze(0)
    with torch.no_grad():
        assert torch.equal(again.eval()(ids).logits, model.eval()(ids).logits)
