"""Divide rows into train, dev and test if a task has no files for them.

Two rules: shares of the rows of a file (``split: 80/10/10``), and whole articles of a test file (``articles``), for
question answering without a train file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Literal

from gradgate.errors import DataError
from gradgate.tasks.class_counts import OTHER_LABEL, in_numbers, looks_like_ids
from gradgate.tasks.readers.rows import SourceTable, as_text, select_rows
from gradgate.tasks.several_labels import label_sets
from gradgate.tasks.spec import TaskSpec
from gradgate.tasks.spelling import Spelling
from gradgate.tasks.types import TRAIN_AND_DEV, QuestionAnsweringOptions, RankingOptions, base_of

DATA_SEED = 0
"""The seed of the division by shares; the same for all runs, whatever their own seeds are."""
LEAST_ROWS = 10
_LEAST_PART = 2  # rows of dev and of test
_STRATA_OF_SCORES = 10
_STRATIFIED = ("classification", "multi-label", "regression")
_ARTICLE = "article"


def missing_parts(spec: TaskSpec) -> tuple[str, ...]:
    """Return which of dev and test the task has no place for, and takes from train by its ``split``."""
    if spec.split is None:
        return ()
    tests = [split for split in spec.places if base_of(split) not in TRAIN_AND_DEV]
    dev = () if "dev" in spec.places else ("dev",)
    return (*dev, *(("test",) if not tests and spec.split.test else ()))


def divide(spec: TaskSpec, table: SourceTable) -> dict[str, SourceTable]:
    """Divide the rows of the train file into ``train`` and those of ``dev`` and ``test`` that have no file.

    The same rows go to the same split in every run: texts are ordered by a digest of the text and ``DATA_SEED``. Labels
    have equal shares in all splits as far as counts allow (scores: tenths by rank), every label keeps a row in train,
    and rows with the same text (upper and lower case and white space aside) stay together.

    Raises:
        DataError: fewer than 10 rows, or too few different texts.
    """
    assert spec.split is not None
    parts = missing_parts(spec)
    if len(table) < LEAST_ROWS:
        raise DataError(
            f"{table.source} has {len(table)} rows; expected {LEAST_ROWS} or more to take {' and '.join(parts)} from. "
            "Add rows, or pass dev_file= and test_file="
        )
    labels = label_sets(spec, table) if spec.kind == "multi-label" else None
    strata = _strata(spec, table) if labels is None else _rarest(labels)
    if spec.language_column is not None:
        languages = table.column(spec.language_column, "`language_column` of the task")
        strata = [(as_text(language), stratum) for language, stratum in zip(languages, strata, strict=True)]
    groups = _groups(spec, table)
    taken = _draw(groups, strata, {part: getattr(spec.split, part) for part in parts}, len(table))
    alone = {stratum: frozenset({stratum}) for stratum in strata}
    _put_every_label_in_train(groups, labels or [alone[stratum] for stratum in strata], taken)
    rows: dict[str, list[int]] = {split: [] for split in ("train", *parts)}
    for row in range(len(table)):
        rows[taken.get(row, "train")].append(row)
    few = [part for part in parts if len(rows[part]) < _LEAST_PART]
    values = len(set(strata)) if spec.kind == "classification" else 0
    if few and looks_like_ids(values, len(table)):
        raise DataError(
            f"{table.source}: {in_numbers(spec.label_column, values, len(table))} A label with one row cannot be in "
            f"both train and {' or '.join(few)}. {OTHER_LABEL}"
        )
    if few:
        raise DataError(
            f"{table.source} cannot be divided: {' and '.join(few)} would have fewer than {_LEAST_PART} rows, because "
            "rows with the same text and the last row of a label stay in train. Pass dev_file= and test_file="
        )
    return {split: select_rows(table, chosen) for split, chosen in rows.items()}


def division_note(spec: TaskSpec, rows: dict[str, int]) -> str | None:
    """Describe how rows of one file became several splits; None if each split has a file."""
    if is_cut(spec):
        return _cut_note(spec)
    if not missing_parts(spec):
        return None
    place = spec.places["train"].replace("\\", "/")
    file = place if "*" in place else place.rpartition("/")[2]
    dev = f"{rows['dev']:,} dev" + ("" if "dev" in missing_parts(spec) else " from a file of their own")
    counts = [f"{rows['train']:,} rows to train", dev]
    counts += [f"{count:,} {split}" for split, count in rows.items() if split not in TRAIN_AND_DEV]
    how = f"stratified by {spec.label_column}, " if spec.kind in _STRATIFIED else ""
    return f"{file}: {', '.join(counts)} ({how}data seed {DATA_SEED})"


def _groups(spec: TaskSpec, table: SourceTable) -> list[list[int]]:
    """Return rows that must stay together, in the order in which they are drawn."""
    names = spec.text_columns
    if spec.kind == "question-answering":
        names = names[1:]  # questions about one context
    elif isinstance(spec.options, RankingOptions):
        names = (spec.options.query or names[0],)
    parameters = ("text=", "text_pair=", "text_pair=")
    columns = [table.column(name, parameter) for name, parameter in zip(names, parameters, strict=False)]
    groups: dict[str, list[int]] = defaultdict(list)
    for row, cells in enumerate(zip(*columns, strict=True)):
        groups["\0".join(" ".join(str(cell).casefold().split()) for cell in cells)].append(row)
    return [groups[key] for key in sorted(groups, key=_digest)]


def _digest(key: str) -> bytes:
    return sha256(f"{DATA_SEED}\0{key}".encode("utf-8", "surrogatepass")).digest()


def _strata(spec: TaskSpec, table: SourceTable) -> Sequence[object]:
    """Return what is divided evenly: each row's label, or the tenth of its score."""
    if spec.kind not in _STRATIFIED:
        return [None] * len(table)
    labels = [as_text(cell) for cell in table.column(spec.label_column, "label=")]
    if spec.kind == "classification":
        spelling = Spelling.of(labels)
        names = {label: spelling.name(label) for label in set(labels)}
        return [names[label] for label in labels]
    order = sorted(range(len(labels)), key=lambda row: (_number(labels[row]), row))
    strata: list[object] = [None] * len(labels)
    for rank, row in enumerate(order):
        strata[row] = rank * _STRATA_OF_SCORES // len(labels)
    return strata


def _rarest(rows: Sequence[frozenset[str]]) -> list[object]:
    """Return the label of each row that fewest rows have; None for a row without labels."""
    counts = Counter(label for own in rows for label in own)
    return [min(own, key=lambda label: (counts[label], label), default=None) for own in rows]


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 0.0  # the kind refuses this cell and names its line


def _draw(groups: list[list[int]], strata: Sequence[object], shares: dict[str, float], count: int) -> dict[int, str]:
    """Return row -> part, of the rows that leave train. A group belongs to the stratum of its first row."""
    by_stratum: dict[object, list[list[int]]] = defaultdict(list)
    for group in groups:
        by_stratum[strata[group[0]]].append(group)
    left = {part: max(_LEAST_PART, round(count * share / 100)) for part, share in shares.items()}
    remaining = count
    taken: dict[int, str] = {}
    sizes = {stratum: sum(map(len, drawable)) for stratum, drawable in by_stratum.items()}
    for stratum in sorted(by_stratum, key=lambda stratum: (sizes[stratum], str(stratum))):
        drawable = by_stratum[stratum][1:]  # the first group stays in train
        size = sizes[stratum]
        for part in left:
            wanted = round(left[part] * size / remaining)
            while drawable and wanted > 0 and len(drawable[-1]) <= wanted + len(drawable[-1]) // 2:
                group = drawable.pop()
                taken.update(dict.fromkeys(group, part))
                wanted -= len(group)
                left[part] -= len(group)
        remaining -= size
    return taken


def _put_every_label_in_train(
    groups: list[list[int]], labels: Sequence[frozenset[object]], taken: dict[int, str]
) -> None:
    """Put back into train the groups with a label that train would lack, as when one text has two labels."""
    present = {label for row, own in enumerate(labels) if row not in taken for label in own}
    for group in groups:
        if group[0] in taken and not {label for row in group for label in labels[row]} <= present:
            present |= {label for row in group for label in labels[row]}
            for row in group:
                del taken[row]


def is_cut(spec: TaskSpec) -> bool:
    """Return True if train and dev are articles of the test file."""
    return _articles_of(spec) is not None and spec.folder is not None and "train" not in spec.places


def _articles_of(spec: TaskSpec) -> Mapping[Literal["train", "dev"], int] | None:
    """Return how many articles of the test file are train and how many are dev; None if the task does not say so."""
    return spec.options.articles if isinstance(spec.options, QuestionAnsweringOptions) else None


def cut_by_article(spec: TaskSpec, tests: dict[str, SourceTable]) -> dict[str, SourceTable]:
    """Cut the articles of the source language: the first are ``train``, the next ``dev``, the rest stay in each test.

    Articles are identified by their place in the file, which is the same in every language, so that none of them is in
    two splits.

    Raises:
        DataError: no test split in the source language, or too few articles.
    """
    articles = _articles_of(spec)
    assert articles is not None
    train, dev = articles.get("train", 0), articles.get("dev", 0)
    own = next((split for split in spec.places if split in tests and spec.language_of(split) == spec.source), None)
    if own is None:
        raise DataError(f"The task {spec.name} has no test file in {spec.source} to train on; pass train_file=")
    parts = {"train": _articles(tests[own], 0, train), "dev": _articles(tests[own], train, train + dev)}
    rest = {split: _articles(table, train + dev, None) for split, table in tests.items()}
    for split, table in {**parts, **rest}.items():
        if not len(table):
            raise DataError(
                f"{table.source} has too few articles: {train} for train and {dev} for dev leave none for {split}. "
                f"Pass train_file= and dev_file="
            )
    return {**parts, **rest}


def _cut_note(spec: TaskSpec) -> str:
    """Explain what the cut by articles means for the scores."""
    articles = _articles_of(spec)
    assert articles is not None
    train, dev = articles.get("train", 0), articles.get("dev", 0)
    return (
        f"train is the first {train} articles of the {spec.source} test file, dev the next {dev}, and every language "
        f"is tested on the articles after them: scores are not comparable with those on all of {spec.name}"
    )


def _articles(table: SourceTable, first: int, end: int | None) -> SourceTable:
    numbers = table.column(_ARTICLE, "`articles` of the task")
    return select_rows(table, [row for row, n in enumerate(numbers) if n >= first and (end is None or n < end)])
