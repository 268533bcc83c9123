"""A PostgreSQL server on a port of this machine, which asks for a password, and which tests may kill."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "q7-Xv_unlikely"


@dataclass
class Server:
    """A server whose data are in a folder."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://gate:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody")
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        self._run("initdb", "-U", "gate", "--auth=scram-sha-256", f"--pwfile={secret}")
        secret.unlink()

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def kill(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "stop")

    def _run(self, program: str, *words: str) -> None:
        who: dict[str, Any] = {"user": "nobody"} if os.getuid() == 0 else {}  # the server refuses root
        command = [program, "-D", str(self.folder / "data"), *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **who)


@contextmanager
def running_server() -> Iterator[Server]:
    """Start a server, and kill it at the end; skip the test where there is no PostgreSQL."""
    if not (shutil.which("initdb") and shutil.which("pg_ctl")):
        pytest.skip("no PostgreSQL server")
    pytest.importorskip("psycopg", reason="no driver for PostgreSQL")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:  # other users may enter it, unlike pytest's folders
        server = Server(Path(folder), port)
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.kill()
