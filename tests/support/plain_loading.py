"""Run in a process that cannot import gradgate: load exports by the lines that they show, and compute outputs.

    python plain_loading.py JOBS.json

The jobs are a list: ``code`` defines ``model`` and ``tokenizer``; ``inputs`` (safetensors) go through the model, whose
outputs are written to ``outputs``. With ``texts`` (JSON: texts, and the arguments of the tokenizer) the tokenizer must
give ``input_ids`` of the inputs; with ``prompt`` the model generates, and the new tokens are in
what is written to ``said``. With ``scored`` (JSON: texts, and the name of each row's label) the model classifies all
rows, and the accuracy is in what is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.modules["gradgate"] = None  # type: ignore[assignment]  # imports of it fail

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402


def main(jobs: list[dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    for job in jobs:
        names: dict[str, Any] = {}
        exec(job["code"], names)
        model, tokenizer = names["model"].eval(), names["tokenizer"]
        inputs = load_file(job["inputs"])
        if "texts" in job:
            encoded = tokenizer(*job["texts"], return_tensors="pt", padding=True, **job["given"])
            assert torch.equal(encoded["input_ids"], inputs["input_ids"]), job["inputs"]
        with torch.no_grad():
            found = model(**inputs)
        tensors = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        save_file({name: value.contiguous() for name, value in tensors.items()}, job["outputs"])
        said: dict[str, Any] = {"labels": model.config.id2label, "class": type(model).__name__}
        if "scored" in job:
            said["accuracy"] = accuracy(model, tokenizer, job)
        if "prompt" in job:
            ids = torch.tensor([job["prompt"]])
            texts = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids))
            said["new"] = texts[0, ids.shape[1] :].tolist()
        Path(job["said"]).write_text(json.dumps(said))


def accuracy(model: Any, tokenizer: Any, job: dict[str, Any], batch: int = 32) -> float:
    """Classify rows by the names of the model's own configuration, and return the share that is right."""
    texts, labels = job["scored"]["texts"], job["scored"]["labels"]
    right = 0
    for start in range(0, len(labels), batch):
        rows = [part[start : start + batch] for part in texts]
        with torch.no_grad():
            logits = model(**tokenizer(*rows, return_tensors="pt", padding=True, **job["given"]))["logits"]
        names = [model.config.id2label[place] for place in logits.argmax(-1).tolist()]
        right += sum(name == label for name, label in zip(names, labels[start : start + batch], strict=True))
    return right / len(labels)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:  # noqa: PTH123
        main(json.load(file))
