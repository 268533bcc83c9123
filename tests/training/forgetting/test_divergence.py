"""``--forgetting FILE:metric=kl``: how far the next-token distributions have moved from the pretrained model's."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

import gradgate.training.generation.token_divergence as divergence
from gradgate.errors import UsageError
from gradgate.evaluation.finished import load_finished
from gradgate.runs.progress import Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks.metrics import KL
from gradgate.tasks.types import IGNORED
from gradgate.training.forgetting.measures import Measure, TaskScore, TextMeasure, measure_of
from gradgate.training.generation.token_loss import blocks
from gradgate.training.prepared_task import prepare_task
from gradgate.training.pretrained import load_tokenizer
from gradgate.training.run import train
from gradgate.training.start import load_reference, load_unadapted
from support.command_line import Command
from support.crossed import some_fast
from support.generators import WORDS, save_generator, save_prompts

pytest.importorskip("trl")
pytest.importorskip("sacrebleu")

Configure = Callable[..., RunConfig]
LENGTH = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_prompts(tmp_path_factory.mktemp("prompts"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of 2 to 20 words."""
    draw = random.Random(3)
    lines = [" ".join(draw.choices(WORDS, k=length)) for length in (2, 5, 8, 9, 20, 3, 15)]
    file = tmp_path_factory.mktemp("other") / "other.txt"
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def configure(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Configure:
    folder = tmp_path_factory.mktemp("models")

    def make(family: str = "llama", **changes: Any) -> RunConfig:
        if not (folder / family).is_dir():
            save_generator(folder / family, family)
        usual = {"model": str(folder / family), "task": str(data), "max_length": LENGTH, "batch_size": 4, "lr": 3e-2}
        ends = {"steps": 4, "eval_every": 4, "max_new_tokens": 3, "device": "cpu", "skip_test": True}
        return make_config(**usual | ends | changes)

    return make


class Told(Silent):
    """Keeps the notes of a run."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def measure_for(config: RunConfig) -> Measure:
    prepared, tokenizer = prepare_task(config), load_tokenizer(config)
    reference = partial(load_reference, config, prepared, tokenizer)
    measure = measure_of(config, prepared.record(), tokenizer, reference)
    assert measure is not None
    return measure


def by_hand(pretrained: Any, trained: Any, rows: list[tuple[list[int], list[int]]]) -> float:
    """torch's own divergence, in float64, of rows without padding, one after another."""
    found: list[torch.Tensor] = []
    for ids, labels in rows:
        logs = []
        for model in (pretrained, trained):
            inputs = {"input_ids": torch.tensor([ids])}
            if model.config.is_encoder_decoder:
                inputs["labels"] = torch.tensor([labels])
            with torch.no_grad():
                logs.append(model(**inputs).logits[0].double().log_softmax(-1))
        shift = 0 if pretrained.config.is_encoder_decoder else 1
        counted = [place for place, label in enumerate(labels) if label != IGNORED and place >= shift]
        places = [place - shift for place in counted]
        before, after = (of_model[places] for of_model in logs)
        found.append(functional.kl_div(after, before, reduction="none", log_target=True).sum(-1))
    return float(torch.cat(found).mean())


def pretrained_of(config: RunConfig) -> Any:
    factory = AutoModelForSeq2SeqLM if config.model.endswith(("t5", "bart")) else AutoModelForCausalLM
    return factory.from_pretrained(config.model).eval()


@some_fast("family", ["llama", "gpt2", "mixtral"], ["llama"])
def test_running_text_has_the_divergence_of_its_tokens(
    configure: Configure, other: Path, family: str, tmp_path: Path
) -> None:
    config = configure(family, forgetting=f"{other}:metric=kl")
    found = train(config, tmp_path / "run")["forgetting"]
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    texts = [tokenizer(line).input_ids for line in other.read_text().splitlines()]
    rows = [(block, block) for ids in texts for block in blocks(ids, LENGTH)]
    exact = by_hand(pretrained_of(config), load_finished(tmp_path / "run").model, rows)
    assert exact > 1e-4
    assert found["after"] == found["difference"] == pytest.approx(exact, rel=1e-5)
    assert (found["before"], found["metric"], found["higher_is_better"]) == (0.0, "kl", False)
    assert (found["rows"], found["tokens"]) == (7, 2 + 5 + 8 + 9 + 20 + 3 + 15 - 7)
    assert not {"perplexity_before", "perplexity_after"} & found.keys()
    assert not (tmp_path / "run/cache").exists()


@some_fast("family", ["llama", "t5", "bart"], ["llama", "t5"])
def test_of_prompts_the_tokens_of_the_responses_count(
    configure: Configure, data: Path, family: str, tmp_path: Path
) -> None:
    config = configure(family, forgetting=f"{data / 'dev.jsonl'}:metric=kl", max_length=32)
    found = train(config, tmp_path / "run")["forgetting"]
    measure = measure_for(config)
    assert isinstance(measure, TaskScore)
    features = measure.encoded.splits[measure.split].features
    rows = list(zip(features["input_ids"][:], features["labels"][:], strict=True))
    if family == "llama":
        assert all(labels[0] == IGNORED for _, labels in rows), "the prompt is context"
    exact = by_hand(pretrained_of(config), load_finished(tmp_path / "run").model, rows)
    assert exact > 1e-4
    assert found["after"] == pytest.approx(exact, rel=1e-5)
    assert (found["metric"], found["rows"]) == ("kl", 5)
    assert "tokens" not in found


def test_a_task_of_generation_keeps_its_own_metric(configure: Configure, data: Path) -> None:
    for place, own in ((str(data), "loss"), ("sample-generation", "rougeL")):
        assert measure_for(configure(forgetting=f"{place}:metric=kl", max_length=64)).metric == KL
        assert measure_for(configure(forgetting=place, max_length=64)).metric == own


@pytest.mark.slow
def test_both_commands_measure_the_embedded_model(command: Command, tmp_path: Path) -> None:
    text = "sample-opinions:metric=kl,tokens=200"
    words = ["--model", "sample-decoder", "--task", "sample-generation", "--steps", "2", "--lr", "1e-3"]
    words += ["--train-size", "8", "--max-length", "64", "--max-new-tokens", "2", "--skip-test", "--device", "cpu"]
    said = command("train", *words, "--forgetting", text, "--out", str(tmp_path / "run"), "--json")
    assert said.code == 0, said.err
    after = json.loads(said.out)["forgetting"]["after"]
    assert after > 0
    said = command("analyze", "forgetting", str(tmp_path / "run"), "--text", text, "--device", "cpu")
    assert said.code == 0, said.err
    assert f"kl on {text}: full goes from 0 to {after:.3g} with its best weights" in " ".join(said.out.split())


@pytest.mark.parametrize("weights", ["float32", "bfloat16"])
def test_an_untrained_model_has_exactly_none(configure: Configure, other: Path, data: Path, weights: str) -> None:
    for place in (other, data / "test.jsonl"):
        config = configure(forgetting=f"{place}:metric=kl", weights=weights)
        model, _ = load_unadapted(config, prepare_task(config), load_tokenizer(config))
        before = torch.random.get_rng_state()
        assert measure_for(config).value(model) == 0.0
        assert torch.equal(before, torch.random.get_rng_state())


@some_fast("adapter", ["lora:r=2", "pfeiffer:reduction=2"], ["pfeiffer:reduction=2"])
def test_the_reference_has_no_adapter(configure: Configure, other: Path, adapter: str, tmp_path: Path) -> None:
    if adapter.startswith("lora"):
        pytest.importorskip("peft")
    config = configure(forgetting=f"{other}:metric=kl", adapter=adapter, lr=0.1)
    found = train(config, tmp_path / "run")["forgetting"]
    measure = measure_for(config)
    assert isinstance(measure, TextMeasure)
    rows = [(block, block) for ids in measure.texts for block in blocks(ids, LENGTH)]
    exact = by_hand(pretrained_of(config), load_finished(tmp_path / "run").model, rows)
    assert exact > 1e-4
    assert found["after"] == pytest.approx(exact, rel=1e-5)


def test_new_tokens_have_the_rows_that_the_run_began_with(configure: Configure, other: Path, tmp_path: Path) -> None:
    folder = save_generator(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["<new>", "<newer>"])
    tokenizer.save_pretrained(folder)
    own = {"model": str(folder), "open_new_tokens": True, "seed": 3}
    config = configure(forgetting=f"{other}:metric=kl", **own)
    model, _ = load_unadapted(config, prepare_task(config), load_tokenizer(config))
    torch.manual_seed(99)
    assert measure_for(config).value(model) == 0.0
    assert train(config, tmp_path / "run")["forgetting"]["after"] > 1e-4


@pytest.mark.parametrize(("metric", "times"), [("loss", 0), ("kl", 1)])
def test_the_pretrained_model_is_loaded_after_the_training_alone(
    configure: Configure, other: Path, metric: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()

    def load(*args: Any) -> Any:
        told.said.append("loaded")
        return load_reference(*args)

    monkeypatch.setattr("gradgate.training.start.load_reference", load)
    train(configure(forgetting=f"{other}:metric={metric}", steps=1), tmp_path / "run", told)
    assert told.said.count("loaded") == times
    assert "loaded" not in told.said[: -1 if times else None]


def test_a_training_is_not_lost_for_want_of_memory(
    configure: Configure, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()

    def load(*args: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr("gradgate.training.start.load_reference", load)
    scores = train(configure(forgetting=f"{other}:metric=kl", steps=1), tmp_path / "run", told)
    assert "forgetting" not in scores
    assert "memory does not hold the pretrained model in addition to the trained one" in told.said[-1]


def test_parts_of_a_row_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    before, after = (torch.randn(11, 18, generator=draw) for _ in range(2))
    whole = divergence._divergences((before, after), torch.zeros(11))
    monkeypatch.setattr(divergence, "_MOST", 3 * 18)
    assert torch.equal(divergence._divergences((before, after), torch.zeros(11)), whole)
    assert divergence._divergences((before[:0], after[:0]), torch.zeros(0)).shape == (0,)


@pytest.mark.parametrize("scale", [1e-7, 1e-5, 1e-3, 1.0, 100.0, 1e4])
def test_the_divergence_is_never_negative(scale: float) -> None:
    draw = torch.Generator().manual_seed(0)
    before = 3 * torch.randn(50, 1000, generator=draw)
    after = before + scale * torch.randn(50, 1000, generator=draw)
    found = divergence._divergences((before, after), torch.zeros(50))
    logs = [logits.double().log_softmax(-1) for logits in (before, after)]
    exact = functional.kl_div(logs[1], logs[0], reduction="none", log_target=True).sum(-1)
    assert (found >= 0).all()
    assert torch.isfinite(found).all()
    if scale > 1e-6:  # below, float32 rounds the change itself
        assert torch.allclose(found, exact, rtol=1e-4 + 3e-7 / scale, atol=0.0)


def test_words_that_neither_model_can_say_add_nothing() -> None:
    before = torch.tensor([[0.0, 1.0, float("-inf")]])
    after = torch.tensor([[1.0, 0.0, float("-inf")]])
    closed = divergence._divergences((before, after), torch.zeros(1))
    open_ones = divergence._divergences((before[:, :2], after[:, :2]), torch.zeros(1))
    assert torch.equal(closed, open_ones)
    assert divergence._divergences((before, torch.tensor([[float("-inf"), 0.0, 0.0]])), torch.zeros(1)).isinf().all()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("other.txt:metric=chrf", r"chrf needs prompts and responses, .* running text, whose metrics are loss and kl"),
        ("other.txt:metric=k1", r"unknown metric 'k1'\. .*Expected one of loss, perplexity, .*, kl\."),
    ],
)
def test_wrong_metrics_are_named(configure: Configure, other: Path, setting: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        measure_for(configure(forgetting=str(other.parent / setting)))


def test_no_task_selects_by_it(configure: Configure, data: Path) -> None:
    with pytest.raises(UsageError, match=r"metric='kl' is unknown for generation.* Expected loss, perplexity,"):
        prepare_task(configure(metric="kl"))


def test_the_suggested_setting_keeps_the_other_options(configure: Configure, data: Path, tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("sentence1,n\n" + "good film the day,1\n" * 20)
    (note,) = measure_for(configure(forgetting=f"{table}:tokens=20, metric=kl,column=sentence1")).notes
    assert note.endswith(f"; forgetting={table}:column=sentence1,metric=kl,tokens=N sets another number")
    notes = measure_for(configure(forgetting=f"{data / 'train.jsonl'}:rows=3,metric=kl", max_length=32)).notes
    assert any(note.endswith("train.jsonl:metric=kl,rows=N sets another number") for note in notes)
