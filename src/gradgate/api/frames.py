"""Read rows that a person has in memory as an Arrow table; say which column cannot be one, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradgate.errors import UsageError
from gradgate.tasks.readers.class_names import has_names, with_class_names

EXPECTED = (
    "expected a task's name, a data file, a folder or a YAML file; or rows: a pandas DataFrame, a datasets.Dataset, a "
    "list of dicts, or a dict of these under train, dev and test"
)
_EXPECTED_ROWS = "expected texts, pairs of texts, dicts or a DataFrame with the columns of the task, or a file"
_EXPECTED_SPLIT = "expected rows: a pandas DataFrame, a datasets.Dataset, or a list of dicts"
_MOST_KINDS = 3  # that a message lists


def arrow_table(rows: Any, name: str = "task") -> Any:
    """Return rows as an Arrow table, without the metadata of pandas or datasets.

    Args:
        rows: a DataFrame, a ``datasets.Dataset``, an Arrow table, or dicts.
        name: of the parameter, or of the split in it as ``task['dev']``, for messages.

    Raises:
        UsageError: for data without rows, two columns of one name, or a column with values that are not text, numbers
            or lists of these, all of one type.
    """
    import pyarrow as pa

    columns = _columns(rows, name)
    names = [str(each) for each, _ in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{name} has two columns called {twice!r}. Expected a name of its own for each; rename one.")
    unnamed = next((each for each, _ in columns if each is None or each != each or each == ""), _ALL_NAMED)
    if unnamed is not _ALL_NAMED:
        raise UsageError(f"{name} has a column without a name ({unnamed!r}). Give it one, or leave it out.")
    table = pa.table([_array(str(each), values, name) for each, values in columns], names=names)
    if not table.num_rows:
        raise UsageError(f"{name} has no rows. Expected one or more; add rows, or leave it out.")
    return table


_ALL_NAMED = object()


def _columns(rows: Any, parameter: str) -> list[tuple[Any, Any]]:
    """Return the name and the values of each column."""
    import pyarrow as pa

    library = type(rows).__module__.partition(".")[0]
    if library == "datasets" and hasattr(rows, "features") and hasattr(rows, "__len__"):
        return _with_names(rows)
    if library == "pandas" and hasattr(rows, "columns"):
        return [(name, rows.iloc[:, place]) for place, name in enumerate(rows.columns)]
    if library == "polars" and hasattr(rows, "get_columns"):
        return [(series.name, series) for series in rows.get_columns()]
    if isinstance(rows, pa.Table):
        return list(zip(rows.column_names, rows.columns, strict=True))
    if isinstance(rows, list | tuple) and not rows:
        return []
    if isinstance(rows, Sequence) and rows and all(isinstance(row, Mapping) for row in rows):
        names = dict.fromkeys(name for row in rows for name in row)
        if not names:
            raise UsageError(
                f"{parameter} has {len(rows)} rows without a column. Expected dicts such as {{'text': 'good'}}."
            )
        return [(name, [row.get(name) for row in rows]) for name in names]
    expected = {"task": EXPECTED, "rows": _EXPECTED_ROWS}.get(parameter, _EXPECTED_SPLIT)
    raise UsageError(f"{parameter} is a {type(rows).__name__}; {expected}.")


def _with_names(rows: Any) -> list[tuple[Any, Any]]:
    """Return the columns of a datasets.Dataset, with class names in place of numbers, in lists too."""
    import pyarrow as pa

    table = rows.with_format("arrow")[:]
    columns = dict(zip(table.column_names, table.columns, strict=True))
    numbers = {name: columns[name].to_pylist() for name, feature in rows.features.items() if has_names(feature)}
    for name, words in with_class_names(numbers, rows.features).items():
        columns[name] = pa.chunked_array([pa.array(words)])
    return list(columns.items())


def _array(name: str, values: Any, of: str) -> Any:
    """Return the values of a column as an Arrow array; raise UsageError, naming the rows, if they cannot be one."""
    import pyarrow as pa

    try:
        name.encode()
        if isinstance(values, pa.ChunkedArray):
            return values
        if hasattr(values, "to_arrow"):  # polars
            return values.to_arrow()
        return pa.array(values, from_pandas=not isinstance(values, list))
    except Exception as error:  # pyarrow raises errors of its own and Python's, polars its own
        raise UsageError(
            f"{of}'s columns cannot be written: {name!r} {_why(name, values)}. Expected text, numbers, or lists of "
            f"these, all of one type. Convert it, for example to text, or leave it out."
        ) from error


def _why(name: str, values: Iterable[Any]) -> str:
    """Return what is wrong with the values of a column, or with its name; the words fit after the name."""
    if any("\ud800" <= sign <= "\udfff" for sign in name):
        return "has half a surrogate pair in its name"
    if "sparse" in str(getattr(values, "dtype", "")).lower():
        return "is sparse"
    kinds: dict[str, tuple[int, Any]] = {}
    for row, value in enumerate(values):
        text = value if isinstance(value, str) else ""
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            return f"has half a surrogate pair in row {row}: {text!r:.60}"
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            return f"has a whole number beyond 64 bits in row {row}"
        if value is not None and not (isinstance(value, float) and value != value):  # NaN is a missing value
            kinds.setdefault(type(value).__name__, (row, value))
    if len(kinds) > 1:
        shown = [f"{kind} (row {row}: {value!r:.40})" for kind, (row, value) in list(kinds.items())[:_MOST_KINDS]]
        return f"has values of several types: {', '.join(shown)}"
    kind = next(iter(kinds), "None")
    if kind in ("list", "tuple", "ndarray", "dict", "set"):
        return f"has a {kind} in each row with values of several types or dimensions"
    return f"has values of type {kind}"
