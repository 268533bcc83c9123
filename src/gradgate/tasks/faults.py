"""Explain what pydantic finds wrong with a task file: name the entry and those that were expected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isclass
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from gradgate.errors import expectation, nearest


def in_words(fault: ErrorDetails, model: type[BaseModel], below: str = "") -> str:
    """Explain where a fault is and what is wrong, such as ``hub.nam: ... Did you mean 'name'?``.

    Args:
        fault: of a validation of ``model``.
        model: what the file, or the part of it under ``below``, was read as.
        below: the place of that part in the file; empty for the whole.
    """
    place = [str(part) for part in fault["loc"]]
    wrong = expectation(fault)
    if fault["type"] == "extra_forbidden":
        wrong = unknown_entry(place[-1], _model_at(place[:-1], model).model_fields)
    where = ".".join(part for part in (below, *place) if part and part != "[key]")
    if fault["type"] == "missing":
        return f"{where} is missing"
    return f"{where}: {wrong}" if where else wrong


def unknown_entry(entry: str, known: Iterable[str]) -> str:
    """Return the message for an entry that is not among the known ones."""
    return f"unknown entry. Expected one of {', '.join(known)}.{nearest(entry, known)}"


def _model_at(place: Sequence[str], model: type[BaseModel]) -> type[BaseModel]:
    """Return the model of the entries at a place; names and numbers without a model of their own are skipped."""
    for part in place:
        field = model.model_fields.get(part)
        kinds: tuple[Any, ...] = () if field is None else (field.annotation, *get_args(field.annotation))
        model = next((kind for kind in kinds if isclass(kind) and issubclass(kind, BaseModel)), model)
    return model
