"""Say what is wrong with the database of a study's queue."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from optuna.exceptions import StorageInternalError
from sqlalchemy.exc import SQLAlchemyError

from gradgate.errors import GradgateError, StoreError
from gradgate.study.workers.address import Address

CONNECT_SECONDS = 10  # for a server to answer
_DAMAGE = ("not a database", "malformed", "no such table", "no such column", "Could not decode", "disk image")
# What sqlite3, SQLAlchemy and optuna raise over flipped bytes in a file: text that is no UTF-8, a date or JSON that
# cannot be parsed, a state that does not exist, a value of another type. Drivers raise them over parts of an address.
_OVER_VALUES = (ValueError, LookupError, TypeError, AttributeError, AssertionError)


class DamagedStoreError(StoreError):
    """The database file of a study that cannot be read any more."""


@contextmanager
def explained_errors(address: Address) -> Iterator[None]:
    """Turn what the database at an address raises into a StoreError."""
    place = address.place
    try:
        yield
    except GradgateError:
        raise
    except (SQLAlchemyError, StorageInternalError, sqlite3.Error) as error:
        raise _explained(address, _root(error)) from error
    except ImportError as error:
        raise StoreError(_driver_advice(place, error)) from error
    except RuntimeError as error:  # optuna: tables of another version
        raise StoreError(
            f"{place}: {str(error).rstrip('.')}. Expected a store of the installed Optuna; pass another queue=, or "
            "install the version that made it."
        ) from error
    except _OVER_VALUES as error:
        raise damaged_store(address, f"{type(error).__name__}: {error}") from error
    except OSError as error:
        raise _explained(address, error) from error


def _root(error: BaseException) -> BaseException:
    """Return the error of the database's driver."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return error


def _explained(address: Address, error: BaseException) -> StoreError:
    place, said = address.place, str(error).strip()
    advice = "What has been saved is still there: run the same command again to resume."
    if not isinstance(error, sqlite3.Error):
        if "timeout" in said.lower() or "timed out" in said.lower():
            said = f"it did not answer within {CONNECT_SECONDS} s ({said}). Check the address and that the server runs"
        return StoreError(f"The store {place} cannot be used: {said}. {advice}")
    if any(word in said for word in _DAMAGE):
        return damaged_store(address, said)
    if "locked" in said:
        return StoreError(f"{place} is locked by another program ({said}). End that program. {advice}")
    if "full" in said or "I/O" in said:
        return StoreError(f"{place} cannot be written ({said}). Make room on its disk. {advice}")
    if "unable to open" in said:
        return StoreError(f"{place} cannot be opened ({said}). Check that it exists and that you may write to it.")
    if "readonly" in said:
        return StoreError(f"{place} cannot be written ({said}). Make file and folder writable. {advice}")
    return StoreError(f"{place} cannot be used: {said}. {advice}")


def damaged_store(address: Address, said: str) -> StoreError:
    """Return the error for a damaged file of the study, or for another database that is not one of a queue."""
    if address.is_own:
        return DamagedStoreError(
            f"{address.place} is damaged ({said}). 'gradgate compare' rebuilds it and keeps finished runs."
        )
    return StoreError(f"The store {address.place} cannot be used ({said}). Check the address that queue= gives.")


def _driver_advice(place: str, error: ImportError) -> str:
    root = _root(error)  # optuna's own does not say which module
    lacking = getattr(root, "name", None) or str(root)
    if place.startswith("postgresql"):
        advice = "Install it with: pip install 'gradgate[postgres]'."
    else:
        advice = "Install it, or pass the address of a PostgreSQL server; without queue= the queue is a SQLite file."
    return f"queue={place!r}: the Python driver of this database is not installed (no module {lacking!r}). {advice}"
