"""Store the trained model of a run: whole, or as a delta to the model that it was trained from."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gradgate.deltas.delta import DELTA_FILE, Delta
from gradgate.errors import DeltaError, RunError
from gradgate.files import write_text
from gradgate.places import short_name
from gradgate.runs.folder import RunFolder
from gradgate.runs.progress import RunProgress
from gradgate.runs.records import RunRecord, read_record
from gradgate.runs.scores import FileSizes
from gradgate.settings.run import RunConfig

_AUTO_BELOW = 0.5  # of the model's bytes
_ALWAYS = float("inf")
_NOTE_FILE = "README.md"
_NOTE = """\
`{file}` holds what this training changed in the model {base!r}; with that model it is the trained one, bit for bit.
gradgate reads this folder as it is, as in `gradgate evaluate` or `gradgate train --model`. Other libraries need the
whole model, which this command writes in the folder that contains the run:

    gradgate delta apply {run} -o FOLDER

If {base!r} has moved since, `--base` names its place.
"""


def store(config: RunConfig, folder: RunFolder, task: str, progress: RunProgress) -> FileSizes | None:
    """Replace the weights in a run's ``model`` folder by a delta, as the configuration wants it.

    Returns:
        The sizes of the stored files; None for an adapter.

    Raises:
        DeltaError: if the configuration wants a delta and the pretrained model cannot be read as files.
    """
    if config.adapter is not None:
        return None
    from gradgate.deltas.weights import Checkpoint

    weights = Checkpoint(folder.model, str(folder.model)).files
    whole = _bytes(weights)
    base = None if config.store == "model" else _replace_by_delta(config, folder, task, progress)
    if base is None:
        return FileSizes(stored=whole, whole=whole)
    for file in weights:
        file.unlink()
    return FileSizes(stored=_bytes([folder.model / DELTA_FILE]), whole=whole, base=base)


def _bytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files)


def _replace_by_delta(config: RunConfig, folder: RunFolder, task: str, progress: RunProgress) -> int | None:
    """Write the delta and its note; return the bytes of its base, or None if the whole model is to stay."""
    from gradgate.deltas.creation import create_if_below
    from gradgate.deltas.patched import weight_files

    file = folder.model / DELTA_FILE
    below = _ALWAYS if config.store == "delta" else _AUTO_BELOW
    try:
        made = create_if_below(below, folder.model, config.model, file, method=str(config.method), task=task)
    except DeltaError as error:
        if config.store == "delta":
            raise
        progress.note(f"The whole model is stored, and no delta: {error}")
        return None
    if made is None:
        return None
    base = short_name(made.origin.base)
    write_text(folder.model / _NOTE_FILE, _NOTE.format(file=DELTA_FILE, base=base, run=folder.path.resolve().name))
    return _bytes(weight_files(made.origin.base))


def forget_delta(folder: RunFolder) -> None:
    """Remove the delta of an earlier try of the run, before the weights are written."""
    for name in (DELTA_FILE, _NOTE_FILE):
        (folder.model / name).unlink(missing_ok=True)


@contextmanager
def whole_model(source: str) -> Iterator[str]:
    """Yield a path for ``from_pretrained``: the source, or a temporary model of its base and its delta.

    Raises:
        RunError: if the base of a delta cannot be read, or has changed.
    """
    from gradgate.deltas.weights import has_weights

    file = Path(source) / DELTA_FILE
    if not file.is_file() or has_weights(Path(source)):
        yield source
        return
    from gradgate.deltas import apply

    with tempfile.TemporaryDirectory(prefix="gradgate-", ignore_cleanup_errors=True) as folder:
        try:
            whole = apply(file, None, Path(folder) / "model")
        except DeltaError as error:
            raise RunError(
                f"{source} holds a delta, but the model cannot be restored: {error} If its base has moved, "
                f"'gradgate delta apply {source} --base MODEL -o FOLDER' writes a whole model."
            ) from error
        yield str(whole)


def check_trained_model(folder: RunFolder, record: RunRecord) -> None:
    """Check that a run trained the model itself, of which a delta can be made.

    Raises:
        RunError: if it trained an adapter.
    """
    if record.adapter is not None:
        raise RunError(
            f"The run in {folder.path} trained the adapter {record.adapter}, and {folder.model} holds only the "
            f"adapter and the head, without the model. That is all that a task needs in addition to the base: copy "
            f"this folder."
        )


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
    check_trained_model(folder, record)
    named = record.task.name if record.task is not None else str(record.config.get("task"))
    pretrained = base if base is not None else str(record.config["model"])
    return create(folder.model, pretrained, out, method=record.method, task=named)
