"""Faulty data on the command line: the file and line are named, the exit code is 1, and nothing is lost."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gradgate import cli


def append(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text((folder / name).read_text() + text)


def replace(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content)


BLANK = "\t_" * 6 + "\n"
WORDS = f"1\tdogs\t_\tNOUN{BLANK}2\trun\t_\tVERB{BLANK}\n"
ANSWER = {"text": "good", "answer_start": 2}
PARAGRAPH = {"context": "a good day", "qas": [{"id": "7", "question": "what day", "answers": [ANSWER]}]}
CHOICE = '{"premise": "a", "choice1": "b", "choice2": "c", "question": "cause", "label": %d}\r\n'
FILES = 'languages: [en, de]\nfiles: {train: train.TYPE, dev: dev.TYPE, test: "{language}.TYPE"}\n'

# The type of the files, what a task says beside their names, and what each of them holds.
TASKS = {
    "pos": ("conllu", "kind: token-classification\ntext: form\nlabel: upos", WORDS),
    "qa": (
        "json",
        "kind: question-answering\nformat: {type: squad}",
        json.dumps({"data": [{"title": "a", "paragraphs": [PARAGRAPH]}]}),
    ),
    "copa": ("jsonl", "kind: multiple-choice", CHOICE % 0 + CHOICE % 1),
    "nli": ("tsv", "", "text\tlabel\ngood\ty\nbad\tn\n"),
}


@pytest.mark.parametrize(
    ("task", "spoil", "message"),
    [
        ("nli", append("de.tsv", "one cell\n"), "de.tsv:4 has 1 columns, expected 2"),
        ("nli", append("de.tsv", "good\tx\n"), "de.tsv:4: the test.de split has the label 'x'"),
        ("nli", replace("de.tsv", b""), "de.tsv is empty"),
        ("nli", lambda folder: (folder / "de.tsv").unlink(), "has nothing to score in de; it has en"),
        ("pos", append("de.conllu", "1\tdogs\n"), "de.conllu:4 has 2 tab-separated columns"),
        (
            "pos",
            append("de.conllu", f"1\tx\t_\tFOO{BLANK}"),
            "de.conllu:4: the test.de split has the label",
        ),
        ("pos", replace("de.conllu", b"\n\n"), "de.conllu is empty"),
        ("qa", replace("de.json", b'{"data": [\n{]}'), "de.json:2 is not JSON"),
        ("qa", replace("de.json", b'{"data": []}'), "de.json is empty"),
        ("copa", append("de.jsonl", '{"premise": "a"\n'), "de.jsonl:3 is not JSON"),
        ("copa", append("de.jsonl", '{"premise": "a", "label": 2}\n'), "de.jsonl:3"),
    ],
)
def test_a_fault_in_a_file_ends_the_command_before_anything_is_written(
    task: str,
    spoil: Callable[[Path], Any],
    message: str,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ending, description, content = TASKS[task]
    (tmp_path / "task.yaml").write_text(FILES.replace("TYPE", ending) + description)
    for name in ("train", "dev", "en", "de"):
        (tmp_path / f"{name}.{ending}").write_bytes(content.encode())
    out = tmp_path / "run"
    flags = ["--model", str(tiny_model), "--task", str(tmp_path), "--languages", "de", "--device", "cpu"]
    spoil(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gradgate", "train", *flags, "--out", str(out)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    assert message in capsys.readouterr().err
    assert {path.name for path in out.glob("*")} <= {"run.json", "run.lock"}
