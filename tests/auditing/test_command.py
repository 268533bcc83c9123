"""Audit a command: its exit code and its output stay, and the report says what could be seen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import Command

SCRIPT = """
import sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
for _ in range(4):
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    model.zero_grad()
sys.exit({code})
"""


def run_beside_modules(folder: Path, text: str) -> tuple[subprocess.CompletedProcess[str], dict[str, object]]:
    """Audit a script that imports one module of its own folder and one of the current folder."""
    (folder / "code").mkdir()
    (folder / "code" / "beside.py").write_text("WORD = 'done'", encoding="utf-8")
    (folder / "here.py").write_text("MARK = '!'", encoding="utf-8")
    (folder / "code" / "train.py").write_text(
        f"import beside, here\nprint(beside.WORD + here.MARK)\n{text}", encoding="utf-8"
    )
    words = ["audit", "--json", "--out", "audit.json", "--", sys.executable, "code/train.py"]
    paths = [".", *map(str, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))]
    done = subprocess.run(
        [sys.executable, "-m", "gradgate", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    return done, json.loads((folder / "audit.json").read_text(encoding="utf-8"))


def audit_script(command: Command, tmp_path: Path, text: str, *flags: str) -> tuple[int, dict[str, object]]:
    file, out = tmp_path / "train.py", tmp_path / "audit.json"
    file.write_text(text, encoding="utf-8")
    done = command("audit", "--json", "--out", str(out), *flags, "--", sys.executable, str(file))
    return done.code, json.loads(out.read_text(encoding="utf-8"))


def test_a_script_keeps_its_exit_code_output_and_modules_and_its_fault_is_found(tmp_path: Path) -> None:
    done, report = run_beside_modules(tmp_path, SCRIPT.format(code=3))
    assert done.returncode == 3
    assert done.stdout == "done!\n"
    assert list(report) == ["steps", "learned", "findings", "expected"]
    assert report["steps"] == 4
    assert report["learned"] == {"names": ["0.weight", "0.bias"], "elements": 40}
    assert [(each["kind"], each["names"]) for each in report["findings"]] == [  # type: ignore[attr-defined]
        ("not_in_optimizer", ["1.weight", "1.bias"])
    ]
    assert report["expected"] is None


TWO_MODELS = """
import torch
student, teacher = torch.nn.Linear(10, 10), torch.nn.Linear(10, 20)
optimizer = torch.optim.SGD([*student.parameters(), *teacher.parameters()], lr=0.1)
for _ in range(2):
    (student(torch.ones(3, 10)).sum() + teacher(torch.ones(3, 10)).sum()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


HOOKED = """
import torch, gradgate as gg
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import BertConfig, BertForSequenceClassification
sizes = dict(vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
model = BertForSequenceClassification(BertConfig(**sizes))
optimizer = torch.optim.AdamW(model.parameters())
if {tuned}:
    gg.Tuner(model, optimizer, gg.method("full"), total_steps=3, steps_per_epoch=3)
else:
    register_optimizer_step_pre_hook(lambda *_: None)
for _ in range(3):
    model(input_ids=torch.ones(2, 4, dtype=int), labels=torch.tensor([0, 1])).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("tuned", [True, False])
def test_a_script_with_hooks_of_its_own_trains_to_its_end(command: Command, tmp_path: Path, tuned: bool) -> None:
    code, report = audit_script(command, tmp_path, HOOKED.format(tuned=tuned))
    assert (code, report["steps"], report["findings"]) == (0, 3, [])


@pytest.mark.slow
def test_models_with_parameters_of_one_name_are_counted_apart(command: Command, tmp_path: Path) -> None:
    _, report = audit_script(command, tmp_path, TWO_MODELS)
    names = ["student.weight", "student.bias", "teacher.weight", "teacher.bias"]
    assert report["learned"] == {"names": names, "elements": 330}


@pytest.mark.slow
def test_a_script_without_torch_keeps_its_output_and_has_a_report(tmp_path: Path) -> None:
    done, report = run_beside_modules(tmp_path, "")
    assert (done.returncode, done.stdout) == (0, "done!\n")
    assert (report["steps"], report["findings"]) == (0, [])


def test_a_report_that_has_no_place_is_refused_before_the_training(command: Command, tmp_path: Path) -> None:
    script = ["--", sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    said = command("audit", "--out", str(tmp_path), *script)
    assert said.code != 0
    assert f"Cannot write {tmp_path}: Is a directory" in said.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_killed_script_has_the_report_of_its_last_look(command: Command, tmp_path: Path) -> None:
    file, out = tmp_path / "train.py", tmp_path / "audit.txt"
    killed = "import os\n" + SCRIPT.replace("sys.exit({code})", "os.kill(os.getpid(), 9)")
    file.write_text(killed, encoding="utf-8")
    done = command("audit", "--out", str(out), "--expect", "re:0.*", "--", str(file))
    report = out.read_text(encoding="utf-8")
    assert done.code == 128 + 9
    assert "not_in_optimizer: 1.weight, 1.bias" in report
    assert "expectation re:0.*: as expected" in report
    assert "1 of 1 processes ended by a signal or os._exit" in report
    assert "as of step 4" in report


def test_a_selector_that_no_model_has_starts_no_script(command: Command, tmp_path: Path) -> None:
    script = ["--", sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    said = command("audit", "--expect", "layers.top4/@nrom/hed", *script)
    assert said.code == 2
    assert "'hed' is not a valid selector term. Did you mean 'head'" in said.err
    assert list(tmp_path.iterdir()) == []
