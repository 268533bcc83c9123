"""What is tried on models of known sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradgate.errors import UsageError
from gradgate.methods import Full
from gradgate.settings.arms.arm import Arm
from gradgate.study.recommend.portfolio import PEFT, Subject, portfolio, usual_rate
from support.arms import names

BERT_BASE = Subject(layers=12, parameters=110_000_000, steps=1200, installed={PEFT})


def test_bert_base_tries_every_family_with_adapters_at_ten_times_the_rate() -> None:
    found = portfolio(BERT_BASE)
    assert found.lr == 5e-5
    assert names(found.arms) == [
        "full",
        "probe",
        "head:lr=0.001",
        "freeze:layers=4,lr=0.0001",
        "freeze:layers=8,lr=0.0001",
        "gradual:every=50",
        "graddrop:p=0.2",
        "lisa:layers=2,every=20",
        "lora:r=8,lr=0.0005",
        "houlsby:size=64,lr=0.0005",
        "pfeiffer:reduction=16,lr=0.0005",
    ]
    assert found.left_out == ()


@pytest.mark.parametrize(("layers", "steps"), [(1, 1), (2, 3), (4, 24), (12, 10), (48, 100_000)])
def test_every_arm_can_be_read_and_is_there_once(layers: int, steps: int) -> None:
    found = portfolio(Subject(layers=layers, parameters=10_000_000, steps=steps, installed={PEFT}))
    assert found.arms[0] == Arm(Full())
    assert len(set(found.arms)) == len(found.arms)
    for arm in found.arms:
        assert getattr(arm.method, "layers", 0) in range(layers), "some layers learn"
        assert arm.adapter is None or arm.lr == pytest.approx(10 * found.lr)


@pytest.mark.parametrize("kind", ["token-classification", "generation", "regression"])
def test_a_probe_and_the_head_are_for_classification(kind: str) -> None:
    subject = Subject(layers=4, parameters=2_000_000, steps=100, kind=kind)
    assert not {"probe", "head"} & {arm.method.name for arm in portfolio(subject).arms}


def test_larger_models_have_lower_rates() -> None:
    rates = [usual_rate(parameters) for parameters in (2_000_000, 22_000_000, 110_000_000, 340_000_000, 7_000_000_000)]
    assert rates == [1e-3, 2e-4, 5e-5, 2e-5, 1e-5]


def test_a_given_rate_is_taken_and_the_adapters_follow() -> None:
    found = portfolio(BERT_BASE, lr=3e-4)
    assert found.lr == 3e-4
    assert "lora:r=8,lr=0.003" in names(found.arms)


def test_what_is_left_out_has_a_reason() -> None:
    small = Subject(layers=4, parameters=2_000_000, steps=100)
    reasons = {left.arm: left.reason for left in portfolio(small).left_out}
    assert set(reasons) == {"lisa", "lora:r=8,lr=0.01"}
    assert "this one has 4" in reasons["lisa"]
    assert "pip install 'gradgate[peft]'" in reasons["lora:r=8,lr=0.01"]


def test_several_tasks_at_once_take_no_adapter_and_decoders_no_bottleneck() -> None:
    multitask = Subject(layers=12, parameters=110_000_000, steps=100, is_multitask=True, installed={PEFT})
    assert all(arm.adapter is None for arm in portfolio(multitask).arms)
    decoder = Subject(layers=12, parameters=110_000_000, steps=100, kind="generation", installed={PEFT})
    assert [arm.name for arm in portfolio(decoder).arms if arm.adapter] == ["lora:r=8,lr=0.0005"]


def test_quantized_models_try_lora_with_schedules_alone() -> None:
    found = portfolio(replace(BERT_BASE, quantization="bitsandbytes"))
    lora = "lora:r=8,lr=0.0005"
    schedules = ("gradual:every=50", "graddrop:p=0.2", "lisa:layers=2,every=20", "layerwise-lr")
    assert names(found.arms) == [lora, "lora:r=32,lr=0.0005", *(f"{lora} + {method}" for method in schedules)]
    assert [str(left) for left in found.left_out] == [
        "methods without a PEFT adapter is left out: the model is quantized (bitsandbytes), so its matrices cannot "
        "learn."
    ]
    without = portfolio(replace(BERT_BASE, quantization="torchao", installed=()))
    assert without.arms == ()
    assert "pip install 'gradgate[peft]'" in str(without.left_out[-1])


def test_a_model_without_layers_is_refused() -> None:
    with pytest.raises(UsageError, match="layers=0: expected 1 or more"):
        Subject(layers=0, parameters=1, steps=1)
