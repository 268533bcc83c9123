"""Serve the tools over the Model Context Protocol, on standard input and output."""

from __future__ import annotations

import logging
import sys
from contextlib import redirect_stdout
from typing import Any

from gradgate import __version__
from gradgate.errors import GradgateError, UsageError

try:
    import anyio
    import anyio.to_thread
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, ToolAnnotations
    from mcp_types import Tool as ListedTool
except ImportError:
    raise UsageError(
        "gradgate mcp needs the Python SDK of the Model Context Protocol, version 2: pip install 'gradgate[mcp]'."
    ) from None

from gradgate.agents.process import Report, RunsDone, run_command, stop_on_signal
from gradgate.agents.tool import ReadingTool, ToolAnswer
from gradgate.agents.tools import AnyTool, find, offered

_INSTRUCTIONS = (
    "gradgate judges whether one way of fine-tuning is better than another. Ask noise_floor before you call a "
    "difference an improvement, and is_better for a verdict. Report the verdict's word and sentence as they are; "
    "an inconclusive result is not a small improvement. Scores × 100 are points."
)
_log = logging.getLogger(__name__)


def serve(allow_training: bool) -> None:
    """Serve one client until it closes standard input.

    Args:
        allow_training: offer the tools that train.
    """
    anyio.run(_serve, build_server(allow_training))


async def _serve(server: Server[Any]) -> None:
    async with anyio.create_task_group() as tasks:
        if sys.platform != "win32":
            tasks.start_soon(stop_on_signal)
        async with stdio_server() as (received, sent):
            # The SDK leads descriptor 1 to standard error; what Python still buffers must not follow the session.
            with redirect_stdout(sys.stderr):
                await server.run(received, sent, server.create_initialization_options())
        tasks.cancel_scope.cancel()


def build_server(allow_training: bool) -> Server[Any]:
    """Return the server with its tools.

    Args:
        allow_training: offer the tools that train.
    """

    async def list_tools(context: Any, parameters: Any) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in offered(allow_training)])

    async def call_tool(context: Any, parameters: Any) -> CallToolResult:
        async def report(found: RunsDone) -> None:
            message = f"{found.ended} of {found.runs} runs have ended"
            await context.session.report_progress(found.done, found.runs, message)

        try:
            tool = find(parameters.name, allow_training)
            answer = await _answer(tool, parameters.arguments or {}, report)
        except GradgateError as error:
            return _failed(str(error))
        except (OSError, MemoryError, RecursionError) as error:
            return _failed(f"{type(error).__name__}: {error}. Check the arguments, free space and permissions.")
        except Exception as error:
            _log.exception("%s failed", parameters.name)
            return _failed(f"{parameters.name} stopped with {type(error).__name__}: a defect of gradgate; report it.")
        return CallToolResult(content=[TextContent(type="text", text=answer.text)], structured_content=answer.record)

    return Server(
        "gradgate",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _listed(tool: AnyTool) -> ListedTool:
    reads = isinstance(tool, ReadingTool)
    hints = ToolAnnotations(
        read_only_hint=reads, destructive_hint=False, idempotent_hint=True, open_world_hint=not reads
    )
    return ListedTool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints)


async def _answer(tool: AnyTool, arguments: dict[str, Any], report: Report) -> ToolAnswer:
    """Call a tool, in a thread so that the server stays responsive."""
    if isinstance(tool, ReadingTool):
        return await anyio.to_thread.run_sync(tool.call, arguments, abandon_on_cancel=True)
    words, study = tool.command(arguments)
    printed = await run_command(words, study, report)
    return await anyio.to_thread.run_sync(tool.answer, study, printed, abandon_on_cancel=True)


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=message)], is_error=True)
