"""The head of a checkpoint is matched with the labels of a task by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
    set_seed,
)

from gradgate.errors import UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.settings.identity import fingerprint_of
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.checkpoint_head import CheckpointHead
from gradgate.training.prepared_task import prepare_task
from gradgate.training.pretrained import load_tokenizer
from gradgate.training.run import train
from support.crossed import each_once
from support.heard import Heard
from support.tiny_folders import WORDS, word_tokenizer

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
BERT: dict[str, Any] = {"vocab_size": len(WORDS), "max_position_embeddings": 40, "initializer_range": 0.5, **SIZES}
MOODS = ("bad", "good", "mixed")


def save(folder: Path, labels: tuple[str, ...] | None, of: type[Any] = BertForSequenceClassification) -> Path:
    """A checkpoint with a head for these labels; generic names where there are none."""
    names = {"num_labels": 3} if labels is None else {"id2label": dict(enumerate(labels))}
    configs = {
        RobertaForSequenceClassification: RobertaConfig(**BERT, pad_token_id=0, **names),
        GPT2ForSequenceClassification: GPT2Config(
            vocab_size=len(WORDS), n_embd=16, n_layer=1, n_head=2, n_positions=40, pad_token_id=0, **names
        ),
        DistilBertForSequenceClassification: DistilBertConfig(
            vocab_size=len(WORDS), dim=16, hidden_dim=16, n_layers=1, n_heads=2, max_position_embeddings=40, **names
        ),
    }
    torch.manual_seed(3)
    model = of(configs.get(of) or BertConfig(**BERT, **names))
    model.save_pretrained(folder)
    special = {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    word_tokenizer(**special, eos_token="[SEP]").save_pretrained(folder)
    return folder


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """Three moods, whose outputs are in the order of ``MOODS``."""
    folder = tmp_path / "moods"
    folder.mkdir()
    rows = "text,label\n" + "".join(f"the {word} day {row},{word}\n" for row in range(4) for word in MOODS)
    for split in ("train", "dev"):
        (folder / f"{split}.csv").write_text(rows.replace("mixed day", "dark day"))
    return folder


def load(model: Path, task: Path, **options: Any) -> tuple[Any, frozenset[str], list[str]]:
    """The model that a run starts with, its fresh parameters, and what is said."""
    config = make_config(model=str(model), task=str(task), max_length=16, **options)
    said: list[str] = []
    set_seed(0)
    found, fresh = prepare_task(config).load_model(config, load_tokenizer(config), said.append)
    return found.eval(), fresh, said


def outputs(model: Any, folder: Path) -> dict[str, list[float]]:
    """Label name -> its output for three texts, to the bit."""
    words = ["the good day", "a dark road", "not"]
    texts = AutoTokenizer.from_pretrained(folder)(words, padding=True, return_tensors="pt")
    texts.pop("token_type_ids", None)
    with torch.no_grad():
        found = model.eval()(**texts).logits
    return {model.config.id2label[place]: found[:, place].tolist() for place in range(found.shape[1])}


ONE_HEAD = [
    BertForSequenceClassification,
    RobertaForSequenceClassification,
    DistilBertForSequenceClassification,
    GPT2ForSequenceClassification,
]


@each_once("of", ONE_HEAD, "labels", [("good", "mixed", "bad"), ("GOOD", "Mixed", "Bad"), MOODS])
def test_a_label_keeps_its_output(of: type[Any], labels: tuple[str, ...], task: Path, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", labels, of)
    model, fresh, said = load(folder, task)
    before = outputs(of.from_pretrained(folder), folder)
    after = outputs(model, folder)
    assert tuple(after) == MOODS
    assert after == {label: before[name] for name in before for label in MOODS if name.lower() == label}
    assert len(said) == 1
    assert "is kept: its labels are those of the task" in said[0]
    assert all("classif" in name or "score" in name or "out_proj" in name for name in fresh)
    assert bool(fresh) == (labels != MOODS)


FRESH: dict[str, tuple[tuple[str, ...] | None, dict[str, Any], str]] = {
    "foreign names": (
        ("x", "y", "z"),
        {},
        r"by a fresh one: it has x, y, z, which the task lacks; the task",
    ),
    "some names": (("good", "bad", "awful"), {}, r"it has awful.*the task has mixed.*head='keep' keeps .*: bad, good"),
    "more names": ((*MOODS, "none"), {}, r"it has none, which the task lacks\. head='keep'"),
    "generic names": (None, {}, r"has 3 outputs without names .*fresh one\. head='keep' keeps it by position"),
    "asked for": (MOODS, {"head": "fresh"}, r"replaced by a fresh one, as head='fresh' asks for"),
}


@pytest.mark.parametrize("of", ONE_HEAD[:2])
@pytest.mark.parametrize("case", FRESH)
def test_another_head_is_drawn_anew(case: str, of: type[Any], task: Path, tmp_path: Path) -> None:
    labels, options, note = FRESH[case]
    folder = save(tmp_path / "model", labels, of)
    model, fresh, said = load(folder, task, **options)
    head = {name: weight for name, weight in model.named_parameters() if name.startswith("classifier")}
    assert set(head) <= fresh
    assert len(said) == 1
    assert re.search(note, said[0])
    # As if the checkpoint had no head: the same bits from the same seed.
    whole = of.from_pretrained(folder)
    whole.base_model.save_pretrained(folder)
    without, _, silence = load(folder, task)
    assert not silence
    if len(labels or MOODS) == len(MOODS) or of is BertForSequenceClassification:  # RoBERTa draws its last layer first
        assert all(torch.equal(weight, without.get_parameter(name)) for name, weight in head.items())


def test_names_that_both_have_are_kept(task: Path, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", ("good", "awful", "bad", "fine"))
    before = BertForSequenceClassification.from_pretrained(folder).classifier
    model, fresh, said = load(folder, task, head="keep")
    after = model.classifier
    assert torch.equal(after.weight[:2], before.weight[[2, 0]])
    assert torch.equal(after.bias[:2], before.bias[[2, 0]])
    assert not any(torch.equal(after.weight[2], row) for row in before.weight)
    assert "is kept for bad, good: it has awful, fine" in said[0]
    assert {"classifier.weight", "classifier.bias"} <= fresh


def test_outputs_without_names_are_kept_by_position(task: Path, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", None)
    before = outputs(BertForSequenceClassification.from_pretrained(folder), folder)
    model, fresh, said = load(folder, task, head="keep")
    assert list(outputs(model, folder).values()) == list(before.values())
    assert not fresh
    assert "LABEL_0 is bad, LABEL_1 is good, LABEL_2 is mixed" in said[0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (("x", "y", "z"), r"head='keep': no label of the head of .* is one of the task's: it has x, y, z.*label_map"),
        (("LABEL_0", "LABEL_1"), r"head='keep': .* 2 outputs without names .*the task has 3 labels"),
    ],
)
def test_a_head_that_cannot_be_kept(labels: tuple[str, ...], message: str, task: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        load(save(tmp_path / "model", labels), task, head="keep")


def test_tags_are_matched_by_name(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        rows = '{"tokens": ["good", "day"], "tags": ["B-X", "O"]}\n{"tokens": ["bad"], "tags": ["B-Y"]}\n'
        (tmp_path / f"{split}.jsonl").write_text(rows)
    (tmp_path / "task.yaml").write_text("kind: token-classification\nfiles: {train: train.jsonl, dev: dev.jsonl}\n")
    labels = ("B-Y", "I-Y", "O", "I-X", "B-X")
    folder = save(tmp_path / "model", labels, BertForTokenClassification)
    before = BertForTokenClassification.from_pretrained(folder)
    model, _, _ = load(folder, tmp_path)
    assert list(model.config.id2label.values()) == ["O", "B-X", "I-X", "B-Y", "I-Y"]
    order = [labels.index(name) for name in model.config.id2label.values()]
    assert torch.equal(model.classifier.weight, before.classifier.weight[order])


@pytest.mark.parametrize("of", [BertForTokenClassification, BertForMultipleChoice])
def test_the_head_of_another_architecture_is_fresh(of: type[Any], task: Path, tmp_path: Path) -> None:
    scores = tmp_path / "scores.csv"
    scores.write_text("text,score\n" + "".join(f"the day {row},{row}.5\n" for row in range(60)))
    folder = save(tmp_path / "model", MOODS, of)
    _, fresh, said = load(folder, task if of is BertForTokenClassification else scores)
    assert "classifier.weight" in fresh
    assert f"is that of a {of.__name__}, so the BertForSequenceClassification gets a fresh one" in said[0]


@pytest.mark.parametrize("adapter", [None, "pfeiffer:reduction=4"])
def test_a_run_on_a_permuted_head_is_scored_again(adapter: str | None, task: Path, tmp_path: Path) -> None:
    folder = save(tmp_path / "model", ("good", "mixed", "bad"))
    heard = Heard()
    config = make_config(
        model=str(folder), task=str(task), steps=2, max_length=16, batch_size=8, device="cpu", adapter=adapter
    )
    scores = train(config, tmp_path / "run", heard)
    assert any("is kept: its labels are those of the task, in the task's order" in note for note in heard.notes)
    again = evaluate(tmp_path / "run")
    assert again["tests"]["dev"]["loss"] == pytest.approx(scores["dev"]["loss"], abs=1e-6)


def test_generation_has_no_head(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"head='fresh': sample-generation is generation"):
        prepare_task(RunConfig(model="sample-decoder", task="sample-generation", head="fresh"))


def test_the_default_identifies_runs_as_before() -> None:
    default, kept = RunConfig(), RunConfig(head="keep")
    assert default.fingerprint() != kept.fingerprint()
    record = {name: value for name, value in default.record().items() if name != "head"}
    assert fingerprint_of(record) == default.fingerprint()


@pytest.mark.parametrize(
    ("theirs", "ours", "places"),
    [
        (("2", "0", "1"), ("0.0", "1.0", "2.0"), [1, 2, 0]),
        (("3.0", "5.0"), ("5", "3"), [1, 0]),
        (("True", "False"), ("0", "1"), [1, 0]),
        (("10", "9"), ("9.00", "10."), [1, 0]),
        (("01", "1"), ("1.0", "01"), [1, 0]),
    ],
)
def test_a_number_is_one_label(theirs: tuple[str, ...], ours: tuple[str, ...], places: list[int]) -> None:
    assert CheckpointHead(theirs, None).places(ours) == places
