"""What a person has in hand, as the name or path of a task or a model."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

from gradgate.errors import UsageError, nearest
from gradgate.files import write_files
from gradgate.places import typed_place

_SPLITS = {"train": "train", "dev": "dev", "validation": "dev", "valid": "dev", "val": "dev", "test": "test"}
_EXPECTED = (
    "expected a task's name, a data file, a folder or a YAML file; or rows: a pandas DataFrame, a datasets.Dataset, a "
    "list of dicts, or a dict of these under train, dev and test"
)
_NAME = "data"


def task_name(task: object, out: Path) -> str | None:
    """Return the text that stands for a task in settings; None for None.

    Rows are written beside the folder of what trains on them.

    Rows of one table are divided into train, dev and test as one file is. Equal rows get equal files, so that a run
    or study goes on with them.

    Args:
        task: a name or path, or rows.
        out: the folder of the run or study; rows go into ``OUT-data/``, as Parquet files.

    Raises:
        UsageError: for anything else, or splits with other names.
    """
    if task is None or isinstance(task, str | PathLike):
        return None if task is None else typed_place(task)
    if isinstance(task, Mapping):
        files = {f"{_split(name)}.parquet": _parquet(rows) for name, rows in task.items()}
        if "train.parquet" not in files:
            raise UsageError(f"task has the splits {', '.join(map(str, task)) or 'none'}; expected train among them.")
    else:
        files = {f"{_NAME}.parquet": _parquet(task)}
    digest = sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()[:12]
    folder = (out.parent / f"{out.name}-data" / digest / _NAME).absolute()
    write_files(folder, files)
    return str(folder if isinstance(task, Mapping) else folder / f"{_NAME}.parquet")


def model_name(model: object) -> str | None:
    """Return the text that stands for a model in settings; None for None.

    Raises:
        UsageError: for a model that is in memory.
    """
    if model is None or isinstance(model, str | PathLike):
        return None if model is None else typed_place(model)
    raise UsageError(
        f"model is a {type(model).__name__}; expected a hub name, a folder, or 'sample', from which each run loads its "
        f"own copy. Save the model and its tokenizer with save_pretrained('FOLDER') and give 'FOLDER'."
    )


def _split(name: object) -> str:
    split = _SPLITS.get(str(name))
    if split is None:
        raise UsageError(
            f"task has a split {name!r}.{nearest(str(name), _SPLITS)} Expected train, dev (or validation) and test; "
            f"leave the others out."
        )
    return split


def _parquet(rows: object) -> bytes:
    """Write rows to a Parquet file; raise UsageError for data without rows."""
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(_table(rows), file)
    return file.getvalue()


def _table(rows: Any) -> Any:
    """Return rows as an Arrow table, without the metadata of pandas or datasets."""
    import pyarrow as pa

    library = type(rows).__module__.partition(".")[0]
    try:
        if library == "datasets" and hasattr(rows, "with_format"):
            table = _with_names(rows)
        elif library == "pandas" and hasattr(rows, "columns"):
            table = pa.Table.from_pandas(rows, preserve_index=False)
        elif library == "polars":
            table = rows.to_arrow()
        elif isinstance(rows, pa.Table):
            table = rows
        elif isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
            table = pa.Table.from_pylist([dict(row) for row in rows])
        else:
            raise UsageError(f"task is a {type(rows).__name__}; {_EXPECTED}.")
    except pa.ArrowInvalid as error:
        raise UsageError(f"task is a {type(rows).__name__} whose columns cannot be written: {error}.") from None
    return table.replace_schema_metadata(None)


def _with_names(rows: Any) -> Any:
    """Return a datasets.Dataset as an Arrow table, with class names in place of numbers."""
    import pyarrow as pa
    from datasets import ClassLabel

    table = rows.with_format("arrow")[:]
    for place, (name, kind) in enumerate(rows.features.items()):
        if isinstance(kind, ClassLabel):
            numbers = table.column(name).to_pylist()
            words = [None if number is None or number < 0 else kind.int2str(number) for number in numbers]
            table = table.set_column(place, name, pa.array(words, pa.string()))
    return table
