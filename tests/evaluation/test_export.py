"""What a finished run is exported as loads without gradgate, and gives the same outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from gradgate.settings.export import ExportSettings
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.exported_runs import Comparison, compare
from support.kind_folders import SAVE

ADAPTERHUB = os.environ.get("GRADGATE_ADAPTERHUB", "")
ROUNDING = 2e-6
"""The most that outputs may differ by where an adapter is merged into weights, or float32 sums have another order."""
PEFT = ("lora:r=2", "dora:r=2", "rslora:r=2", "ia3", "shira:r=2", "peft:loha,r=2")
EXACT = [
    *("full", "head", "bfloat16", "delta", "regression", "moods", "scores"),
    *(kind for kind in SAVE if kind != "generation"),
    *PEFT,
    *("generation", "generation-lora"),
]


@pytest.fixture(scope="module")
def runs(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run of each kind by its name."""
    folder = tmp_path_factory.mktemp("runs")
    wanted: dict[str, dict[str, Any]] = {"full": {}, "head": {"method": "head"}, "bfloat16": {"weights": "bfloat16"}}
    wanted["delta"] = {"method": "freeze:layers=1", "store": "delta"}
    wanted |= {text: {"adapter": text, "lr": 1e-2} for text in PEFT}
    wanted |= {"houlsby": {"adapter": "houlsby:size=4"}, "pfeiffer": {"adapter": "pfeiffer:reduction=4"}}
    for kind, save in SAVE.items():
        (folder / f"{kind}-data").mkdir()
        wanted[kind] = {"task": str(save(folder / f"{kind}-data")), "max_length": 64}
    scores = "".join(f"row {number} of many\t{number % 5}.5\n" for number in range(60))
    (folder / "scores.tsv").write_text(f"text\tscore\n{scores}")
    wanted["regression"] = {"task": str(folder / "scores.tsv"), "kind": "regression", "label": "score"}
    (folder / "both.yaml").write_text(
        f"kind: multitask\ntasks:\n  - {{task: '{settings['task']}', name: moods}}\n"
        f"  - {{task: '{folder}/multi-label-data', name: scores}}\n"
    )
    wanted["both"] = {"task": str(folder / "both.yaml")}
    sample = {"model": "sample-decoder", "task": "sample-generation", "train_size": 8, "max_length": 64}
    pytest.importorskip("trl")
    wanted["generation"] = sample | {"max_new_tokens": 8}
    wanted["generation-lora"] = sample | {"adapter": "lora:r=2", "max_new_tokens": 8}
    pytest.importorskip("peft")
    for name, own in wanted.items():
        train(make_config(**settings | {"steps": 2, "dev_size": None} | own), folder / name.replace(":", "-"))
    return {name: folder / name.replace(":", "-") for name in wanted}


@pytest.fixture(scope="module")
def exact(runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Comparison]:
    """Each run in the form that it has by default, or a task of it, compared."""
    names = [name for name in runs if name not in ("houlsby", "pfeiffer")]
    found = compare([(runs[name], ExportSettings()) for name in names], tmp_path_factory.mktemp("exact"))
    paths = {str(path): name for name, path in runs.items()}
    return {each.made.task or paths[str(each.made.run)]: each for each in found}


@pytest.mark.parametrize("name", EXACT)
def test_export_gives_the_bits_of_the_run(name: str, exact: dict[str, Comparison]) -> None:
    each = exact[name]
    assert each.ours.keys() <= each.theirs.keys()
    assert {key: value.dtype for key, value in each.ours.items()} == {k: each.theirs[k].dtype for k in each.ours}
    assert all(torch.equal(value, each.theirs[key]) for key, value in each.ours.items()), each.difference
