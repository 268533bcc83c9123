"""What gradgate raises. Each message names what was wrong, what was expected and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


class GradgateError(Exception):
    """Base of every error that a user can correct. The command line prints it and exits with ``exit_code``.

    Attributes:
        reported_by_main: whether another of the processes that train together prints it.
    """

    exit_code = 1
    reported_by_main = False


class UsageError(GradgateError, ValueError):
    """A name, flag or parameter that cannot be right whatever the data says."""

    exit_code = 2


class MethodError(UsageError):
    """An unknown method, or a parameter of one that is out of range."""


class SelectorError(UsageError):
    """A selector that cannot be read, or that selects nothing of the model."""


class LayerMapError(GradgateError, ValueError):
    """A model whose layers cannot be found, or a method that asks for layers it does not have."""


class AttachError(GradgateError, ValueError):
    """A model, optimizer and method that cannot be joined."""


class AuditError(GradgateError, RuntimeError):
    """A closed parameter moved, or an open one that had a gradient did not."""


class NonFiniteError(GradgateError, RuntimeError):
    """The loss or the gradients became infinite or not a number."""


class DataError(GradgateError, ValueError):
    """A data file or column that cannot be read as the task describes it."""


class AdapterError(GradgateError, ValueError):
    """An adapter that cannot be built, found, combined or trained on this model."""


class AdapterFileError(AdapterError):
    """Adapter files that are absent, damaged, unsafe, or written for another model."""


class DeltaError(GradgateError, ValueError):
    """A delta that cannot be made, is damaged, or belongs to another base model."""


class BusyError(GradgateError, RuntimeError):
    """The object is in use, as by a forward pass that has not ended."""


class RunError(GradgateError, RuntimeError):
    """A run folder, checkpoint or model that cannot be used."""


class FolderLockedError(RunError):
    """A run folder in which another process trains."""


class StoreError(GradgateError, RuntimeError):
    """A study's store that cannot be opened, read or written."""


def nearest_of_quoted(word: object, message: str) -> str:
    """:func:`nearest` among the names that a message, such as one of pydantic's, has in quotes."""
    return nearest(str(word), re.findall(r"'([^']+)'", message))


def nearest(word: str, choices: Iterable[str]) -> str:
    """``" Did you mean 'x'?"``, or an empty string where nothing is near."""
    near = get_close_matches(word, list(dict.fromkeys(choices)), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
