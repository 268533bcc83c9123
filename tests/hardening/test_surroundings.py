"""What surrounds a command may be odd: closed streams, limits of the system, pipes among files, damaged records."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate import sample
from gradgate.errors import GradgateError, RunError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.predict import predict
from gradgate.hub import model_source
from gradgate.measure.track import read_fisher
from gradgate.runs.checkpoints import writing_to
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import lines_until, read_history
from gradgate.runs.predictions import copy_predictions
from gradgate.settings.base import checked_settings
from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import make_config
from gradgate.tasks.unlabelled import read_text
from support.command_line import Command
from support.crossed import some_fast

GRADGATE = f"{sys.executable} -m gradgate"
THOUSANDS = "9" * 5000
HUNDREDS = "9" * 400


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two steps."""
    out = tmp_path_factory.mktemp("finished") / "run"
    gg.train(steps=2, batch_size=4, train_size=16, languages="en", out=out, quiet=True)
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return shutil.copytree(finished, tmp_path / "run")


STREAMS = {
    "no output": ("methods >&-", 0),
    "no output for JSON": ("methods --json >&-", 0),
    "no output for help": ("train --help >&-", 0),
    "no errors": ("nonsense 2>&-", 2),
    "nothing at all": ("methods <&- >&- 2>&-", 0),
    "a full device": ("methods --json > /dev/full", 1),
    "a reader that has gone": ("methods --json | true", 0),
}


@pytest.mark.skipif(sys.platform == "win32", reason="the shell is another one")
@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name.startswith("no output") else ())
        for name, case in STREAMS.items()
    ],
)
def test_a_closed_stream_is_no_fault(tmp_path: Path, words: str, code: int) -> None:
    done = subprocess.run(["sh", "-c", f"{GRADGATE} {words}"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_closed_streams_do_not_end_in_files(tmp_path: Path) -> None:
    words = f"plan --steps 5 --model sample --write {tmp_path / 'plan.yaml'} <&- >&- 2>&-"
    subprocess.run(["sh", "-c", f"{GRADGATE} {words}"], check=True)
    assert gg.method(f"plan:{tmp_path / 'plan.yaml'}").name == "plan"


@pytest.mark.slow
def test_input_that_is_no_text_is_named(finished: Path) -> None:
    words = [sys.executable, "-m", "gradgate", "predict", str(finished), "--file", "-"]
    done = subprocess.run(words, input=b"caf\xe9\n", capture_output=True)
    assert done.returncode == 1
    assert b"Standard input is not UTF-8 (byte 0xe9). Convert it" in done.stderr


FULL = [
    OSError(errno.EFBIG, "File too large"),
    OSError(errno.EDQUOT, "Disk quota exceeded"),
    type("SafetensorError", (Exception,), {})("I/O error: File too large (os error 27)"),
    type("SafetensorError", (Exception,), {})(f"I/O error: quota (os error {errno.EDQUOT})"),
    type("SafetensorError", (Exception,), {})("I/O error: full (os error 28)"),
]


@pytest.mark.parametrize("error", FULL, ids=str)
def test_a_limit_of_the_system_is_named(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(RunError, match=rf"Cannot write to {tmp_path}: .*free space"), writing_to(tmp_path):
        raise error


@pytest.mark.slow
def test_a_small_limit_ends_with_a_message(tmp_path: Path) -> None:
    train = f"{GRADGATE} train --steps 1 --batch-size 4 --train-size 8 --languages en --quiet --out {tmp_path / 'run'}"
    done = subprocess.run(["bash", "-c", f"ulimit -f 64; {train}"], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"Cannot write to {tmp_path / 'run'}: File too large" in done.stderr
    assert "Traceback" not in done.stderr


def pipe(path: Path) -> Path:
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


PIPES: dict[str, Callable[[Path], object]] = {
    "history": lambda run: read_history(pipe(run / "history.jsonl")),
    "history of a resumed run": lambda run: lines_until(pipe(run / "history.jsonl"), 1),
    "history in Python": lambda run: (pipe(run / "history.jsonl"), gg.Run(run).history),
    "Fisher": lambda run: read_fisher(pipe(run / "fisher.jsonl")),
    "predictions": lambda run: copy_predictions(pipe(run / "x.jsonl").parent, RunFolder(run)),
    "a file of the model": lambda run: model_source(str(pipe(run / "model" / "tokenizer.json").parent)),
    "weights": lambda run: gg.deltas.create(pipe(run / "model" / "model.safetensors").parent, "sample", run / "delta"),
    "a configuration": lambda run: gg.estimate_memory(pipe(run / "config.json")),
    "a task": lambda run: gg.train(task=pipe(run / "task.csv"), out=run / "new", quiet=True),
    "a plan": lambda run: gg.method(f"plan:{pipe(run / 'plan.yaml')}"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes with names")
@pytest.mark.parametrize("read", PIPES.values(), ids=PIPES)
def test_a_pipe_among_files_is_refused(run: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises(GradgateError):
        read(run)


LABELS: dict[str, list[str] | None] = {
    "none": None,
    "no label": [],
    "one": ["mixed"],
    "too many": ["mixed", "negative", "neutral", "positive", "z"],
    "one twice": ["mixed", "mixed", "neutral", "positive"],
    "in another order": ["negative", "mixed", "neutral", "positive"],
    "blank ones": ["", "", "", ""],
    "half a pair": ["\ud800", "negative", "neutral", "positive"],
}


@some_fast("case", list(LABELS), ["none", "one", "in another order", "half a pair"])
def test_labels_that_are_not_the_models_are_refused(run: Path, case: str) -> None:
    record = json.loads((run / "run.json").read_text())
    record["task"]["labels"] = LABELS[case]
    (run / "run.json").write_text(json.dumps(record))
    (run / "rows.txt").write_text("a good film\n")
    for ask in (lambda: predict([run], run / "rows.txt"), lambda: evaluate(run, languages=["en"])):
        with pytest.raises(RunError, match=r"run\.json is damaged: its labels are .*, and the model in .* has 'mixed"):
            ask()


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[1]", b'{"a": NaN' + b"1" * 10])
def test_damaged_predictions_are_named(run: Path, content: bytes) -> None:
    from gradgate.evaluation.finished import load_finished

    finished = load_finished(run)
    (run / "predictions" / "dev.jsonl").write_bytes(content)
    with pytest.raises(RunError, match=r"dev\.jsonl is damaged in line 1: "):
        _ = finished.may_lack_answers


NUMBERS: dict[str, tuple[type, str, Any]] = {
    "steps": (dict, "steps", 10**5000),
    "steps below": (dict, "steps", -(10**5000)),
    "a rate": (dict, "lr", 10**400),
    "rows": (dict, "train_size", 10**5000),
    "steps as text": (dict, "steps", THOUSANDS),
    "seeds": (list, "seeds", 10**5000),
    "seeds as text": (list, "seeds", f"{THOUSANDS},"),
    "a list of seeds": (list, "seeds", [10**5000]),
    "a time": (list, "budget_time", f"{THOUSANDS}h"),
    "a time of hundreds": (list, "budget_time", f"{HUNDREDS}h"),
    "a size": (list, "train_size", THOUSANDS),
    "a split": (dict, "split", f"{THOUSANDS}/1/1"),
    "a method": (dict, "method", f"freeze:layers={THOUSANDS}"),
    "an adapter": (dict, "method", f"houlsby:size={HUNDREDS}"),
    "a mix": (dict, "mix", f"temperature:{THOUSANDS}"),
}


@pytest.mark.parametrize(("kind", "name", "value"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_of_thousands_of_digits_are_refused(kind: type, name: str, value: object) -> None:
    with pytest.raises(UsageError) as raised:
        make_config(**{name: value}) if kind is dict else checked_settings(CompareSettings, {name: value})
    assert len(str(raised.value)) < 1000


@some_fast(
    "text",
    ["layers.top{}", "layers.{}", "layers.1-{}", "embeddings[{}:]", "head[:-{}]"],
    ["layers.top{}", "layers.1-{}", "embeddings[{}:]"],
)
def test_selectors_of_thousands_of_digits_are_refused(command: Command, text: str) -> None:
    said = command("layers", "sample", "--select", text.format(THOUSANDS))
    assert said.code == 2
    assert "is not a valid selector term" in said.err
    assert len(said.err) < 2000


def test_sweeps_and_files_of_thousands_of_digits_are_refused(tmp_path: Path, command: Command) -> None:
    from gradgate.study.sweep import read_sweep

    with pytest.raises(UsageError, match="needs a whole number of layers"):
        read_sweep(f"freeze:step={THOUSANDS}")
    (tmp_path / "c.yaml").write_text(f"steps: {THOUSANDS}\n")
    said = command("train", "--config", str(tmp_path / "c.yaml"))
    assert said.code == 2
    assert "a whole number has thousands of digits" in said.err


def test_half_a_pair_in_rows_is_named() -> None:
    from gradgate.tasks.find import find_task

    table = read_text('{"text": "a\ud800b"}\n', find_task("sample"))
    assert table.column("text", "text=") == ["a\ud800b"]


def test_a_folder_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not UTF-8, so no weights can be written there"):
        gg.train(steps=1, out=tmp_path / os.fsdecode(b"o\xff"), quiet=True)
    assert list(tmp_path.iterdir()) == []


SETTINGS: dict[str, Any] = {
    "an end that is no number": {"eos_token_id": "x"},
    "an end below 0": {"eos_token_id": -1},
    "an end that is a truth": {"eos_token_id": True},
    "ends in lists": {"eos_token_id": [1, [2]]},
    "stops that are numbers": {"stop_strings": [5]},
    "an empty stop": {"stop_strings": [""]},
    "a penalty that is no number": {"repetition_penalty": "a"},
    "suppressed words": {"suppress_tokens": ["x"]},
    "a combination that cannot be saved": {"temperature": 0.5},
    "a way of other code": {"dola_layers": "high"},
    "what is no JSON": "{",
}


@some_fast(
    "case",
    list(SETTINGS),
    [
        "an end that is no number",
        "stops that are numbers",
        "a combination that cannot be saved",
        "a way of other code",
        "what is no JSON",
    ],
)
def test_settings_of_generation_are_checked_before_training(tmp_path: Path, case: str) -> None:
    entries = SETTINGS[case]
    pytest.importorskip("trl")
    file = shutil.copytree(sample.DECODER, tmp_path / "model") / "generation_config.json"
    own = json.loads(file.read_text())
    file.write_text(entries if isinstance(entries, str) else json.dumps(own | entries))
    rows = [{"prompt": f"the day {row}", "response": "was good"} for row in range(20)]
    with pytest.raises(RunError, match=r"generation_config\.json"):
        gg.train(tmp_path / "model", rows, steps=1, batch_size=4, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "history.jsonl").exists()


def test_stops_of_a_model_are_used(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    file = shutil.copytree(sample.DECODER, tmp_path / "model") / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"stop_strings": ["e"]}))
    rows = [{"prompt": f"the day {row}", "response": "was good"} for row in range(20)]
    asked: dict[str, Any] = {"metric": "exact_match", "max_new_tokens": 3, "steps": 1, "batch_size": 4}
    run = gg.train(tmp_path / "model", rows, **asked, kind="generation", out=tmp_path / "run", quiet=True)
    assert run.best.metric == "exact_match"
