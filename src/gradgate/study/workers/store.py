"""Open the database of a study's queue as an optuna study: a SQLite file in the study's folder, or a server."""

from __future__ import annotations

import re
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from gradgate.errors import GradgateError, StoreError
from gradgate.files import read_json, write_json
from gradgate.printable import visible
from gradgate.study.study_file import locked_folder


class DamagedStoreError(StoreError):
    """A database file that cannot be read any more."""


# What sqlite3, SQLAlchemy and optuna raise over flipped bytes in a file: text that is no UTF-8, a date or JSON that
# cannot be parsed, a state that does not exist, a value of another type.
_OVER_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, AssertionError)


@contextmanager
def explained_errors(place: str, *, is_file: bool) -> Iterator[None]:
    """Turn what the database raises into a StoreError.

    Args:
        place: of the database, for the message.
        is_file: whether it is a SQLite file, which may be damaged.
    """
    try:
        yield
    except GradgateError:
        raise
    except (SQLAlchemyError, StorageInternalError, sqlite3.Error) as error:
        raise _explained(place, _root(error)) from error
    except ImportError as error:
        raise StoreError(_driver_advice(place, error)) from error
    except RuntimeError as error:  # optuna: tables of another version
        raise StoreError(
            f"{place}: {str(error).rstrip('.')}. Expected a store of the installed Optuna; give another queue=, or "
            "install the version that made it."
        ) from error
    except _OVER_DAMAGE as error:
        if not is_file:
            raise
        raise DamagedStoreError(_damaged(place, f"{type(error).__name__}: {error}")) from error


def _root(error: BaseException) -> BaseException:
    """Return the error of the database's driver."""
    while (inner := getattr(error, "orig", None) or error.__cause__) is not None:
        error = inner
    return error


def _explained(place: str, error: BaseException) -> StoreError:
    said = str(error).strip()
    advice = "What has been saved is still there: run the same command again to resume."
    if not isinstance(error, sqlite3.Error):
        if "timeout" in said.lower() or "timed out" in said.lower():
            said = f"it did not answer within {_CONNECT_SECONDS} s ({said}). Check the address and that the server runs"
        return StoreError(f"The store {place} cannot be used: {said}. {advice}")
    if any(word in said for word in _DAMAGE):
        return DamagedStoreError(_damaged(place, said))
    if "locked" in said:
        return StoreError(f"{place} is locked by another program ({said}). End that program. {advice}")
    if "full" in said or "I/O" in said:
        return StoreError(f"{place} cannot be written ({said}). Make room on its disk. {advice}")
    if "readonly" in said or "unable to open" in said:
        return StoreError(f"{place} cannot be written ({said}). Make file and folder writable. {advice}")
    return StoreError(f"{place} cannot be used: {said}. {advice}")


def _damaged(place: str, said: str) -> str:
    return f"{place} is damaged ({said}). 'gradgate compare' builds it anew; finished runs stay."


def _driver_advice(place: str, error: ImportError) -> str:
    lacking = getattr(error, "name", None) or str(error)
    if place.startswith("postgresql"):
        advice = "Install it with: pip install 'gradgate[postgres]'."
    else:
        advice = "Install it, or give the address of a PostgreSQL server; without queue= the queue is a SQLite file."
    return f"queue={place!r}: the Python driver of this database is not installed (no module {lacking!r}). {advice}"


DATABASE_FILE = "study.db"
STORE_FILE = "store.json"
_LOCAL = "gradgate"
_PATIENCE = 30  # seconds for another process to end its write
_CONNECT_SECONDS = 10  # for a server to answer
_TRIES = 5
_DAMAGE = ("not a database", "malformed", "no such table", "no such column", "Could not decode", "disk image")


@dataclass(frozen=True)
class Heartbeat:
    """How workers show that they live.

    Attributes:
        interval: seconds between two signs of life.
        grace: seconds without one after which a worker counts as dead.
    """

    interval: int = 5
    grace: int = 30

    @classmethod
    def within(cls, grace: int) -> Heartbeat:
        """Return a heartbeat with several signs of life within the grace period."""
        return cls(max(1, grace // 6), grace)


class Store:
    """An open optuna study."""

    def __init__(self, folder: Path, study: optuna.Study, storage: RDBStorage, place: str) -> None:
        self.folder = folder
        self.study = study
        self.storage = storage
        self.place = place
        self.id = storage.get_study_id_from_name(study.study_name)
        self.heartbeat = Heartbeat(storage.heartbeat_interval or 1, storage.grace_period or 1)

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher score is a better one."""
        return self.study.direction == StudyDirection.MAXIMIZE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the study, for writes that must not interleave with those of other processes."""
        with ExitStack() as locks:
            locks.enter_context(locked_folder(self.folder))
            if self.storage.engine.name == "postgresql":
                connection = locks.enter_context(self.storage.engine.connect())
                key = zlib.crc32(self.study.study_name.encode())
                connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(key)))
            yield

    @contextmanager
    def explained_errors(self) -> Iterator[None]:
        """Turn what the database raises into a StoreError."""
        with explained_errors(self.place, is_file=self.storage.engine.name == "sqlite"):
            yield

    def close(self) -> None:
        """Let go of all connections."""
        self.storage.remove_session()
        self.storage.engine.dispose()


def open_store(
    folder: Path, url: str | None = None, *, heartbeat: Heartbeat | None = None, higher_is_better: bool = True
) -> Store:
    """Open the store of a study; make it if there is none.

    Args:
        folder: of the study.
        url: of a database server, as ``postgresql+psycopg://user:password@host/database``; None for the SQLite file
            in the study's folder. A folder does not say which server to call: that is for the person who looks.
        heartbeat: of a store that is made; an older one keeps its own.
        higher_is_better: of the score.

    Raises:
        DamagedStoreError: if the SQLite file is damaged.
        StoreError: if the store cannot be reached or written, or the study was begun with a server and ``url`` is None.
    """
    _refuse_link(folder / DATABASE_FILE)
    with locked_folder(folder):
        address, name = _address(folder, url)
        return _open(folder, address, name, heartbeat or Heartbeat(), higher_is_better)


def read_store(folder: Path, url: str | None = None) -> Store | None:
    """Open the store of a study to look at it. Nothing is made or written.

    Returns:
        None if it has none yet, or if its queue is on a server that ``url`` does not name: the folders of the runs then
        say what has finished.

    Raises:
        StoreError: if the store cannot be read.
    """
    file = folder / DATABASE_FILE
    if url is not None:
        noted = _noted(folder)
        return None if noted is None else _open(folder, _parsed(url), noted.study, Heartbeat(), True, create=False)
    if (folder / STORE_FILE).is_file() or not file.is_file():
        return None
    _refuse_link(file)
    if not _has_study(file):
        return None
    query = {"mode": "ro", "uri": "true", **({"immutable": "1"} if _has_log(file) else {})}
    address = sqlalchemy.URL.create("sqlite", database=f"file:{_quoted(file)}", query=query)
    return _open(folder, address, _LOCAL, Heartbeat(), True, create=False)


def _reading(file: Path) -> str:
    return "mode=ro&immutable=1" if _has_log(file) else "mode=ro"


def _refuse_link(file: Path) -> None:
    """Refuse a database that is a link: a study's folder names no place outside itself."""
    if file.is_symlink():
        raise StoreError(
            f"{file} is a link to {file.readlink()}, and a study's queue is a file in its folder. Copy the file there; "
            f"for a database elsewhere, name its server with queue=."
        )


def _has_log(file: Path) -> bool:
    """Return True if SQLite would write files beside the database to read it, as for one with a write-ahead log."""
    with file.open("rb") as content:
        return content.read(20)[18:20] == b"\x02\x02"


def _has_study(file: Path) -> bool:
    """Return True if a SQLite file contains a study; False while a process is still creating it."""
    with (
        explained_errors(str(file), is_file=True),
        closing(sqlite3.connect(f"file:{_quoted(file)}?{_reading(file)}", uri=True, timeout=_PATIENCE)) as db,
    ):
        made = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"version_info", "studies"} <= made:
            return False
        row = db.execute("SELECT 1 FROM studies, version_info WHERE study_name = ?", [_LOCAL]).fetchone()
        return row is not None


def set_aside(folder: Path) -> Path:
    """Rename a study's SQLite file, so that a new one can be made. Returns the new name."""
    with locked_folder(folder):
        journal = folder / f"{DATABASE_FILE}-journal"
        aside = folder / f"{DATABASE_FILE}.damaged-{time.time_ns()}"
        (folder / DATABASE_FILE).rename(aside)
        if journal.is_file():  # of the old file: the new one must not be rolled back to it
            journal.rename(aside.with_name(f"{aside.name}-journal"))
        return aside


@dataclass(frozen=True)
class _Noted:
    """The content of ``store.json``: where the queue of a study was begun, without a password, and its name there."""

    url: str
    study: str


def _noted(folder: Path) -> _Noted | None:
    """Read ``store.json``; None if the queue is a file in the folder."""
    file = folder / STORE_FILE
    if not file.is_file():
        return None
    record = read_json(file)
    url, study = record.get("url"), record.get("study")
    if not isinstance(url, str) or not isinstance(study, str) or not study:
        raise StoreError(
            f"{file} is damaged: expected 'url' and 'study' as texts. Put back a good copy, or begin the study again "
            f"with another out=: finished runs can be copied there."
        )
    return _Noted(url, study)


def _address(folder: Path, url: str | None) -> tuple[sqlalchemy.URL, str]:
    """Return the database's address and the study's name in it; record those of a server in the folder."""
    noted = _noted(folder)
    if noted is not None:
        if url is None:
            raise StoreError(
                f"{folder} keeps its queue on a server, by its {STORE_FILE} at {visible(noted.url)}. Name the server "
                f"with queue= or GRADGATE_QUEUE if it is the one you mean: a folder does not decide whom to call."
            )
        return _parsed(url), noted.study
    if url is None:
        return sqlalchemy.URL.create("sqlite", database=str((folder / DATABASE_FILE).resolve())), _LOCAL
    if (folder / DATABASE_FILE).is_file():
        raise StoreError(
            f"{folder} keeps its queue in {folder / DATABASE_FILE}. Leave queue= out; or remove that file when "
            f"no worker runs, and the queue is built anew: finished runs stay."
        )
    address = _parsed(url)
    name = f"{folder.resolve().name}-{uuid.uuid4().hex[:8]}"
    write_json(folder / STORE_FILE, {"url": address.render_as_string(hide_password=True), "study": name})
    return address, name


def _parsed(url: str) -> sqlalchemy.URL:
    try:
        address = sqlalchemy.make_url(url)
        if not url.startswith("sqlite"):  # a database that SQLAlchemy does not know; its driver may still be missing
            with suppress(ImportError):
                address.get_dialect()
    except ArgumentError:
        shown = re.sub(r"(://[^:/@]*:)[^@/]*@", r"\1***@", url)
        raise StoreError(
            f"queue={shown!r} is not an address: expected one such as postgresql+psycopg://user:password@host/database."
        ) from None
    return address


def _open(
    folder: Path,
    address: sqlalchemy.URL,
    name: str,
    heartbeat: Heartbeat,
    higher_is_better: bool,
    create: bool = True,
) -> Store:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    is_file = address.get_backend_name() == "sqlite"
    place = (address.database or "").removeprefix("file:") if is_file else str(address)
    with explained_errors(place, is_file=is_file):
        _refuse_absent(address, create)
        storage = _storage(address, create)
        study = _study(storage, name, heartbeat, higher_is_better, create)
        beats = study.user_attrs.get("heartbeat", [heartbeat.interval, heartbeat.grace])
        storage.heartbeat_interval, storage.grace_period = beats
        return Store(folder, study, storage, place)


def _study(storage: RDBStorage, name: str, heartbeat: Heartbeat, higher_is_better: bool, create: bool) -> optuna.Study:
    if not create:
        return optuna.load_study(study_name=name, storage=storage)
    direction = StudyDirection.MAXIMIZE if higher_is_better else StudyDirection.MINIMIZE
    study = optuna.create_study(storage=storage, study_name=name, direction=direction, load_if_exists=True)
    if "heartbeat" not in study.user_attrs:
        study.set_user_attr("heartbeat", [heartbeat.interval, heartbeat.grace])
    return study


def _refuse_absent(address: sqlalchemy.URL, create: bool) -> None:
    """Refuse to look at a SQLite file that is not there, which the driver would make."""
    file = (address.database or "").removeprefix("file:")
    if not create and address.get_backend_name() == "sqlite" and not _reads_only(address) and not Path(file).is_file():
        raise StoreError(f"There is no database {file}. Give the queue= that the study was begun with.")


def _storage(address: sqlalchemy.URL, create: bool) -> RDBStorage:
    """Open optuna's storage, while others may create the same tables."""
    url = re.sub(r"([{}])", r"\1\1", address.render_as_string(hide_password=False))  # optuna formats it
    sqlite = address.get_backend_name() == "sqlite"
    for left in reversed(range(_TRIES)):
        try:
            storage = RDBStorage(url, engine_kwargs=_engine_options(address), skip_table_creation=not create)
            break
        except SQLAlchemyError as error:
            if not left or "exist" not in str(error):
                raise
            time.sleep(0.2)
    if sqlite:
        _write_one_by_one(storage.engine, "BEGIN" if _reads_only(address) else "BEGIN IMMEDIATE")
    return storage


def _engine_options(address: sqlalchemy.URL) -> dict[str, Any]:
    """Return how long to wait for a lock of a file or for a server, unless the address says it."""
    if address.get_backend_name() == "sqlite":
        return {} if "timeout" in address.query else {"connect_args": {"timeout": _PATIENCE}}
    options: dict[str, Any] = {"pool_pre_ping": True}
    if address.get_backend_name() in ("postgresql", "mysql", "mariadb") and "connect_timeout" not in address.query:
        options["connect_args"] = {"connect_timeout": _CONNECT_SECONDS}
    return options


def _write_one_by_one(engine: Engine, begin: str) -> None:
    """Have each SQLite transaction lock the file when it begins.

    Python's driver begins one at the first write only, so that two processes would both read that a run waits, and
    both claim it.
    """

    @sqlalchemy.event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def begins(connection: Any) -> None:
        connection.exec_driver_sql(begin)

    engine.dispose()


def _reads_only(address: sqlalchemy.URL) -> bool:
    return address.query.get("mode") == "ro"


def _quoted(file: Path) -> str:
    return file.resolve().as_uri().removeprefix("file://")
