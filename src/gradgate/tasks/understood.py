"""Say what was understood of a task's data: form, columns, labels, languages, lengths, rows and doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

from gradgate.tasks.data import absent_notes, count_rows, kind_of, reading_notes
from gradgate.tasks.folders import FOUND
from gradgate.tasks.forms import FORMS
from gradgate.tasks.forms.base import LOOKED_AT
from gradgate.tasks.kinds.generation import turns_of
from gradgate.tasks.languages import absent_files
from gradgate.tasks.readers.file_forms import FILE_FORMS
from gradgate.tasks.readers.files import files_of, missing, read_table, type_of
from gradgate.tasks.readers.rows import MISSING, SourceTable
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.splits import division_note
from gradgate.tasks.tables import read_tables
from gradgate.tasks.types import TRAIN, TRAIN_AND_DEV, base_of

if TYPE_CHECKING:
    from datasets import Dataset

_SHOWN_ROWS = 3
_LONG = 400  # words, of which most models read fewer
_COUNTED = 20_000  # rows whose lengths are counted
_WITHOUT_SPACES = ("zh", "ja", "th", "my", "lo", "km")
_MAY_COUNT = ("weight", "weights", "sample_weight", "loss_weight", "is_duplicate_of", "confidence")
_PLAIN = {
    "classification": "a text and its label",
    "multi-label": "a text and its labels",
    "regression": "a text and its score",
}


@dataclass(frozen=True)
class Understood:
    """The reader's interpretation of a task's data.

    Attributes:
        form: what files and rows are, for people.
        columns: column of the file -> its part in the task; ``not used`` for the others.
        rows: split -> language -> rows.
        labels: label -> rows of train, or tokens; empty if outputs are not classes.
        lengths: what is counted -> least, median and most, of rows of train.
        examples: the first rows of train, as the model gets them.
        notes: what was done, and every doubt.
    """

    form: str
    columns: dict[str, str]
    rows: dict[str, dict[str, int]]
    labels: dict[str, int]
    lengths: dict[str, tuple[float, float, float]]
    examples: list[dict[str, Any]]
    notes: list[str]


def understand(spec: TaskSpec) -> Understood:
    """Read and check the data of a task as training does, and say what was understood.

    Without train or dev files, rows are counted and nothing else is checked.

    Raises:
        DataError: whatever training would refuse.
    """
    absent = absent_files(spec)
    parts = [split for split in TRAIN_AND_DEV if split in absent]
    notes = [
        f"{split}: {missing(path)}. 'gradgate train' needs it: add the file, or correct its name in the task"
        for split, path in absent.items()
    ]
    if parts or TRAIN not in spec.places or (spec.folder is None and spec.hub is None):
        rows = count_rows(spec)
        return Understood(_form(spec), {}, rows, dict.fromkeys(_mapped(spec), 0), {}, [], [*absent_notes(spec), *notes])
    has_dev = "dev" in spec.places or spec.split is not None
    tables = read_tables(spec, TRAIN_AND_DEV if has_dev else (TRAIN,))
    kind = kind_of(spec)
    examples = kind.read(spec, tables)
    rows = _rows(spec, tables)
    train = examples.splits[TRAIN]
    division = division_note(spec, {split: len(table) for split, table in examples.splits.items()})
    said = [*([division] if division else []), *absent_notes(spec), *reading_notes(tables), *examples.notes]
    if not has_dev:
        said.append("there is no dev split: 'gradgate train' needs dev_file=, dev_size= or split=")
    columns = _columns(spec, tables[TRAIN])
    said += _doubts(spec, tables[TRAIN], columns, train)
    return Understood(
        _form(spec),
        columns,
        rows,
        _label_counts(train, examples.labels),
        _lengths(spec, train),
        [_example(row, examples.labels) for row in islice(train, _SHOWN_ROWS)],
        list(dict.fromkeys([*said, *notes])),
    )


def _mapped(spec: TaskSpec) -> list[str]:
    return list(dict.fromkeys((spec.label_map or {}).values()))


def _rows(spec: TaskSpec, tables: Mapping[str, SourceTable]) -> dict[str, dict[str, int]]:
    """Return the rows that a run reads, and those of dev in other languages, which it does not."""
    if spec.folder is None or spec.language_column is not None or set(spec.places) <= set(tables):
        counts: dict[str, dict[str, int]] = {}
        for split, table in tables.items():
            counts.setdefault(base_of(split), {})[spec.language_of(split)] = len(table)
        return counts
    return count_rows(spec)


def _form(spec: TaskSpec) -> str:
    """Describe the files and the rows of a task."""
    rows = spec.form or _PLAIN.get(spec.kind, "")
    if spec.kind in _PLAIN and len(spec.text_columns) > 1:
        rows = rows.replace("a text", "two texts").replace("its", "their")
    if spec.folder is None:
        return rows
    split, place = next(iter(spec.places.items()))
    files = files_of(spec.folder / place)
    if not files:
        return rows
    kind = type_of(files[0], spec.format_of(split))
    where = spec.description if spec.description in FOUND else None
    return ", ".join(part for part in (rows, FILE_FORMS[kind].shown, where) if part)


def _columns(spec: TaskSpec, table: SourceTable) -> dict[str, str]:
    """Return the part of each column; those that a form reads have one part together."""
    parts: dict[str, str] = {}
    by_split = dict.fromkeys(spec.format_of(TRAIN).rows, "split")
    if spec.form is not None and spec.folder is not None:
        raw = read_table(spec.folder / spec.places[TRAIN], spec.format_of(TRAIN), LOOKED_AT)
        return dict.fromkeys(raw.columns, "not used") | FORMS[spec.form].parts_of(raw) | by_split
    for place, name in enumerate(spec.text_columns):
        parts[name] = "text" if len(spec.text_columns) == 1 else f"text {place + 1}"
    parts[spec.label_column] = "label"
    if spec.language_column is not None:
        parts[spec.language_column] = "language"
    parts |= by_split
    options = spec.options.model_dump()
    for part in ("query", "question", "choices"):
        named = options.get(part) or ()
        parts |= dict.fromkeys([named] if isinstance(named, str) else named, part)
    roots = {name.partition(".")[0] for name in parts if name not in table.columns or "." in name}
    used = {name: part for name, part in parts.items() if name in table.columns or part == "label"}
    return used | {name: "not used" for name in table.columns if name not in parts and name not in roots}


def _label_counts(train: Dataset, labels: Sequence[str] | None) -> dict[str, int]:
    """Return label -> rows of train, or tokens; empty if outputs are not classes."""
    if labels is None:
        return {}
    cells = train["label"][:]
    counts = Counter(number for cell in cells for number in cell) if isinstance(cells[0], list) else Counter(cells)
    return {label: counts[number] for number, label in enumerate(labels)}


def _lengths(spec: TaskSpec, train: Dataset) -> dict[str, tuple[float, float, float]]:
    """Return the least, the median and the largest length of the texts of train."""
    spaced = spec.source not in _WITHOUT_SPACES
    columns = {
        "text": "text", "text_pair": "text 2", "tokens": "tokens", "question": "question", "context": "context",
        "premise": "premise",
    }  # fmt: skip
    found: dict[str, tuple[float, float, float]] = {}
    for name, shown in columns.items():
        if name in train.column_names:
            cells = train[name][:_COUNTED]
            counts = [len(cell) if not spaced or not isinstance(cell, str) else len(cell.split()) for cell in cells]
            what = shown if name == "tokens" else f"{shown} in {'words' if spaced else 'characters'}"
            found[what] = (min(counts), median(counts), max(counts))
    if "contents" in train.column_names:
        turns = train["contents"][:_COUNTED]
        for shown, words in (
            ("prompt in words", [sum(len(text.split()) for text in texts[:-1]) for texts in turns]),
            ("response in words", [len(texts[-1].split()) for texts in turns]),
        ):
            found[shown] = (min(words), median(words), max(words))
        if max(map(len, turns)) > 2:
            found["turns"] = (min(map(len, turns)), median(map(len, turns)), max(map(len, turns)))
    return found


def _example(row: dict[str, Any], labels: Sequence[str] | None) -> dict[str, Any]:
    """Return a row with the names of its labels."""
    if "contents" in row:
        return {"turns": [turn.message() for turn in turns_of(row)]}
    shown = {name: value for name, value in row.items() if name not in ("id", "starts", "place", "query")}
    value = row.get("label")
    if labels is not None and value is not None:
        shown["label"] = [labels[number] for number in value] if isinstance(value, list) else labels[value]
    return shown


def _doubts(spec: TaskSpec, table: SourceTable, columns: Mapping[str, str], train: Dataset) -> list[str]:
    """Return what looks wrong, or may be meant otherwise."""
    doubts = []
    for name, part in columns.items():
        if part == "not used" and name.lower() in _MAY_COUNT:
            doubts.append(f"the column {name!r} is not used: all rows count equally")
        if part == "not used" and name.startswith("column ") and name in table.columns:
            rows = [row for row, cell in enumerate(table.columns[name]) if cell not in ("", None, MISSING)]
            if rows and len(rows) < len(table):
                doubts.append(
                    f"{name!r} has no name and is not used; {len(rows):,} of {len(table):,} rows have something there, "
                    f"the first at {table.place(rows[0])}"
                )
    if "text" in train.column_names:
        texts = train["text"][:]
        pairs = list(zip(texts, train["text_pair"][:], strict=True)) if "text_pair" in train.column_names else texts
        doubts += _text_doubts(pairs, train["label"][:] if spec.kind == "classification" else None)
        words = sum(isinstance(text, str) and text.strip().lower() in ("nan", "none", "null", "n/a") for text in texts)
        if words:
            doubts.append(f"{words:,} texts are 'nan', 'none' or similar: missing cells?")
        if spec.source not in _WITHOUT_SPACES and median(len(text.split()) for text in texts[:_COUNTED]) > _LONG:
            doubts.append(
                f"half of the texts have more than {_LONG} words: longer inputs than max_length= are truncated"
            )
    return doubts


def _text_doubts(texts: Sequence[Any], labels: Sequence[int] | None) -> list[str]:
    counts = Counter(texts)
    twice = len(texts) - len(counts)
    doubts = [f"{twice:,} of {len(texts):,} rows of train repeat the text of another"] if twice else []
    if labels is not None and twice:
        pairs = Counter(text for text, _ in set(zip(texts, labels, strict=True)))
        different = sum(count > 1 for count in pairs.values())
        doubts += [f"{different:,} texts of train have more than one label"] if different else []
    return doubts
