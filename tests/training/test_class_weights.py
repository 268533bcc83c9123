"""The loss of each class is weighted by how rare it is in train."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch.nn import functional

from gradgate.errors import UsageError
from gradgate.settings.identity import fingerprint_of
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks import TaskData, find_task, load_task
from gradgate.training.class_weights import ClassWeights
from gradgate.training.prepared_task import prepare_task
from gradgate.training.run import train
from support.heard import Heard
from support.kind_folders import save_choices, save_tags
from support.run_folders import history
from support.tiny_folders import save_scores


@pytest.fixture(scope="module")
def unequal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight rows of ham to one of spam."""
    file = tmp_path_factory.mktemp("mails") / "mails.csv"
    cells = [("ham", "the day was good") if row % 9 else ("spam", "a very bad film") for row in range(90)]
    file.write_text("text,label\n" + "".join(f"{text} {row},{label}\n" for row, (label, text) in enumerate(cells)))
    return file


def balanced(file: Path, **options: Any) -> tuple[ClassWeights, TaskData]:
    data = load_task(find_task(file, **options))
    return ClassWeights.balanced(data, data.train), data


def test_weights_are_those_of_scikit_learn(unequal: Path) -> None:
    found, data = balanced(unequal)
    gold = np.array(data.train["label"][:])
    assert found.present.tolist() == compute_class_weight("balanced", classes=np.array([0, 1]), y=gold).tolist()
    assert found.record == dict(zip(("ham", "spam"), found.present, strict=True))


def test_the_loss_weights_each_row(unequal: Path) -> None:
    found, _ = balanced(unequal)
    logits, labels = torch.randn(6, 2, generator=torch.manual_seed(0)), torch.tensor([0, 0, 1, 0, 1, 1])
    single = functional.cross_entropy(logits, labels, reduction="none")
    expected = (single * torch.tensor(found.present, dtype=torch.float32)[labels]).mean()
    assert found.loss(logits, labels).item() == pytest.approx(expected.item(), rel=1e-6)
    halves = [found.loss(logits[part], labels[part]) for part in (slice(3), slice(3, 6))]
    assert found.loss(logits, labels).item() == pytest.approx(sum(half.item() for half in halves) / 2, rel=1e-6)


def test_tags_and_ignored_tokens(tmp_path: Path) -> None:
    found, data = balanced(save_tags(tmp_path))
    tags = np.concatenate([np.array(own) for own in data.train["label"][:]])
    there = np.unique(tags)
    assert found.present[there].tolist() == compute_class_weight("balanced", classes=there, y=tags).tolist()
    logits = torch.randn(1, 3, len(found.labels), generator=torch.manual_seed(0))
    alone = found.loss(logits[:, :2], torch.tensor([[0, 1]]))
    assert torch.equal(found.loss(logits, torch.tensor([[0, 1, -100]])), alone)


def test_each_of_several_labels_is_balanced(tmp_path: Path) -> None:
    rows = [{"text": f"a text {row}", "labels": ["a"] if row % 4 else ["a", "b"]} for row in range(40)]
    rows += [{"text": f"no text {row}", "labels": []} for row in range(8)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found, data = balanced(tmp_path / "t.jsonl")
    marks = np.array([[n in own for n in range(2)] for own in data.train["label"][:]])
    for place, label in enumerate(("a", "b")):
        absent, present = compute_class_weight("balanced", classes=np.array([False, True]), y=marks[:, place])
        assert found.record[label] == {"absent": absent, "present": present}
    logits, labels = torch.randn(2, 2, generator=torch.manual_seed(0)), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    each = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    weight = np.where(labels.numpy() > 0, found.present, found.absent)
    assert found.loss(logits, labels).item() == pytest.approx(float((each.numpy() * weight).mean()), rel=1e-6)


@pytest.fixture(scope="module")
def config(settings: dict[str, Any], unequal: Path) -> RunConfig:
    changes = {"task": str(unequal), "steps": 6, "dropout": 0.0, "batch_size": 8, "metric": "macro_f1"}
    return make_config(**settings | changes, class_weights="balanced")


def test_a_run_records_its_weights(config: RunConfig, unequal: Path, tmp_path: Path) -> None:
    heard = Heard()
    scores = train(config, tmp_path / "run", heard)
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["class_weights"] == balanced(unequal)[0].record
    assert record["config"]["class_weights"] == "balanced"
    assert record["task"]["train_counts"] == {"ham": 64, "spam": 8}
    assert "the loss is weighted by class: ham 0.562, spam 4.5" in heard.notes
    assert scores["metric"] == "macro_f1"
    train(config.model_copy(update={"class_weights": None}), tmp_path / "plain")
    first, unweighted = (history(tmp_path / name, "train")[0]["loss"] for name in ("run", "plain"))
    assert first != unweighted
    assert "class_weights" not in json.loads((tmp_path / "plain/run.json").read_text())


def test_accumulated_batches_are_one_batch(config: RunConfig, tmp_path: Path) -> None:
    short = config.model_copy(update={"steps": 2})
    train(short, tmp_path / "whole")
    train(short.model_copy(update={"batch_size": 2, "accumulate": 4}), tmp_path / "parts")
    whole, parts = (history(tmp_path / name, "train")[0] for name in ("whole", "parts"))
    assert whole["loss"] == pytest.approx(parts["loss"], rel=1e-5)
    assert whole["grad_norm"] == pytest.approx(parts["grad_norm"], rel=1e-5)


@pytest.mark.parametrize("kind", ["regression", "multiple-choice", "generation", "several"])
def test_tasks_without_classes_are_refused(kind: str, tmp_path: Path) -> None:
    task = {
        "regression": lambda: str(save_scores(tmp_path)),
        "multiple-choice": lambda: str(save_choices(tmp_path)),
        "generation": lambda: "sample-generation",
        "several": lambda: "sample+sample-nli",
    }[kind]()
    with pytest.raises(UsageError, match=rf"class_weights='balanced' weights the .* {kind}.*Leave it out"):
        prepare_task(RunConfig(task=task, class_weights="balanced"))


def test_without_weights_runs_are_identified_as_before() -> None:
    record = RunConfig().record()
    del record["class_weights"]
    assert fingerprint_of(record) == RunConfig().fingerprint()
    assert RunConfig(class_weights="balanced").fingerprint() != RunConfig().fingerprint()
