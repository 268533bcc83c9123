"""Open the database of a study's queue as an optuna study: a SQLite file in the study's folder, or a server."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from sqlalchemy.engine import Engine
from sqlalchemy.exc import SQLAlchemyError

from gradgate.errors import StoreError
from gradgate.study.study_file import locked_folder
from gradgate.study.workers import store_errors
from gradgate.study.workers.address import DATABASE_FILE, Address, find_address, new_address, read_note, write_note
from gradgate.study.workers.store_errors import explained_errors

_PATIENCE = 30  # seconds for another process to end its write
_TRIES = 5


@dataclass(frozen=True)
class Heartbeat:
    """The signs of life that workers send.

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

    def __init__(self, folder: Path, study: optuna.Study, storage: RDBStorage, address: Address) -> None:
        self.folder = folder
        self.study = study
        self.storage = storage
        self.address = address
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
        with explained_errors(self.address):
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
        url: of a database server, as ``postgresql+psycopg://user:password@host/database``, from the user. A study that
            is begun without has a SQLite file in its folder.
        heartbeat: of a store that is made; an older one keeps its own.
        higher_is_better: of the score.

    Raises:
        DamagedStoreError: if the SQLite file is damaged.
        StoreError: if the store cannot be reached or written, is not the one that the study was started with, or is one
            whose address is not passed.
    """
    with locked_folder(folder):
        address = find_address(folder, url) or new_address(folder, str(url))
        store = _open(folder, address, heartbeat or Heartbeat(), higher_is_better)
        write_note(folder, address)
        return store


def read_store(folder: Path, url: str | None = None) -> Store | None:
    """Open the store of a study to look at it; None if it has none yet, or one whose address is not passed.

    It makes and changes nothing, in the folder or in the database.

    Raises:
        StoreError: if the store cannot be read, or has no such study.
    """
    if url is None and read_note(folder) is not None:
        return None
    address = find_address(folder, url)
    if address is None or (address.is_own and not (folder / DATABASE_FILE).exists()):
        return None
    reading = address.read_only()
    if _has_study(reading):
        return _open(folder, reading, None, True)
    if address.is_own:
        return None
    raise StoreError(
        f"{address.place} has no queue of {folder}, which is called {address.study!r} there. Pass the queue= that "
        "the study was started with."
    )


def _has_study(address: Address) -> bool:
    """Return True if a database contains a study; False while a process is still creating it."""
    with explained_errors(address):
        engine = sqlalchemy.create_engine(address.url, **_engine_options(address.url))
        try:
            with engine.connect() as connection:
                made = {*sqlalchemy.inspect(connection).get_table_names()}
                if not {"version_info", "studies", "alembic_version"} <= made:
                    return False
                asked = sqlalchemy.text("SELECT 1 FROM studies, version_info, alembic_version WHERE study_name = :name")
                return connection.execute(asked, {"name": address.study}).first() is not None
        finally:
            engine.dispose()


def set_aside(folder: Path) -> Path:
    """Rename a study's SQLite file, so that a new one can be made. Returns the new name."""
    with locked_folder(folder):
        journal = folder / f"{DATABASE_FILE}-journal"
        aside = folder / f"{DATABASE_FILE}.damaged-{time.time_ns()}"
        (folder / DATABASE_FILE).rename(aside)
        if journal.is_file():  # of the old file: the new one must not be rolled back to it
            journal.rename(aside.with_name(f"{aside.name}-journal"))
        return aside


def _open(folder: Path, address: Address, heartbeat: Heartbeat | None, higher_is_better: bool) -> Store:
    """Open a store; one that is opened without a heartbeat is only read."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with explained_errors(address):
        storage = _storage(address.url, reading=heartbeat is None)
        study = _study(storage, address.study, heartbeat, higher_is_better)
        own = Heartbeat() if heartbeat is None else heartbeat
        beats = study.user_attrs.get("heartbeat", [own.interval, own.grace])
        storage.heartbeat_interval, storage.grace_period = beats
        return Store(folder, study, storage, address)


def _study(storage: RDBStorage, name: str, heartbeat: Heartbeat | None, higher_is_better: bool) -> optuna.Study:
    if heartbeat is None:
        return optuna.load_study(study_name=name, storage=storage)
    direction = StudyDirection.MAXIMIZE if higher_is_better else StudyDirection.MINIMIZE
    study = optuna.create_study(storage=storage, study_name=name, direction=direction, load_if_exists=True)
    if "heartbeat" not in study.user_attrs:
        study.set_user_attr("heartbeat", [heartbeat.interval, heartbeat.grace])
    return study


def _storage(address: sqlalchemy.URL, *, reading: bool) -> RDBStorage:
    """Open optuna's storage, while others may create the same tables."""
    url = re.sub(r"([{}])", r"\1\1", address.render_as_string(hide_password=False))  # optuna formats it
    sqlite = address.get_backend_name() == "sqlite"
    for left in reversed(range(_TRIES)):
        try:
            storage = RDBStorage(url, engine_kwargs=_engine_options(address), skip_table_creation=reading)
            break
        except SQLAlchemyError as error:
            if not left or "exist" not in str(error):
                raise
            time.sleep(0.2)
    if sqlite:
        _write_one_by_one(storage.engine, "BEGIN" if reading else "BEGIN IMMEDIATE")
    return storage


def _engine_options(address: sqlalchemy.URL) -> dict[str, Any]:
    """Return how long to wait for a lock of a file or for a server, unless the address says it."""
    if address.get_backend_name() == "sqlite":
        return {} if "timeout" in address.query else {"connect_args": {"timeout": _PATIENCE}}
    options: dict[str, Any] = {"pool_pre_ping": True}
    if address.get_backend_name() in ("postgresql", "mysql", "mariadb") and "connect_timeout" not in address.query:
        options["connect_args"] = {"connect_timeout": store_errors.CONNECT_SECONDS}
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
