"""Run in a process that cannot import gradgate: load exports by the lines that they show, and compute outputs.

    python plain_loading.py JOBS.json

The jobs are a list: ``code`` defines ``model`` and ``tokenizer``; ``inputs`` (safetensors) go through the model, whose
outputs are written to ``outputs``. With ``texts`` (JSON: texts, and the arguments of the tokenizer) the tokenizer must
give ``input_ids`` of the inputs; with ``prompt`` the model generates, and the new tokens are in
what is written to ``said``.
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
        if "prompt" in job:
            ids = torch.tensor([job["prompt"]])
            texts = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids))
            said["new"] = texts[0, ids.shape[1] :].tolist()
        Path(job["said"]).write_text(json.dumps(said))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:  # noqa: PTH123
        main(json.load(file))
