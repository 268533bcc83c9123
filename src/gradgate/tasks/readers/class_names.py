"""Give class indices the names that a data set stores next to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_METADATA = b"huggingface"  # under which the library datasets stores its features in a schema of Arrow


def with_class_names(columns: Mapping[str, Sequence[Any]], features: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return columns with the names of classes in place of their indices, in lists and objects too.

    A negative index, which stands for no label, stays a number in text; a missing cell stays missing.

    Args:
        columns: name -> cells.
        features: name -> feature of the library ``datasets``; columns without one stay as they are.
    """
    named = {}
    for name, cells in columns.items():
        feature = features.get(name)
        named[name] = [_named(cell, feature) for cell in cells] if has_names(feature) else cells
    return named


def stored_features(schema: Any) -> Mapping[str, Any]:
    """Return the features that ``datasets`` has written into a schema of Arrow or Parquet; empty without any."""
    if _METADATA not in (schema.metadata or {}):
        return {}
    from datasets import Features  # takes a while to import, and few files need it

    try:
        features: Mapping[str, Any] = Features.from_arrow_schema(schema)
    except (ValueError, TypeError, KeyError, AttributeError):  # of another version: the cells can be read all the same
        return {}
    return features


def names_in(schema: Any) -> dict[bytes, bytes] | None:
    """Return the metadata of a schema that names its classes; None without any."""
    return {_METADATA: schema.metadata[_METADATA]} if any(map(has_names, stored_features(schema).values())) else None


def _parts(feature: Any) -> list[Any]:
    """Return the features inside lists and objects."""
    if isinstance(feature, Mapping):
        return list(feature.values())
    if isinstance(feature, list):
        return feature
    inner = getattr(feature, "feature", None)
    return [] if inner is None else [inner]


def has_names(feature: Any) -> bool:
    """Return True for a feature of classes, or one with such inside."""
    return hasattr(feature, "int2str") or any(map(has_names, _parts(feature)))


def _named(cell: Any, feature: Any) -> Any:
    if cell is None:
        return None
    if hasattr(feature, "int2str"):
        return cell if isinstance(cell, str) else str(cell) if cell < 0 else str(feature.int2str(int(cell)))
    if isinstance(cell, Mapping) and isinstance(feature, Mapping):
        return {name: _named(value, feature[name]) if name in feature else value for name, value in cell.items()}
    parts = _parts(feature)
    if isinstance(cell, list | tuple) and len(parts) == 1:
        return [_named(value, parts[0]) for value in cell]
    return cell
