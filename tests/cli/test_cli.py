"""The command line: what is typed, what is printed where, and the exit codes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate
from gradgate.cli import lists
from gradgate.cli.wording import help_in_flags
from gradgate.errors import UsageError
from gradgate.settings.base import checked_settings
from gradgate.settings.compare import QueueSettings
from gradgate.settings.run import RunConfig
from gradgate.settings.values import read_seeds
from support.command_line import Command, Said
from support.trained_here import trained_here


@pytest.fixture
def flags(settings: dict[str, Any]) -> list[str]:
    """The settings of a tiny run as flags, without its length."""
    given = {name: value for name, value in settings.items() if name != "steps"}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def test_python_m_is_the_same_command() -> None:
    said = subprocess.run([sys.executable, "-m", "gradgate", "--version"], capture_output=True, text=True, check=True)
    assert said.stdout == f"gradgate {gradgate.__version__}\n"
    assert said.stderr == ""


@pytest.mark.parametrize("words", [[], ["study"], ["delta"], ["analyze"]])
def test_a_list_of_commands_says_each_in_one_whole_line(command: Command, words: list[str]) -> None:
    _, _, listed = command(*words, "--help").out.partition("Commands:\n")
    lines = listed.strip().splitlines()
    assert len(lines) > 2
    assert all(re.fullmatch(r" *[a-z-]+  +.*[^.]\.", line) for line in lines), listed


@pytest.mark.parametrize(("name", "lacking"), [("train", set()), ("compare", {"seed", "fsdp"})])
def test_help_names_every_setting_with_what_it_does(command: Command, name: str, lacking: set[str]) -> None:
    text = "".join(command(name, "--help").out.split())
    for setting, field in RunConfig.model_fields.items():
        if setting not in lacking | {"method", "adapter"}:
            assert f"--{setting.replace('_', '-')}" in text
            description = help_in_flags(str(field.description), RunConfig.model_fields)
            assert "".join(description[1:].split()) in text
    assert "--config" in text
    assert "[default:5e-05]" in text
    assert "(linear,constant,cosine)" in text


def test_layers_are_shown_as_a_tree_and_as_json(command: Command, tiny_model: Path) -> None:
    tree = command("layers", str(tiny_model))
    assert tree.code == 0
    assert [line.split()[1] for line in tree.out.splitlines()[1:5]] == ["embeddings", "layers.0", "layers.1", "head"]
    record = json.loads(command("layers", str(tiny_model), "--json").out)
    assert [group["name"] for group in record["groups"]] == ["embeddings", "layers.0", "layers.1", "head"]
    assert "bert.encoder.layer.0.output.dense.weight" in record["groups"][1]["parameter_names"]


def test_methods_are_listed_with_options_and_papers(command: Command) -> None:
    shown = command("methods").out
    records = json.loads(command("methods", "--json").out)
    assert [record["name"] for record in records] == [
        *(info.name for info in gradgate.methods()), "plan:FILE", "axolotl:FILE",
    ]  # fmt: skip
    for record in records:
        assert record["name"] in shown
        assert record["paper"]
    freeze = next(record for record in records if record["name"] == "freeze")
    assert freeze["required"] == ["layers"]


def test_tasks_are_listed_and_one_is_counted(command: Command, tiny_task: Path) -> None:
    assert "citation_intent" in command("tasks").out
    assert {"sample", "sst2", "stsb"} <= {record["name"] for record in json.loads(command("tasks", "--json").out)}
    found = json.loads(command("tasks", str(tiny_task), "--json").out)
    assert found.pop("understood")["kind"] == "classification"
    assert found == {
        "train": {"en": 80},
        "dev": {"en": 30},
        "test": {"en": 30},
    }
    shown = command("tasks", str(tiny_task)).out
    assert "classification, selected by accuracy" in shown
    assert "labels: bad 32, good 48" in shown
    assert "dev" not in shown.splitlines()[-1]


def test_a_task_without_its_dev_file_says_so(command: Command, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\ngood,y\nbad,n\n")
    (tmp_path / "task.yaml").write_text("files: {train: train.csv, dev: dev.csv}\n")
    said = command("tasks", str(tmp_path / "task.yaml"))
    assert said.code == 0
    shown = " ".join(said.out.split())
    assert f"dev: {tmp_path}/dev.csv is missing; {tmp_path} holds task.yaml, train.csv." in shown
    assert "'gradgate train' needs it: add the file, or correct its name in the task" in shown


def test_a_named_task_is_read_from_a_folder(command: Command, tmp_path: Path) -> None:
    lines = ["sentence\tlabel", *(f"a day {number}\t{number % 2}" for number in range(6))]
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    said = command("tasks", "sst2", "--data", str(tmp_path), "--json")
    found = json.loads(said.out)
    assert found.pop("understood")["name"] == "sst2"
    assert (said.code, found) == (0, {"train": {"en": 6}, "dev": {"en": 6}, "test": {"en": 6}})


def test_a_plan_is_drawn(command: Command, tiny_model: Path) -> None:
    said = command("plan", "--model", str(tiny_model), "--method", "gradual:every=5", "--steps", "20")
    assert said.code == 0
    lines = [line.rstrip() for line in said.out.splitlines()]
    assert re.fullmatch(r"gradual:every=5, 20 steps: \d\d\.\d% of the weights learn, on average", lines[0])
    assert lines[1:5] == [
        "head        ████████████████████ 100.0%",
        "layers.1    ████████████████████ 100.0%",
        "layers.0    ····████████████████  80.0%",
        "embeddings  ····████████████████  80.0%",
    ]
    short = command("plan", "--model", str(tiny_model), "--method", "full", "--steps", "10").out.splitlines()
    assert short[-2].split() == ["step", "0", "2", "5", "10"]


def test_a_plan_that_the_model_cannot_have_is_wrong_usage(command: Command, tiny_model: Path) -> None:
    said = command("plan", "--model", str(tiny_model), "--method", "freeze:layers=99", "--steps", "20")
    assert (said.code, said.out) == (2, "")
    assert "99 closed layers, but the model has 2" in said.err


def test_a_run_is_printed_as_a_table_or_as_json_alone(command: Command, flags: list[str], tmp_path: Path) -> None:
    out = ["--out", str(tmp_path / "run"), "--steps", "2"]
    first = command("train", *flags, *out)
    assert first.code == 0
    assert "accuracy" in first.out
    assert f"Everything is in {tmp_path / 'run'}" in first.out
    assert not [bar for bar in ("it/s", "tokenize", "\r") if bar in first.err], "bars of other libraries"
    again = command("train", *flags, *out, "--json")
    assert json.loads(again.out) == json.loads((tmp_path / "run/scores.json").read_text())
    assert again.err == ""
    assert command("train", *flags, *out, "--quiet") == Said(0, "", "")


def test_a_run_that_keeps_a_delta_says_how_other_libraries_get_the_model(
    command: Command, flags: list[str], tmp_path: Path
) -> None:
    run, whole = tmp_path / "run", tmp_path / "whole"
    said = command("train", *flags, "--method", "head", "--steps", "2", "--out", str(run))
    asked = said.out.splitlines()[-1].partition(": gradgate ")[2].replace("FOLDER", str(whole))
    assert command(*asked.split()).code == 0
    assert (whole / "model.safetensors").is_file()


def test_a_language_without_files_is_named(command: Command, tmp_path: Path) -> None:
    for name in ("train", "dev", "en"):
        (tmp_path / f"{name}.csv").write_text(f"text,label\ngood {name},y\nbad {name},n\n")
    files = "{train: train.csv, dev: dev.csv, test: '{language}.csv'}"
    (tmp_path / "task.yaml").write_text(f"languages: [en, fur]\nfiles: {files}\n")
    assert f"not scored in fur: {tmp_path} has no such files" in command("tasks", str(tmp_path)).out


def test_a_comparison_prints_its_table_and_the_path_of_its_report(
    command: Command, flags: list[str], tmp_path: Path, draw_only: Callable[..., None]
) -> None:
    draw_only()
    study = tmp_path / "study"
    words = ["compare", *flags, "--steps", "2", "--seeds", "7,", "--out", str(study), "-m", "full", "-m", "head"]
    with trained_here():
        said = command(*words)
    assert said.code == 0
    assert "full" in said.out
    assert f"Report: {study / 'report.html'}" in said.out
    assert "done    head seed 7: dev accuracy" in said.err
    records = json.loads(command(*words, "--json").out)
    assert [(record["method"], record["seed"]) for record in records] == [("full", 7), ("head", 7)]
    assert all(record["status"] == "finished" and 0 <= record["score"] <= 1 for record in records)
    (study / "report.html").unlink()
    assert command("report", str(study)).out == f"Report: {study / 'report.html'}\n"
    assert (study / "report.html").is_file()


@pytest.mark.slow
def test_tasks_and_models_are_repeated_flags(
    command: Command, settings: dict[str, Any], tiny_gpt2: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(settings["task"], other)
    words = [f"{name}: {value}" for name, value in settings.items() if name not in ("task", "model", "steps")]
    (tmp_path / "c.yaml").write_text("\n".join([*words, f"task: [{settings['task']}, {other}]", "steps: 1"]))
    models = ["--model", settings["model"], "--model", str(tiny_gpt2)]
    study = str(tmp_path / "study")
    said = command("compare", "--config", str(tmp_path / "c.yaml"), *models, "-m", "head", "--seeds", "1", "-o", study)
    assert said.code == 0
    assert "mean over combinations" in said.out
    cells = json.loads(command("study", "export", study).out)
    tasks = [Path(settings["task"]).name, "other"]
    assert [(cell["task"], cell["model"]) for cell in cells] == [
        (task, model) for model in (settings["model"], str(tiny_gpt2)) for task in tasks
    ]
    assert "4 finished" in command("study", "status", study).out
    later = ["compare", "--config", str(tmp_path / "c.yaml"), "-m", "head", "--seeds", "1", "-o", study]
    (tmp_path / "c.yaml").write_text("\n".join([*words, "steps: 1"]))  # neither task nor model: those that are there
    assert command(*later).code == 0
    assert len(json.loads(command("study", "export", study).out)) == 4
    said = command("compare", "--task", "sample", "--task", "sample-nli", "--text", "body", "-m", "head")
    assert (said.code, "--text: these describe one task" in said.err) == (2, True)


def test_failed_runs_make_the_exit_code_1(
    command: Command, flags: list[str], tmp_path: Path, draw_only: Callable[..., None]
) -> None:
    draw_only()
    words = [*flags, "--lr", "1e30", "--steps", "4", "--seeds", "1", "-m", "full", "--out", str(tmp_path / "study")]
    with trained_here():
        said = command("compare", *words, "--quiet")
    assert (said.code, said.out) == (1, "")
    assert f"1 of 1 runs failed; {tmp_path / 'study/report.html'} says why." in said.err


def test_a_config_file_has_the_names_of_the_flags_and_flags_win(
    command: Command, settings: dict[str, Any], tmp_path: Path
) -> None:
    lines = [f"{name}: {value}" for name, value in settings.items()]
    lines += [f"out: {tmp_path / 'from-file'}", "eval-every: 2", "keep_model: false", "train_size: null", "seed: 4"]
    (tmp_path / "run.yaml").write_text("\n".join([*lines, "lr: 5e-4", "quiet: true"]).replace("lr: 0.001\n", ""))
    said = command("train", "--config", str(tmp_path / "run.yaml"), "--steps", "3")
    assert said == Said(0, "", "")
    config = json.loads((tmp_path / "from-file/run.json").read_text())["config"]
    assert (config["steps"], config["lr"], config["seed"], config["eval_every"]) == (3, 5e-4, 4, 2)
    assert not (tmp_path / "from-file/model").exists()


@pytest.mark.slow
def test_a_config_file_lists_methods_and_seeds_of_a_comparison(
    command: Command, settings: dict[str, Any], tmp_path: Path
) -> None:
    lines = [f"{name}: {value}" for name, value in settings.items()]
    (tmp_path / "c.yaml").write_text("\n".join([*lines, "method: [head, full]", "seeds: [7]"]))
    words = ["compare", "--config", str(tmp_path / "c.yaml"), "--steps", "1", "--json"]
    records = json.loads(command(*words, "--out", str(tmp_path / "file")).out)
    assert [(record["method"], record["seed"]) for record in records] == [("head", 7), ("full", 7)]
    records = json.loads(command(*words, "-m", "head", "--seeds", "1", "--out", str(tmp_path / "flags")).out)
    assert [(record["method"], record["seed"]) for record in records] == [("head", 0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 3\nlearning-rate: 1", r"no setting 'stepz'\. Did you mean 'steps'.* no setting 'learning-rate'"),
        ("- steps", "expected lines such as 'lr: 5e-5'"),
        ("steps: [", "cannot be read"),
        ("steps: 1.5", "Invalid value for '--steps'"),
        ("device: tpu", r"--device 'tpu': expected"),
        ("config: other.yaml", "no setting 'config'"),
    ],
)
def test_a_wrong_config_file_is_wrong_usage(command: Command, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    said = command("train", "--config", str(tmp_path / "c.yaml"), "--out", str(tmp_path / "run"))
    assert said.code == 2
    assert re.search(message, " ".join(said.err.split()))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "seeds"), [("3", [0, 1, 2]), ("0,7,42", [0, 7, 42]), ("7,", [7]), ("[7]", [7]), ("[1, 2]", [1, 2])]
)
def test_seeds_are_counted_or_listed(text: str, seeds: list[int]) -> None:
    assert read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["0", "-1", "a", "1,,2", "1.5", "[]", "3,-1"])
def test_other_seeds_are_wrong_usage(command: Command, text: str, tmp_path: Path) -> None:
    said = command("compare", f"--seeds={text}", "-m", "full", "--out", str(tmp_path / "study"))
    assert said.code == 2
    assert f"--seeds '{text}': expected a number of seeds (3) or a list of seeds" in said.err


def test_an_address_is_not_a_way_to_keep_models(command: Command, tmp_path: Path) -> None:
    said = command("compare", "--store", "sqlite:///queue.db", "-m", "full", "--out", str(tmp_path / "study"))
    assert said.code == 2
    assert "as --queue 'sqlite:///queue.db'" in " ".join(said.err.split())


@pytest.mark.parametrize("words", [("compare", "-m", "full"), ("worker", "x"), ("study", "status", "x")])
def test_the_queue_is_an_address(command: Command, words: tuple[str, ...]) -> None:
    said = command(*words, "--queue", "queue.db")
    assert (said.code, "--queue 'queue.db': expected the address" in " ".join(said.err.split())) == (2, True)


def test_the_queue_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADGATE_QUEUE", "sqlite:///queue.db")
    assert checked_settings(QueueSettings, {}).queue == "sqlite:///queue.db"
    assert checked_settings(QueueSettings, {"queue": "sqlite:///other.db"}).queue == "sqlite:///other.db"
    monkeypatch.setenv("GRADGATE_STORE", "sqlite:///queue.db")
    with pytest.raises(UsageError, match="Set GRADGATE_QUEUE"):
        checked_settings(QueueSettings, {})


def test_another_store_is_refused_with_the_nearest(command: Command, tmp_path: Path) -> None:
    said = command("compare", "--store", "detla", "-m", "full", "--out", str(tmp_path / "study"))
    assert (said.code, "Did you mean 'delta'" in said.err) == (2, True)


@pytest.mark.parametrize("text", ["0", "-5", "many", "1e3", "٣"])
def test_a_training_size_is_a_number_of_rows_or_all(command: Command, text: str, tmp_path: Path) -> None:
    said = command(
        "compare", "--train-size=all", f"--train-size={text}", "-m", "full", "--out", str(tmp_path / "study")
    )
    assert said.code == 2
    assert f"--train-size '{text}': expected a whole number, such as 10, or all" in said.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, ""),
        (["trian"], 2, "No such command 'trian'"),
        (["train", "--methd", "full"], 2, "--method"),
        (["train", "--method", "gradul"], 2, "Did you mean 'gradual'"),
        (["train", "--method", "graddrop:p=1.0"], 2, "cannot have p=1.0 (expected 0 <= p < 1"),
        (["train", "--epochs", "1", "--steps", "1"], 2, "pass --epochs or --steps, not both"),
        (["train", "--task", "sst3"], 2, "Did you mean 'sst2'"),
        (["compare"], 2, "at least one method (--method)"),
        (["train", "--test-each-epoch", "--skip-test"], 2, "--test-each-epoch scores the test splits and --skip-test"),
        (["train", "--dev-size", "9", "--dev-file", "d.csv"], 2, "--dev-size takes dev from train and --dev-file is"),
        (["plan"], 2, "--steps is missing"),
        (["train", "--model", "no-such/model"], 1, "check the name and the network"),
        (["layers", "no-such/model"], 1, "check the name and the network"),
        (["layers", "./no-such-folder"], 1, "There is no folder ./no-such-folder"),
        (["report", "no-such-study"], 1, "study.json is missing"),
    ],
)
def test_a_mistake_ends_with_its_message_and_code(
    command: Command, words: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = command(*words)
    assert said.code == code
    assert message in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("split", ["train", "dev"])
def test_a_fault_in_the_data_names_its_place(
    command: Command, flags: list[str], tiny_task: Path, split: str, tmp_path: Path
) -> None:
    file = tmp_path / f"{split}.tsv"
    file.write_text("text\tlabel\na good day\tgood\na bad day\tbad\nan odd day\n")
    said = command("train", *flags, f"--{split}-file", str(file), "--out", str(tmp_path / "run"))
    assert said.code == 1
    assert f"{file}:4" in said.err


def test_ctrl_c_outside_of_training_is_130_with_a_word(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lists, "catalog_of_methods", interrupt)
    said = command("methods")
    assert said.code == 130
    assert said.err == "gradgate: interrupted; what was saved before is still there.\n"


def test_an_unknown_adapter_is_wrong_usage_with_the_nearest_name(command: Command, flags: list[str]) -> None:
    for name in ("train", "compare"):
        said = command(name, *flags, "--adapter", "houlsbi", "-m" if name == "compare" else "--method", "full")
        assert said.code == 2
        assert "no kind of adapter 'houlsbi'. Did you mean 'houlsby'?" in said.err


def test_a_language_adapter_is_trained_from_a_file(command: Command, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("the film was good\n" * 40)
    words = ("--model", str(tiny_model), "--language-data", str(tmp_path / "lines.txt"), "--steps", "2")
    more = ("--kind", "pfeiffer:reduction=2", "--max-length", "16", "--device", "cpu", "--out", str(tmp_path / "lang"))
    said = command("pretrain-adapter", *words, *more)
    assert said.code == 0
    assert re.search(r"loss \d+\.\d+ before, \d+\.\d+ after 2 steps \(perplexity", said.out)
    assert (tmp_path / "lang/adapter_config.json").is_file()
    assert command("pretrain-adapter", "--model", str(tiny_model)).code == 2
