"""What a training would take: known figures, the form of the answer, and input that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig

import gradgate as gg
from gradgate.errors import GradgateError, MethodError, UsageError
from gradgate.memory import DEVICES, GIB
from gradgate.memory.request import estimate_run
from gradgate.settings.base import checked_settings
from gradgate.settings.run import RunConfig
from support.command_line import Command
from support.small_configs import bert, llama_3_8b
from support.ticket_rows import table, texts

LLAMA_3_8B = llama_3_8b()
SMALL = bert()


# Peaks of the second step, measured on fake tensors at full depth: batch 1 x 1024, checkpointing, AdamW in bfloat16.
@pytest.mark.parametrize(
    ("method", "peak"),
    [
        pytest.param("groups:open=layers.31", 17.50, marks=pytest.mark.slow),
        pytest.param("groups:open=layers.3/layers.31", 18.32, marks=pytest.mark.slow),
        pytest.param("groups:open=layers.3/layers.31/embeddings/head", 25.22, marks=pytest.mark.slow),
        pytest.param("full", 61.79, marks=pytest.mark.slow),  # test_scaling.py has 2 layers of it
    ],
)
def test_llama_3_8b_takes_what_its_steps_took(method: str, peak: float) -> None:
    estimate = gg.estimate_memory(
        LLAMA_3_8B, method, batch_size=1, max_length=1024, weights="bfloat16", master="none", checkpointing=True
    )
    assert estimate.worst.usage.weights / GIB == pytest.approx(14.96, abs=0.01)
    assert estimate.peak_bytes / GIB == pytest.approx(peak, rel=0.02)


@pytest.mark.slow
def test_a_70_b_on_8_shards_takes_an_eighth_and_what_is_gathered() -> None:
    config = LlamaConfig(**{**LLAMA_3_8B.to_dict(), "hidden_size": 8192, "intermediate_size": 28672})
    config.num_hidden_layers, config.num_attention_heads = 80, 64
    options: dict[str, Any] = {"batch_size": 1, "max_length": 1024, "weights": "bfloat16", "checkpointing": True}
    whole = gg.estimate_memory(config, "full", **options).worst.usage
    part = gg.estimate_memory(config, "full", shards=8, **options).worst.usage
    assert part.weights == pytest.approx(whole.weights / 8, rel=0.001)
    assert part.optimizer == pytest.approx(whole.optimizer / 8, rel=0.001)
    assert whole.peak / 8 < part.peak < whole.peak / 8 + 10 * GIB


def test_masters_and_states_exist_for_what_is_open_and_for_nothing_else() -> None:
    options: dict[str, Any] = {"batch_size": 2, "max_length": 16, "weights": "bfloat16"}
    usage = gg.estimate_memory(SMALL, "groups:open=layers.1", **options).worst.usage
    layer = 4 * 16 * 17 + 16 * 32 + 32 + 32 * 16 + 16 + 4 * 16
    assert usage.masters == 4 * layer
    assert usage.optimizer == pytest.approx(8 * layer, rel=0.03)  # and a count of steps for each parameter


@pytest.mark.parametrize(
    ("method", "learns"),
    [
        ("groups:open=layers.1/head", "layers.1, head"),
        ("groups:open=@mlp", "layers.0..1"),
        ("bitfit", "all"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("head", "head"), ("full", "all"))),
    ],
)
def test_a_phase_names_what_learns_of_the_model(method: str, learns: str) -> None:
    estimate = gg.estimate_memory(SMALL, method, batch_size=2, max_length=16, total_steps=9)
    assert estimate.phases[0].text == f"steps 1-9: {learns}"


def test_phases_are_those_of_the_plan_and_kept_states_add_up() -> None:
    options: dict[str, Any] = {"batch_size": 2, "max_length": 16, "total_steps": 6}
    kept = gg.estimate_memory(bert(3), "blocks:every=2,order=top-down,state=keep", **options)
    dropped = gg.estimate_memory(bert(3), "blocks:every=2,order=top-down,state=drop", **options)
    assert [(phase.step, phase.steps) for phase in kept.phases] == [(0, 2), (2, 2), (4, 2)]
    assert kept.phases[0].text.startswith("steps 1-2: layers.2")
    states = [phase.usage.optimizer for phase in kept.phases]
    assert states == sorted(states)
    assert states[-1] > 2 * states[0]
    assert len({phase.usage.optimizer for phase in dropped.phases}) == 1


def test_an_adapter_takes_little_beside_the_weights() -> None:
    pytest.importorskip("peft")
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
    )
    estimate = gg.estimate_memory(config, adapter="lora:r=2", batch_size=1, max_length=8)
    assert estimate.method == "lora:r=2"
    assert 0 < estimate.worst.usage.optimizer < estimate.worst.usage.weights


def test_the_command_prints_json_of_each_method(command: Command, tmp_path: Path) -> None:
    SMALL.save_pretrained(tmp_path)
    said = command(
        *("memory", "--model", str(tmp_path / "config.json"), "-m", "full", "-m", "freeze:layers=1"),
        *("--batch-size", "2", "--max-length", "16", "--json"),
    )
    assert said.code == 0, said.err
    full, freeze = json.loads(said.out)
    parts = ("weights_bytes", "gradient_bytes", "optimizer_bytes", "master_bytes", "activation_bytes")
    assert list(full) == [
        "method",
        "peak_bytes",
        *parts,
        "overhead_bytes",
        "accumulate",
        "fits",
        "at",
        "phase",
        "choice",
    ]
    assert full["peak_bytes"] == sum(full[part] for part in parts)
    assert full["fits"] == {f"{gib}GiB": True for gib in DEVICES}
    assert full["at"] in ("forward", "backward", "step")
    assert freeze["peak_bytes"] < full["peak_bytes"]
    assert freeze["phase"] == "steps 1-1000: layers.1, head"


def test_the_command_says_what_would_fit(command: Command, tmp_path: Path) -> None:
    SMALL.save_pretrained(tmp_path)
    said = command("memory", "--model", str(tmp_path), "-m", "full", "--batch-size", "1000000", "--max-length", "64")
    assert said.code == 0, said.err
    assert "full fits no 141 GiB; batch " in said.out
    assert " at 64 fits " in said.out


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch_size": 0}, UsageError, "batch_size=0: expected"),
        ({"max_length": 65}, UsageError, "max_length=65 is more than the 64 positions"),
        ({"shards": 0}, UsageError, "shards=0: expected"),
        ({"precision": "fp8"}, UsageError, "precision='fp8': expected"),
        ({"precision": "bfloat16"}, UsageError, "weights='bfloat16'"),
        ({"release_gradients": True}, UsageError, "cannot be combined with clip=1.0"),
        ({"optim": "adamw_torsh"}, UsageError, "adamw_torch"),
        ({"optim": "adamw_8bit", "master": "float32"}, UsageError, "keeps numbers in a format of its own"),
        ({"method": "freeze:layers=5"}, MethodError, "5"),
        ({"method": "nothing"}, MethodError, "There is no method"),
        ({"head": "seq2seq"}, UsageError, "cannot have head='seq2seq'"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], error: type[GradgateError], words: str) -> None:
    given: dict[str, Any] = {"max_length": 16, "batch_size": 1} | options
    with pytest.raises(error, match=words):
        gg.estimate_memory(SMALL, **given)


def test_a_device_orders_methods_by_what_fits(command: Command, tmp_path: Path) -> None:
    SMALL.save_pretrained(tmp_path)
    methods = ("-m", "full", "-m", "freeze:layers=1")
    asked = ("memory", "--model", str(tmp_path), *methods, "--max-length", "16", "--accumulate", "2", "--json")
    ordered = command(*asked, "--gpu", "24")  # test_the_command_prints_json_of_each_method has them as they are given
    assert [each["method"] for each in json.loads(ordered.out)] == ["freeze:layers=1", "full"]
    assert {each["accumulate"] for each in json.loads(ordered.out)} == {2}
    for wrong in ("0", "-3", "nan", "inf"):
        refused = command(*asked, "--gpu", wrong)
        assert refused.code == 2
        assert f"--gpu {wrong}" in refused.err


def test_released_gradients_are_in_the_estimate() -> None:
    options: dict[str, Any] = {"batch_size": 1, "max_length": 8, "clip": 0.0}
    released = gg.estimate_memory(SMALL, "full", release_gradients=True, **options)
    assert released.peak_bytes < gg.estimate_memory(SMALL, "full", **options).peak_bytes
    with pytest.raises(UsageError, match="cannot be combined"):
        gg.estimate_memory(SMALL, "full", release_gradients=True, shards=2, **options)


def test_a_question_has_a_row_for_each_choice(tmp_path: Path) -> None:
    SMALL.save_pretrained(tmp_path / "model")
    header = ["question", "A", "B", "C", "D", "answer"]
    cells = [[text, "one", "two", "three", "four", "ABCD"[n % 4]] for n, text in enumerate(texts())]
    (tmp_path / "t.csv").write_text(table(header, cells))
    own: dict[str, Any] = {"model": str(tmp_path / "model"), "max_length": 64, "batch_size": 64}
    config = checked_settings(RunConfig, {**own, "task": str(tmp_path / "t.csv")})
    of_run = estimate_run(config, "multiple-choice").peak_bytes
    named = gg.estimate_memory(own.pop("model"), task=config.task, **own).peak_bytes
    four_times = gg.estimate_memory(SMALL, kind="classification", **{**own, "batch_size": 4 * 64}).peak_bytes
    assert of_run == named == pytest.approx(four_times, rel=0.01)
    assert four_times > 2 * gg.estimate_memory(SMALL, kind="classification", **own).peak_bytes


def test_a_setting_of_its_own_leaves_an_arm_its_head(tmp_path: Path) -> None:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaConfig(vocab_size=5000, **sizes).save_pretrained(tmp_path)
    arms = ("full", "full:lr=1e-4")
    plain, with_rate = (gg.estimate_memory(str(tmp_path), arm, batch_size=4, max_length=16).peak_bytes for arm in arms)
    assert with_rate == plain


def test_the_configuration_is_left_as_it_was() -> None:
    config = LlamaConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
    before = config.to_dict()
    gg.estimate_memory(config, "full", batch_size=1, max_length=8, weights="bfloat16")
    assert config.to_dict() == before


def test_a_probe_is_estimated_in_float32_as_it_runs() -> None:
    expected, found = (
        gg.estimate_memory("sample", "probe", **formats).peak_bytes
        for formats in ({}, {"precision": "bf16", "weights": "bfloat16"})
    )
    assert found == expected
