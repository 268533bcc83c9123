"""Data sets of the hub: classes, placeholders and what goes wrong, with the download itself stood in for."""

from __future__ import annotations

from typing import Any

import datasets
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from gradgate.errors import DataError
from gradgate.tasks import TaskSpec, find_task, load_task

CLASSES = Features({"sentence": Value("string"), "label": ClassLabel(names=["unacceptable", "acceptable"])})


def rows(*labels: int) -> Dataset:
    return Dataset.from_dict({"sentence": ["a"] * len(labels), "label": list(labels)}, features=CLASSES)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Split -> what the hub returns for it, or raises; also records what was asked for."""
    content: dict[str, Any] = {"train": rows(0, 1, 1), "validation": rows(1, 0), "test": rows(-1, -1)}

    def load_dataset(path: str, name: str | None, *, split: str, revision: str | None) -> Dataset:
        content["asked"] = (path, name, revision)
        if isinstance(content[split], Exception):
            raise content[split]
        return content[split]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return content


def test_classes_are_named_and_placeholders_are_no_labels(hub: dict[str, Any]) -> None:
    data = load_task(find_task("cola"))
    assert hub["asked"] == ("nyu-mll/glue", "cola", None)
    assert data.labels == ("unacceptable", "acceptable")
    assert data.train["label"][:] == [0, 1, 1]
    assert data.tests == {}
    assert data.notes[0] == "test is unlabelled and not scored (nyu-mll/glue cola test)"


def test_without_a_label_map_classes_are_sorted_by_name(hub: dict[str, Any]) -> None:
    hub["test"] = rows(1)
    spec = TaskSpec.model_validate({"name": "x", "text": "sentence", "hub": {"path": "a/b", "revision": "main"}})
    data = load_task(spec)
    assert hub["asked"] == ("a/b", None, "main")
    assert data.labels == ("acceptable", "unacceptable")
    assert data.tests["test"]["label"][:] == [0]


def test_messages_of_the_hub_are_conversations(hub: dict[str, Any]) -> None:
    turns = [{"role": "user", "content": "the day"}, {"role": "assistant", "content": "was good"}]
    hub.update(dict.fromkeys(("train", "validation", "test"), Dataset.from_dict({"messages": [turns]})))
    data = load_task(TaskSpec.model_validate({"name": "x", "kind": "generation", "hub": {"path": "a/b"}}))
    assert data.tests["test"][0]["contents"] == ["the day", "was good"]
    hub["train"] = Dataset.from_dict({"messages": [turns, turns[:1]]})
    with pytest.raises(DataError, match="a/b train, row 2 has no response"):
        load_task(data.spec)


@pytest.mark.parametrize(
    ("split", "content", "message"),
    [
        ("train", rows(), r"nyu-mll/glue has no rows in its split 'train'"),
        ("validation", ValueError("Unknown split"), r"nyu-mll/glue cola cannot be read from the hub: Unknown split"),
        ("train", ConnectionError("no route"), r"HF_HUB_OFFLINE is set.*data=DIR \(ConnectionError: no route\)"),
        ("validation", rows(0, -1), r"nyu-mll/glue cola validation, row 2: '-1' is not in label_map"),
    ],
)
def test_what_the_hub_cannot_give_is_named(hub: dict[str, Any], split: str, content: object, message: str) -> None:
    hub[split] = content
    with pytest.raises(DataError, match=message):
        load_task(find_task("cola"))


def test_a_hub_task_needs_a_dev_split() -> None:
    spec = TaskSpec.model_validate({"name": "x", "hub": {"path": "a/b", "splits": {"train": "train"}}})
    with pytest.raises(DataError, match=r"The task x has no dev split \(it has train\)"):
        load_task(spec)
