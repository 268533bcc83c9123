"""TRL's trainers with a gate: what is closed keeps its bits, the reference model too, and a checkpoint resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaForSequenceClassification

from gradgate import GateCallback
from gradgate.errors import AttachError
from support.clients import FIRST, SECOND, SETTINGS, llama, table, tokenizer, train_and_resume
from support.crossed import some_fast
from support.loop import moved, weights

trl = pytest.importorskip("trl")
peft = pytest.importorskip("peft")

LORA = {"target_modules": ["q_proj", "v_proj"]}
CLOSING, OPENING = "lisa:layers=1,every=2", "gradual:every=2"


def sft(callbacks: list[Any], settings: dict[str, Any], **options: Any) -> Any:
    adapter = options.pop("peft_config", None)
    args = trl.SFTConfig(**settings, bf16=False, **options)
    data = table(text=FIRST)
    return trl.SFTTrainer(
        llama(), args, train_dataset=data, processing_class=tokenizer(), callbacks=callbacks, peft_config=adapter
    )


def dpo(callbacks: list[Any], settings: dict[str, Any], **options: Any) -> Any:
    model, reference = options.pop("model", llama)(), options.pop("reference", lambda: None)()
    adapter = options.pop("peft_config", None)
    args = trl.DPOConfig(**settings, bf16=False, **options)
    data = table(prompt=["the "] * 4, chosen=FIRST, rejected=SECOND)
    return trl.DPOTrainer(
        model,
        reference,
        args,
        train_dataset=data,
        processing_class=tokenizer(),
        callbacks=callbacks,
        peft_config=adapter,
    )


def reward(callbacks: list[Any], settings: dict[str, Any], **options: Any) -> Any:
    model = llama(LlamaForSequenceClassification, num_labels=1)
    adapter = options.pop("peft_config", None)
    args = trl.RewardConfig(**settings, bf16=False, **options)
    data = table(chosen=FIRST, rejected=SECOND)
    return trl.RewardTrainer(
        model, args, train_dataset=data, processing_class=tokenizer(), callbacks=callbacks, peft_config=adapter
    )


def grpo(callbacks: list[Any], settings: dict[str, Any]) -> Any:
    args = trl.GRPOConfig(**settings, bf16=False, num_generations=2, max_completion_length=4, beta=0.1)
    return trl.GRPOTrainer(
        llama(),
        reward_funcs=lambda completions, **_: [float(number) for number in range(len(completions))],
        args=args,
        train_dataset=table(prompt=FIRST),
        processing_class=tokenizer(),
        callbacks=callbacks,
        peft_config=peft.LoraConfig(**LORA),
    )


def adapted() -> Any:
    return peft.get_peft_model(llama(), peft.LoraConfig(task_type="CAUSAL_LM", **LORA))


CASES: dict[str, tuple[Callable[..., Any], str, dict[str, Any]]] = {
    "sft-packed": (sft, OPENING, {"packing": True, "max_length": 16}),
    "sft-lora": (sft, CLOSING, {"peft_config": True}),
    "dpo": (dpo, OPENING, {"reference": llama}),
    "dpo-lora": (dpo, CLOSING, {"peft_config": True, "gradient_accumulation_steps": 2}),
    "dpo-reference-adapter": (dpo, CLOSING, {"model": adapted}),
    "reward-lora": (reward, OPENING, {"peft_config": True}),
    "grpo-lora": (grpo, CLOSING, {}),
}


@some_fast("case", list(CASES), ["sft-packed", "sft-lora", "dpo-reference-adapter", "grpo-lora"])
def test_only_what_is_open_moves_and_a_checkpoint_resumes(case: str, tmp_path: Path) -> None:
    make, method, options = CASES[case]
    head = {"modules_to_save": ["score"], "task_type": "SEQ_CLS"} if make is reward else {}

    def build(callbacks: list[Any], settings: dict[str, Any]) -> Any:
        own = dict(options)
        if own.get("peft_config"):
            own["peft_config"] = peft.LoraConfig(**LORA, **head)
        return make(callbacks, settings, **own)

    trainer = train_and_resume(build, method, tmp_path)
    assert trainer.model.is_gradient_checkpointing, "which TRL turns on by itself"
    if case == "dpo":
        assert not moved(weights(llama()), trainer.ref_model)
    if case == "dpo-reference-adapter":
        assert any(".ref." in name for name in weights(trainer.model))


def test_grpo_measures_on_passed_batches(tmp_path: Path) -> None:
    """Its batches are prompts, which no model takes as keyword arguments."""
    settings = {**SETTINGS, "output_dir": str(tmp_path), "save_strategy": "no"}
    with pytest.raises(AttachError, match=r"fisher_data=lambda step: batches, to Tuner or GateCallback"):
        grpo([GateCallback("fun:every=2,batches=1")], settings).train()
    texts = tokenizer()(FIRST[:2], return_tensors="pt", padding=True)
    batch = {"input_ids": texts["input_ids"], "labels": texts["input_ids"]}
    gate = GateCallback("fun:every=2,batches=1", fisher_data=lambda step: [batch])
    grpo([gate], settings).train()
    assert gate.tuner is not None
    assert gate.tuner.clock.step == 4
