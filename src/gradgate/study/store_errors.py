"""What the errors of a study's database mean to a person, and what to do about each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import SQLAlchemyError

from gradgate.errors import GradgateError, StoreError


class DamagedStoreError(StoreError):
    """A database file that cannot be read any more."""


@contextmanager
def told(place: str) -> Iterator[None]:
    """Turn what the database raises into a StoreError.

    Args:
        place: of the database, for the message.
    """
    try:
        yield
    except (SQLAlchemyError, StorageInternalError, sqlite3.Error) as error:
        raise _explained(place, _root(error)) from error
    except ImportError as error:
        raise StoreError(
            f"{place} needs a database driver that is not installed ({_root(error)}): pip install 'gradgate[postgres]'."
        ) from error
    except GradgateError:
        raise
    except RuntimeError as error:  # optuna: tables of another version
        raise StoreError(f"{place}: {error}") from error


def _root(error: BaseException) -> BaseException:
    """What the database's driver said."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return error


def _explained(place: str, error: BaseException) -> StoreError:
    said = str(error).strip()
    kept = "What has been saved is still there: run the same command again to go on."
    if not isinstance(error, sqlite3.Error):
        return StoreError(f"The store {place} cannot be used: {said}. {kept}")
    if "locked" in said:
        return StoreError(f"{place} is locked by another program ({said}). End that program. {kept}")
    if "full" in said or "I/O" in said:
        return StoreError(f"{place} cannot be written ({said}). Make room on its disk. {kept}")
    if "readonly" in said or "unable to open" in said:
        return StoreError(f"{place} cannot be written ({said}). Make file and folder writable. {kept}")
    if "not a database" in said or "malformed" in said:
        return DamagedStoreError(f"{place} is damaged ({said}). 'gradgate compare' builds it anew; finished runs stay.")
    return StoreError(f"{place} cannot be used: {said}. {kept}")
