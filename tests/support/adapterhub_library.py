"""Run by the Python of another environment: AdapterHub's library loads what is there, and writes what it computes.

    python adapterhub_library.py JOB.json

The job is a list of cases: ``base`` (a folder), ``model_class``, ``adapters`` (folders), ``active`` (names), ``inputs``
and ``outputs`` (safetensors). With ``add`` and ``save_to`` it makes an adapter of that kind, with random weights, and
saves it instead of loading one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import transformers
from adapters.composition import Stack
from safetensors.torch import load_file, save_file

import adapters


def build(case: dict[str, Any]) -> Any:
    if case["model_class"] == "AutoAdapterModel":
        return adapters.AutoAdapterModel.from_pretrained(case["base"])
    model = getattr(transformers, case["model_class"]).from_pretrained(case["base"])
    adapters.init(model)
    return model


def main(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        model = build(case)
        for folder in case.get("adapters", []):
            model.load_adapter(folder, use_safetensors=True, with_head=case.get("head", False))
        if "add" in case:
            model.add_adapter(case["active"][0], config=case["add"])
            torch.manual_seed(1)
            for name, parameter in model.named_parameters():
                if "adapters" in name:
                    torch.nn.init.normal_(parameter, std=0.2)
            model.save_adapter(case["save_to"], case["active"][0], with_head=False)
        names = case["active"]
        model.set_active_adapters(Stack(*names) if len(names) > 1 else names[0])
        with torch.no_grad():
            out = model.eval()(**load_file(case["inputs"]))
        save_file({"output": out[0].contiguous()}, case["outputs"])


if __name__ == "__main__":
    with open(sys.argv[1]) as job:  # noqa: PTH123
        main(json.load(job))
