"""A finished run scored later: the same numbers, other languages, and what is refused with nothing touched."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gradgate import cli
from gradgate.errors import DataError, GradgateError, RunError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.run_folders import files
from support.tiny_folders import save_scores, save_texts

TASK = """
languages: [en, de, sw]
files: {train: train.tsv, dev: dev.tsv, test: "{language}.tsv"}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task whose German is its English, and whose Swahili has every label of it turned round."""
    folder = save_texts(tmp_path_factory.mktemp("moods"))
    english = (folder / "test.tsv").read_text()
    (folder / "test.tsv").rename(folder / "en.tsv")
    (folder / "de.tsv").write_text(english)
    (folder / "sw.tsv").write_text(turned(english, good="bad", bad="good"))
    (folder / "task.yaml").write_text(TASK)
    return folder


def turned(table: str, **labels: str) -> str:
    """The same rows with other labels."""
    header, *rows = table.splitlines()
    pairs = [row.rpartition("\t") for row in rows]
    return "\n".join([header, *(f"{text}\t{labels[label]}" for text, _, label in pairs)]) + "\n"


@pytest.fixture(scope="module")
def runs(
    settings: dict[str, Any], task: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str | None], Path]:
    """Runs by their adapters."""

    @cache
    def trained(adapter: str | None) -> Path:
        folder = tmp_path_factory.mktemp("runs") / "run"
        lr = 2e-3 if adapter is None else 2e-2
        train(make_config(**settings | {"task": str(task), "lr": lr}, adapter=adapter), folder)
        return folder

    return trained


@pytest.fixture
def run(runs: Callable[[str | None], Path]) -> Path:
    return runs(None)


each_run = pytest.mark.parametrize("adapter", [None, "pfeiffer:reduction=4"], ids=["whole", "adapter"])


def scores_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "scores.json").read_text())


@each_run
def test_a_run_scores_every_language_and_writes_what_it_predicted(
    runs: Callable[[str | None], Path], adapter: str | None
) -> None:
    run = runs(adapter)
    scores = scores_of(run)
    accuracy = {split: values["accuracy"] for split, values in scores["tests"].items()}
    assert accuracy["test.de"] == accuracy["test.en"]
    assert accuracy["test.sw"] == pytest.approx(1 - accuracy["test.de"])
    assert scores["averages"]["zero-shot"]["accuracy"] == pytest.approx(0.5)
    assert scores["averages"]["distant"]["accuracy"] == pytest.approx(accuracy["test.sw"])
    for split, rows in (("dev", 30), ("test.en", 30), ("test.de", 30), ("test.sw", 30)):
        lines = [json.loads(line) for line in (run / f"predictions/{split}.jsonl").read_text().splitlines()]
        assert len(lines) == rows
        if split != "dev":
            assert sum(line["gold"] == line["predicted"] for line in lines) / rows == pytest.approx(accuracy[split])


@each_run
def test_scores_later_are_those_of_the_run_and_leave_it_alone(
    runs: Callable[[str | None], Path], adapter: str | None, tmp_path: Path
) -> None:
    run = runs(adapter)
    before = files(run)
    record = evaluate(run, out=tmp_path / "again")
    assert files(run) == before
    assert {path.name for path in (tmp_path / "again").iterdir()} == {"scores.json", "predictions"}
    assert record == scores_of(tmp_path / "again")
    for split, values in scores_of(run)["tests"].items():
        assert record["tests"][split] == pytest.approx(values, abs=1e-6)
        name = f"predictions/{split}.jsonl"
        assert len((tmp_path / "again" / name).read_text()) == len((run / name).read_text())


def test_languages_and_files_can_be_chosen(run: Path, task: Path, tmp_path: Path) -> None:
    record = evaluate(run, languages=["sw"])
    assert list(record["tests"]) == ["test.sw"]
    (written,) = (run / "evaluations").iterdir()
    assert scores_of(written) == record
    (tmp_path / "mine.tsv").write_text("text\tlabel\ngood good\tgood\n")
    record = evaluate(run, test_file=tmp_path / "mine.tsv", out=tmp_path / "out")
    assert record["task"]["rows"] == {"test": 1}
    assert record["averages"] == {}


def test_a_file_is_scored_whole_in_columns_of_its_own(run: Path, tmp_path: Path) -> None:
    rows = [("good good", "good"), ("bad bad", "bad")] * 10
    (tmp_path / "mine.csv").write_text("review,mood\n" + "".join(f"{text},{label}\n" for text, label in rows))
    columns = {"text": "review", "label": "mood"}
    of_task = evaluate(run, task=str(tmp_path / "mine.csv"), out=tmp_path / "task", **columns)
    of_run = evaluate(run, test_file=tmp_path / "mine.csv", out=tmp_path / "test", **columns)
    assert of_task["task"]["rows"] == of_run["task"]["rows"] == {"test": 20}
    assert of_task["tests"] == of_run["tests"]


def test_the_runs_own_file_is_its_test_split_however_it_is_spelled(
    settings: dict[str, Any], task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(task / "train.tsv", tmp_path / "one.tsv")
    monkeypatch.chdir(tmp_path)
    train(make_config(**settings | {"task": "one.tsv", "steps": 1}), tmp_path / "run")
    own = evaluate(tmp_path / "run")
    assert own["task"]["rows"] == {"test": 8}
    assert evaluate(tmp_path / "run", task="./one.tsv")["tests"] == own["tests"]
    monkeypatch.chdir("/")
    assert evaluate(tmp_path / "run", task=str(tmp_path / "one.tsv"))["tests"] == own["tests"]


def test_a_file_that_names_its_labels_otherwise_is_not_unlabelled(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,mood\ngood good,good\nbad bad,bad\n")
    with pytest.raises(DataError, match=r"mine\.csv has no column 'label'; its columns are 'text', 'mood'"):
        evaluate(run, test_file=tmp_path / "mine.csv", out=tmp_path / "out")


def test_a_task_without_train_is_scored_with_the_labels_of_the_run(run: Path, task: Path, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("files: {test: t.tsv}\nlabel_map: {1: good, 0: bad, 2: mixed}\n")
    (tmp_path / "t.tsv").write_text(turned((task / "en.tsv").read_text(), good="1", bad="0"))
    record = evaluate(run, task=str(tmp_path), out=tmp_path / "out")
    assert record["tests"]["test"]["accuracy"] == scores_of(run)["tests"]["test.en"]["accuracy"]
    assert record["task"]["labels"] == ["bad", "good"]
    (tmp_path / "t.tsv").write_text("text\tlabel\ngood good\t1\nbad bad\t2\n")
    with pytest.raises(DataError, match=r"t\.tsv:3: '2' is not in label_map"):
        evaluate(run, task=str(tmp_path), out=tmp_path / "out")
    assert scores_of(tmp_path / "out") == record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": "nowhere"}, r"nowhere holds no run: .*run\.json is missing"),
        ({"run": "study"}, r"study holds no run: .* Name a run of it, as .*study/runs/full/seed-0\."),
        ({"languages": ["fr"]}, r"has no fr; its languages are en, de, sw"),
        ({"task": "stsb"}, r"The task stsb is regression, and the model of .* was trained for classification"),
        ({"out": "."}, r"is not empty and is not the folder of an evaluation"),
        ({"out": "something"}, r"something is a file\. Expected a folder"),
    ],
)
def test_what_cannot_be_scored_is_refused(run: Path, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "something").write_text("")
    (tmp_path / "study/runs/full/seed-0").mkdir(parents=True)
    (tmp_path / "study/runs/full/seed-0/run.json").write_text("{}")
    given = {"run": run, **change}
    for name in ("out", "run"):
        if isinstance(given.get(name), str):
            given[name] = tmp_path / given[name]
    before = files(tmp_path)
    with pytest.raises(GradgateError, match=message):
        evaluate(given.pop("run"), **given)
    assert files(tmp_path) == before


def test_a_run_in_several_languages_scores_a_file_in_another(
    settings: dict[str, Any], task: Path, tmp_path: Path
) -> None:
    train(make_config(**settings | {"task": str(task), "steps": 2}, languages="en,sw"), tmp_path / "run")
    (tmp_path / "fur.tsv").write_text("text\tlabel\nbon bon\tgood\n")
    assert evaluate(tmp_path / "run", test_file=tmp_path / "fur.tsv")["task"]["rows"] == {"test": 1}


def test_a_run_with_a_method_that_is_not_known_here_is_scored_all_the_same(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    held = json.loads((tmp_path / "run/run.json").read_text())
    held["config"]["method"] = "somebodys:each=2"
    (tmp_path / "run/run.json").write_text(json.dumps(held))
    record = evaluate(tmp_path / "run", out=tmp_path / "out")
    assert record["run"]["method"] == "somebodys:each=2"
    for split, values in scores_of(run)["tests"].items():
        assert record["tests"][split] == pytest.approx(values, abs=1e-6)


def test_a_run_must_have_finished_and_kept_its_model(settings: dict[str, Any], tmp_path: Path) -> None:
    config = make_config(**settings | {"task": str(save_scores(tmp_path)), "steps": 2}, keep_model=False)
    train(config, tmp_path / "run")
    with pytest.raises(RunError, match=r"kept no model .* keep_model=True"):
        evaluate(tmp_path / "run")
    (tmp_path / "run/scores.json").unlink()
    with pytest.raises(RunError, match=r"has not finished"):
        evaluate(tmp_path / "run")
    spoken = make_config(**settings, languages="de")
    with pytest.raises(UsageError, match=r"in one language"):
        train(spoken, tmp_path / "other")


def test_the_command_prints_every_language(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["gradgate", "evaluate", str(run), "--out", str(tmp_path / "out"), *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        return capsys.readouterr().out

    shown = said()
    for name in ("test.en", "test.de", "test.sw", "zero-shot average", "distant average"):
        assert name in shown
    assert list(json.loads(said("--json", "--languages", "de,sw"))["tests"]) == ["test.de", "test.sw"]


def test_an_evaluation_that_was_cut_short_is_run_again(run: Path, tmp_path: Path) -> None:
    record = evaluate(run, out=tmp_path / "out")
    (tmp_path / "out/scores.json").unlink()
    (tmp_path / "out/predictions/test.en.jsonl").unlink()
    assert evaluate(run, out=tmp_path / "out") == record == scores_of(tmp_path / "out")
    (tmp_path / "out/scores.json").unlink()
    (tmp_path / "out/predictions/mine.jsonl").write_text("{}")
    with pytest.raises(RunError, match="is not the folder of an evaluation"):
        evaluate(run, out=tmp_path / "out")
    assert (tmp_path / "out/predictions/mine.jsonl").exists()


def test_files_are_scored_into_folders_of_their_own(run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.tsv").write_text(f"text\tlabel\ngood good\t{'good' if name == 'a' else 'bad'}\n")
    found = {name: evaluate(run, test_file=tmp_path / f"{name}.tsv") for name in ("a", "b")}
    folders = {name: next((run / "evaluations").glob(f"*-{name}")) for name in found}
    assert {name: scores_of(folder) for name, folder in folders.items()} == found
    (folders["a"] / "predictions/test.sw.jsonl").write_text("of another evaluation")
    evaluate(run, test_file=tmp_path / "a.tsv")
    assert [file.name for file in (folders["a"] / "predictions").iterdir()] == ["test.jsonl"]
