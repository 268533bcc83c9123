"""A client of ``gradgate mcp``: the SDK's own session, with a process or with a server in this one."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import anyio
from mcp import ClientSession, StdioServerParameters, stdio_client
from mcp.shared.memory import create_client_server_memory_streams

from gradgate.agents.server import build_server

Call = tuple[str, Mapping[str, Any]]
COMMAND = [sys.executable, "-m", "gradgate", "mcp"]


class Reply(NamedTuple):
    """What a tool answered."""

    text: str
    record: dict[str, Any]
    failed: bool


class Session(NamedTuple):
    """What a client saw: the tools that are listed, by name, and a reply per call."""

    tools: dict[str, Any]
    replies: list[Reply]
    instructions: str


def environment() -> dict[str, str]:
    """What the server needs of this process's environment."""
    names = ("PATH", "HOME", "PYTHONPATH", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "TMPDIR")
    return {name: os.environ[name] for name in names if name in os.environ}


def ask(
    calls: Sequence[Call], folder: Path, *flags: str, environment: Mapping[str, str] = MappingProxyType({})
) -> Session:
    """Start a server in a folder, list its tools and call some."""
    return anyio.run(_ask, calls, folder, flags, environment)


def ask_here(calls: Sequence[Call], *, allow_training: bool = False) -> Session:
    """Ask a server in this process, which need not import torch again; relative paths are below the current folder."""
    return anyio.run(_ask_here, calls, allow_training)


async def _ask(calls: Sequence[Call], folder: Path, flags: Sequence[str], more: Mapping[str, str]) -> Session:
    async with connected(folder, *flags, more=more) as (session, begun):
        return await _session(session, begun, calls)


async def _ask_here(calls: Sequence[Call], allow_training: bool) -> Session:
    server = build_server(allow_training)
    async with create_client_server_memory_streams() as (mine, theirs), anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, *theirs, server.create_initialization_options())
        async with ClientSession(*mine) as session:
            found = await _session(session, await session.initialize(), calls)
        tasks.cancel_scope.cancel()
    return found


async def _session(session: ClientSession, begun: Any, calls: Sequence[Call]) -> Session:
    listed = await session.list_tools()
    replies = [_reply(await session.call_tool(name, dict(arguments))) for name, arguments in calls]
    return Session({tool.name: tool for tool in listed.tools}, replies, begun.instructions or "")


@asynccontextmanager
async def connected(
    folder: Path, *flags: str, more: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[tuple[ClientSession, Any]]:
    """Start a server in a folder, and yield a session with what it said of itself; its messages go to a file."""
    command, *words = [*COMMAND, *flags]
    server = StdioServerParameters(command=command, args=words, env=environment() | dict(more), cwd=folder)
    with (folder / "stderr.txt").open("w") as said:
        async with stdio_client(server, errlog=said) as streams, ClientSession(*streams) as session:
            yield session, await session.initialize()


def _reply(result: Any) -> Reply:
    text = "\n".join(block.text for block in result.content)
    return Reply(text, result.structured_content or {}, bool(result.is_error))
