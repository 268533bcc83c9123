"""The trained model of a run as files: whole, or as a delta to the model that it was trained from."""

from __future__ import annotations

from pathlib import Path

from gradgate.deltas.delta import Delta
from gradgate.errors import RunError
from gradgate.training.records import RunRecord, read_record
from gradgate.training.run_folder import RunFolder


def delta_of_run(folder: RunFolder, out: Path, base: str | None = None) -> Delta:
    """Write the delta of a finished run to a file.

    Args:
        folder: of the run.
        out: the file.
        base: the pretrained model; by default the one that the run was trained from.

    Raises:
        RunError: if the run has not finished, kept no model, or trained an adapter.
        DeltaError: as :func:`gradgate.deltas.create`.
    """
    from gradgate.deltas import create

    folder.require_finished()
    record = read_record(folder.run_file, RunRecord)
    if record.adapter is not None:
        raise RunError(
            f"The run in {folder.path} trained the adapter {record.adapter}, and {folder.model} holds it and the head "
            f"alone, without the model. That is all that a task needs beside the base: copy this folder."
        )
    named = record.task.name if record.task is not None else str(record.config.get("task"))
    pretrained = base if base is not None else str(record.config["model"])
    return create(folder.model, pretrained, out, method=record.method, task=named)
