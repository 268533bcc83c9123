"""Database servers that do not answer, and addresses of none: each ends with a message, and no password is shown."""

from __future__ import annotations

import socket
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import StoreError
from gradgate.study.workers import store_errors
from gradgate.study.workers.store import open_store


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setattr(store_errors, "CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(StoreError, match=r"did not answer within 1 s .*Check the address"):
            open_store(tmp_path, f"postgresql+psycopg://me:secret@127.0.0.1:{port}/none")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A database driver that keeps how it was called, and then reports a timeout."""
    given: dict[str, Any] = {}
    module: Any = types.ModuleType("psycopg2")

    class OperationalError(Exception):
        pass

    def connect(*words: Any, **options: Any) -> None:
        given.update(options)
        raise OperationalError("timeout expired")

    module.__version__, module.paramstyle, module.connect = "2.9.9 (dt dec pq3 ext lo64)", "pyformat", connect
    module.Error = module.OperationalError = OperationalError
    for name in ("extensions", "extras"):
        setattr(module, name, types.ModuleType(f"psycopg2.{name}"))
        monkeypatch.setitem(sys.modules, f"psycopg2.{name}", getattr(module, name))
    monkeypatch.setitem(sys.modules, "psycopg2", module)
    return given


def test_a_server_has_seconds_to_answer(driver: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"did not answer within 10 s \(timeout expired\)\. Check the address"):
        open_store(tmp_path / "a", "postgresql+psycopg2://me:secret@afar/none")
    assert driver["connect_timeout"] == 10
    with pytest.raises(StoreError, match="timeout expired"):
        open_store(tmp_path / "b", "postgresql+psycopg2://me:secret@afar/none?connect_timeout=3")
    assert driver["connect_timeout"] == "3"


@pytest.mark.parametrize(
    ("url", "message", "never"),
    [
        ("mysql+nosuchdriver://me:secret@afar/none", "is not an address", "postgres]"),
        ("mysql://me:secret@afar/none", "driver of this database is not installed", "postgres]"),
        ("oracle://me:secret@afar/none", "driver of this database is not installed", "postgres]"),
        ("nonsense://me:secret@afar/none", "is not an address: expected one such as postgresql", "postgres]"),
        ("postgresql+pg8000://me:secret@afar/none", r"pip install 'gradgate\[postgres\]'", "SQLite"),
    ],
)
def test_advice_about_a_driver_is_about_that_driver(url: str, message: str, never: str, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=message) as refused:
        open_store(tmp_path, url)
    assert never not in str(refused.value)
    assert "secret" not in str(refused.value)
