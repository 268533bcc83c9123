"""Language adapters and task-adaptive pretraining: what is learned, from which texts, and that it resumes exactly."""

from __future__ import annotations

import json
import random
from itertools import chain
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertForMaskedLM

from gradgate import adapters
from gradgate.errors import AdapterError, DataError, FolderLockedError, RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.settings.base import checked_settings
from gradgate.settings.pretraining import PretrainConfig
from gradgate.settings.run import make_config
from gradgate.tasks.readers.texts import read_texts
from gradgate.training.masked.masked_lm import SeededMasking, Shuffled, hold_out, packed
from gradgate.training.masked.pretraining import pretrain_adapter
from gradgate.training.run import train
from support.crossed import some_fast
from support.heard import Heard
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run
from support.tiny_folders import GOOD, OTHER


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 lines in which the words follow each other in a fixed order, so that a masked one can be known."""
    draw = random.Random(0)
    words = [*GOOD, *OTHER] * 2
    starts = [draw.randrange(len(words) // 2) for _ in range(120)]
    file = tmp_path_factory.mktemp("language") / "lines.txt"
    file.write_text("\n".join(" ".join(words[start : start + 8]) for start in starts) + "\n\n")
    return file


def config_of(model: Path, language: Path | str, **changes: Any) -> PretrainConfig:
    given = {"model": str(model), "language_data": str(language), "kind": "pfeiffer+inv:reduction=2", "device": "cpu"}
    sizes = {"max_length": 24, "batch_size": 8, "steps": 12, "lr": 5e-3, "save_every": 5}
    return checked_settings(PretrainConfig, given | sizes | changes)


@pytest.fixture(scope="module")
def done(tiny_model: Path, language: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrained") / "lang"
    pretrain_adapter(config_of(tiny_model, language), folder)
    return folder


def tensors(folder: Path) -> dict[str, Any]:
    return load_file(folder / "adapter.safetensors")


def test_held_out_words_are_filled_in_better(done: Path) -> None:
    scores = json.loads((done / "scores.json").read_text())
    assert scores["steps"] == 12
    assert scores["after"]["loss"] < scores["before"]["loss"] - 0.1
    assert scores["after"]["perplexity"] == pytest.approx(torch.tensor(scores["after"]["loss"]).exp().item())
    record = json.loads((done / "run.json").read_text())
    assert record["config"]["kind"] == "pfeiffer+inv:reduction=2"
    assert record["data"]["texts"] == 120
    assert not (done / "checkpoints").exists()


def test_what_it_wrote_is_an_adapter_that_loads(done: Path, tiny_model: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    assert adapters.load(model, done) == "lang"
    adapters.add(model, "task", "pfeiffer:reduction=2")
    adapters.activate(model, "lang", "task")
    assert adapters.added(model)["lang"].inv_adapter == "nice"
    fresh = AutoModelForSequenceClassification.from_pretrained(tiny_model)
    adapters.add(fresh, "lang", "pfeiffer+inv:reduction=2")
    adapters.save(fresh, "lang", done.parent / "fresh", head=False)
    moved = [
        name for name, tensor in tensors(done.parent / "fresh").items() if not torch.equal(tensor, tensors(done)[name])
    ]
    assert len(moved) == len(tensors(done))


@some_fast("step", [2, 7, 12], [7])  # tests/training/test_resume.py has more moments
def test_a_training_without_power_ends_as_if_unbroken(
    tiny_model: Path, language: Path, done: Path, step: int, tmp_path: Path
) -> None:
    config = config_of(tiny_model, language)
    with pytest.raises(PowerCutError):
        pretrain_adapter(config, tmp_path / "lang", Falls(step))
    pretrain_adapter(config, tmp_path / "lang")
    assert all(torch.equal(tensor, tensors(done)[name]) for name, tensor in tensors(tmp_path / "lang").items())
    mine, theirs = (json.loads((folder / "scores.json").read_text()) for folder in (tmp_path / "lang", done))
    assert (mine["before"], mine["after"]) == (theirs["before"], theirs["after"])
    assert (tmp_path / "lang/history.jsonl").read_text() == (done / "history.jsonl").read_text()


def test_a_finished_one_is_left_alone_and_another_is_refused(tiny_model: Path, language: Path, done: Path) -> None:
    before = tensors(done)
    pretrain_adapter(config_of(tiny_model, language), done)
    with pytest.raises(RunError, match="already holds a run with another configuration"):
        pretrain_adapter(config_of(tiny_model, language, lr=1e-3), done)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors(done).items())


def test_two_processes_do_not_train_one_adapter(tiny_model: Path, language: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path / "out").locked(), pytest.raises(FolderLockedError, match="is being trained by process"):
        pretrain_adapter(config_of(tiny_model, language), tmp_path / "out")


def test_a_fresh_head_for_masked_words_is_said_and_a_pretrained_one_is_not(
    tiny_model: Path, language: Path, tmp_path: Path
) -> None:
    told: dict[str, list[str]] = {}
    whole = tmp_path / "whole"
    BertForMaskedLM.from_pretrained(tiny_model).save_pretrained(whole)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(whole)
    for name, model in (("without", tiny_model), ("with", whole)):
        heard = Heard()
        pretrain_adapter(config_of(model, language, steps=2), tmp_path / name, heard)
        told[name] = [note for note in heard.notes if "no pretrained head for masked words" in note]
    assert list(map(len, told.values())) == [1, 0]


def test_the_reported_loss_is_that_of_the_stored_adapter_under_the_pretrained_head(
    tiny_model: Path, language: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    BertForMaskedLM.from_pretrained(tiny_model).save_pretrained(whole)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(whole)
    config = config_of(whole, language, audit=True, lr=3e-2)
    after = pretrain_adapter(config, tmp_path / "lang")["after"]["loss"]

    model = BertForMaskedLM.from_pretrained(whole).eval()
    adapters.activate(model, adapters.load(model, tmp_path / "lang"))
    _, held = hold_out(read_texts(str(language), config.text), config.held_out, config.seed)
    masking = SeededMasking(tokenizer, config.mlm_probability, config.seed)
    losses: list[float] = []
    for row in masking.held_out(packed(held, tokenizer, config.max_length)):
        ids, labels = (torch.tensor([row[name]]) for name in ("input_ids", "labels"))
        chosen = labels != -100
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        losses += torch.nn.functional.cross_entropy(logits[chosen], labels[chosen], reduction="none").tolist()
    assert after == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_a_decoder_is_refused(tiny_gpt2: Path, language: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no mask token.*encoders"):
        pretrain_adapter(config_of(tiny_gpt2, language), tmp_path / "lang")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "pfeifer"}, r"no kind of adapter 'pfeifer'\. Did you mean 'pfeiffer'"),
        ({"name": "a.b"}, "cannot be the name of an adapter"),
        ({"steps": 3, "epochs": 1.0}, "pass epochs= or steps=, not both"),
        ({"mlm_probability": 1.0}, "mlm_probability=1.0: expected a number less than 1"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        config_of(Path("sample"), "x", **given)
    assert refused.value.exit_code == 2


def test_texts_come_from_lines_and_columns(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("one\n\n  two \n")
    (tmp_path / "rows.csv").write_text("id,words\n1,three\n2,four\n")
    assert read_texts(str(tmp_path / "lines.txt"), "text") == ["one", "two"]
    (tmp_path / "rows.txt").write_text('{"text": "five"}\n{"text": "six"}\n')
    assert read_texts(str(tmp_path / "rows.csv"), "words") == ["three", "four"]
    assert read_texts(str(tmp_path / "rows.txt"), "text") == ["five", "six"]
    with pytest.raises(DataError, match=r"no column 'text'.*text="):
        read_texts(str(tmp_path / "rows.csv"), "text")
    with pytest.raises(DataError, match=r"absent\.txt is missing"):
        read_texts(str(tmp_path / "absent.txt"), "text")
    (tmp_path / "half.jsonl").write_text('{"text": "whole"}\n{"text": "half \\ud800"}\n')
    with pytest.raises(DataError, match=r"half\.jsonl:2: 'text' contains half a surrogate pair"):
        read_texts(str(tmp_path / "half.jsonl"), "text")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="has no text"):
        read_texts(str(tmp_path / "empty.txt"), "text")


def test_packing_keeps_every_token_in_its_order(tiny_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    texts = ["the film was good", "bad", "a dark road"] * 5
    blocks = [row["input_ids"] for row in packed(texts, tokenizer, 8)]
    assert [len(block) for block in blocks[:-1]] == [8] * (len(blocks) - 1)
    assert list(chain(*blocks)) == list(chain(*(tokenizer(text)["input_ids"] for text in texts)))


def test_what_is_held_out_is_not_trained_on() -> None:
    texts = [str(number) for number in range(40)]
    train_texts, dev = hold_out(texts, 0.1, seed=3)
    assert len(dev) == 4
    assert sorted([*train_texts, *dev], key=int) == texts
    assert hold_out(texts, 0.0, seed=3) == (texts, [])
    with pytest.raises(UsageError, match="too few to hold out"):
        hold_out(["one"], 0.5, seed=0)


def test_each_pass_has_every_row_once_in_an_order_of_its_own() -> None:
    rows = Shuffled([{"input_ids": [number]} for number in range(10)], 20, seed=1)
    seen = [rows[number]["input_ids"][0] for number in range(len(rows))]
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]
    assert rows[3]["input_ids"][0] == seen[3]


def test_masks_are_a_function_of_seed_and_place(tiny_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    ids = tokenizer(" ".join(OTHER))["input_ids"]

    def batch(number: int, seed: int = 0) -> Any:
        return SeededMasking(tokenizer, 0.3, seed)([{"input_ids": list(ids), "number": number}] * 4)

    first, other = batch(8), batch(12)
    torch.manual_seed(5)
    assert torch.equal(first["input_ids"], batch(8)["input_ids"])
    assert not torch.equal(first["labels"], other["labels"])
    assert not torch.equal(first["labels"], batch(8, seed=1)["labels"])
    chosen = first["labels"] != -100
    assert chosen.any()
    assert not chosen[:, 0].any()  # [CLS]


def test_a_batch_always_has_something_to_fill_in(tiny_model: Path) -> None:
    masking = SeededMasking(AutoTokenizer.from_pretrained(tiny_model), 1e-9, 0)
    assert int((masking([{"input_ids": [2, 7, 3], "number": 0}])["labels"] != -100).sum()) == 1


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_is_always_filled_in_is_a_word_of_the_text(tiny_model: Path, side: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model, padding_side=side)
    rows = [{"input_ids": [2, 7, 3], "number": 0}, {"input_ids": [2, 7, 8, 9, 10, 3], "number": 1}]
    batch = SeededMasking(tokenizer, 1e-9, 0)(rows)
    chosen = batch["labels"] != -100
    assert batch["labels"][chosen].tolist() == [7]
    assert batch["input_ids"][chosen].tolist() == [7]


@hypothesis.given(sizes=st.lists(st.integers(3, 20), min_size=2, max_size=6), data=st.data())
@hypothesis.settings(max_examples=10, deadline=None)
def test_a_held_out_row_has_the_same_masks_in_every_batch(
    tiny_model: Path, sizes: list[int], data: st.DataObject
) -> None:
    masking = SeededMasking(AutoTokenizer.from_pretrained(tiny_model), 0.3, 0)
    rows = masking.held_out([{"input_ids": [2, *range(6, 4 + size), 3]} for size in sizes])
    for number, size in enumerate(sizes):
        others = data.draw(st.lists(st.sampled_from(range(len(sizes))), max_size=3))
        batch = masking([rows[each] for each in (number, *others)])
        assert batch["input_ids"][0, :size].tolist() == rows[number]["input_ids"]
        assert batch["labels"][0, :size].tolist() == rows[number]["labels"]
        assert bool((batch["labels"][0, :size] != -100).any())
        assert bool((batch["labels"][0, size:] == -100).all())


def test_the_loss_of_held_out_words_is_the_same_in_any_batch(tiny_model: Path, language: Path, tmp_path: Path) -> None:
    sizes = {"max_length": 8, "held_out": 0.5, "steps": 1}
    two, one = (
        pretrain_adapter(config_of(tiny_model, language, batch_size=size, **sizes), tmp_path / str(size))
        for size in (8, 128)  # at least 64 rows are scored at once, of about 75
    )
    assert two["before"]["loss"] == pytest.approx(one["before"]["loss"], rel=1e-6)


def test_a_run_resumes_with_the_number_of_processes_that_pretrained_it(
    tiny_model: Path, language: Path, tmp_path: Path
) -> None:
    config = config_of(tiny_model, language)
    with pytest.raises(PowerCutError):
        pretrain_adapter(config, tmp_path / "lang", Falls(7))
    file = tmp_path / "lang/run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"processes": 2}))
    with pytest.raises(RunError, match=r"another number of processes \(2 there, 1 here\)"):
        pretrain_adapter(config, tmp_path / "lang")


def tapt_config(settings: dict[str, Any], **changes: Any) -> Any:
    return make_config(
        **settings | {"adapter": "houlsby:size=4", "tapt_steps": 6, "steps": 8, "save_every": 3} | changes
    )


def test_tapt_moves_the_adapter_before_the_task_begins(settings: dict[str, Any], tmp_path: Path) -> None:
    train(tapt_config(settings, steps=3), tmp_path / "tapt")
    train(tapt_config(settings, steps=3, tapt_steps=None), tmp_path / "plain")
    assert json.loads((tmp_path / "tapt/tapt/scores.json").read_text())["steps"] == 6
    adapted = tensors(tmp_path / "tapt/tapt/task")
    assert adapted.keys() == tensors(tmp_path / "plain/model").keys()
    assert any(not torch.equal(tensor, tensors(tmp_path / "plain/model")[name]) for name, tensor in adapted.items())
    mine, theirs = ((tmp_path / name / "history.jsonl").read_text() for name in ("tapt", "plain"))
    assert mine != theirs
    assert not (tmp_path / "plain/tapt").exists()


@some_fast("falls", [4, 10], [4])  # within the pre-training, and after it
def test_a_run_with_tapt_that_lost_its_power_ends_as_if_unbroken(
    settings: dict[str, Any], falls: int, tmp_path: Path
) -> None:
    """A fall within the first stage, and one within the second; another number of processes may not take over."""

    class FallsAt(Falls):
        """Counts the steps of both stages."""

        def __init__(self) -> None:
            self.count = 0

        def advance(self, step: int, loss: float | None) -> None:
            self.count += 1
            if self.count == falls:
                raise PowerCutError

    config = tapt_config(settings, method="gradual:every=2", steps=5)
    train(config, tmp_path / "unbroken")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", FallsAt())
    file = tmp_path / "run/run.json"
    begun = file.read_text()
    file.write_text(json.dumps(json.loads(begun) | {"processes": 2}))
    with pytest.raises(RunError, match=r"another number of processes \(2 there, 1 here\)"):
        train(config, tmp_path / "run")
    file.write_text(begun)
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")
    for name, tensor in tensors(tmp_path / "run/tapt/task").items():
        assert torch.equal(tensor, tensors(tmp_path / "unbroken/tapt/task")[name])


def test_tapt_reads_no_label(settings: dict[str, Any], tmp_path: Path) -> None:
    task = tmp_path / "task"
    task.mkdir()
    for file in Path(settings["task"]).iterdir():
        lines = file.read_text().splitlines()
        swapped = lines
        if file.name == "train.tsv":
            names = {"good": "bad", "bad": "good"}
            swapped = [lines[0], *(f"{t}\t{names[label]}" for t, label in (line.split("\t") for line in lines[1:]))]
        (task / file.name).write_text("\n".join(swapped) + "\n")
    short = {"tapt_steps": 3, "steps": 1, "keep_model": False}
    train(tapt_config(settings, **short), tmp_path / "one")
    train(tapt_config(settings, **short, task=str(task)), tmp_path / "two")
    for name, tensor in tensors(tmp_path / "one/tapt/task").items():
        assert torch.equal(tensor, tensors(tmp_path / "two/tapt/task")[name])


def test_an_adapter_may_have_its_own_tapt() -> None:
    config = make_config(adapter="houlsby:tapt_epochs=2", tapt_steps=7)
    assert config.tapt == {"steps": None, "epochs": 2.0}
    assert make_config(adapter="houlsby", tapt_steps=7).tapt == {"steps": 7, "epochs": None}
    assert make_config(adapter="houlsby").tapt is None
    with pytest.raises(UsageError, match=r"tapt_steps='0': expected a number greater than or equal to 1"):
        make_config(adapter="houlsby:tapt_steps=0")
    with pytest.raises(UsageError, match="both tapt_steps and tapt_epochs"):
        make_config(adapter="houlsby:tapt_steps=1,tapt_epochs=1")


def test_adapters_that_cannot_be_are_refused_in_time(tiny_model: Path, language: Path, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="leave_out names layer 9"):
        pretrain_adapter(config_of(tiny_model, language, kind="pfeiffer:leave_out=9"), tmp_path / "lang")
