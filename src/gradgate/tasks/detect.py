"""Folders and files without a task.yaml: whose data they are, or what their names, columns and labels tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.catalog import Entry, at_folder, entries, plain
from gradgate.tasks.readers.files import ENDINGS, peek, read_table
from gradgate.tasks.readers.rows import Table, as_text, renamed
from gradgate.tasks.spec import TaskSpec, build_spec
from gradgate.tasks.types import TRAIN_AND_DEV, FileFormat

TRAIN_STEMS = ("train", "training")
DEV_STEMS = ("dev", "val", "valid", "validation", "dev_matched", "validation_matched")
PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question1", "question2"),
    ("text_a", "text_b"),
    ("text1", "text2"),
    ("text", "text_pair"),
)
SINGLES = ("text", "sentence", "review", "content")
LABELS = ("label", "gold_label", "class", "category", "target", "sentiment", "score")
MOST_CLASSES = 100
"""More whole-number labels than this may be classes or scores: then the user must say."""


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
    """A task whose train file this is; the other splits' files must be given."""
    return _describe(file.stem, file.parent, {"train": file.name, **given.files()}, given)


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
    text = _text(train, given)
    label = given.label or _one_of(train, LABELS, "label", "--label")
    kind = given.kind or _kind(train, label)
    values: dict[str, Any] = {
        "name": "".join(character if character.isalnum() or character in "._-" else "_" for character in name),
        "kind": kind,
        "text": text,
        "label": label,
        "files": files,
        "folder": folder,
    }
    return build_spec(values, str(folder))


def _text(table: Table, given: Given) -> str | tuple[str, str]:
    if given.text:
        return (given.text, given.text_pair) if given.text_pair else given.text
    there = {column.lower(): column for column in table.columns}
    pairs = [pair for pair in PAIRS if set(pair) <= set(there)]
    if len(pairs) == 1 and not (set(SINGLES) & set(there)) - set(pairs[0]):
        return there[pairs[0][0]], there[pairs[0][1]]
    if pairs:
        raise DataError(
            _ambiguous(table, "text", [column for pair in pairs for column in pair], "--text and --text-pair")
        )
    return _one_of(table, SINGLES, "text", "--text (and --text-pair)")


def _one_of(table: Table, names: tuple[str, ...], what: str, flag: str) -> str:
    there = {column.lower(): column for column in table.columns}
    found = [there[name] for name in names if name in there]
    if len(found) != 1:
        raise DataError(_ambiguous(table, what, found, flag))
    return found[0]


def _ambiguous(table: Table, what: str, found: list[str], flag: str) -> str:
    which = f"several could be the {what} ({', '.join(found)})" if found else f"none is known to be the {what}"
    columns = ", ".join(repr(column if len(column) <= 40 else column[:37] + "...") for column in table.columns)
    return (
        f"{table.source} has the columns {columns}: {which}. Name it with {flag}; if the file has no header, describe "
        "it in a task.yaml with `format: {header: false, columns: [...]}`"
    )


def _kind(table: Table, label: str) -> str:
    """``classification`` for words and a few whole numbers, ``regression`` for numbers with decimals; else an error."""
    labels = {as_text(cell) for cell in table.column(label, "--label")}
    if not all(_is_number(word) for word in labels):
        return "classification"
    if all(word.lstrip("+-").isdecimal() for word in labels):
        if len(labels) <= MOST_CLASSES:
            return "classification"
    elif all(not word.lstrip("+-").isdecimal() for word in labels) and any(float(word) % 1 for word in labels):
        return "regression"
    shown = ", ".join(sorted(labels)[:5])
    raise DataError(
        f"The {len(labels)} values of {label!r} in {table.source} ({shown}, ...) could be classes or scores; give "
        "--kind classification or --kind regression"
    )


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
