"""MAD-X: a task adapter that is trained on the source language's adapter and scored on that of each language."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from gradgate import adapters
from gradgate.adapters.languages import NAME, OTHER
from gradgate.analysis.finished import Loader
from gradgate.errors import AdapterError, GradgateError, RunError, UsageError
from gradgate.evaluation import evaluate as evaluation
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.finished import load_finished
from gradgate.evaluation.predict import predict
from gradgate.settings.analysis import ComputeSettings
from gradgate.settings.run import make_config
from gradgate.tasks import find_task, kind_of, load_task
from gradgate.training.callbacks import BestCheckpoint
from gradgate.training.run import train
from gradgate.training.trainer import RunTrainer
from support.heard import Heard
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history
from support.spoken_folders import save_language_adapter, save_language_adapters, save_spoken_task

ADAPTER = "pfeiffer:reduction=4"
FEW_ROWS = {"train_size": 24, "steps": 9, "eval_every": 9, "save_every": 9}  # three epochs


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_spoken_task(tmp_path_factory.mktemp("moods"))


@pytest.fixture(scope="module")
def spoken(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_language_adapters(tiny_model, tmp_path_factory.mktemp("adapters"))


@pytest.fixture(scope="module")
def given(settings: dict[str, Any], task: Path, spoken: Path) -> dict[str, Any]:
    own = {"task": str(task), "adapter": ADAPTER, "language_adapters": f"{spoken}/{{language}}", "lr": 1e-2}
    return settings | own | {"eval_every": 4, "save_every": 5, "test_each_epoch": True}


@pytest.fixture(scope="module")
def done(given: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stacked") / "run"
    train(make_config(**given, method="gradual:every=4"), folder)
    return folder


def scores_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "scores.json").read_text())
    return found


def losses(folder: Path) -> dict[str, float]:
    return {split: scores["loss"] for split, scores in scores_of(folder)["tests"].items()}


def loss_by_hand(run: Path, settings: dict[str, Any], spoken: Path, code: str, split: str) -> float:
    """The loss of a stack that is put together from AdapterHub's files alone."""
    kept = run / "model"
    model = AutoModelForSequenceClassification.from_pretrained(
        settings["model"], config=AutoConfig.from_pretrained(kept)
    )
    name = adapters.load(model, kept, head=True)
    adapters.activate(model, adapters.load(model, spoken / code, head=False), name)
    data, tokenizer = load_task(find_task(settings["task"])), AutoTokenizer.from_pretrained(kept)
    rows = {"dev": data.dev, **data.tests}[split]
    kind = kind_of(data.spec)
    batch = kind.collator(tokenizer)(list(kind.encode(rows, tokenizer, settings["max_length"])))
    with torch.no_grad():
        return float(model.eval()(**batch).loss)


def test_each_split_is_scored_with_the_adapter_of_its_language(given: dict[str, Any], done: Path, spoken: Path) -> None:
    found = losses(done) | {"dev": scores_of(done)["dev"]["loss"]}
    for split, code in (("dev", "en"), ("test.en", "en"), ("test.de", "de"), ("test.sw", "sw")):
        assert found[split] == pytest.approx(loss_by_hand(done, given, spoken, code, split), abs=1e-6)
    of_source = loss_by_hand(done, given, spoken, "en", "test.de")
    assert abs(found["test.de"] - of_source) > 0.01
    assert abs(found["test.de"] - found["test.sw"]) > 0.01


def test_the_language_adapter_keeps_its_bits_and_the_task_adapter_learns(
    given: dict[str, Any], spoken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: dict[str, torch.Tensor] = {}
    stored = BestCheckpoint.on_evaluate
    optimized: list[bool] = []

    def on_evaluate(self: BestCheckpoint, *args: Any, model: Any = None, optimizer: Any = None, **rest: Any) -> None:
        held = {id(p) for group in optimizer.param_groups for p in group["params"]}
        frozen = adapters.parameters(model, NAME)
        optimized.extend(p.requires_grad or id(p) in held for p in frozen)
        begun.update((f"{n}", p.detach().clone()) for n, p in enumerate(frozen))
        stored(self, *args, model=model, optimizer=optimizer, **rest)

    monkeypatch.setattr(BestCheckpoint, "on_evaluate", on_evaluate)
    train(make_config(**given | {"steps": 6}, audit=True, weight_decay=0.1), tmp_path / "run")
    assert optimized
    assert not any(optimized)
    host = AutoModelForSequenceClassification.from_pretrained(given["model"])
    original = adapters.parameters(host, adapters.load(host, spoken / "en", head=False))
    assert [torch.equal(begun[f"{n}"], p) for n, p in enumerate(original)] == [True] * len(original)
    fresh = AutoModelForSequenceClassification.from_pretrained(given["model"])
    adapters.add(fresh, "task", ADAPTER, seed=0)
    adapters.save(fresh, "task", tmp_path / "fresh")
    before, after = (load_file(tmp_path / name / "adapter.safetensors") for name in ("fresh", "run/model"))
    assert before.keys() == after.keys()
    assert not [name for name, tensor in before.items() if torch.equal(tensor, after[name])]


def test_a_run_without_power_ends_as_if_unbroken_though_the_originals_are_gone(
    given: dict[str, Any], done: Path, spoken: Path, tmp_path: Path
) -> None:
    shutil.copytree(spoken, tmp_path / "adapters")
    own = given | {"language_adapters": f"{tmp_path}/adapters/{{language}}", "method": "gradual:every=4"}
    with pytest.raises(PowerCutError):
        train(make_config(**own), tmp_path / "run", Falls(7))
    shutil.rmtree(tmp_path / "adapters")
    train(make_config(**own), tmp_path / "run")
    assert_same_run(tmp_path / "run", done)


def test_a_run_does_not_go_on_with_other_language_adapters(given: dict[str, Any], spoken: Path, tmp_path: Path) -> None:
    shutil.copytree(spoken, tmp_path / "adapters")
    own = given | {"language_adapters": f"{tmp_path}/adapters/{{language}}"}
    with pytest.raises(PowerCutError):
        train(make_config(**own), tmp_path / "run", Falls(7))
    shutil.copytree(tmp_path / "adapters/sw", tmp_path / "adapters/de", dirs_exist_ok=True)
    with pytest.raises(
        RunError, match=r"run was started with another language adapter: .*adapters/de has changed since"
    ):
        train(make_config(**own), tmp_path / "run")


def test_a_moved_run_scores_later_what_it_scored(given: dict[str, Any], done: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(done, moved)
    record = json.loads((moved / "run.json").read_text())
    record["config"]["language_adapters"] = "gone/{language}"
    (moved / "run.json").write_text(json.dumps(record))
    found = evaluate(moved, out=tmp_path / "again")
    assert {split: scores["loss"] for split, scores in found["tests"].items()} == pytest.approx(losses(done), abs=1e-6)
    shutil.rmtree(moved / "language-adapters/sw")
    assert list(evaluate(moved, languages=["en", "de"], out=tmp_path / "two")["tests"]) == ["test.en", "test.de"]
    with pytest.raises(UsageError, match=r"there is no adapter for sw, .*or leave sw out with languages="):
        evaluate(moved, out=tmp_path / "three")


def test_a_file_is_scored_with_the_source_language_unless_another_is_named(
    done: Path, task: Path, tmp_path: Path
) -> None:
    heard = Heard()
    found = evaluate(done, test_file=task / "de.tsv", out=tmp_path / "file", progress=heard)
    assert found["tests"]["test"]["loss"] == pytest.approx(losses(done)["test.en"], abs=1e-6)
    assert "The rows are assumed to be in 'en', so its language adapter is used." in heard.notes
    found = evaluate(done, test_file=task / "de.tsv", languages=["de"], out=tmp_path / "named")
    assert found["tests"]["test"]["loss"] == pytest.approx(losses(done)["test.de"], abs=1e-6)
    with pytest.raises(UsageError, match="is scored in one language"):
        evaluate(done, test_file=task / "de.tsv", languages=["de", "sw"], out=tmp_path / "two")
    shutil.copy(task / "de.tsv", tmp_path)
    (tmp_path / "task.yaml").write_text("source: sw\nfiles: {test: de.tsv}\n")
    found = evaluate(done, task=str(tmp_path / "task.yaml"), out=tmp_path / "task")
    assert found["tests"]["test"]["loss"] == pytest.approx(losses(done)["test.sw"], abs=1e-6)


def test_rows_are_predicted_with_the_source_language(done: Path, task: Path) -> None:
    written = [json.loads(line) for line in (done / "predictions/test.en.jsonl").read_text().splitlines()]
    heard = Heard()
    found = next(iter(predict([done], task / "de.tsv", progress=heard).by_run.values()))
    assert heard.notes == [
        "The rows are assumed to be in 'en', so its language adapter is used. language= selects another."
    ]
    assert [row["predicted"] for row in found] == [row["predicted"] for row in written]


def test_rows_in_another_language_are_predicted_with_its_adapter(done: Path, task: Path, spoken: Path) -> None:
    rows = {code: predict([done], task / f"{code}.tsv", language=code).by_run["run"] for code in ("en", "de")}
    written = [json.loads(line) for line in (done / "predictions/test.de.jsonl").read_text().splitlines()]
    assert rows["de"] == [{name: value for name, value in row.items() if name != "gold"} for row in written]
    assert rows["de"] != rows["en"]
    with pytest.raises(UsageError, match="there is no adapter for ru"):
        predict([done], task / "en.tsv", language="ru")


def test_an_analysis_runs_the_source_language_and_refuses_others(done: Path, spoken: Path) -> None:
    measured = Loader(ComputeSettings(device="cpu")).load(done)
    for model in (measured.found.model, measured.start()):
        assert adapters.active(model) == (NAME, "task")
    assert len(measured.rows("test.en")) == 30
    with pytest.raises(UsageError, match=r"split='test\.de' is in de, .* the adapter for en is analyzed"):
        measured.rows("test.de")


def test_epochs_are_scored_with_each_language_and_leave_no_trace(
    given: dict[str, Any], done: Path, tmp_path: Path
) -> None:
    train(make_config(**given | {"test_each_epoch": None}, method="gradual:every=4"), tmp_path / "run")
    assert losses(tmp_path / "run") == losses(done)
    assert history(tmp_path / "run", "dev") == history(done, "dev")
    last = {line["split"]: line["loss"] for line in history(done) if line["split"].startswith("test.")}
    assert last.keys() == losses(done).keys()
    assert len(set(last.values())) == 3


def test_the_source_is_back_after_a_score_that_fails(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load_finished(done)
    seen: list[tuple[str, ...]] = []

    def predict(self: RunTrainer, *args: Any, **options: Any) -> None:
        seen.append(adapters.active(self.model))
        raise KeyError

    monkeypatch.setattr(RunTrainer, "predict", predict)
    monkeypatch.setattr(evaluation, "load_finished", lambda *args, **options: run)
    with pytest.raises(KeyError):
        evaluate(done, languages=["de"], out=tmp_path / "out")
    assert seen == [(OTHER, "task")]
    assert adapters.active(run.model) == (NAME, "task")
    assert OTHER not in adapters.added(run.model)


def test_the_cache_of_closed_layers_changes_nothing(given: dict[str, Any], tmp_path: Path) -> None:
    """Scores of other languages in each epoch, with closed layers whose outputs are kept from the source language."""
    for name in ("auto", "off"):
        config = make_config(**given | {"method": "freeze:layers=1", "activation_cache": name} | FEW_ROWS)
        train(config, tmp_path / name)
    assert scores_of(tmp_path / "auto")["cost"]["prefix_rows"]["read"] > 0
    mine, theirs = history(tmp_path / "auto"), history(tmp_path / "off")
    assert [line["loss"] for line in mine] == pytest.approx([line["loss"] for line in theirs], abs=2e-5)


def test_one_adapter_may_be_for_all_languages(given: dict[str, Any], spoken: Path, tmp_path: Path) -> None:
    train(make_config(**given | {"language_adapters": str(spoken / "de"), "steps": 4}), tmp_path / "run")
    assert len(set(losses(tmp_path / "run").values())) == 1
    by_hand = loss_by_hand(tmp_path / "run", given, spoken, "de", "test.sw")
    assert losses(tmp_path / "run")["test.sw"] == pytest.approx(by_hand, abs=1e-6)


def lacking(spoken: Path, folder: Path) -> str:
    shutil.copytree(spoken / "en", folder / "en")
    return f"{folder}/{{language}}"


def parallel(tiny_model: Path, folder: Path) -> str:
    save_language_adapter(tiny_model, folder, "par_bn", 0)
    return str(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"adapter": None}, r"there is no adapter=\. Expected a bottleneck adapter"),
        ({"adapter": "par_bn"}, r"cannot be combined with adapter=par_bn: it is a parallel adapter"),
        ({"adapter": "pfeiffer+inv"}, r"it is an adapter with an invertible part, which would not run"),
        ({"adapter": "lora:r=2"}, r"it is one of PEFT's adapters"),
        ({"tapt_steps": 2}, r"and tapt_steps or tapt_epochs cannot be combined"),
        ({"task": "cola+sst2"}, r"adapter=: adapters are trained on one task"),
        ({"language_adapters": "a/{lang}"}, r"expected \{language\} for the code of a language and no other braces"),
        ({"language_adapters": "nowhere/{language}"}, r"no adapter for en, de, sw, and .*Train them with"),
    ],
)
def test_what_has_no_stack_is_refused(
    given: dict[str, Any], changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(GradgateError, match=message):
        train(make_config(**given | changes), tmp_path / "run")
    assert not (tmp_path / "run/history.jsonl").exists()


@pytest.mark.parametrize(
    ("makes", "message"),
    [
        (lambda spoken, model, folder: lacking(spoken, folder), r"no adapter for de, sw, .*leave de, sw out with"),
        (lambda spoken, model, folder: parallel(model, folder), r"is a parallel adapter"),
    ],
    ids=["lacking", "parallel"],
)
def test_a_language_adapter_that_cannot_be_used_is_refused_before_training(
    given: dict[str, Any],
    spoken: Path,
    tiny_model: Path,
    makes: Callable[[Path, Path, Path], str],
    message: str,
    tmp_path: Path,
) -> None:
    own = given | {"language_adapters": makes(spoken, tiny_model, tmp_path / "made")}
    with pytest.raises((UsageError, AdapterError), match=message):
        train(make_config(**own), tmp_path / "run")
    assert not (tmp_path / "run/history.jsonl").exists()
