"""PEFT's configurations as adapters: the text that stands for each, and what has none."""

from __future__ import annotations

from typing import Any

import pytest

from gradgate.errors import UsageError
from gradgate.settings.arms.arm import read_arm
from gradgate.settings.run import make_config

peft = pytest.importorskip("peft")


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (peft.LoraConfig(), "lora"),
        (peft.LoraConfig(r=16, lora_alpha=32, task_type="SEQ_CLS"), "lora:r=16,lora_alpha=32"),
        (peft.LoraConfig(target_modules=["value", "query"]), "lora:target_modules=query/value"),
        (peft.LoraConfig(target_modules=["query"]), "lora:target_modules=query"),
        (peft.LoraConfig(r=4, use_dora=True), "dora:r=4"),
        (peft.LoraConfig(use_rslora=True), "rslora"),
        (peft.LoraConfig(use_dora=True, rank_pattern={"query": 4}), "dora:rank_pattern=query:4"),
        (peft.IA3Config(), "ia3"),
        (peft.LoHaConfig(r=4), "peft:loha,r=4"),
    ],
)
def test_config_has_a_text(config: Any, text: str) -> None:
    assert read_arm(config).name == text
    assert read_arm(config) == read_arm(text)
    assert make_config(adapter=config).fingerprint() == make_config(adapter=text).fingerprint()
    assert make_config(method=config).fingerprint() == make_config(adapter=text).fingerprint()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (peft.LoraConfig(target_modules=r".*(q|k),+"), "target_modules=.*which an adapter's text cannot express"),
        (peft.LoraConfig(modules_to_save=["classifier"]), r"modules_to_save=\['classifier'\]\. Apart from the adapter"),
        (peft.PromptTuningConfig(num_virtual_tokens=3), "does not only change modules of the model's layers"),
    ],
)
def test_config_without_a_text_is_refused(config: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config(adapter=config)


def test_what_is_no_adapter_is_refused() -> None:
    with pytest.raises(UsageError, match="3 is not an adapter"):
        make_config(adapter=3)
