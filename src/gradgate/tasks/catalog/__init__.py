"""Read the named tasks: one YAML file each, in the form of a user's own ``task.yaml``, next to this module.

Two entries are the catalogue's own: ``folder_names``, other common names of the data's folder, and ``header``, the
first line of its files if no other data set has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gradgate.tasks.languages import expand
from gradgate.tasks.spec import TaskSpec, build_spec, read_yaml
from gradgate.tasks.types import TRAIN_AND_DEV


@dataclass(frozen=True)
class CatalogEntry:
    """A named task and how a folder with its data is recognised."""

    spec: TaskSpec
    folder_names: frozenset[str]
    header: tuple[str, ...] | None


@cache
def entries() -> dict[str, CatalogEntry]:
    """Return every entry by task name, sorted by name."""
    return {path.stem: _read(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def plain(name: str) -> str:
    """Reduce a name to lower-case letters and digits: ``STS-B`` and ``sts_b`` become ``stsb``."""
    return "".join(character for character in name.lower() if character.isalnum())


def at_folder(spec: TaskSpec, folder: Path) -> TaskSpec:
    """Return the task with its files in ``folder``; test splits without a file are left out."""
    here = expand(spec.model_copy(update={"folder": folder.resolve()}))
    files = {
        split: file for split, file in (here.files or {}).items() if split in TRAIN_AND_DEV or (folder / file).is_file()
    }
    return here.model_copy(update={"files": files})


def _read(path: Path) -> CatalogEntry:
    values = read_yaml(path)
    names = [path.stem, *values.pop("folder_names", [])]
    header = values.pop("header", None)
    spec = build_spec({"name": path.stem, **values}, str(path))
    return CatalogEntry(spec, frozenset(plain(name) for name in names), tuple(header) if header else None)
