"""Read rows as the viewer of the Hugging Face hub serves them: ``/rows``, ``/first-rows``, ``/search``, ``/filter``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradgate.errors import DataError
from gradgate.tasks.readers.class_names import with_class_names

_NUMBER, _ROW, _CUT = "row_idx", "row", "truncated_cells"


def are_viewed(rows: Any) -> bool:
    """Return True for a list of the viewer's rows, each of which has its number next to it."""
    return isinstance(rows, list) and bool(rows) and all(_is_viewed(row) for row in rows)


def unwrapped(rows: Sequence[Mapping[str, Any]], place: Callable[[int], str]) -> list[Any]:
    """Return the rows themselves.

    Args:
        rows: of :func:`are_viewed`.
        place: the place of a row (from 0) in its file, for errors.

    Raises:
        DataError: a cell that the viewer has cut, as it does with long ones.
    """
    for at, row in enumerate(rows):
        if row.get(_CUT):
            cells = ", ".join(map(repr, row[_CUT])) if isinstance(row[_CUT], list) else repr(row[_CUT])
            raise DataError(
                f"{place(at)} ({_NUMBER} {row[_NUMBER]}) is not whole: the hub's viewer has cut {cells:.200} "
                f"(`{_CUT}`). Download the data set's own files, such as its Parquet files"
            )
    return [row[_ROW] for row in rows]


def page_notes(page: Mapping[str, Any], count: int) -> list[str]:
    """Return the note on the rows of the data set that a page of the viewer does not have."""
    whole = page.get("num_rows_total")
    if isinstance(whole, int) and whole > count:
        return [f"{count:,} of the {whole:,} rows that the hub's viewer has are here: download the data set for all"]
    if page.get("truncated") or page.get("partial"):
        return ["the hub's viewer has served a part of the rows: download the data set for all"]
    return []


def named_classes(
    source: str, page: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]
) -> Mapping[str, Sequence[Any]]:
    """Return columns with the names of classes in place of their indices, as the page's features have them.

    Raises:
        DataError: an index without a name, or features that are not as ``datasets`` writes them.
    """
    features = page.get("features")
    described = [feature for feature in features if isinstance(feature, Mapping)] if isinstance(features, list) else []
    types = {str(feature.get("name")): feature.get("type") for feature in described}
    if "ClassLabel" not in str(types):
        return columns
    from datasets import Features  # takes a while to import, and few files need it

    try:
        return with_class_names(columns, Features.from_dict({name: types[name] for name in columns if name in types}))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise DataError(
            f"{source}: the classes cannot be named by its `features` ({error}). Download the page again, or remove "
            "`features` to keep the numbers of the classes"
        ) from None


def _is_viewed(row: Any) -> bool:
    return isinstance(row, Mapping) and _NUMBER in row and isinstance(row.get(_ROW), Mapping)
