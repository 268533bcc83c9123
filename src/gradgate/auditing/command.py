"""Run a command whose processes are observed, and report what they trained."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradgate.auditing.process import EXPECT, FOLDER, LOOKS_AT
from gradgate.auditing.records import RECORD, ProcessRecord
from gradgate.auditing.report import AuditReport
from gradgate.errors import UsageError
from gradgate.import_path import GIVEN, VARIABLE

_STARTUP = Path(__file__).parent / "startup"
_BY_SIGNAL = 128


@dataclass(frozen=True)
class AuditedCommand:
    """A command that has ended.

    Attributes:
        code: its exit code; 128 and the number of the signal that ended it, as in a shell.
        report: what it trained.
    """

    code: int
    report: AuditReport


def audit_command(words: Sequence[str], expect: str | None = None, looks_at: int | None = None) -> AuditedCommand:
    """Run a command with its own input and output, and report what its processes trained.

    Every Python process that it starts is observed, however deep, if it runs with ``PYTHONPATH`` and has gradgate.

    Args:
        words: the command. A file that ends in ``.py`` runs with this Python.
        expect: selector of the weights that should learn.
        looks_at: a step to look at, in addition to 1, 2, 4, 8, … and the last.

    Raises:
        UsageError: if the command cannot be found or run.
    """
    with tempfile.TemporaryDirectory(prefix="gradgate-audit-") as name:
        folder = Path(name)
        code = _run(_with_python(words), _environment(folder, expect, looks_at))
        records = [ProcessRecord.read(path) for path in sorted(folder.glob(RECORD))]
        return AuditedCommand(code, AuditReport.of(records, expect, _notes(folder, records)))


def _with_python(words: Sequence[str]) -> list[str]:
    script = words[0].endswith(".py") and Path(words[0]).is_file() and shutil.which(words[0]) is None
    return [sys.executable, *words] if script else list(words)


def _environment(folder: Path, expect: str | None, looks_at: int | None) -> dict[str, str]:
    """Return the user's environment, in which a script finds the modules next to it, with what starts the audit."""
    users = {name: value for name, value in GIVEN.items() if value is not None}
    path = os.pathsep.join(filter(None, (str(_STARTUP), users.get(VARIABLE, ""))))
    own = {FOLDER: str(folder), VARIABLE: path}
    if expect is not None:
        own[EXPECT] = expect
    if looks_at is not None:
        own[LOOKS_AT] = str(looks_at)
    others = {name: value for name, value in os.environ.items() if name not in GIVEN}
    return {**others, **users, **own}


def _run(words: list[str], environment: dict[str, str]) -> int:
    sys.stdout.flush()
    try:
        with subprocess.Popen(words, env=environment) as process, _signals_to(process):
            code = process.wait()
    except FileNotFoundError:
        raise UsageError(
            f"There is no command {words[0]!r}. Expected the command as you type it in a shell, after --."
        ) from None
    except PermissionError:
        raise UsageError(f"{words[0]} is not executable. Write python before it, or make it executable.") from None
    return code if code >= 0 else _BY_SIGNAL - code


@contextmanager
def _signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave Ctrl-C to the command, which gets it too, and pass on a request to end."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _notes(folder: Path, records: Sequence[ProcessRecord]) -> list[str]:
    """Return what the audit could not see, for a command in which no optimizer made a step."""
    if any(record.models for record in records):
        return []
    if not any(folder.glob("python-*")):
        return [
            "No Python process could be observed. Expected a command that starts Python with gradgate installed, and "
            "without -I, -E or -S."
        ]
    if not any(folder.glob("torch-*")):
        return ["The command used no torch."]
    return ["The command imported torch, but ended before an optimizer of torch made a step."]
