"""Running text for masked language modelling: a file or a data set of the hub, packed into blocks of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gradgate.errors import DataError, UsageError
from gradgate.tasks.files import ENDINGS, detect, missing, read_table
from gradgate.tasks.hub import check_reachable, read_split
from gradgate.tasks.spec import FileFormat, HubSource
from gradgate.tasks.table import Table

_BATCH = 1000


def read_texts(where: str, column: str, subset: str | None = None) -> list[str]:
    """The texts of a plain text file (one a line), a column of a csv, tsv, JSON or Parquet file, or a hub data set.

    A file without an ending of its kind whose first line is a JSON object is a table too. Blank texts are left out. Of
    a hub data set the split ``train`` is read; ``subset`` is its configuration.

    Raises:
        DataError: if there is nothing to read, or it cannot be read.
    """
    path = Path(where).expanduser()
    if path.suffix.lower() in ENDINGS:
        cells = _cells(read_table(path, FileFormat()), column)
    elif path.is_file():
        cells = _lines(path)
        if detect(path, "\n".join(cells[:1])) == "jsonl":
            cells = _cells(read_table(path, FileFormat(type="jsonl")), column)
    elif where.count("/") == 1 and not where.startswith((".", "/", "~")):
        source = HubSource(path=where, name=subset)
        check_reachable(source)
        cells = _cells(read_split(source, "train", ""), column)
    else:
        raise DataError(f"{missing(path)}. Give a text file with one text a line, a table, or a data set of the hub")
    texts = [text for cell in cells if (text := cell.strip())]
    if not texts:
        raise DataError(f"{where} holds no text")
    return texts


def packed(texts: Sequence[str], tokenizer: Any, length: int) -> list[dict[str, list[int]]]:
    """All texts one after another, cut into blocks of ``length`` tokens; the last block may be shorter.

    Each text begins and ends with the tokenizer's special tokens. A block may begin within a text, so that long ones
    are not cut off and short ones are not filled up.
    """
    batches = (list(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH))
    each = chain.from_iterable(tokenizer(batch, return_token_type_ids=False)["input_ids"] for batch in batches)
    ids = list(chain.from_iterable(each))
    return [{"input_ids": ids[start : start + length]} for start in range(0, len(ids), length)]


def hold_out(texts: Sequence[str], share: float, seed: int) -> tuple[list[str], list[str]]:
    """Texts to train on and texts to score on, drawn at random, each in the order of the source.

    Raises:
        UsageError: if one of the two would be empty.
    """
    count = round(share * len(texts)) or int(share > 0)
    if count >= len(texts):
        raise UsageError(f"{len(texts)} texts are too few to hold out {share:g} of them. Give more, or --held-out 0.")
    chosen = set(np.random.default_rng(seed).permutation(len(texts))[:count].tolist())
    train = [text for number, text in enumerate(texts) if number not in chosen]
    return train, [texts[number] for number in sorted(chosen)]


def _cells(table: Table, column: str) -> list[str]:
    cells = table.column(column, "--text")
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            raise DataError(f"{table.place(row)}: {column!r} is not text but {type(cell).__name__} ({cell!r})")
    return list(cells)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); convert it, for example with iconv") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
