"""Tasks in several languages: which files become which splits, and what is said of languages that are not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets import Dataset

from gradgate.errors import DataError, UsageError
from gradgate.tasks import TaskSpec, count_rows, find_task, load_task
from gradgate.tasks.held_out import dev_as_test
from gradgate.tasks.languages import in_languages

ROWS = "text\tlabel\na\tx\nb\ty\n"
YAML = """
languages: [en, de, fr, sw]
files: {train: "{language}/train.tsv", dev: "{language}/dev.tsv", test: "test.{language}.tsv"}
formats: {test: {rename: {gold: label}}}
"""


def put(folder: Path, *names: str, yaml: str = YAML) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ROWS.replace("label", "gold") if name.startswith("test.") else ROWS)
    (folder / "task.yaml").write_text(yaml)
    return folder


WHOLE = ("en/train.tsv", "en/dev.tsv", "de/dev.tsv", "test.en.tsv", "test.de.tsv", "test.fr.tsv")


def test_each_language_is_a_test_split_and_train_and_dev_are_of_the_source(tmp_path: Path) -> None:
    data = load_task(find_task(put(tmp_path, *WHOLE)))
    assert list(data.rows) == ["train", "dev", "test.en", "test.de", "test.fr"]
    assert [data.spec.language_of(split) for split in data.rows] == ["en", "en", "en", "de", "fr"]
    assert data.notes == (f"not scored in sw: {tmp_path} has no such files",)


def test_rows_are_counted_by_split_and_language(tmp_path: Path) -> None:
    rows = count_rows(find_task(put(tmp_path, *WHOLE)))
    assert rows == {"train": {"en": 2}, "dev": {"en": 2, "de": 2}, "test": {"en": 2, "de": 2, "fr": 2}}


def test_files_that_are_there_are_counted_without_train(tmp_path: Path) -> None:
    assert count_rows(find_task(put(tmp_path, "test.de.tsv"))) == {"test": {"de": 2}}
    with pytest.raises(DataError, match=r"en/train\.tsv is missing: .*train_file="):
        load_task(find_task(tmp_path))
    (tmp_path / "test.de.tsv").unlink()
    with pytest.raises(DataError, match=r"has no file of the task"):
        count_rows(find_task(tmp_path))


def test_without_a_test_file_dev_in_other_languages_takes_its_place(tmp_path: Path) -> None:
    spec = find_task(put(tmp_path, "en/train.tsv", "en/dev.tsv", "de/dev.tsv", "fr/dev.tsv"))
    assert list(load_task(spec).tests) == ["dev.de", "dev.fr"]
    put(tmp_path, "test.sw.tsv")
    assert list(load_task(find_task(tmp_path)).tests) == ["test.sw"]


def test_a_task_is_scored_in_the_languages_asked_for(tmp_path: Path) -> None:
    spec = find_task(put(tmp_path, *WHOLE), languages=["fr", "de"])
    assert spec.languages == ("fr", "de")
    assert list(load_task(spec).rows) == ["train", "dev", "test.de", "test.fr"]
    assert load_task(spec).notes == ()
    with pytest.raises(DataError, match=r"nothing to score in sw; it has en, de, fr"):
        find_task(tmp_path, languages=["de", "sw"])
    with pytest.raises(UsageError, match=r"has no xx; its languages are en, de, fr, sw"):
        find_task(tmp_path, languages=["de", "xx"])
    with pytest.raises(UsageError, match=r"The task rte is in one language \(en\)"):
        find_task("rte", languages=["de"])


def test_the_source_without_a_test_split_is_scored_by_its_dev_rows(tmp_path: Path) -> None:
    put(tmp_path, "en/train.tsv", "en/dev.tsv", "de/dev.tsv")
    with pytest.raises(
        DataError, match=r"nothing to score in en; it has de\. Its dev split in en, the source, .*dev_size="
    ):
        find_task(str(tmp_path), languages=["en", "de"])
    assert find_task(str(tmp_path), languages=["de"]).languages == ("de",)


def test_a_folder_without_the_files_is_named_before_its_languages(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train\.en\.jsonl is missing; .* holds no files\. Put the file there"):
        find_task("sample", data=tmp_path, languages=["en"])


@pytest.mark.parametrize(
    ("languages", "tested"),
    [
        (["en"], {"test": "en"}),
        (["de", "en"], {"dev.en": "en", "dev.de": "de"}),
        (["de"], {"dev.en": "en", "dev.de": "de"}),
    ],
)
def test_with_held_out_dev_rows_the_source_can_be_named(
    tmp_path: Path, languages: list[str], tested: dict[str, str]
) -> None:
    put(tmp_path, "en/train.tsv", "en/dev.tsv", "de/dev.tsv", "fr/dev.tsv")
    (tmp_path / "en/train.tsv").write_text(ROWS + "c\tx\nd\ty\n")
    spec = in_languages(find_task(str(tmp_path)), languages, dev_is_scored=True)
    data = dev_as_test(load_task(spec, required=("train",)), 2)
    assert {split: data.spec.language_of(split) for split in data.tests} == tested


def test_the_source_language_can_be_another(tmp_path: Path) -> None:
    put(tmp_path, "de/train.tsv", "de/dev.tsv", "test.en.tsv", "test.de.tsv")
    spec = find_task(tmp_path, source="de")
    assert load_task(spec).rows == {"train": 2, "dev": 2, "test.en": 2, "test.de": 2}
    assert (spec.language_of("train"), spec.language_of("test.en")) == ("de", "en")


def test_a_spec_in_languages_survives_json(tmp_path: Path) -> None:
    for spec in (find_task(put(tmp_path, *WHOLE)), find_task("xnli"), find_task("xnli", languages=["de"])):
        assert TaskSpec.model_validate_json(spec.model_dump_json()) == spec


def test_a_test_file_replaces_the_tests_of_all_languages(tmp_path: Path) -> None:
    put(tmp_path, *WHOLE)
    spec = find_task(tmp_path, test_file=tmp_path / "de/dev.tsv")
    assert load_task(spec).rows == {"train": 2, "dev": 2, "test": 2}


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ('files: {train: "{language}/t.tsv"}', r"stands for each of `languages`; add `languages: \[en, de\]`"),
        ("languages: [../x]", r"languages\.0: String should match"),
        ("source: a/b", r"source: String should match"),
        ('languages: [de]\nfiles: {test: "../{language}.tsv"}', r"files\.test: .* is outside the task's folder"),
    ],
)
def test_faults_in_a_description_of_languages_are_named(tmp_path: Path, yaml: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_task(put(tmp_path, yaml=yaml))


def test_a_fault_in_one_language_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    put(tmp_path, *WHOLE)
    (tmp_path / "test.de.tsv").write_text("text\tgold\na\tx\nb\tz\n")
    with pytest.raises(DataError, match=r"test\.de\.tsv:3: the test\.de split has the label 'z'"):
        load_task(find_task(tmp_path))
    (tmp_path / "test.de.tsv").write_bytes("text\tgold\na\tx\nпривет\tx\n".encode("cp1251"))
    with pytest.raises(DataError, match=r"test\.de\.tsv:3 is not UTF-8"):
        load_task(find_task(tmp_path))
    (tmp_path / "test.de.tsv").write_text("")
    with pytest.raises(DataError, match=r"test\.de\.tsv is empty"):
        load_task(find_task(tmp_path))


def test_columns_are_renamed(tmp_path: Path) -> None:
    for name in ("t.tsv", "u.tsv"):
        (tmp_path / name).write_text("q\tpage\tlabel\na\tb\tx\na\tc\ty\n")
    yaml = "files: {train: t.tsv, dev: u.tsv}\ntext: [query, page]\n"
    (tmp_path / "task.yaml").write_text(f"{yaml}format: {{rename: {{q: query}}}}\n")
    rows = load_task(find_task(tmp_path)).train
    assert rows["text"][:] == ["a", "a"]
    assert rows["text_pair"][:] == ["b", "c"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the hub is asked for."""
    asked: list[Any] = []

    def load_dataset(path: str, name: str | None, *, split: str, revision: str | None) -> Dataset:
        asked.append((path, name, split))
        return Dataset.from_dict({"text": ["a", "b"], "label": ["x", "y"]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


@pytest.mark.parametrize(
    ("hub", "expected"),
    [
        ({"name": "c.{language}"}, [("c.en", "train"), ("c.en", "validation"), ("c.en", "test"), ("c.de", "test")]),
        (
            {"name": {"en": "ewt", "de": "gsd"}},
            [("ewt", "train"), ("ewt", "validation"), ("ewt", "test"), ("gsd", "test")],
        ),
        (
            {"splits": {"train": "train", "dev": "dev.{language}", "test": "test.{language}"}},
            [(None, "train"), (None, "dev.en"), (None, "test.en"), (None, "test.de")],
        ),
        (
            {"name": "{language}", "splits": {"train": "train", "dev": "validation"}},
            [("en", "train"), ("en", "validation"), ("de", "validation")],
        ),
        (
            {"name": "{language}", "splits": {"test": "test"}, "training": {"path": "c/d"}},
            [(None, "train"), (None, "validation"), ("en", "test"), ("de", "test")],
        ),
    ],
)
def test_the_hub_is_asked_for_each_language(
    tmp_path: Path, asked: list[Any], hub: dict[str, Any], expected: list[Any]
) -> None:
    import yaml

    described = {"languages": ["en", "de"], "hub": {"path": "a/b", **hub}}
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(described))
    load_task(find_task(tmp_path))
    assert [call[1:] for call in asked] == expected
    assert {call[0] for call in asked} == ({"a/b", "c/d"} if "training" in hub else {"a/b"})
