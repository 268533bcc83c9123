"""Damaged models and run folders: each is refused, with what is wrong, and nothing is silently replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import T5Config, T5ForQuestionAnswering, T5Model

from gradgate.errors import DataError, GradgateError, NonFiniteError, RunError
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.finished import load_finished
from gradgate.runs.checkpoints import latest_checkpoint, seal
from gradgate.runs.history import lines_until
from gradgate.runs.scores import read_scores
from gradgate.settings.run import make_config
from gradgate.training.prepared_task import prepare_task
from gradgate.training.pretrained import load_masked_model, load_tokenizer
from gradgate.training.run import train
from gradgate.training.weights import check_loaded
from support.tiny_folders import save_bert

Change = Callable[[Path], object]


def tensors(change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> Change:
    def rewrite(folder: Path) -> None:
        changed = change(load_file(folder / "model.safetensors"))
        contents = {name: tensor.contiguous() for name, tensor in changed.items()}
        save_file(contents, folder / "model.safetensors", metadata={"format": "pt"})

    return rewrite


def configured(**values: object) -> Change:
    def rewrite(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | values))

    return rewrite


def content(name: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def index(folder: Path, text: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(text)


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"weights": Path("/")}, folder / "pytorch_model.bin")


def without_tokenizer(folder: Path) -> None:
    for file in folder.glob("tokenizer*"):
        file.unlink()


FIT = "do not fit its configuration"
DAMAGED = r"model\.safetensors is damaged"
MODELS: dict[str, tuple[Change, str]] = {
    "tensors of other names": (tensors(lambda t: {f"x{i}": v for i, v in enumerate(t.values())}), f"{FIT}.*instead"),
    "a prefix on all names": (tensors(lambda t: {f"model.bert.{k}": v for k, v in t.items()}), FIT),
    "a layer that is absent": (
        tensors(lambda t: {k: v for k, v in t.items() if ".1." not in k}),
        r"layer\.1\..*absent",
    ),
    "more layers than weights": (configured(num_hidden_layers=4), rf"{FIT}.*layer\.2\..* and 28 more absent"),
    "a larger width than the weights": (configured(hidden_size=64), rf"{FIT}.*\(32,\) in the file, \(64,\) expected"),
    "sliced tensors": (tensors(lambda t: {k: v[:8] for k, v in t.items()}), rf"{FIT}.*of another shape"),
    "no tokenizer": (without_tokenizer, r"empty vocabulary.*Expected tokenizer\.json"),
    "weights that are cut off": (content("model.safetensors", lambda b: b[: len(b) // 2]), DAMAGED),
    "weights that are empty": (content("model.safetensors", lambda b: b""), DAMAGED),
    "a size of the header that cannot be": (content("model.safetensors", lambda b: b"\xff" * 8 + b[8:]), DAMAGED),
    "a flipped byte in the header": (content("model.safetensors", lambda b: b[:12] + b"\x00" + b[13:]), DAMAGED),
    "a wrong offset": (
        content("model.safetensors", lambda b: b.replace(b'"data_offsets":[0,', b'"data_offsets":[4,')),
        DAMAGED,
    ),
    "an unknown activation": (configured(hidden_act="zzz"), r"zzz.*Check config\.json"),
    "a width of 0": (configured(hidden_size=0), r"Cannot load the model.*Check config\.json"),
    "a width in words": (configured(hidden_size="big"), r"hidden_size.*Check config\.json"),
    "padding beyond the vocabulary": (configured(pad_token_id=999), r"Padding_idx.*Check config\.json"),
    "a vocabulary smaller than the tokenizer's": (configured(vocab_size=3), "token ids up to 24.*embeddings for 3"),
    "a configuration that is a list": (content("config.json", lambda b: b"[]"), r"Check config\.json"),
    "a configuration of 100,000 levels": (
        content("config.json", lambda b: b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "recursion depth|Stack overflow",  # the second from Python 3.14 on
    ),
    "a tokenizer that is cut off": (content("tokenizer.json", lambda b: b[:50]), "Cannot load the tokenizer"),
    "a tokenizer that is a list": (content("tokenizer.json", lambda b: b"[]"), "Cannot load the tokenizer"),
    "an index of shards that is none": (lambda folder: index(folder, '{"weight_map": 3}'), "Cannot load the model"),
    "a shard that is not there": (
        lambda folder: index(folder, '{"metadata": {}, "weight_map": {"a": "b.safetensors"}}'),
        "Cannot load the model",
    ),
    "pickled objects": (pickled, "objects other than tensors, which are not read"),
}


@pytest.mark.parametrize(("change", "message"), MODELS.values(), ids=MODELS)
def test_a_damaged_model_is_refused(
    tiny_model: Path, tiny_task: Path, tmp_path: Path, change: Change, message: str
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    change(folder)
    config = make_config(model=str(folder), task=str(tiny_task), max_length=16, device="cpu")
    with pytest.raises(RunError, match=message):
        prepare_task(config).load_model(config, load_tokenizer(config))
    with pytest.raises(RunError, match=message):
        load_masked_model(config, load_tokenizer(config))


FRESH: dict[str, tuple[Change, set[str]]] = {
    "a head": (lambda folder: None, {"classifier"}),
    "a head and a pooler": (
        tensors(lambda t: {name: tensor for name, tensor in t.items() if "pooler" not in name}),
        {"bert", "classifier"},
    ),
    "a head for another number of labels": (
        tensors(lambda t: {**{f"bert.{k}": v for k, v in t.items()}, "classifier.weight": torch.zeros(7, 32)}),
        {"classifier"},
    ),
}


@pytest.mark.parametrize(("change", "fresh"), FRESH.values(), ids=FRESH)
def test_only_a_head_and_a_pooler_may_be_fresh(
    tiny_model: Path, tiny_task: Path, tmp_path: Path, change: Change, fresh: set[str]
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    change(folder)
    config = make_config(model=str(folder), task=str(tiny_task), max_length=16, device="cpu")
    _, names = prepare_task(config).load_model(config, load_tokenizer(config))
    assert {name.partition(".")[0] for name in names} == fresh


def test_a_head_in_a_model_without_a_separate_encoder_may_be_fresh(tmp_path: Path) -> None:
    config = T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    T5Model(config).save_pretrained(tmp_path)
    model, report = T5ForQuestionAnswering.from_pretrained(tmp_path, output_loading_info=True)
    assert check_loaded(model, report, "t5") == {"qa_outputs.weight", "qa_outputs.bias"}
    report["missing_keys"] = {"decoder.block.0.layer.0.layer_norm.weight", *report["missing_keys"]}
    with pytest.raises(RunError, match=r"decoder\.block\.0\.layer\.0\.layer_norm\.weight absent"):
        check_loaded(model, report, "t5")


def test_a_classifier_that_reads_the_end_token_needs_one(tiny_model: Path, tiny_task: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    vocabulary, end = load_tokenizer(make_config(model=str(folder))).get_vocab(), "[SEP]"
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    (folder / "model.safetensors").unlink()

    def loaded(end_token: int) -> Any:
        T5Model(T5Config(vocab_size=len(vocabulary), eos_token_id=end_token, **sizes)).save_pretrained(folder)
        config = make_config(model=str(folder), task=str(tiny_task), max_length=16, device="cpu")
        return prepare_task(config).load_model(config, load_tokenizer(config))[0]

    assert type(loaded(vocabulary[end])).__name__ == "T5ForSequenceClassification"
    with pytest.raises(RunError, match=r"classifies a text at its end token \(id 1\), but its tokenizer adds none"):
        loaded(1)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 400), byte=st.integers(0, 255))
def test_any_header_of_weights_loads_or_is_refused(
    tiny_model: Path, tiny_task: Path, tmp_path: Path, place: int, byte: int
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model", dirs_exist_ok=True)
    content("model.safetensors", lambda b: b[:place] + bytes([byte]) + b[place + 1 :])(folder)
    config = make_config(model=str(folder), task=str(tiny_task), max_length=16, device="cpu")
    refused = None
    try:
        prepare_task(config).load_model(config, load_tokenizer(config))
    except GradgateError as error:
        refused = str(error)
    assert refused is None or str(folder) in refused


@pytest.fixture(scope="module")
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished") / "run"
    train(make_config(**request.getfixturevalue("settings") | {"steps": 2}), folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


CODE = """
from pathlib import Path
from transformers import BertConfig
Path(__file__).with_name("ran").touch()
class Evil(BertConfig):
    model_type = "evil"
"""


def test_a_run_folder_cannot_allow_code_that_comes_with_a_model(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    ran = tmp_path / "ran"
    (run / "model/evil.py").write_text(CODE.replace('Path(__file__).with_name("ran")', f"Path({str(ran)!r})"))
    configured(model_type="evil", auto_map={"AutoConfig": "evil.Evil"})(run / "model")
    record = json.loads((run / "run.json").read_text())
    record["config"]["trust_remote_code"] = True
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match="Cannot load"):
        evaluate(run)
    assert not ran.exists()


def test_an_evaluation_refuses_weights_that_lack_the_trained_head(run: Path) -> None:
    tensors(lambda t: {name: tensor for name, tensor in t.items() if "classifier" not in name})(run / "model")
    with pytest.raises(RunError, match=rf"{FIT}: classifier\.bias, classifier\.weight absent"):
        load_finished(run)


def test_an_evaluation_names_a_place_that_cannot_be_written(run: Path) -> None:
    (run / "evaluations").write_text("")
    with pytest.raises(RunError, match=r"Cannot write to .*evaluations.*: Not a directory"):
        evaluate(run)


SCORES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "nothing": (lambda s: s.clear(), "metric is missing"),
    "no tests": (lambda s: s.pop("tests"), "tests is missing"),
    "no cost": (lambda s: s.pop("cost"), "cost is missing"),
    "a split in words": (lambda s: s.update(dev="good"), "dev: "),
    "NaN on dev": (lambda s: s["dev"].update(accuracy=float("nan")), "accuracy on dev is nan, expected a finite"),
    "1e308 on test": (lambda s: s["tests"]["test"].update(accuracy=1e308), "accuracy on test is 1e.308, expected"),
    "a step time of 1e308": (lambda s: s["cost"].update(seconds_per_step=1e308), r"cost\.seconds_per_step is 1e.308"),
    "no score on test": (lambda s: s["tests"].update(test={}), "accuracy on test is None"),
}


@pytest.mark.parametrize(("change", "message"), SCORES.values(), ids=SCORES)
def test_scores_that_are_json_of_wrong_content_are_named(
    run: Path, settings: dict[str, Any], change: Callable[[dict[str, Any]], object], message: str
) -> None:
    scores = json.loads((run / "scores.json").read_text())
    change(scores)
    (run / "scores.json").write_text(json.dumps(scores))
    with pytest.raises(RunError, match=rf"scores\.json is damaged: {message}"):
        read_scores(run / "scores.json")
    with pytest.raises(RunError, match=rf"scores\.json is damaged: {message}"):
        train(make_config(**settings | {"steps": 2}), run)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\n{}\n", b"[]\n[]\n", b'{"a": 1}\n{}\n'], ids=["binary", "lists", "no step"]
)
def test_a_damaged_history_is_named_with_its_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "history.jsonl").write_bytes(content)
    with pytest.raises(RunError, match=r"history\.jsonl is damaged in line 1"):
        lines_until(tmp_path / "history.jsonl", 3)


def test_a_folder_that_is_called_like_a_checkpoint_is_passed_over(tmp_path: Path) -> None:
    for name in ("checkpoint-abc", "checkpoint-7"):
        (tmp_path / name).mkdir()
        seal(tmp_path / name)
    assert latest_checkpoint(tmp_path) == tmp_path / "checkpoint-7"


class StoppedError(Exception):
    """Ends a training at once, as a kill does."""


class StopAt:
    """Progress that stops the training at a step, and keeps what is said."""

    def __init__(self, step: int | None = None) -> None:
        self.step, self.notes = step, []

    def begin(self, total: int, done: int) -> None: ...

    def advance(self, step: int, loss: float | None) -> None:
        if step == self.step:
            raise StoppedError

    def scored(self, split: str, metric: str, score: float) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_a_run_whose_best_weights_are_lost_starts_anew(settings: dict[str, Any], tmp_path: Path) -> None:
    config = make_config(**settings | {"steps": 6}, eval_every=2, save_every=2)
    expected = train(config, tmp_path / "unbroken")
    with pytest.raises(StoppedError):
        train(config, tmp_path / "run", StopAt(5))
    shutil.rmtree(tmp_path / "run/best")
    progress = StopAt()
    scores = train(config, tmp_path / "run", progress)
    assert any("no longer in" in note and "starts over" in note for note in progress.notes)
    assert (scores["best_step"], scores["dev"]) == (expected["best_step"], expected["dev"])


UNWRITABLE = {
    "torch on a full disk": RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0"),
    "a folder that was removed": RuntimeError("Parent directory /run/checkpoints/checkpoint-2 does not exist."),
}


@pytest.mark.parametrize("error", UNWRITABLE.values(), ids=UNWRITABLE)
def test_a_checkpoint_that_cannot_be_written_is_said_so(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(RunError, match=r"Cannot write to .*run: (the disk is full|a folder in it has been removed)"):
        train(make_config(**settings | {"steps": 2, "save_every": 1}), tmp_path / "run")


def test_a_folder_that_is_removed_while_it_is_trained_in_is_named(settings: dict[str, Any], tmp_path: Path) -> None:
    class Remove(StopAt):
        def advance(self, step: int, loss: float | None) -> None:
            shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with pytest.raises(RunError, match="Cannot write"):
        train(make_config(**settings | {"steps": 4, "save_every": 2}), tmp_path / "run", Remove())


def test_pretrained_weights_that_are_no_numbers_are_named(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config = make_config(**settings | {"model": str(save_bert(tmp_path / "model", spoiled=True))})
    with pytest.raises(NonFiniteError, match=r"step 1 is nan\. The pretrained weights .* are not finite\. Pass"):
        train(config, tmp_path / "run")


def test_a_score_beyond_float32_is_named(settings: dict[str, Any], tmp_path: Path) -> None:
    for split in ("train", "dev"):
        rows = "".join(f"a good day {row}\t{'1e300' if row == 1 else row}.5\n" for row in range(20))
        (tmp_path / f"{split}.tsv").write_text(f"text\tlabel\n{rows}".replace("1e300.5", "1e300"))
    config = make_config(**settings | {"task": str(tmp_path), "kind": "regression", "batch_size": 32, "steps": 1})
    with pytest.raises(DataError, match=r"train\.tsv.*the score .1e\+?300.* is too large"):
        train(config, tmp_path / "run")
