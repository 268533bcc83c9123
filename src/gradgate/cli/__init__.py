"""The command ``gradgate``: the commands parse, call and print; what they do is elsewhere."""

from __future__ import annotations

import io
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any

import typer

import gradgate
from gradgate.cli import (
    analyses,
    audit,
    deltas,
    doctor,
    export,
    imports,
    lists,
    mcp,
    memory,
    models,
    papers,
    recommend,
    runs,
    studies,
    study_data,
)
from gradgate.cli.completion import whole_words_in_bash
from gradgate.cli.grouped_help import GroupedCommand
from gradgate.cli.render import console, errors, open_closed_streams, print_error, print_line, survive_any_encoding
from gradgate.cli.wording import flag, help_in_flags, in_flags
from gradgate.errors import AdapterError, GradgateError, GradgateWarning, SpecError, UsageError, nearest
from gradgate.settings.compare import CompareSettings
from gradgate.settings.run import RunConfig
from gradgate.settings.trainer_names import gradgate_name

app = typer.Typer(
    name="gradgate",
    help="Decide which weights of a pretrained transformer learn, and when, and measure which decision was best.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    models.layers,
    lists.methods,
    lists.tasks,
    models.plan,
    memory.memory,
    runs.train,
    runs.evaluate,
    runs.predict,
    export.export,
    runs.pretrain_adapter,
    studies.compare,
    studies.worker,
    studies.report,
    studies.quickstart,
    recommend.recommend,
    papers.papers,
    papers.reproduce,
    doctor.doctor,
    mcp.mcp,
):
    app.command(command.__name__.replace("_", "-"), cls=GroupedCommand)(command)
app.command("audit", cls=audit.AuditCommand)(audit.audit)
for of_study in (study_data.export, study_data.replay, study_data.verdicts, study_data.power):
    studies.study_app.command(cls=GroupedCommand)(of_study)
studies.study_app.command("import", cls=GroupedCommand)(imports.import_)
app.add_typer(studies.study_app, name="study")
app.add_typer(deltas.delta_app, name="delta")
app.add_typer(analyses.analyze_app, name="analyze")

# Newer typer brings its own click, so the class is taken from what typer exports.
_WrongCommandLine: type[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_INTERRUPTED = 130  # what typer makes of Ctrl-C


def main() -> None:
    """Run the command line: a user's mistake ends with its message and its exit code, without a traceback."""
    open_closed_streams()
    survive_any_encoding()
    with whole_words_in_bash():
        sys.exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """Run one command line, and return its exit code."""
    with _worded(words), _shown_warnings():
        return _run(words)


def _run(words: Sequence[str]) -> int:
    try:
        _refuse_empty(words)
        code = _app_for(words)(list(words), prog_name="gradgate", standalone_mode=False)
    except GradgateError as error:
        if not error.reported_by_main:
            print_error(f"gradgate: {_in_flags(error, words)}")
        return error.exit_code
    except _WrongCommandLine as error:
        return _show_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except (OSError, MemoryError, RecursionError) as error:
        print_error(f"gradgate: {_reason(error)}")
        return 1
    if code == _INTERRUPTED:
        errors.print("gradgate: interrupted; what was saved before is still there.")
    return code if isinstance(code, int) else 0


def _app_for(words: Sequence[str]) -> typer.Typer:
    """Return the app with only the requested command, as building the flags of all takes longer than most answers."""
    lean = copy(app)
    lean.registered_commands = [command for command in app.registered_commands if command.name in words[:1]]
    lean.registered_groups = [group for group in app.registered_groups if group.name in words[:1]]
    return lean if lean.registered_commands or lean.registered_groups else app


def _in_flags(error: GradgateError, words: Sequence[str]) -> str:
    """Return the message of an error with the flags of the command in place of the parameters it names."""
    if isinstance(error, SpecError | AdapterError):  # a name with a value is an option, which has no flag
        return help_in_flags(str(error), _flags_of(words))
    return in_flags(str(error), _flags_of(words))


@contextmanager
def _worded(words: Sequence[str]) -> Iterator[None]:
    """Let the consoles write the parameters in messages as flags while the body runs."""
    flags = cache(partial(_flags_of, words))
    for each in (console, errors):
        each.worded = lambda text: in_flags(text, flags())
    try:
        yield
    finally:
        for each in (console, errors):
            each.worded = str


@contextmanager
def _shown_warnings() -> Iterator[None]:
    """Print gradgate's warnings as its other messages while the body runs; those of other packages stay as they are."""
    show = warnings.showwarning

    def shown(message: Warning | str, category: type[Warning], *place: Any, **where: Any) -> None:
        if issubclass(category, GradgateWarning):
            errors.print(f"Warning: {errors.worded(str(message))}", soft_wrap=True)
        else:
            show(message, category, *place, **where)

    with warnings.catch_warnings():
        warnings.showwarning = shown
        yield


def _flags_of(words: Sequence[str]) -> dict[str, str]:
    """Return the flags by the parameters they stand for: of this command, and of those that train."""
    of_training = {name: flag(name) for kind in (RunConfig, CompareSettings) for name in kind.model_fields}
    return of_training | _own_flags(words)


def _own_flags(words: Sequence[str]) -> dict[str, str]:
    """Return the long flags of the command that a command line begins with, by the parameters they stand for."""
    command: Any = typer.main.get_command(_app_for(words))
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    long = [(option, name) for option in command.params for name in option.opts if name.startswith("--")]
    return {name[2:].replace("-", "_"): name for _, name in long} | {str(option.name): name for option, name in long}


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse an empty word, as of a shell variable that is not set: a path would mean the current folder."""
    own = words[: words.index("--")] if "--" in words else words  # the words after it are another program's
    for before, word in pairwise(["gradgate", *own]):
        if word == "" or (word.startswith("--") and word.endswith("=")):
            where = word.rstrip("=") or before
            raise UsageError(
                f"The value after {where} is empty; expected a name, number or path. Pass one, or leave the flag out "
                f"for its default."
            )


def _show_usage(error: Any) -> int:
    """Print what typer says of a command line that it cannot read, through the console."""
    text = io.StringIO()
    ours = _gradgate_flag(error)
    if ours:
        error.possibilities = None  # flags that only look alike
    error.show(file=text)
    errors.print(
        f"{text.getvalue().rstrip()}{_nearest_choice(error)}{ours}{_flag_of_value(error)}",
        soft_wrap=True,
    )
    return int(error.exit_code)


def _nearest_choice(error: Any) -> str:
    """Return the choice that was probably meant, if a flag takes one of several words."""
    wrong = re.search(r"'([^']*)' is not one of (.+)", str(getattr(error, "message", "")))
    return nearest(wrong[1], re.findall(r"'([^']+)'", wrong[2])) if wrong else ""


def _gradgate_flag(error: Any) -> str:
    """Return gradgate's flag for one that is a name of Trainer's."""
    ours = gradgate_name(str(getattr(error, "option_name", "")))
    name = str(ours).partition("=")[0]
    return "" if ours is None else f". gradgate's flag is {in_flags(ours, {name: flag(name)})}."


def _flag_of_value(error: Any) -> str:
    """Return the flag that probably takes a value which was typed without one."""
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "message", ""))
    known = [] if context is None else [name for option in context.command.params for name in option.opts]
    if "--file" in known and getattr(getattr(error, "param", None), "name", "") == "file":
        return " Rows to predict are a file, as in -f rows.csv."
    if "unexpected extra argument" not in message:
        return ""
    found = [name for name in ("--base", "--model", "--task", "--test-file") if name in known][:2]
    return f". Say what it is with a flag, such as {' or '.join(found)}." if found else ""


def _reason(error: Exception) -> str:
    """Return the message of an error that nothing closer to its cause has turned into advice."""
    if isinstance(error, MemoryError):
        return "not enough memory. Use a smaller model, batch or --max-length, or a machine with more."
    if isinstance(error, RecursionError):
        return "an input is nested too deeply. Expected plain values in files and settings; look for brackets in them."
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}. Check that it is there, and that you may use it."
    return f"the system refused: {error}. Check free space and permissions, and run the command again."


def _version(show: bool) -> None:
    if show:
        print_line(f"gradgate {gradgate.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...
