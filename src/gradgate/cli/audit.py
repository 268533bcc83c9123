"""The command that says what a training really trained."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradgate.cli.grouped_help import GroupedCommand
from gradgate.cli.options import AsJson
from gradgate.cli.render import console, print_json
from gradgate.errors import UsageError
from gradgate.files import check_writable, write_text

if TYPE_CHECKING:
    from gradgate.auditing.checkpoints import CheckpointAudit
    from gradgate.auditing.report import AuditReport

_BROKEN = 1
Expected = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="SELECTOR",
        help="Selector of what should learn, such as layers.top4/head; exit 1 if more or less than that does.",
    ),
]


class AuditCommand(GroupedCommand):
    """A command whose words after ``--`` are another command, which keeps its flags."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before ``--``, and leave those after it as they are."""
        own, script = args, None
        if "--" in args:
            place = args.index("--")
            own, script = args[:place], args[place + 1 :]
        rest = super().parse_args(ctx, own)
        ctx.meta["script"] = script
        return rest


def audit(
    context: typer.Context,
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BASE TRAINED | -- COMMAND...]", help="Two checkpoints, or a command to run."),
    ] = None,
    expect: Expected = None,
    steps: Annotated[
        int | None, typer.Option(metavar="N", help="Also inspect this step, besides 1, 2, 4, 8, ... and the last.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 if there is a finding.")] = False,
    full: Annotated[bool, typer.Option("--full", rich_help_panel="output", help="Show each layer and part.")] = False,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", rich_help_panel="output", help="Write the report to this file.")
    ] = None,
) -> None:
    """Show what a training really trained.

    Run any PyTorch training script, as in 'gradgate audit -- python train.py --lr 1e-5', or compare two checkpoints.
    The script's output and exit code are unchanged, except that the code is 1 if --expect or --strict fails.
    """
    script = context.meta.get("script")
    words = list(checkpoints or [])
    _check(words, script, steps, out, expect)
    code = 0
    report: AuditReport | CheckpointAudit
    if script is not None:
        from gradgate.auditing.command import audit_command

        done = audit_command(script, expect, steps)
        code, report = done.code, done.report
    else:
        from gradgate.auditing.checkpoints import audit_checkpoints

        base, trained = words
        report = audit_checkpoints(base, trained, expect)
    _show(report, out, full=full, as_json=as_json)
    if code == 0 and expect is not None and report.expected is not True:
        code = _BROKEN
    if code == 0 and strict and report.findings:
        code = _BROKEN
    raise typer.Exit(code)


def _check(words: list[str], script: list[str] | None, steps: int | None, out: Path | None, expect: str | None) -> None:
    """Check all that can be checked before the training.

    Raises:
        UsageError: for words, a step or a file that are wrong.
        SelectorError: for a selector that no model has.
    """
    if script is not None and (words or not script):
        raise UsageError(
            f"Expected a command after --, and before it only flags; got {' '.join(words) or 'nothing after --'}. "
            f"Write gradgate audit --json -- python train.py."
        )
    if script is None and words and which(words[0]) and not Path(words[0]).exists():
        raise UsageError(
            f"{words[0]!r} is a command, and a command comes after --. Write gradgate audit -- {shlex.join(words)}."
        )
    if script is None and len(words) != 2:
        raise UsageError(
            f"Expected two checkpoints, or -- and a command; got {' '.join(words) or 'nothing'}. Write gradgate "
            f"audit BASE TRAINED, or gradgate audit -- python train.py."
        )
    if script is None and steps is not None:
        raise UsageError(f"steps={steps}: two checkpoints have no steps. Leave it out, or audit the command.")
    if out is not None:
        check_writable(out)
    from gradgate.auditing.expectation import check_request  # imports torch, as the audit does

    check_request(expect, steps)


def _show(report: AuditReport | CheckpointAudit, out: Path | None, *, full: bool, as_json: bool) -> None:
    """Print the report, or write it to a file."""
    if out is None:
        if as_json:
            print_json(report.to_dict())
        else:
            console.print(report.shown(full=full))
        return
    text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False) if as_json else report.text(full=full)
    write_text(out, f"{text}\n")
