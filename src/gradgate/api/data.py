"""Turn rows, models and names that a user passes into the name or path of a task or model."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from os import PathLike
from pathlib import Path

from gradgate.api.frames import arrow_table
from gradgate.errors import UsageError, nearest
from gradgate.files import write_files
from gradgate.places import typed_place
from gradgate.tasks.readers.class_names import names_in
from gradgate.tasks.split_names import EXPECTED, WORDS, by_split

_NAME = "data"


@dataclass(frozen=True)
class GivenTask:
    """The task that a user passed: a name, a path, or rows.

    Attributes:
        name: the text that stands for it in settings; None for None.
        folder: where rows go; None for a name or path.
        files: name to content of the files of the folder.
    """

    name: str | None
    folder: Path | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, task: object, out: Path) -> GivenTask:
        """Return a task; rows are not written yet.

        Rows of one table are divided into train, dev and test as one file is. Equal rows get equal files, so that a
        run or study continues with them.

        Args:
            task: a name or path, or rows.
            out: the folder of the run or study; rows go into ``OUT-data/``, as Parquet files.

        Raises:
            UsageError: for anything else, or splits with other names.
        """
        if task is None or isinstance(task, str | PathLike):
            return cls(None if task is None else typed_place(task))
        if isinstance(task, Mapping):
            splits = _splits(task)
            files = {
                f"{split}.parquet": _parquet(rows, f"task[{word!r}]")
                for split, (word, rows) in zip(splits, task.items(), strict=True)
            }
            if "train.parquet" not in files:
                raise UsageError(
                    f"task has the splits {', '.join(map(str, task)) or 'none'}; expected train among them."
                )
        else:
            files = {f"{_NAME}.parquet": _parquet(task, "task")}
        digest = sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()[:12]
        place = out.resolve()  # the name of "." is that of the folder
        folder = place.parent / f"{place.name}-data" / digest / _NAME
        return cls(str(folder if isinstance(task, Mapping) else folder / f"{_NAME}.parquet"), folder, files)

    def write(self) -> None:
        """Write the rows, if it has any, next to the folder of what trains on them."""
        if self.folder is not None:
            write_files(self.folder, self.files)


def model_name(model: object) -> str | None:
    """Return the text that stands for a model in settings; None for None.

    Raises:
        UsageError: for a model that is in memory.
    """
    if model is None or isinstance(model, str | PathLike):
        return None if model is None else typed_place(model)
    raise UsageError(
        f"model is a {type(model).__name__}; expected a hub name, a folder, or 'sample', from which each run loads its "
        f"own copy. Save the model and its tokenizer with save_pretrained('FOLDER') and pass that folder."
    )


def _splits(task: Mapping[object, object]) -> list[str]:
    """Return what we call each split; raise UsageError for another word, or two for one split."""
    found = by_split(map(str, task))
    for split, words in found.items():
        if len(words) > 1:
            raise UsageError(f"task has two splits that are {split}: {', '.join(words)}. Leave one out.")
    splits = {word: split for split, words in found.items() for word in words}
    for name in map(str, task):
        if name not in splits:
            raise UsageError(
                f"task has a split {name!r}.{nearest(name, WORDS)} Expected {EXPECTED}; leave the others out."
            )
    return [splits[str(name)] for name in task]


def _parquet(rows: object, name: str) -> bytes:
    """Write rows to a Parquet file; raise UsageError for data without rows."""
    from pyarrow import Table, parquet

    file = io.BytesIO()
    table = arrow_table(rows, name)
    if isinstance(rows, Table):
        table = table.replace_schema_metadata(names_in(rows.schema))
    parquet.write_table(table, file)
    return file.getvalue()
