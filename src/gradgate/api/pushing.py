"""Push finished runs to the Hugging Face hub: export, and upload with the card."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path

from gradgate.errors import GradgateError, RunError, UsageError
from gradgate.evaluation.export.hub_repository import HubRepository
from gradgate.runs.progress import RunProgress
from gradgate.settings.finished import ExportSettings


def push_run(
    run: Path, repository: HubRepository, settings: ExportSettings, progress: RunProgress | None = None
) -> str:
    """Export a finished run and upload it; return the address of its page.

    Args:
        run: its folder.
        repository: on the hub.
        settings: of the export.
        progress: is called when the export is done.

    Raises:
        RunError: if the hub refuses or cannot be reached; the message has the command that pushes again.
    """
    from gradgate.evaluation.export.export import export
    from gradgate.study.card_findings import card_findings

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / repository.name.rpartition("/")[2]
        made = export([run], folder, settings, progress, findings=card_findings, hub_name=repository.name)
        if len(made) > 1:
            raise _several_models(", ".join(str(each.task) for each in made), repository.name)
        try:
            return repository.push(folder)
        except GradgateError as error:
            again = _command(run, repository, settings)
            raise RunError(f"{error} The run is complete in {run}; push it with '{again}'.") from error


def _command(run: Path, repository: HubRepository, settings: ExportSettings) -> str:
    """Return the command that pushes a finished run in the same form."""
    words = ["gradgate", "export", str(run), "--push-to-hub", repository.name]
    words += ["--public"] if repository.public else []
    words += ["--as", settings.to] if settings.to is not None else []
    words += ["--dtype", settings.dtype] if settings.dtype is not None else []
    words += ["--trust-remote-code"] if settings.trust_remote_code else []
    return shlex.join(words)


def refuse_several_models(task: str, name: str) -> None:
    """Refuse to push a run of several tasks.

    Raises:
        UsageError: saying how its models are pushed.
    """
    from gradgate.tasks.multitask import is_multitask

    if is_multitask(task):
        raise _several_models(task, name)


def _several_models(tasks: str, name: str) -> UsageError:
    return UsageError(
        f"push_to_hub={name}: {tasks} are several tasks with one model each, but a repository has one model. Export "
        f"the run, and push each folder with 'hf upload'."
    )
