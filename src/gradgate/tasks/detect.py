"""Folders and files without a task.yaml: whose data they are, or what their names, columns and labels tell."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.catalog import Entry, at_folder, entries, plain
from gradgate.tasks.columns import find_kind, find_label, find_text
from gradgate.tasks.readers.files import ENDINGS, peek, read_table
from gradgate.tasks.readers.rows import Table, as_text, renamed
from gradgate.tasks.readers.turns import MESSAGES
from gradgate.tasks.spec import TaskSpec, build_spec, plain_name
from gradgate.tasks.types import DEFAULT_SHARES, KIND_INFO, TRAIN_AND_DEV, FileFormat, Shares

TRAIN_STEMS = ("train", "training")
_GENERATION = KIND_INFO["generation"]
DEV_STEMS = ("dev", "val", "valid", "validation", "dev_matched", "validation_matched")


@dataclass(frozen=True)
class Given:
    """What the user gave besides the task's name; files are absolute paths."""

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    kind: str | None = None
    metric: str | None = None
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    split: Shares | None = None

    @property
    def text_columns(self) -> str | tuple[str, str] | None:
        """The column of the text, or the two of a pair."""
        return (self.text, self.text_pair) if self.text and self.text_pair else self.text

    def files(self) -> dict[str, str]:
        """Split -> path, of those given."""
        files = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file is not None}


def recognise_folder(folder: Path, given: Given) -> TaskSpec:
    """The catalogue's task whose data the folder holds, or one described by what its files tell.

    Raises:
        DataError: no train file, two files for one split, or columns that can be taken in more than one way.
    """
    named = [entry for entry in entries().values() if plain(folder.name) in entry.folder_names]
    for entry in (*named, *(entry for entry in entries().values() if entry.header)):
        spec = at_folder(entry.spec, folder)
        if _agrees(spec, folder, entry, by_name=entry in named):
            return spec
    files = {**_splits(folder), **given.files()}
    if "train" not in files:
        names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise DataError(
            f"{folder} has no train file: it holds {names}. Expected train.jsonl, train.tsv, train.csv or train.txt, "
            "a task.yaml that names the files, or --train-file and --dev-file"
        )
    return _describe(folder.name, folder, files, given)


def recognise_file(file: Path, given: Given) -> TaskSpec:
    """A task with this train file; dev and test are taken from its rows unless dev has a file of its own."""
    files = {"train": file.name, **given.files()}
    spec = _describe(file.stem, file.parent, files, given)
    return spec if "dev" in files else spec.model_copy(update={"split": DEFAULT_SHARES})


def _agrees(spec: TaskSpec, folder: Path, entry: Entry, *, by_name: bool) -> bool:
    """Whether the first rows are in the form of the catalogue's task: of train and dev, else of the first file."""
    paths = {split: folder / file for split, file in (spec.files or {}).items() if (folder / file).is_file()}
    looked_at = [split for split in TRAIN_AND_DEV if split in paths] or list(paths)[:1]
    if not by_name:
        looked_at = [split for split in looked_at if split in TRAIN_AND_DEV]
    tables = []
    try:
        for split in looked_at:
            fmt = spec.format_of(split)
            tables.append(renamed(peek(paths[split], fmt), fmt.rename))
    except DataError:
        return False
    if not tables:
        return False
    if not by_name:
        return all(tuple(table.columns) == entry.header for table in tables)
    return all(_has_columns(table, spec) for table in tables)


def _has_columns(table: Table, spec: TaskSpec) -> bool:
    if not len(table) or not {*spec.text_columns, spec.label_column} <= set(table.columns):
        return False
    label = as_text(table.columns[spec.label_column][0])
    return spec.label_map is None or label in {*spec.label_map, *spec.label_map.values()}


def _splits(folder: Path) -> dict[str, str]:
    """Split -> file name, by the files' stems; ``test_mismatched.tsv`` is the test split ``test_mismatched``."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        stem = path.stem.lower().replace("-", "_")
        if path.is_symlink() and not path.exists():
            raise DataError(f"{path} is a link to {path.readlink()}, which is not there. Mend or remove the link")
        if not path.is_file() or path.suffix.lower() not in (*ENDINGS, ".txt"):
            continue
        if stem in TRAIN_STEMS:
            found.setdefault("train", []).append(path.name)
        elif stem in DEV_STEMS:
            found.setdefault("dev", []).append(path.name)
        elif stem == "test" or stem.startswith("test_"):
            found.setdefault(stem, []).append(path.name)
    for split, names in found.items():
        if len(names) > 1:
            raise DataError(
                f"{folder} has {len(names)} files for {split}: {', '.join(names)}. Keep one, name one with "
                "--train-file, --dev-file or --test-file, or list the files in a task.yaml"
            )
    order = sorted(found, key=lambda split: (split != "train", split != "dev", split))
    return {split: found[split][0] for split in order}


def _describe(name: str, folder: Path, files: dict[str, str], given: Given) -> TaskSpec:
    train = read_table(folder / files["train"], FileFormat())
    named = given.text is not None or given.label is not None
    if given.kind == _GENERATION.name or (given.kind is None and not named and holds_responses(train)):
        columns = {"text": given.text_columns or _GENERATION.text, "label": given.label or _GENERATION.label}
        described = {"name": plain_name(name), "kind": _GENERATION.name, "files": files, "folder": folder}
        return build_spec({**described, **columns}, str(folder))
    text = find_text(train, given.text, given.text_pair, given.label)
    label = given.label or find_label(train, text)
    values: dict[str, Any] = {
        "name": plain_name(name),
        "kind": given.kind or find_kind(train, label),
        "text": text,
        "label": label,
        "files": files,
        "folder": folder,
    }
    return build_spec(values, str(folder))


def holds_responses(table: Table) -> bool:
    """Whether the columns are those of prompts and responses, or of messages."""
    there = set(table.columns)
    return MESSAGES in there or ("prompt" in there and bool({"response", "completion"} & there))
