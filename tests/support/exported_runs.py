"""Train small runs of every kind, and compare what they give with what their exports give in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from gradgate.evaluation.export.export import ExportedModel, export
from gradgate.evaluation.finished import FinishedRun, load_finished
from gradgate.settings.finished import ExportSettings
from gradgate.tasks.data import load_tests

LOADING = Path(__file__).with_name("plain_loading.py")
ROWS = 8


@dataclass
class Comparison:
    """An export and the same inputs through both models.

    Attributes:
        ours, theirs: name of the output -> values, of the run and of the export.
        said: what the other process says of the model.
    """

    made: ExportedModel
    ours: dict[str, torch.Tensor]
    theirs: dict[str, torch.Tensor] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict)
    generated: list[int] | None = None

    @property
    def difference(self) -> float:
        """The largest difference of any output."""
        return max(float((self.ours[name] - self.theirs[name]).abs().max()) for name in self.ours)


def compare(
    runs: Sequence[tuple[Path, ExportSettings]], folder: Path, python: str = sys.executable
) -> list[Comparison]:
    """Export runs, and load all exports in one process without gradgate."""
    found, jobs = [], []
    for number, (path, settings) in enumerate(runs):
        for made in export([path], folder / f"export-{number}", settings):
            place = folder / f"job-{len(jobs)}"
            run = load_finished(path, of_task=made.task)
            inputs, texts = inputs_of(run)
            save_file(inputs, place.with_suffix(".in"))
            job = {"code": made.code, **texts}
            job |= {"inputs": f"{place}.in", "outputs": f"{place}.out", "said": f"{place}.said"}
            each = Comparison(made, outputs_of(run, inputs))
            if run.task.kind == "generation":
                job["prompt"] = inputs["input_ids"][0][:4].tolist()
                each.generated = generated_by(run, job["prompt"])
            found.append(each)
            jobs.append(job)
    (folder / "jobs.json").write_text(json.dumps(jobs))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, str(LOADING), str(folder / "jobs.json")], env=environment, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for each, job in zip(found, jobs, strict=True):
        each.theirs = load_file(job["outputs"])
        each.said = json.loads(Path(job["said"]).read_text())
    return found


def inputs_of(run: FinishedRun) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The first rows of a test split as a batch for the model, and the texts that the tokenizer reads."""
    data = load_tests(run.find_task(), run.task.labels)
    split, rows = next(iter(data.tests.items()))
    rows = rows.select(range(min(ROWS, len(rows))))
    prepared = run.prepared(data)
    encoded = prepared.encode_splits({split: rows}, run.config, run.tokenizer)
    features = encoded.splits[split].features
    if run.task.kind == "generation":
        longest = min(len(ids) for ids in features["input_ids"][:])
        return {"input_ids": torch.tensor([ids[:longest] for ids in features["input_ids"][:]])}, {}
    fed = [
        {k: v for k, v in row.items() if k in ("input_ids", "attention_mask", "token_type_ids", "labels", "label")}
        for row in features
    ]
    batch = prepared.kind.collator(run.tokenizer)(fed)
    inputs = {name: value.contiguous() for name, value in batch.items() if name in run.tokenizer.model_input_names}
    if run.task.kind not in ("classification", "multi-label", "regression"):
        return inputs, {}
    given = {"truncation": True, "max_length": run.config.max_length}
    texts = {"texts": texts_of(rows), "given": given}
    if run.task.kind == "classification":
        every = data.tests[split]
        labels = [run.model.config.id2label[place] for place in every["label"][:]]
        texts["scored"] = {"texts": texts_of(every), "labels": labels}
    return inputs, texts


def texts_of(rows: Any) -> list[list[str]]:
    return [rows[name][:] for name in ("text", "text_pair") if name in rows.column_names]


def outputs_of(run: FinishedRun, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        found = run.model.eval()(**inputs)
    return {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}


def generated_by(run: FinishedRun, prompt: list[int]) -> list[int]:
    from gradgate.training.generation.decoding import Greedy, new_tokens

    greedy = Greedy(1, new_tokens(run.config.max_new_tokens, run.model.config), run.config.precision)
    return greedy.tokens(run.model, run.tokenizer, [prompt])[0]
