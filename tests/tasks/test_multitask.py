"""Which tasks are trained together: names, YAML files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gradgate.errors import DataError, UsageError
from gradgate.settings.run import make_config
from gradgate.tasks.multitask import TaskMixing, find_multitask, is_multitask
from gradgate.training.prepared_task import prepare_task
from support.tiny_folders import save_pairs, save_scores


@pytest.fixture
def glue(tmp_path: Path) -> Path:
    for name in ("CoLA", "SST-2", "SST-2-sentences", "STS-B"):
        (tmp_path / "glue" / name).mkdir(parents=True)
    return tmp_path / "glue"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A YAML file beside the folders of two tasks of 40 training rows."""
    for name, save in (("pairs", save_pairs), ("scores", save_scores)):
        (tmp_path / name).mkdir()
        save(tmp_path / name)
    return written(tmp_path, tasks=["pairs", "scores"])


def written(folder: Path, **values: Any) -> Path:
    (folder / "mt.yaml").write_text(yaml.safe_dump({"kind": "multitask", **values}))
    return folder / "mt.yaml"


def test_names_find_their_folders_by_the_catalogue(glue: Path) -> None:
    found = find_multitask("cola+sst2+stsb", data=glue)
    assert [(spec.name, spec.folder) for spec in found.tasks] == [
        ("cola", glue / "CoLA"),
        ("sst2", glue / "SST-2"),
        ("stsb", glue / "STS-B"),
    ]
    assert (found.name, found.mix) == ("cola+sst2+stsb", TaskMixing())


def test_names_without_a_folder_are_read_from_the_hub() -> None:
    assert [spec.folder for spec in find_multitask("cola+rte").tasks] == [None, None]


def test_a_yaml_file_describes_each_task_as_the_command_line_does(glue: Path) -> None:
    entries = [{"task": "cola", "data": "CoLA", "metric": "accuracy"}, {"task": "stsb", "data": "STS-B", "name": "sim"}]
    found = find_multitask(str(written(glue, name="mt-two", mix="temperature:2", tasks=entries)))
    assert [(spec.name, spec.metric, spec.folder) for spec in found.tasks] == [
        ("cola", "accuracy", glue / "CoLA"),
        ("sim", "pearson", glue / "STS-B"),
    ]
    assert (found.name, found.mix) == ("mt-two", TaskMixing(2.0))


def test_data_stands_for_the_folder_of_a_yaml_file_and_mix_for_its_mix(glue: Path, tmp_path: Path) -> None:
    entries = [{"task": "cola", "data": "CoLA"}, {"task": "stsb", "data": "STS-B"}]
    found = find_multitask(str(written(tmp_path, tasks=entries)), data=glue, mix="temperature:3")
    assert ([spec.folder for spec in found.tasks], found.mix) == ([glue / "CoLA", glue / "STS-B"], TaskMixing(3.0))


def test_only_joined_names_and_files_of_their_kind_are_several_tasks(two: Path, tmp_path: Path) -> None:
    (tmp_path / "a+b").mkdir()
    (tmp_path / "one.yaml").write_text("kind: classification\n")
    (tmp_path / "broken.yaml").write_text("kind: [\n")
    assert is_multitask(str(two))
    assert is_multitask("cola+sst2")
    assert not any(map(is_multitask, ("cola", *(str(tmp_path / name) for name in ("a+b", "one.yaml", "broken.yaml")))))


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("cola+cola", r"names the task cola more than once\. Leave one out, or give each a `name`"),
        ("cola+", r"expected names with one \+ between each two"),
        ("cola+colla", r"Unknown task 'colla'\. Did you mean .*cola"),
    ],
)
def test_names_that_make_no_mixture_are_refused(task: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_multitask(task)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"tasks": ["cola"]}, UsageError, r"names 1 task; expected two or more\. To train one task, pass its name"),
        ({}, DataError, r"mt\.yaml is not a valid list of tasks: tasks is missing"),
        (
            {"tasks": [{"task": "cola", "labl": "x"}, "rte"]},
            DataError,
            r"tasks\.0\.labl: unknown entry.* one of task, .* 'label'",
        ),
        ({"tasks": ["cola", "rte"], "mix": "sise"}, UsageError, r"mix='sise': expected size"),
        ({"tasks": ["cola", {"task": "stsb", "metric": "mse"}]}, UsageError, r"stsb \(mse\): .* Give the task another"),
        (
            {"tasks": [{"task": "cola", "name": "v1.0"}, {"task": "rte", "name": "v1_0"}]},
            UsageError,
            r"v1\.0 and v1_0, which differ only in '\.' and '_'",
        ),
        ({"tasks": ["cola", {"task": "rte", "data": "absent"}]}, DataError, r"absent is not a folder"),
    ],
)
def test_a_faulty_yaml_file_is_refused(
    values: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        find_multitask(str(written(tmp_path, **values)))


def test_a_task_whose_folder_is_not_there_is_named(glue: Path) -> None:
    with pytest.raises(DataError, match=r"one folder in .* named like the task rte, found none"):
        find_multitask("cola+rte", data=glue)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": "x", "train_file": Path("x")}, r"label=, train_file=: these describe one task"),
        ({"languages": "de"}, r"languages=: these describe one task"),
        ({"adapter": "houlsby:size=8"}, r"adapter=: adapters are trained on one task"),
        ({"fsdp": True}, r"trained in one process\. Leave out fsdp= and torchrun"),
    ],
)
def test_settings_that_several_tasks_cannot_have_are_refused(settings: dict[str, Any], message: str, two: Path) -> None:
    with pytest.raises(UsageError, match=message):
        prepare_task(make_config(task=str(two), **settings))


def test_a_training_size_that_one_task_does_not_have_is_refused_with_its_name(two: Path) -> None:
    config = make_config(task=str(two), train_size=41)
    with pytest.raises(UsageError, match=r"^pairs: train_size=41 is not possible: the train split has 40 rows"):
        prepare_task(config).check_size(config)


def test_one_task_has_nothing_to_mix() -> None:
    with pytest.raises(UsageError, match=r"mix='size' says how several tasks are mixed, but task='sample' is one"):
        prepare_task(make_config(mix="size"))
