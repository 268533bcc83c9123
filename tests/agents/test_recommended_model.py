"""An agent asks for a recommendation, which trains; its model is exported and scored without gradgate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gradgate as gg
from gradgate.sample import TASKS
from support.agent_client import ask

pytestmark = pytest.mark.slow
MINUTES = 6
# Standing alone, so that no import of gradgate can help.
SCORED = """
import json, sys
sys.modules["gradgate"] = None
import torch
names = {}
exec(open(sys.argv[1]).read(), names)
model, tokenizer = names["model"].eval(), names["tokenizer"]
rows, right = [json.loads(line) for line in open(sys.argv[2])], 0
with torch.no_grad():
    for row in rows:
        logits = model(**tokenizer(row["text"], truncation=True, max_length=32, return_tensors="pt")).logits
        right += model.config.id2label[int(logits.argmax())] == row["label"]
print(json.dumps(right / len(rows)))
"""


def test_an_agent_gets_a_trained_model_that_loads_without_gradgate(tmp_path: Path) -> None:
    small = {"max_length": 32, "batch_size": 8, "train_size": 64, "steps": 16, "seeds": 3}
    asked = {"minutes": MINUTES, "out": "studies/x", "settings": small}
    session = ask([("recommend", asked)], tmp_path, "--allow-training")
    (reply,) = session.replies
    assert not reply.failed, reply.text
    assert "Train it again with: gradgate train" in reply.text
    study = gg.Study(tmp_path / "studies/x")
    assert study.best == reply.record["recommended"]["arm"]

    words = ["export", "studies/x", "-o", "exported", "--json"]
    made = json.loads(output_of(["-m", "gradgate", *words], tmp_path))
    if made["as"] == "adapterhub":
        pytest.skip(
            f"{study.best} is a bottleneck adapter, which AdapterHub's library loads, and transformers does not"
        )
    (tmp_path / "load.py").write_text(made["python"])
    accuracy = output_of(["-c", SCORED, "load.py", str(TASKS["sample"] / "test.en.jsonl")], tmp_path)
    assert float(accuracy) == gg.Run(tmp_path / made["run"]).scores["tests"]["test.en"]["accuracy"]


def output_of(words: list[str], folder: Path) -> str:
    ran = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
