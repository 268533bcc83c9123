"""``--forgetting``: the loss of other text and the scores of other tasks, before and after, beside a training."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from gradgate.errors import DataError, GradgateError, RunError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.finished import load_finished
from gradgate.runs.progress import Silent
from gradgate.settings.forgetting import read_forgetting
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.forgetting.data import check_forgetting
from gradgate.training.forgetting.measures import Measure, measure_of
from gradgate.training.generation.token_loss import blocks
from gradgate.training.prepared_task import prepare_task
from gradgate.training.pretrained import load_tokenizer
from gradgate.training.run import train
from gradgate.training.start import load_reference
from support.command_line import Command
from support.crossed import some_fast
from support.generators import WORDS, save_generator, save_prompts
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run

pytest.importorskip("trl")
pytest.importorskip("sacrebleu")

Configure = Callable[..., RunConfig]
LENGTH = 8


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_prompts(tmp_path_factory.mktemp("prompts"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve texts of 1 to 20 words; one has a single token, of which nothing can be predicted."""
    draw = random.Random(3)
    lines = [" ".join(draw.choices(WORDS, k=length)) for length in (1, 2, 5, 8, 9, 20, 3, 15, 16, 7, 4, 11)]
    file = tmp_path_factory.mktemp("other") / "other.txt"
    file.write_text("\n\n".join(lines) + "\n")
    return file


@pytest.fixture(scope="module")
def configure(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Configure:
    folder = tmp_path_factory.mktemp("models")

    def make(family: str = "llama", **changes: Any) -> RunConfig:
        if not (folder / family).is_dir():
            save_generator(folder / family, family)
        usual = {"model": str(folder / family), "task": str(data), "max_length": LENGTH, "batch_size": 4, "lr": 1e-2}
        ends = {"steps": 4, "eval_every": 2, "save_every": 2, "max_new_tokens": 3, "device": "cpu", "skip_test": True}
        return make_config(**usual | ends | changes)

    return make


def measure_for(config: RunConfig) -> Measure:
    """The measure that a run prepares."""
    prepared, tokenizer = prepare_task(config), load_tokenizer(config)
    pretrained = partial(load_reference, config, prepared, tokenizer)
    measure = measure_of(config, prepared.record(), tokenizer, pretrained)
    assert measure is not None
    return measure


def by_hand(model: Any, tokenizer: Any, file: Path) -> float:
    """The mean loss of each token behind the first, in pieces that are cut by hand."""
    losses = []
    for line in filter(None, file.read_text().split("\n")):
        ids = tokenizer(line).input_ids
        for begin in range(0, len(ids) - 1, LENGTH - 1):
            piece = ids[begin : begin + LENGTH]
            with torch.no_grad():
                logits = model(torch.tensor([piece[:-1]])).logits[0].double().log_softmax(-1)
            losses += [-float(logits[place, following]) for place, following in enumerate(piece[1:])]
    return sum(losses) / len(losses)


@some_fast("family", ["llama", "gpt2", "mixtral"], ["mixtral"])  # adapters are measured on llama below
def test_running_text_has_the_cross_entropy_of_its_tokens(
    configure: Configure, other: Path, family: str, tmp_path: Path
) -> None:
    config = configure(family, forgetting=str(other))
    found = train(config, tmp_path / "run")["forgetting"]
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    before = by_hand(AutoModelForCausalLM.from_pretrained(config.model).eval(), tokenizer, other)
    after = by_hand(load_finished(tmp_path / "run").model, tokenizer, other)
    assert (found["before"], found["after"]) == pytest.approx((before, after), rel=1e-5)
    assert found["difference"] == found["after"] - found["before"]
    assert found["perplexity_after"] == math.exp(found["after"])
    assert (found["file"], found["metric"], found["higher_is_better"]) == (str(other), "loss", False)
    assert (found["rows"], found["tokens"]) == (11, 2 + 5 + 8 + 9 + 20 + 3 + 15 + 16 + 7 + 4 + 11 - 11)


def test_blocks_predict_each_token_once() -> None:
    for count in range(40):
        cut = blocks(range(count), LENGTH)
        assert [token for block in cut for token in block[1:]] == list(range(1, count))
        assert all(len(block) <= LENGTH for block in cut)


@some_fast("adapter", [None, "pfeiffer:reduction=2"], [None])
def test_the_training_is_the_same_bit_for_bit_and_resumes(
    configure: Configure, other: Path, adapter: str | None, tmp_path: Path
) -> None:
    own: dict[str, Any] = {"method": "graddrop:p=0.3", "adapter": adapter, "dropout": 0.3}
    train(configure("llama", **own), tmp_path / "plain")
    config = configure("llama", forgetting=str(other), **own)
    train(config, tmp_path / "unbroken")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(3))
    kept = list((tmp_path / "run/cache").glob("forgetting-*.json"))
    assert len(kept) == 1
    kept[0].write_text(json.dumps({"before": 1.5}))  # what was measured before the fall is not measured again
    assert train(config, tmp_path / "run")["forgetting"]["before"] == 1.5
    assert not (tmp_path / "run/cache").exists()
    without = {name: json.loads((tmp_path / name / "scores.json").read_text()) for name in ("run", "unbroken")}
    assert without["run"]["forgetting"]["after"] == without["unbroken"]["forgetting"]["after"]
    for name, scores in without.items():
        del scores["forgetting"]
        (tmp_path / name / "scores.json").write_text(json.dumps(scores))
        assert_same_run(tmp_path / name, tmp_path / "plain")


@some_fast("adapter", ["lora:r=2", "pfeiffer:reduction=2"], ["pfeiffer:reduction=2"])
def test_an_adapter_counts_after_and_not_before(
    configure: Configure, other: Path, adapter: str, tmp_path: Path
) -> None:
    if adapter.startswith("lora"):
        pytest.importorskip("peft")
    found = train(configure("llama", forgetting=str(other), adapter=adapter, lr=0.1), tmp_path / "run")["forgetting"]
    tokenizer = AutoTokenizer.from_pretrained(configure("llama").model)
    pretrained = AutoModelForCausalLM.from_pretrained(configure("llama").model).eval()
    assert found["before"] == pytest.approx(by_hand(pretrained, tokenizer, other), rel=1e-5)
    assert found["after"] == pytest.approx(by_hand(load_finished(tmp_path / "run").model, tokenizer, other), rel=1e-5)
    assert abs(found["difference"]) > 1e-4


def test_runs_of_one_model_share_what_it_scores_before(configure: Configure, other: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    train(configure(forgetting=str(other), steps=1), tmp_path / "first", cache=shared)
    (kept,) = shared.glob("forgetting-*.json")
    kept.write_text(json.dumps({"before": 1.5}))

    def before(**own: Any) -> float:
        config = configure(forgetting=str(other), steps=1, **own)
        return float(
            train(config, tmp_path / f"run-{len(list(tmp_path.iterdir()))}", cache=shared)["forgetting"]["before"]
        )

    assert before(method="freeze:layers=1", seed=1, adapter="pfeiffer:reduction=2") == 1.5
    assert before(max_length=16) != 1.5, "other blocks"
    kept.write_text("damaged")
    assert before() != 1.5


@pytest.mark.parametrize(
    ("family", "metric"),
    [pytest.param("llama", "loss", marks=pytest.mark.slow), ("llama", "chrf"), ("t5", "perplexity")],
)
def test_another_task_has_its_own_metric(
    configure: Configure, data: Path, family: str, metric: str, tmp_path: Path
) -> None:
    file = data / "test.jsonl"
    config = configure(family, forgetting=f"{file}:metric={metric}", max_length=32, steps=2)
    found = train(config, tmp_path / "run")["forgetting"]
    scores = evaluate(tmp_path / "run", test_file=file, out=tmp_path / "again")["tests"]["test"]
    assert found["after"] == pytest.approx(scores[metric], rel=1e-5)
    assert (found["metric"], found["higher_is_better"], found["rows"]) == (metric, metric == "chrf", 5)
    assert "tokens" not in found
    factory = AutoModelForSeq2SeqLM if family == "t5" else AutoModelForCausalLM
    measure = measure_for(config)
    assert measure.value(factory.from_pretrained(config.model)) == found["before"]


def test_a_task_of_generation_is_named_by_its_folder(configure: Configure, data: Path, tmp_path: Path) -> None:
    whole = train(configure(forgetting=str(data), steps=1), tmp_path / "run")["forgetting"]
    assert (whole["rows"], whole["metric"]) == (5, "loss")


def test_weights_in_16_bits_are_measured(configure: Configure, other: Path, tmp_path: Path) -> None:
    config = configure(forgetting=str(other), weights="bfloat16", steps=1)
    found = train(config, tmp_path / "run")["forgetting"]
    exact = by_hand(
        AutoModelForCausalLM.from_pretrained(config.model).eval(), AutoTokenizer.from_pretrained(config.model), other
    )
    assert found["before"] == pytest.approx(exact, rel=1e-2)


def test_a_large_text_is_measured_in_part_and_it_is_said(configure: Configure, other: Path, data: Path) -> None:
    def made(setting: str) -> Any:
        return measure_for(configure(forgetting=setting))

    measure = made(f"{other}:tokens=30")
    assert measure.tokens == 30
    (note,) = measure.notes
    assert "measured on 30 tokens of" in note
    assert f"forgetting={other}:tokens=N" in note
    assert made(f"{other}:tokens=30").fingerprint == measure.fingerprint != made(str(other)).fingerprint
    assert made(str(other)).notes == ()
    few = made(f"{data / 'train.jsonl'}:rows=3")
    assert few.rows == 3
    assert any("measured on 3 rows of" in note for note in few.notes)


def test_texts_come_from_a_column(configure: Configure, other: Path, tmp_path: Path) -> None:
    lines = list(filter(None, other.read_text().split("\n")))
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps({"body": line, "prompt": "x", "response": "y"}) + "\n" for line in lines))
    first, second = (measure_for(configure(forgetting=text)) for text in (str(other), f"{table}:column=body"))
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize(
    ("family", "setting", "error", "message"),
    [
        ("llama", "absent.txt", DataError, r"forgetting=.*absent\.txt: .*absent\.txt is missing"),
        ("llama", "empty.txt", DataError, r"empty\.txt has no text; .* Pass another forgetting="),
        ("llama", "short.txt", DataError, "has no text of two or more tokens"),
        ("llama", "columns.csv", DataError, r"no column 'text'; .*'body'.*forgetting=FILE:column=NAME"),
        ("llama", "short.txt:metric=chrf", UsageError, "chrf needs prompts and responses"),
        ("t5", "short.txt", RunError, "is a t5 model, an encoder with a decoder"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_the_training(
    configure: Configure, family: str, setting: str, error: type[GradgateError], message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "short.txt").write_text("good\n")
    (tmp_path / "columns.csv").write_text("body,n\ngood film,1\n")

    class Begins(Silent):
        def begin(self, total: int, done: int) -> None:
            raise AssertionError("nothing may be trained")

    with pytest.raises(error, match=message):
        train(configure(family, forgetting=str(tmp_path / setting)), tmp_path / "run", Begins())


def test_models_without_a_loss_of_language_are_refused_before_torch_is_loaded(
    settings: dict[str, Any], other: Path, command: Command, tmp_path: Path
) -> None:
    words = ["--model", settings["model"], "--task", settings["task"], "--forgetting", str(other)]
    for name in ("train", "compare"):
        method = ["-m", "full"] if name == "compare" else []
        said = command(name, *words, *method, "--out", str(tmp_path / name))
        assert said.code == 2
        assert "is classification, so its model has a task head instead of a language-model loss" in said.err
    with pytest.raises(UsageError, match=r"forgetting=nosuch: nosuch is missing; .*, and no task has that name\."):
        check_forgetting(read_forgetting("nosuch"), "prompts", "generation")
    with pytest.raises(UsageError, match=r"the task .* is classification, for which the model would need another head"):
        check_forgetting(read_forgetting("sample"), "prompts", "generation")


def test_settings_of_older_runs_keep_their_fingerprint() -> None:
    record = make_config().record()
    del record["forgetting"]
    assert make_config(**record).fingerprint() == make_config().fingerprint()
    assert make_config(forgetting="a.txt").fingerprint() != make_config().fingerprint()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.txt:tokens=0", "tokens=0 leaves nothing to measure on; pass 1 or more"),
        ("a.txt:colum=x", "has no option 'colum'. Did you mean 'column'"),
    ],
)
def test_a_wrong_option_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config(forgetting=text)
