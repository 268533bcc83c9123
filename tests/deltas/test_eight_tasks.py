"""Eight real tasks on one real backbone: what is served is what each run has predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification

from gradgate import deltas
from gradgate.evaluation.finished import load_finished
from gradgate.evaluation.predict import predict
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.bits import assert_same_bits

pytestmark = pytest.mark.slow

TASKS = {  # the folder of each, the split that its runs predict, and the file of that split
    "sst2": ("glue/SST-2", "dev", "dev.tsv"),
    "cola": ("glue/CoLA", "dev", "dev.tsv"),
    "mrpc": ("glue/MRPC", "test", "test.tsv"),
    "rte": ("glue/RTE", "dev", "dev.tsv"),
    "citation_intent": ("tae/citation_intent", "test", "test.txt"),
    "stsb": ("glue/STS-B", "dev", "dev.tsv"),
    "sciie": ("tae/sciie", "test", "test.txt"),
    "wnli": ("glue/WNLI", "dev", "dev.tsv"),
}
TEXT = "We follow the method of Smith et al. to label the data."
COLUMNS = ("sentence", "text", "sentence1", "sentence2", "#1 String", "#2 String")


@pytest.fixture(scope="module")
def backbone(shared: Path) -> Path:
    return shared / "models" / "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def runs(shared: Path, backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Short runs with the lower half of the layers closed."""
    folder = tmp_path_factory.mktemp("runs")
    common: dict[str, Any] = {"method": "freeze:layers=3", "steps": 12, "train_size": 192, "max_length": 48, "seed": 0}
    for task, (data, _, _) in TASKS.items():
        config = make_config(model=str(backbone), task=task, data=shared / "data" / data, batch_size=16, **common)
        train(config, folder / task)
    return {task: folder / task for task in TASKS}


def without_gold(run: Path, split: str) -> list[dict[str, Any]]:
    lines = (run / "predictions" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "gold"} for line in lines]


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_those_of_the_run(task: str, runs: dict[str, Path], shared: Path) -> None:
    data, split, file = TASKS[task]
    assert predict([runs[task]], shared / "data" / data / file).records() == without_gold(runs[task], split)


def test_one_model_in_memory_becomes_each_of_the_eight(runs: dict[str, Path], backbone: Path) -> None:
    bank = deltas.Bank(AutoModelForSequenceClassification.from_pretrained(backbone, dtype=torch.float32))
    before = {name: tensor.clone() for name, tensor in bank.model.state_dict().items()}
    for task, run in runs.items():
        bank.add(task, run / "model" / "delta.safetensors")
    for task in (*runs, *reversed(runs)):
        with bank.using(task) as model:
            assert_same_bits(dict(model.state_dict()), dict(load_finished(runs[task]).model.state_dict()))
    assert_same_bits(dict(bank.model.state_dict()), before)


def test_all_answer_for_one_text_from_one_prefix(runs: dict[str, Path], backbone: Path) -> None:
    row = json.dumps(dict.fromkeys(COLUMNS, TEXT))
    together = predict(list(runs.values()), row).by_run
    assert together == {task: predict([run], row).records() for task, run in runs.items()}

    shared = deltas.SharedPrefix(backbone, [run / "model" / "delta.safetensors" for run in runs.values()])
    assert shared.depth == 3
    held = {p.data_ptr(): p.numel() for model in shared.models for p in model.parameters()}
    one = sum(parameter.numel() for parameter in shared.models[0].parameters())
    assert sum(held.values()) < 0.4 * len(runs) * one


def test_a_delta_holds_the_open_half_and_the_head(runs: dict[str, Path]) -> None:
    for run in runs.values():
        names = load_file(run / "model" / "delta.safetensors")
        assert {name.split(".")[3] for name in names if ".layer." in name} == {"3", "4", "5"}
        assert not any("embeddings" in name for name in names)
