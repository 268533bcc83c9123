"""Runs of generation: TRL's loss, exact resume, texts and their metrics, and every family of model."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from gradgate.errors import DataError, NonFiniteError, RunError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.finished import load_finished
from gradgate.evaluation.predict import predict
from gradgate.runs.interrupt import InterruptedRunError
from gradgate.runs.progress import Silent
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks import kind_of
from gradgate.training.generation.decoding import Greedy
from gradgate.training.prepared_task import prepare_task
from gradgate.training.pretrained import load_tokenizer
from gradgate.training.run import train
from support.command_line import Command
from support.generators import FAMILIES, TEMPLATE, as_messages, rows, save_generator, save_prompts, save_rows
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history

trl = pytest.importorskip("trl")
sacrebleu = pytest.importorskip("sacrebleu")
rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")

Configure = Callable[..., RunConfig]


class Notes(Silent):
    """Keeps what a run says."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_prompts(tmp_path_factory.mktemp("prompts"))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {family: save_generator(folder / family, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def configure(data: Path, models: dict[str, Path]) -> Configure:
    """Settings of a run of 8 steps, 4 an epoch, that takes about a second."""

    def make(family: str = "llama", **changes: Any) -> RunConfig:
        usual = {"model": str(models[family]), "task": str(data), "max_length": 32, "batch_size": 4, "lr": 1e-2}
        ends = {"steps": 8, "eval_every": 4, "save_every": 3, "max_new_tokens": 4, "device": "cpu"}
        return make_config(**usual | ends | changes)

    return make


@pytest.fixture(scope="module")
def finished(configure: Configure, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a Llama whose lowest layer is closed at first."""
    folder = tmp_path_factory.mktemp("run")
    train(configure(method="gradual:every=4"), folder / "run")
    return folder / "run"


def predictions(run: Path, split: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"predictions/{split}.jsonl").read_text().splitlines()]


def test_metrics_of_texts_are_their_libraries_on_the_prediction_files(finished: Path) -> None:
    scores = json.loads((finished / "scores.json").read_text())
    for split, held in (("dev", scores["dev"]), ("test", scores["tests"]["test"])):
        found = predictions(finished, split)
        assert [row["index"] for row in found] == list(range(5))
        mine, true = [row["predicted"] for row in found], [row["gold"] for row in found]
        scorer = rouge_scorer.RougeScorer(["rougeL"])
        means = [scorer.score(gold, text)["rougeL"].fmeasure for gold, text in zip(true, mine, strict=True)]
        assert held["rougeL"] == sum(means) / 5
        assert held["chrf"] == sacrebleu.corpus_chrf(mine, [true]).score / 100
        assert held["exact_match"] == sum(a == b for a, b in zip(mine, true, strict=True)) / 5
        assert held["perplexity"] == math.exp(held["loss"])
    assert scores["metric"] == "loss"
    versions = json.loads((finished / "run.json").read_text())["versions"]
    assert versions["trl"] == trl.__version__
    assert versions["sacrebleu"] == sacrebleu.__version__


@pytest.mark.parametrize("family", ["llama", "mixtral"])
def test_a_split_has_the_mean_loss_of_its_tokens_and_greedy_texts(
    configure: Configure, finished: Path, family: str, tmp_path: Path
) -> None:
    if family != "llama":
        finished = tmp_path / "run"
        train(configure(family, steps=2), finished)
    run = load_finished(finished)
    losses = []
    for row in predictions(finished, "test"):
        text = row["prompt"] + row["gold"] + "[EOS]"
        ids = run.tokenizer(text, return_tensors="pt").input_ids
        begin = len(run.tokenizer(row["prompt"]).input_ids)
        with torch.no_grad():
            logits = run.model(ids).logits[0].log_softmax(-1)
            made = run.model.generate(ids[:, :begin], do_sample=False, max_new_tokens=4, pad_token_id=0)
        losses += [-float(logits[place - 1, ids[0, place]]) for place in range(begin, ids.shape[1])]
        assert row["predicted"] == run.tokenizer.decode(made[0, begin:], skip_special_tokens=True)
    scores = json.loads((finished / "scores.json").read_text())
    assert scores["tests"]["test"]["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_a_mixture_of_experts_generates_where_trl_balances_them(models: dict[str, Path]) -> None:
    model = AutoModelForCausalLM.from_pretrained(models["mixtral"])
    model.config.eos_token_id = model.generation_config.eos_token_id = None  # all four tokens are generated
    tokenizer = AutoTokenizer.from_pretrained(models["mixtral"])
    greedy, prompts = Greedy(4, 4, "fp32"), tokenizer([row["prompt"] for row in rows(5, 1)])["input_ids"]
    usual = greedy.texts(model, tokenizer, prompts)
    model.config.output_router_logits = True
    assert greedy.texts(model, tokenizer, prompts) == usual
    assert model.config.output_router_logits


@pytest.mark.parametrize("family", ["llama", "t5", "bart"])
def test_a_text_does_not_depend_on_the_other_prompts_of_its_batch(models: dict[str, Path], family: str) -> None:
    """Encoders as BART's number positions from the left edge, so padding there would shift a prompt."""
    auto = AutoModelForCausalLM if family == "llama" else AutoModelForSeq2SeqLM
    model = auto.from_pretrained(models[family])
    model.config.eos_token_id = model.generation_config.eos_token_id = None
    tokenizer = AutoTokenizer.from_pretrained(models[family], eos_token=None)
    draw = torch.Generator().manual_seed(0)
    for weights in model.parameters():  # random texts, in place of one word again and again
        weights.data.add_(0.3 * torch.randn(weights.shape, generator=draw))
    prompts = [torch.randint(4, 10, (length,), generator=draw).tolist() for length in (12, 9, 5, 3)]
    alone = [Greedy(1, 8, "fp32").tokens(model, tokenizer, [prompt])[0] for prompt in prompts]
    assert len({tuple(text) for text in alone}) > 1
    assert Greedy(4, 8, "fp32").tokens(model, tokenizer, prompts) == alone


def trl_losses(config: RunConfig, held: list[dict[str, Any]], folder: Path, **settings: Any) -> list[float]:
    """The losses of TRL's own trainer on the same rows, batches and weights, by step."""
    model = AutoModelForCausalLM.from_pretrained(config.model, dtype=torch.float32)
    args = trl.SFTConfig(
        output_dir=str(folder),
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.accumulate,
        max_steps=config.steps,
        learning_rate=config.lr,
        warmup_steps=config.warmup,
        lr_scheduler_type=config.schedule,
        weight_decay=config.weight_decay,
        max_grad_norm=config.clip,
        logging_steps=1,
        seed=config.seed,
        max_length=config.max_length,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        **settings,
    )
    columns = {name: [row[name] for row in held] for name in ("prompt", "completion")}
    trainer = trl.SFTTrainer(
        model, args, train_dataset=Dataset.from_dict(columns), processing_class=load_tokenizer(config)
    )
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize(
    ("accumulate", "chat", "loss_on"),
    [
        pytest.param(1, False, "response", marks=pytest.mark.slow),
        (2, False, "response"),
        (1, False, "all"),
        (1, True, "response"),
    ],
)
def test_the_loss_of_each_step_is_trls(
    configure: Configure, accumulate: int, chat: bool, loss_on: str, tmp_path: Path
) -> None:
    held: list[dict[str, Any]] = rows(16, 0)
    of_trl = [{"prompt": row["prompt"], "completion": row["response"]} for row in held]
    if chat:
        held = [as_messages(row) for row in held]
        of_trl = [{"prompt": row["messages"][:1], "completion": row["messages"][1:]} for row in held]
    task = save_rows(tmp_path / "data", {"train": held, "dev": held[:2]})
    lines = ("kind: generation", "files: {train: train.jsonl, dev: dev.jsonl}", f"loss_on: {loss_on}")
    (task / "task.yaml").write_text("\n".join(lines))
    model = save_generator(tmp_path / "model", template=TEMPLATE)
    own = {"steps": 4, "batch_size": 4 // accumulate, "accumulate": accumulate, "skip_test": True}
    config = configure(model=str(model), task=str(task), **own)
    train(config, tmp_path / "run")
    mine = [line["loss"] for line in history(tmp_path / "run", "train")]
    assert len(mine) == 4
    assert mine == trl_losses(config, of_trl, tmp_path / "trl", completion_only_loss=loss_on == "response")


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=() if each in ("llama", "t5") else pytest.mark.slow) for each in FAMILIES]
)
def test_a_run_without_power_ends_as_if_unbroken(configure: Configure, family: str, tmp_path: Path) -> None:
    config = configure(family, method="graddrop:p=0.3", audit=True, steps=5, eval_every=5)
    train(config, tmp_path / "unbroken")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(4))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


@pytest.mark.slow  # tests/training/test_resume.py interrupts runs of classification
def test_an_interrupted_run_saves_itself_and_goes_on(configure: Configure, finished: Path, tmp_path: Path) -> None:
    class Interrupts(Silent):
        def advance(self, step: int, loss: float | None) -> None:
            if step == 5:
                signal.raise_signal(signal.SIGINT)

    config = configure(method="gradual:every=4")
    with pytest.raises(InterruptedRunError, match="Stopped at step 5 of 8"):
        train(config, tmp_path / "run", Interrupts())
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_the_command_line_trains_and_predicts(
    configure: Configure, data: Path, command: Command, tmp_path: Path
) -> None:
    config, out = configure(), tmp_path / "run"
    files = [word for split in ("train", "dev", "test") for word in (f"--{split}-file", str(data / f"{split}.jsonl"))]
    words = ["--model", config.model, *files, "--kind", "generation", "--max-length", "32", "--steps", "2"]
    said = command("train", *words, "--packing", "--max-new-tokens", "3", "--device", "cpu", "--out", str(out))
    assert said.code == 0, said.err
    said = command("predict", str(out), "--file", str(data / "test.jsonl"), "--out", str(tmp_path / "texts.jsonl"))
    assert said.code == 0, said.err
    texts = [json.loads(line)["predicted"] for line in (tmp_path / "texts.jsonl").read_text().splitlines()]
    assert texts == [row["predicted"] for row in predictions(out, "test")]


def test_texts_are_generated_while_training_only_to_select_by_them(
    configure: Configure, finished: Path, tmp_path: Path
) -> None:
    assert all("chrf" not in line for line in history(finished, "dev"))
    scores = train(configure(metric="chrf", steps=4), tmp_path / "run")
    assert history(tmp_path / "run", "dev")[0]["chrf"] == scores["dev"]["chrf"]
    assert len(predictions(tmp_path / "run", "dev")) == 5


def test_a_run_is_scored_and_predicts_as_it_was_scored(finished: Path, data: Path, tmp_path: Path) -> None:
    scores = json.loads((finished / "scores.json").read_text())
    assert evaluate(finished, out=tmp_path / "again")["tests"] == scores["tests"]
    without = [{name: value for name, value in row.items() if name != "gold"} for row in predictions(finished, "test")]
    assert predict([finished], data / "test.jsonl").records() == without
    prompts = "\n".join(json.dumps({"prompt": row["prompt"]}) for row in predictions(finished, "test"))
    assert predict([finished], prompts).records() == without


def test_accumulated_batches_learn_as_one(configure: Configure, tmp_path: Path) -> None:
    for name, size, parts in (("whole", 4, 1), ("parts", 2, 2)):
        config = configure("t5", batch_size=size, accumulate=parts, dropout=0.0, skip_test=True, steps=2)
        train(config, tmp_path / name)
    lines = zip(history(tmp_path / "whole", "train"), history(tmp_path / "parts", "train"), strict=True)
    for whole, part in lines:
        assert (part["loss"], part["grad_norm"]) == pytest.approx((whole["loss"], whole["grad_norm"]), rel=1e-3)


def test_closed_layers_are_read_from_the_activation_cache(configure: Configure, tmp_path: Path) -> None:
    notes = Notes()
    for name, cache in (("without", "off"), ("with", str(tmp_path / "cache"))):
        train(configure(method="freeze:layers=1", activation_cache=cache, skip_test=True), tmp_path / name, notes)
    assert notes.said == []
    lines = zip(history(tmp_path / "with", "train"), history(tmp_path / "without", "train"), strict=True)
    for mine, usual in lines:
        assert mine["loss"] == pytest.approx(usual["loss"], rel=1e-5)
    assert json.loads((tmp_path / "with/scores.json").read_text())["cost"]["prefix_rows"]["read"] == 16


@pytest.mark.parametrize(
    ("family", "adapter"),
    [
        ("llama", "lora:r=2"),
        pytest.param("t5", "lora:r=2", marks=pytest.mark.slow),
        pytest.param("gpt2", "dora:r=2", marks=pytest.mark.slow),
    ],
)
def test_an_adapter_alone_learns_and_is_kept(configure: Configure, family: str, adapter: str, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    scores = train(configure(family, adapter=adapter, audit=True, steps=3), tmp_path / "run")
    assert scores["cost"]["parameters_trained"] < scores["cost"]["parameters"] / 2
    assert evaluate(tmp_path / "run", out=tmp_path / "again")["tests"] == scores["tests"]


def test_packed_rows_keep_examples_apart(configure: Configure, tmp_path: Path) -> None:
    notes = Notes()
    config = configure(packing=True, steps=1, batch_size=16, lr=1e-9, skip_test=True)
    train(config, tmp_path / "packed", notes)
    train(configure(steps=1, batch_size=16, lr=1e-9, skip_test=True), tmp_path / "usual")
    packed, usual = (history(tmp_path / name, "train")[0]["loss"] for name in ("packed", "usual"))
    assert packed == pytest.approx(usual, rel=1e-5), "the same tokens, each seen behind its own prompt alone"
    assert any("16 examples are packed into" in note for note in notes.said)


def test_messages_are_learned_by_the_chat_template(tmp_path: Path) -> None:
    held = {split: [as_messages(row) for row in rows(8, seed)] for seed, split in enumerate(("train", "dev", "test"))}
    task = save_rows(tmp_path / "data", held)
    model = save_generator(tmp_path / "model", template=TEMPLATE)
    settings = {"model": str(model), "task": str(task), "steps": 2, "max_length": 32, "device": "cpu"}
    train(make_config(**settings), tmp_path / "run")
    found = predictions(tmp_path / "run", "test")
    assert [row["prompt"] for row in found] == [row["messages"][:1] for row in held["test"]]
    assert [row["gold"] for row in found] == [row["messages"][1]["content"] for row in held["test"]]
    asked = "\n".join(json.dumps({"messages": row["messages"][:1]}) for row in held["test"])
    texts = [row["predicted"] for row in predict([tmp_path / "run"], asked).records()]
    assert texts == [row["predicted"] for row in found]


def test_what_is_cut_is_said_and_lost_responses_are_left_out(
    configure: Configure, models: dict[str, Path], tmp_path: Path
) -> None:
    long = {"prompt": "the " * 9, "response": "good"}
    task = save_rows(tmp_path / "data", {"train": [*rows(6, 0), long], "dev": rows(4, 1)})
    notes = Notes()
    scores = train(configure(task=str(task), max_length=8, steps=2), tmp_path / "run", notes)
    assert scores["cost"]["steps"] == 2
    said = "\n".join(notes.said)
    assert "train: max_length=8 truncates 1 of 7 rows; the longest has 11 tokens; max_length=11 keeps all" in said
    assert f"in 1 of 7 rows, the first at {task}/train.jsonl:7; they are left out" in said
    lost = save_rows(tmp_path / "lost", {"train": [long] * 3, "dev": rows(4, 1)})
    with pytest.raises(DataError, match=r"in 3 of 3 rows, the first at .*train.jsonl:1. Raise max_length="):
        train(configure(task=str(lost), max_length=8), tmp_path / "none")


def test_a_loss_on_dev_that_is_not_finite_is_said_with_the_remedy(configure: Configure, tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"After step 1: the loss on dev is nan\. Lower lr="):
        train(configure(lr=3e39, warmup=0, steps=1), tmp_path / "run")
    assert not any((tmp_path / "run/best").glob("*/dev.json"))


def test_a_tokenizer_without_a_padding_token_pads_with_its_end(configure: Configure, tmp_path: Path) -> None:
    model = save_generator(tmp_path / "model", pad_token=None)
    notes = Notes()
    scores = train(configure(model=str(model), steps=2, skip_test=True), tmp_path / "run", notes)
    assert any("no padding token, so '[EOS]' pads" in note for note in notes.said)
    usual = train(configure(steps=2, skip_test=True), tmp_path / "usual")
    assert scores["dev"]["loss"] == usual["dev"]["loss"], "padding counts in no loss"


@pytest.mark.parametrize(
    ("changes", "family", "message"),
    [
        ({"packing": True}, "t5", "packing=True is for decoders"),
        ({"max_new_tokens": 64}, "llama", "max_new_tokens=64 leaves no room for a prompt: the model has 64 positions"),
    ],
)
def test_settings_that_a_model_cannot_have_are_refused(
    configure: Configure, changes: dict[str, Any], family: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        train(configure(family, steps=1, **changes), tmp_path / "run")


def test_models_and_tasks_of_other_kinds_are_refused(
    configure: Configure, tiny_model: Path, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(RunError, match=r"a bert model, an encoder, which cannot generate text\. Expected a decoder"):
        prepare_task(configure(model=str(tiny_model)))
    with pytest.raises(UsageError, match="packing=: these are for tasks of kind generation"):
        prepare_task(make_config(**settings, packing=True))


def test_a_decoder_without_its_output_layer_is_refused(configure: Configure, tmp_path: Path) -> None:
    config = configure(steps=1)
    AutoModel.from_pretrained(config.model).save_pretrained(tmp_path / "bare")
    load_tokenizer(config).save_pretrained(tmp_path / "bare")
    with pytest.raises(RunError, match=r"lm_head\.weight absent .* pretrained to generate text"):
        train(configure(steps=1, model=str(tmp_path / "bare")), tmp_path / "run")


def test_a_missing_package_is_named_before_anything_is_trained(
    configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gradgate.training.generation.task as generation

    monkeypatch.setattr(generation, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"with TRL, which is not installed. .*pip install 'gradgate\[llm\]'"):
        prepare_task(configure())
    assert kind_of(prepare_task(configure("t5")).data.spec).info.name == "generation"  # type: ignore[attr-defined]
