"""Recognise the forms that rows come in, and read them as those of a kind of task.

A new form is one entry of ``CHATS`` or ``ROWS``; the table of forms in the documentation is made from them.
"""

from __future__ import annotations

from gradgate.errors import DataError
from gradgate.tasks.columns import LABELS
from gradgate.tasks.forms.base import Form, found_name
from gradgate.tasks.forms.chats import CHATS
from gradgate.tasks.forms.rows import ROWS
from gradgate.tasks.readers.rows import SourceTable, renamed
from gradgate.tasks.types import KIND_INFO

__all__ = ["FORMS", "Form", "in_form", "recognise"]

FORMS: dict[str, Form] = {form.name: form for form in (*CHATS, *ROWS)}
"""Every form by its name; the first that fits a table is that of its rows."""


def recognise(table: SourceTable, kind: str | None = None) -> Form | None:
    """Return the form of a table's rows; None if it has none of its own.

    Args:
        table: rows to train on.
        kind: of the task; forms of others do not fit.
    """
    labelled = any(found_name(table, name) for name in (*LABELS, "labels"))
    for form in FORMS.values():
        if (kind is None or form.kind == kind) and not (form.weak and labelled) and form.fits(table):
            return form
    return None


def in_form(table: SourceTable, form: str | None, kind: str, texts: tuple[str, ...], label: str) -> SourceTable:
    """Return a table with the columns that a task reads.

    A table that has them stays as it is. Without ``form``, rows are recognised only if the task names no columns of its
    own, or generates text.

    Args:
        table: as it was read.
        form: the name of the task's form; None if it has none.
        kind: of the task.
        texts, label: the task's columns.

    Raises:
        DataError: rows that do not have the task's form.
    """
    info = KIND_INFO[kind]
    usual = (info.text,) if isinstance(info.text, str) else info.text
    found = None if form is None else FORMS[form]
    if found is None:
        if {*texts, label} <= set(table.columns) or (kind != "generation" and (texts, label) != (usual, info.label)):
            return table
        found = _of_kind(table, kind)
        if found is None:
            return table
    elif not found.fits(table, labelled=False):
        if set(texts) <= set(table.columns):
            return table
        there = ", ".join(map(repr, table.columns))
        raise DataError(
            f"{table.source} is not in the task's form {found.name!r}, which has the columns {found.recognised}; its "
            f"columns are {there}. Provide rows in this form, or describe the task in a task.yaml"
        )
    names = {**dict(zip(usual, texts, strict=False)), info.label: label}
    return renamed(found.read(table), {name: own for name, own in names.items() if name != own})


def _of_kind(table: SourceTable, kind: str) -> Form | None:
    """Return the form of rows of a kind, of unlabelled ones if they have no label."""
    fitting = recognise(table, kind)
    if fitting is not None:
        return fitting
    return next((form for form in FORMS.values() if form.kind == kind and form.fits(table, labelled=False)), None)
