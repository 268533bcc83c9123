"""Read Parquet and Arrow files, and folders that ``datasets`` has saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.class_names import stored_features, with_class_names
from gradgate.tasks.readers.decoding import refuse_pointers
from gradgate.tasks.readers.rows import SourceTable, joined

_PANDAS_INDEX = "__index_level_"
STATE = "state.json"
"""The file that marks a folder of ``Dataset.save_to_disk``."""
SPLITS = "dataset_dict.json"
"""The file that marks a folder of ``DatasetDict.save_to_disk``."""


def read_parquet(path: Path) -> SourceTable:
    """Read a Parquet file; class indices that ``datasets`` has named become the names."""
    from pyarrow import parquet

    with _readable(path, "a Parquet file"):
        return _table(path, parquet.ParquetFile(path).read())


def read_arrow(path: Path) -> SourceTable:
    """Read an Arrow or Feather file, as a stream or with random access."""
    import pyarrow as pa

    with _readable(path, "an Arrow file"), pa.memory_map(str(path)) as source:
        try:
            return _table(path, pa.ipc.open_file(source).read_all())
        except pa.ArrowInvalid:
            source.seek(0)
            return _table(path, pa.ipc.open_stream(source).read_all())


def read_saved(folder: Path) -> SourceTable:
    """Read one split that ``save_to_disk`` has written: its Arrow files, in their order.

    Raises:
        DataError: a state that cannot be read, rows in another order than they were saved in, or a missing file.
    """
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        names = [str(entry["filename"]) for entry in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / STATE} cannot be read ({type(error).__name__}: {error}); expected a folder as "
            "`Dataset.save_to_disk` writes it. Save the data set again"
        ) from None
    if state.get("_indices_data_files"):
        raise DataError(f"{folder} stores its rows in another order; save it again after `dataset.flatten_indices()`")
    files = [folder / Path(name).name for name in names]
    absent = [file.name for file in files if not file.is_file()]
    if absent or not files:
        raise DataError(
            f"{folder} has no {', '.join(absent) or 'Arrow file'}, which its {STATE} names; copy the folder again"
        )
    tables = [read_arrow(file) for file in files]
    return tables[0] if len(tables) == 1 else joined(str(folder), tables)


def _table(path: Path, rows: Any) -> SourceTable:
    names = [name for name in rows.column_names if not name.startswith(_PANDAS_INDEX)]
    columns = {name: rows.column(name).to_pylist() for name in names}
    return SourceTable(str(path), with_class_names(columns, stored_features(rows.schema)))


@contextmanager
def _readable(path: Path, what: str) -> Iterator[None]:
    """Raise DataError for a file that is something other than its ending says."""
    import pyarrow

    refuse_pointers(path)
    try:
        yield
    except (OSError, ValueError, KeyError, OverflowError, pyarrow.ArrowException) as error:
        raise DataError(
            f"{path} cannot be read as {what}: {error}. Expected one as pandas, datasets or pyarrow write it"
        ) from error
