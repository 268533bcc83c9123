"""Find the database of a study's queue: a SQLite file in the study's folder, or the address that the user passes.

A folder decides neither which database is opened nor where: ``store.json`` has the study's name in a database, and the
address only for people to read.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import sqlalchemy
from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError

from gradgate.errors import StoreError, fault_with_place
from gradgate.files import parse_json, read_bytes
from gradgate.runs.records import record_adapter, write_record
from gradgate.settings.compare import QUEUE_VARIABLE

DATABASE_FILE = "study.db"
STORE_FILE = "store.json"
LOCAL = "gradgate"
_EXAMPLE = "postgresql+psycopg://user:password@host/database"
_WRITE_AHEAD = 2  # bytes 18 and 19 of a SQLite file whose changes go to another file first


@dataclass(frozen=True)
class StoreNote:
    """``store.json`` of a study whose queue is in another database than its own file.

    Attributes:
        url: address of the database without its password, for people.
        study: name of the study in the database.
    """

    url: str
    study: str


@dataclass(frozen=True)
class Address:
    """The address of a study's queue.

    Attributes:
        url: of the database.
        study: name of the study in it.
        is_own: whether it is the file in the study's folder.
    """

    url: sqlalchemy.URL
    study: str
    is_own: bool

    @property
    def place(self) -> str:
        """The database as people read it, without its password."""
        is_file = self.url.get_backend_name() == "sqlite"
        return (self.url.database or "").removeprefix("file:") if is_file else str(self.url)

    def read_only(self) -> Address:
        """Return the address for a connection that makes and changes no file."""
        if self.url.get_backend_name() != "sqlite":
            return self
        file = Path(self.place)
        query = {"mode": "ro", "uri": "true", **({"immutable": "1"} if _is_at_rest(file) else {})}
        database = f"file:{quote(str(file.absolute()))}"
        return Address(sqlalchemy.URL.create("sqlite", database=database, query=query), self.study, self.is_own)


def read_note(folder: Path) -> StoreNote | None:
    """Read ``store.json`` of a study; None if its queue is the file in its folder.

    Raises:
        StoreError: if the file is damaged.
    """
    file = folder / STORE_FILE
    if not os.path.lexists(file):
        return None
    try:
        return record_adapter(StoreNote).validate_python(parse_json(read_bytes(file)))
    except OSError as error:
        wrong = error.strerror or str(error)
    except ValidationError as error:
        wrong = fault_with_place(error.errors()[0])
    except ValueError as error:
        wrong = str(error)
    raise StoreError(
        f"{file} is damaged: {wrong}. Expected the study's name in the database of its queue. Restore a good "
        "copy; or remove the file while no worker runs; 'gradgate compare' then rebuilds the queue and keeps "
        "finished runs."
    )


def find_address(folder: Path, url: str | None) -> Address | None:
    """Return where the queue of a study is; None for a study without one that is to get it at another address.

    Args:
        folder: of the study.
        url: of the database, from the user; None for the file in the folder.

    Raises:
        StoreError: if the study was started with another kind of database, the address cannot be one, or ``store.json``
            is damaged.
    """
    note, own = read_note(folder), folder / DATABASE_FILE
    if note is None and os.path.lexists(own) and url == os.environ.get(QUEUE_VARIABLE):
        url = None  # the variable is for studies that are kept there, and this one is not
    if url is None:
        if note is not None:
            raise StoreError(f"{_elsewhere(folder, note)} Pass its address as queue=, or set GRADGATE_QUEUE.")
        _check_own(own)
        return Address(sqlalchemy.URL.create("sqlite", database=str(own.absolute())), LOCAL, True)
    if note is None and os.path.lexists(own):
        raise StoreError(
            f"{folder} keeps its queue in {own}. Leave queue= out; or remove that file while no worker runs; the "
            "queue is then rebuilt and finished runs stay."
        )
    address = parse_address(url)
    return None if note is None else Address(address, note.study, False)


def new_address(folder: Path, url: str) -> Address:
    """Return the address at which a study gets its queue, with a name that no other study has there."""
    return Address(parse_address(url), f"{folder.resolve().name}-{uuid.uuid4().hex[:8]}", False)


def write_note(folder: Path, address: Address) -> None:
    """Write ``store.json`` for a database that is not the file in the folder."""
    if not address.is_own:
        note = StoreNote(address.url.render_as_string(hide_password=True), address.study)
        if not os.path.lexists(folder / STORE_FILE) or read_note(folder) != note:
            write_record(folder / STORE_FILE, note)


def parse_address(text: str) -> sqlalchemy.URL:
    """Return the address of a database from its text.

    Raises:
        StoreError: if it is not an address, names a database that does not exist, or no place in one.
    """
    shown = _without_password(text)
    try:
        address = sqlalchemy.make_url(text)
        with suppress(
            ImportError
        ):  # the driver may still be missing; a database that SQLAlchemy does not know is wrong
            address.get_dialect()
    except (ArgumentError, ValueError) as error:
        why = "" if isinstance(error, ArgumentError) else ", as its port is not a number"
        raise StoreError(f"queue={shown!r} is not an address{why}: expected one such as {_EXAMPLE}.") from None
    if address.get_backend_name() == "sqlite" and address.database in (None, "", ":memory:"):
        raise StoreError(
            f"queue={shown!r} is an in-memory database, which other processes cannot see. Expected a file, such "
            f"as sqlite:////home/me/queue.db, or a server, such as {_EXAMPLE}."
        )
    return address


def elsewhere(folder: Path) -> str | None:
    """Return that the queue of a study is in another database than its own file, as a sentence; None if it is not."""
    note = read_note(folder)
    return None if note is None else _elsewhere(folder, note)


def _elsewhere(folder: Path, note: StoreNote) -> str:
    return (
        f"The queue of {folder} is in another database, which {STORE_FILE} calls {_without_password(note.url)[:200]!r}."
    )


def _without_password(url: str) -> str:
    return re.sub(r"(://[^:/@]*:).*@", r"\1***@", url)


def _check_own(file: Path) -> None:
    """Refuse a database that is not a file of the study: a link would have another one opened, or made."""
    for each in (file, file.with_name(f"{file.name}-journal"), file.with_name(f"{file.name}-wal")):
        if os.path.lexists(each) and not stat.S_ISREG(each.lstat().st_mode):
            what = f"a link to {os.readlink(each)}" if each.is_symlink() else "not a file"  # noqa: PTH115
            raise StoreError(
                f"{each} is {what}. Expected a file in the study's own folder. Remove it; 'gradgate compare' then "
                "rebuilds the queue and keeps finished runs."
            )


def _is_at_rest(file: Path) -> bool:
    """Return whether a SQLite file is to be read as one that does not change.

    One with a write-ahead log is, as SQLite would make files next to it to read it.

    Raises:
        StoreError: if the log has changes that are not in the file, which no process has open.
    """
    with suppress(OSError), file.open("rb") as opened:
        if opened.read(20)[18:] != bytes([_WRITE_AHEAD] * 2):
            return False
        log, index = (file.with_name(f"{file.name}-{name}") for name in ("wal", "shm"))
        if log.exists() and not index.exists():
            raise StoreError(
                f"{file} has pending changes in {log}, and reading it would write them. Run 'gradgate compare' or "
                "'gradgate worker' on the study, which apply them."
            )
        return not log.exists()
    return False
