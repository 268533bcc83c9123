"""Find the data next to that of a task which none of its splits uses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gradgate.errors import some_of
from gradgate.tasks.readers.files import ENDINGS, files_of, is_data_folder
from gradgate.tasks.readers.text_folders import UNLABELLED, class_folders
from gradgate.tasks.split_names import by_split

_ABOUT = ("readme", "license", "licence", "citation", "changelog", "dataset_info", "dataset_infos", "metadata")
"""Names of files that have no rows, in lower case and without their endings."""
_UNREAD = (".gz", ".bz2", ".xz", ".zst", ".zip", ".xlsx", ".xls", ".ods", ".pkl")
_SHOWN = 6


def unused_notes(names: Iterable[str]) -> list[str]:
    """Return the note on files, folders or entries that no split uses; none without any."""
    shown = list(dict.fromkeys(names))
    return [f"no split uses {some_of(shown, _SHOWN)}"] if shown else []


def unused_data(folder: Path, places: Iterable[str], also: Iterable[Path], beside: bool) -> list[str]:
    """Return the data files and folders of a folder that are in no split, relative to it.

    Folders count that are named like splits, and those next to the files and folders that are used.

    Args:
        folder: of the task.
        places: files, patterns and folders of the splits, relative to the folder or absolute.
        also: folders whose files might have been used.
        beside: whether every folder with data counts that is next to one that is used.
    """
    used = {path.resolve() for place in places for path in files_of(folder / place)}
    plain = any(path.suffix.lower() == ".txt" for path in used)
    found: dict[str, None] = {}
    for place in _looked_at(folder, used, also):
        own = place.resolve()
        classes = {sub.resolve() for sub in class_folders(place)} if own in used else set()
        for path in sorted(place.iterdir()):
            whole = path.resolve()
            if whole in used or whole in classes or path.name.startswith((".", "__")):
                continue
            if path.is_dir():
                holds = not any(whole in other.parents for other in used) and _holds_data(path)
                counts = holds and path.name not in UNLABELLED and (beside or by_split([path.name]))
                found |= {f"{path.relative_to(folder).as_posix()}/": None} if counts else {}
            elif _is_data(path, plain):
                found |= {path.relative_to(folder).as_posix(): None}
    return list(found)


def _looked_at(folder: Path, used: Iterable[Path], also: Iterable[Path]) -> list[Path]:
    """Return the folder, and those below it that have data of a split next to what else they have."""
    whole = folder.resolve()
    inner = {place for path in used for place in path.parents}
    inner |= {path for path in used if path.is_dir() and class_folders(path)} | {path.resolve() for path in also}
    return [folder, *(folder / path.relative_to(whole) for path in sorted(inner) if whole in path.parents)]


def _is_data(path: Path, plain: bool) -> bool:
    """Return True for a file that may have rows; ``plain`` if the task has files that end in ``.txt``."""
    ending = path.suffix.lower()
    if ending in _UNREAD:
        return bool(by_split([path.name.partition(".")[0]]))
    return path.stem.lower() not in _ABOUT and (ending in ENDINGS or (plain and ending == ".txt"))


def _holds_data(folder: Path) -> bool:
    """Return True for a folder that may have rows, itself or one level below; also if nobody may look."""
    try:
        below = (path for pattern in ("*", "*/*") for path in folder.glob(pattern))
        return is_data_folder(folder) or any(path.is_file() and _is_data(path, plain=True) for path in below)
    except OSError:
        return True
