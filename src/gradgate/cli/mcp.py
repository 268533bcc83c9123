"""Define the command that answers coding agents."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gradgate.cli.options import Config
from gradgate.cli.render import errors, print_line


def mcp(
    allow_training: Annotated[
        bool, typer.Option("--allow-training", help="Also offer compare and recommend, which train and write files.")
    ] = False,
    skill: Annotated[
        bool, typer.Option("--skill", help="Print SKILL.md, which tells a coding agent how to use gradgate, and exit.")
    ] = False,
    config_file: Config = None,
) -> None:
    """Answer a coding agent over the Model Context Protocol.

    The agent starts this command and talks to it over standard input and output. The tools is_better, noise_floor,
    study_import, study_verdicts, memory and methods only read: they write nothing and use no network. Needs pip install
    'gradgate[mcp]'.
    """
    if skill:
        from gradgate.agents.skill import skill_text

        print_line(skill_text().rstrip("\n"))
        return
    if not allow_training:
        os.environ["HF_HUB_OFFLINE"] = "1"  # before the library that reads it is imported

    from gradgate.agents.server import serve

    if sys.stdin.isatty():
        errors.print("Waiting for a client on standard input, as an agent starts this command. Ctrl-C ends it.")
    serve(allow_training)
