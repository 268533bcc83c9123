"""The raw tables of a task, from its files or from the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradgate.errors import DataError
from gradgate.tasks.files import missing, read_table
from gradgate.tasks.hub import read_hub
from gradgate.tasks.table import Table

if TYPE_CHECKING:
    from gradgate.tasks.spec import TaskSpec

_WHY_DEV = (
    "Checkpoints are selected on dev, which may be neither train nor test: hold out some rows of train in a file of "
    "their own, and add `dev: FILE` to the task's files or give --dev-file FILE"
)


def read_tables(spec: TaskSpec) -> dict[str, Table]:
    """Split -> table, ``train`` and ``dev`` first: from files where the task has a folder, else from the hub.

    Raises:
        DataError: no place to read from, no train or dev split, or anything that cannot be read.
    """
    if spec.folder is not None:
        files = spec.files or {}
        _require_train_and_dev(spec, tuple(files))
        train, dev = (spec.folder / files[split] for split in ("train", "dev"))
        if train.is_file() and not dev.is_file():
            raise DataError(f"{missing(dev)}. {_WHY_DEV}")
        order = ("train", "dev", *(split for split in files if split not in ("train", "dev")))
        return {split: read_table(spec.folder / files[split], spec.format_of(split)) for split in order}
    if spec.hub is not None:
        _require_train_and_dev(spec, tuple(spec.hub.splits))
        return read_hub(spec.hub)
    raise DataError(f"The task {spec.name} names no data; add `files:` or `hub:` to its description")


def _require_train_and_dev(spec: TaskSpec, splits: tuple[str, ...]) -> None:
    there = f"it has {', '.join(splits)}" if splits else "it has none"
    if "train" not in splits:
        raise DataError(
            f"The task {spec.name} has no train split ({there}). Add `train: FILE` to its files or give --train-file"
        )
    if "dev" not in splits:
        raise DataError(f"The task {spec.name} has no dev split ({there}). {_WHY_DEV}")
