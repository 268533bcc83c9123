"""AdapterHub's own library loads what is written here, and gives the same outputs; and the other way round.

Needs another environment: set GRADGATE_ADAPTERHUB to its Python, with ``pip install adapters``.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from gradgate import adapters
from support.tiny_models import BARE, TINY, VOCABULARY

PYTHON = os.environ.get("GRADGATE_ADAPTERHUB", "")
LIBRARY = Path(__file__).parents[1] / "support" / "adapterhub_library.py"
TOLERANCE = 2e-5

pytestmark = pytest.mark.skipif(not PYTHON, reason="GRADGATE_ADAPTERHUB names no Python that has AdapterHub's library")


@dataclass(frozen=True)
class Case:
    model: str
    kinds: tuple[str, ...]
    model_class: str = "AutoModel"
    mine: str = "AutoModel"

    @property
    def id(self) -> str:
        return f"{self.model}-{'-'.join(self.kinds)}-{self.model_class}"


ENCODERS = ("bert", "roberta", "distilbert", "deberta-v2", "electra")
FREE = "seq_bn:ln_before=true,ln_after=true,mh_adapter=true,scaling=channel,residual_before_ln=false,non_linearity=gelu"
WRITTEN = [
    *[Case(model, (kind,)) for model in (*ENCODERS, "llama") for kind in ("seq_bn_inv:reduction=2", "houlsby:size=5")],
    Case("bert", ("double_seq_bn:reduction=0:8/default:2,leave_out=1",)),
    Case("bert", (FREE,)),
    Case("bert", ("scaled_par_bn",)),
    Case("roberta", ("par_bn:use_gating=true",)),
    Case("bert", ("seq_bn_inv:reduction=2", "seq_bn:reduction=4")),
    Case("llama", ("seq_bn:reduction=2", "seq_bn:reduction=4")),
    *[Case(model, ("seq_bn:reduction=2",), name, name) for model, name in (
        ("bert", "AutoModelForSequenceClassification"),
        ("xlm-roberta", "AutoModelForTokenClassification"),
        ("distilbert", "AutoModelForSequenceClassification"),
        ("electra", "AutoModelForSequenceClassification"),
        ("deberta-v2", "AutoModelForSequenceClassification"),
    )],
    *[Case(model, ("seq_bn:reduction=2",), "AutoAdapterModel", "AutoModelForSequenceClassification")
      for model in ("bert", "roberta", "distilbert", "electra", "deberta-v2")],
]  # fmt: skip
READ = [
    Case(model, (kind,))
    for model in ("llama", "electra", "roberta", "qwen2", "qwen3")
    for kind in ("seq_bn_inv", "par_bn")
]


def saved_base(case: Case, folder: Path) -> Any:
    model = (BARE if case.mine == "AutoModel" else TINY)[case.model]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, std=0.3)
            if "norm" in name.lower() and name.endswith("weight"):
                parameter.add_(1.0)
    model.eval().save_pretrained(folder)
    return getattr(transformers, case.mine).from_pretrained(folder).eval()


def saved_inputs(path: Path) -> dict[str, Tensor]:
    ids = torch.randint(4, VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(0))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    save_file(inputs, path)
    return inputs


def randomize(model: Any) -> None:
    draw = torch.Generator().manual_seed(1)
    for name, parameter in model.named_parameters():
        if "adapters" in name:
            parameter.data.normal_(0.0, 0.2, generator=draw)


def run_library(folder: Path, cases: list[dict[str, Any]]) -> None:
    (folder / "job.json").write_text(json.dumps(cases))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [PYTHON, str(LIBRARY), str(folder / "job.json")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@torch.no_grad()
def test_the_library_loads_what_is_saved_here(tmp_path: Path) -> None:
    jobs, mine = [], {}
    inputs = saved_inputs(tmp_path / "inputs.safetensors")
    for number, case in enumerate(WRITTEN):
        folder = tmp_path / str(number)
        model = saved_base(case, folder / "base")
        names = [f"a{position}" for position in range(len(case.kinds))]
        for name, kind in zip(names, case.kinds, strict=True):
            adapters.add(model, name, kind)
        randomize(model)
        for found in model.modules():  # their format has no place for tuned norms, so these stay the model's own
            if type(found).__name__ == "TunedNorms":
                found.clear()
        for name in names:
            adapters.save(model, name, folder / name)
        adapters.activate(model, *names)
        mine[case.id] = model.eval()(**inputs)[0]
        adapters.activate(model)
        assert (mine[case.id] - model(**inputs)[0]).abs().max() > 0.01
        jobs.append({
            "base": str(folder / "base"), "model_class": case.model_class, "active": names,
            "adapters": [str(folder / name) for name in names], "head": case.mine != "AutoModel",
            "inputs": str(tmp_path / "inputs.safetensors"), "outputs": str(folder / "out.safetensors"),
        })  # fmt: skip
    run_library(tmp_path, jobs)
    theirs = {case.id: load_file(job["outputs"])["output"] for case, job in zip(WRITTEN, jobs, strict=True)}
    differences = {case: float((theirs[case] - out).abs().max()) for case, out in mine.items()}
    assert not {case: value for case, value in differences.items() if not value <= TOLERANCE}


@torch.no_grad()
def test_what_the_library_saves_is_loaded_here(tmp_path: Path) -> None:
    jobs, models = [], {}
    inputs = saved_inputs(tmp_path / "inputs.safetensors")
    for number, case in enumerate(READ):
        folder = tmp_path / str(number)
        models[case.id] = saved_base(case, folder / "base")
        jobs.append({
            "base": str(folder / "base"), "model_class": case.model_class, "active": ["a"], "add": case.kinds[0],
            "save_to": str(folder / "a"), "inputs": str(tmp_path / "inputs.safetensors"),
            "outputs": str(folder / "out.safetensors"),
        })  # fmt: skip
    run_library(tmp_path, jobs)
    for job, (name, model) in zip(jobs, models.items(), strict=True):
        adapters.activate(model, adapters.load(model, job["save_to"]))
        difference = (model(**inputs)[0] - load_file(job["outputs"])["output"]).abs().max()
        assert difference <= TOLERANCE, name
