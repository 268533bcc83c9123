"""Find the splits of a folder: named files, folders of splits, shards, what ``datasets`` saved, clones of the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradgate.errors import DataError
from gradgate.plain_yaml import parse_yaml
from gradgate.tasks.catalog import entries
from gradgate.tasks.languages import INDO_EUROPEAN
from gradgate.tasks.readers.arrow import SPLITS, STATE
from gradgate.tasks.readers.files import ENDINGS, files_of, splits_in
from gradgate.tasks.readers.text_folders import class_folders, visible
from gradgate.tasks.types import DEV, SPLIT_WORDS, TRAIN_AND_DEV

_STEMS = {**SPLIT_WORDS, "dev_matched": DEV, "validation_matched": DEV}
_SHARD = re.compile(r"(?P<split>\w+?)-(?P<number>\d{5})-of-(?P<all>\d{5})(-\w+)?\.(?P<ending>\w+)")
_FRONT_MATTER = re.compile(r"---\r?\n(.*?)\r?\n---", re.DOTALL)
_ANY = "*"
SAVED_SPLITS = "a folder of DatasetDict.save_to_disk"
SAVED = "a folder of Dataset.save_to_disk"
CLONE = "a data set of the hub, by its README.md"
SHARDS = "shards, as data sets of the hub have them"
PER_SPLIT = "a folder per split"
PER_CLASS = "a folder of texts per class"
ONLY_FILE = "the only data file of its folder"
OF_SPLITS = "a JSON object of splits"
BY_COLUMN = "a column with the split of each row"
FOUND = (SAVED_SPLITS, SAVED, CLONE, SHARDS, PER_SPLIT, PER_CLASS, ONLY_FILE, OF_SPLITS, BY_COLUMN)
"""What a folder or file with splits may be, for people."""


@dataclass(frozen=True)
class Splits:
    """The data of a folder or file.

    Attributes:
        files: split -> file, pattern or folder, relative to the folder.
        languages: codes, the source first, if the files are in several.
        source: the language of train and dev.
        formats: how the files of single splits are written, as entries of a task file.
        found: what the folder is, for people; empty for named files.
    """

    files: dict[str, str]
    languages: tuple[str, ...] = ()
    source: str = "en"
    formats: dict[str, dict[str, Any]] = field(default_factory=dict)
    found: str = ""


def splits_of_folder(folder: Path, source: str | None) -> Splits:
    """Return the splits of a folder; none without a train split or data files.

    Args:
        folder: any.
        source: language of train and dev; by default English if the folder has it, else the one that it has.

    Raises:
        DataError: two files for one split, a broken link, or a description of a data set with faults.
    """
    if (folder / SPLITS).is_file():
        return Splits(_saved(folder), source=source or "en", found=SAVED_SPLITS)
    if (folder / STATE).is_file():
        return Splits({"train": "."}, source=source or "en", found=SAVED)
    if configured := _configured(folder):
        return Splits(configured, source=source or "en", found=CLONE)
    by_name = _named_splits(folder, source)
    if "train" in by_name.files:
        return by_name
    for files, found in (
        (_shards(folder), SHARDS),
        (_split_folders(folder), PER_SPLIT),
    ):
        if "train" in files:
            return Splits(files, source=source or "en", found=found)
    if class_folders(folder):
        return Splits({"train": "."}, source=source or "en", found=PER_CLASS)
    data = [path for path in visible(folder) if path.is_file() and path.suffix.lower() in ENDINGS]
    if len(data) == 1 and not by_name.files:
        only = splits_of_file(data[0])
        return replace(only, found=only.found or ONLY_FILE)
    return by_name


def splits_of_file(file: Path) -> Splits:
    """Return the splits of one file: train alone, or those of a JSON object of splits."""
    parts = splits_in(file)
    if not parts:
        return Splits({"train": file.name})
    formats = {split: {"part": part} for split, part in parts.items()}
    return Splits(dict.fromkeys(parts, file.name), formats=formats, found=OF_SPLITS)


def _saved(folder: Path) -> dict[str, str]:
    try:
        names = json.loads((folder / SPLITS).read_text(encoding="utf-8"))["splits"]
        return _in_order({SPLIT_WORDS.get(str(name).lower(), str(name)): str(name) for name in names})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / SPLITS} cannot be read ({type(error).__name__}: {error}); expected one as "
            "`DatasetDict.save_to_disk` writes it. Save the data set again"
        ) from None


def _configured(folder: Path) -> dict[str, str]:
    """Return the files that the README of a data set of the hub names; empty without such a README."""
    readme = folder / "README.md"
    if not readme.is_file():
        return {}
    found = _FRONT_MATTER.match(readme.read_text(encoding="utf-8", errors="replace"))
    try:
        values = parse_yaml(found[1].encode()) if found else None
    except ValueError:
        values = None  # a README of anything else
    configs = values.get("configs") if isinstance(values, dict) else None
    if not isinstance(configs, list) or not all(isinstance(config, Mapping) for config in configs) or not configs:
        return {}
    chosen = next((config for config in configs if config.get("default")), None)
    chosen = chosen or next((config for config in configs if config.get("config_name") == "default"), None)
    if chosen is None and len(configs) > 1:
        names = ", ".join(str(config.get("config_name")) for config in configs)
        raise DataError(
            f"{readme} describes several data sets: {names}. Pass the folder of one, or name its files in a task.yaml"
        )
    return _data_files(readme, (chosen or configs[0]).get("data_files"))


def _data_files(readme: Path, described: Any) -> dict[str, str]:
    if isinstance(described, str):
        return {"train": described}
    files: dict[str, str] = {}
    for entry in described if isinstance(described, list) else []:
        if isinstance(entry, str):
            entry = {"split": "train", "path": entry}
        path = entry.get("path") if isinstance(entry, Mapping) else None
        path = path[0] if isinstance(path, list) and len(path) == 1 else path
        if not isinstance(path, str) or "**" in path or ".." in path or Path(path).is_absolute():
            raise DataError(
                f"{readme} has the data files {entry!r:.100}; expected a split and one path or pattern within the "
                "folder. Name the files in a task.yaml"
            )
        split = str(entry.get("split", "train"))
        files[SPLIT_WORDS.get(split.lower(), split)] = path
    absent = [path for path in files.values() if not files_of(readme.parent / path)]
    if absent:
        raise DataError(
            f"{readme} names the data files {', '.join(absent)}, which do not exist. Fetch them, as with `git lfs pull`"
        )
    return _in_order(files)


def _shards(folder: Path) -> dict[str, str]:
    """Return a pattern per split of files such as ``data/train-00000-of-00002.parquet``."""
    for place in (folder, folder / "data", folder / "default"):
        names = [path.name for path in sorted(place.iterdir())] if place.is_dir() else []
        matches = [match for name in names if (match := _SHARD.fullmatch(name))]
        found: dict[str, str] = {}
        for name, own in _by_split(matches).items():
            split = SPLIT_WORDS.get(name, name)
            if split in found:
                raise _several(place, split, [found[split], f"{name}-{_ANY}"])
            found[split] = f"{name}-{_ANY}.{own[0]['ending']}"
        if "train" in found:
            for name, own in _by_split(matches).items():
                _check_shards(place, name, own)
            below = "" if place == folder else f"{place.name}/"
            return _in_order({split: below + pattern for split, pattern in found.items()})
    return {}


def _by_split(matches: Iterable[re.Match[str]]) -> dict[str, list[re.Match[str]]]:
    found: dict[str, list[re.Match[str]]] = {}
    for match in matches:
        found.setdefault(match["split"], []).append(match)
    return found


def _check_shards(place: Path, split: str, shards: Sequence[re.Match[str]]) -> None:
    """Raise DataError unless each shard of a split is there once."""
    wholes = {match["all"] for match in shards}
    if len(wholes) > 1:
        names = ", ".join(match.string for match in shards[:4])
        raise DataError(f"{place} has the shards of {split} twice, in different numbers: {names}. Keep those of one")
    count = int(wholes.pop())
    absent = sorted(set(range(count)) - {int(match["number"]) for match in shards})
    if absent:
        raise DataError(
            f"{place} has {count - len(absent)} of the {count} shards of {split}: {split}-{absent[0]:05}-of-{count:05} "
            f"is missing. Fetch it, as with `git lfs pull`"
        )


def _split_folders(folder: Path) -> dict[str, str]:
    """Return the data in folders that are named like splits: files, folders of texts per class, or saved splits."""
    for place in (folder, folder / "data"):
        found: dict[str, str] = {}
        for sub in sorted(place.iterdir()) if place.is_dir() else []:
            split = SPLIT_WORDS.get(sub.name.lower())
            if split is None or not sub.is_dir():
                continue
            if split in found:
                raise _several(place, split, [found[split], sub.name])
            if files_of(sub):
                found[split] = sub.relative_to(folder).as_posix()
                continue
            endings = {path.suffix for path in visible(sub) if path.is_file() and path.suffix.lower() in ENDINGS}
            if len(endings) > 1:
                raise DataError(f"{sub} holds files of several types: {', '.join(sorted(endings))}. Keep one type")
            if endings:
                found[split] = f"{sub.relative_to(folder).as_posix()}/{_ANY}{endings.pop()}"
        if "train" in found:
            return _in_order(found)
    return {}


def _in_order(splits: Mapping[str, str]) -> dict[str, str]:
    order = sorted(splits, key=lambda split: (split != "train", split != "dev", split))
    return {split: splits[split] for split in order}


def _named_splits(folder: Path, source: str | None) -> Splits:
    """Infer the files of a folder from their names; ``test.csv`` next to ``test.de.csv`` is in the source language."""
    found = _named_files(folder)
    codes = {language for _, language in found if language is not None}
    if not codes:
        return Splits({split: file for (split, _), file in found.items()}, source=source or "en")
    source = source or _source(folder, found)
    splits: dict[str, str] = {}
    for (split, language), file in found.items():
        own = language in (None, source)
        if split == "train" and not own:
            continue  # a task is trained only in its source
        name = split if own and split in TRAIN_AND_DEV else f"{split}.{language or source}"
        if name in splits:
            raise _several(folder, name, [splits[name], file])
        splits[name] = file
    return Splits(_in_order(splits), (source, *sorted(codes - {source})), source)


def _source(folder: Path, found: Mapping[tuple[str, str | None], str]) -> str:
    """Return English, unless the only train file is in another language."""
    trained = [language for split, language in found if split == "train"]
    if not trained or None in trained or "en" in trained:
        return "en"
    if len(trained) > 1:
        raise DataError(
            f"{folder} has train files in {', '.join(map(str, trained))}. Choose the language to train in, as with "
            f"source={trained[0]}"
        )
    return str(trained[0])


def _named_files(folder: Path) -> dict[tuple[str, str | None], str]:
    """Map (split, language or None) to files; ``test_mismatched.tsv`` is the test split ``test_mismatched``."""
    found: dict[tuple[str, str | None], list[str]] = {}
    below = [path for sub in folder.iterdir() if sub.is_dir() and _is_language(sub.name) for path in visible(sub)]
    for path in sorted([*visible(folder), *below]):
        if path.is_symlink() and not path.exists():
            raise DataError(f"{path} is a link to {path.readlink()}, which does not exist. Fix or remove the link")
        if not path.is_file() or path.suffix.lower() not in (*ENDINGS, ".txt"):
            continue
        stem, language = _language_in(path.stem.lower().replace("-", "_"))
        if language == "id" and any(other.stem.lower() == f"{stem}_ood" for other in folder.iterdir()):
            stem, language = f"{stem}_id", None  # in-domain, next to out-of-domain
        if path.parent != folder:
            language = path.parent.name
        split = _STEMS.get(stem, stem)
        if split in TRAIN_AND_DEV or split == "test" or split.startswith("test_"):
            found.setdefault((split, language), []).append(path.relative_to(folder).as_posix())
    for (split, language), names in found.items():
        if len(names) > 1:
            raise _several(folder, split if language is None else f"{split} in {language}", names)
    order = sorted(found, key=lambda key: (key[0] != "train", key[0] != "dev", key[0], key[1] or ""))
    return {key: found[key][0] for key in order}


def _language_in(stem: str) -> tuple[str, str | None]:
    """Split ``test.de`` and ``test_de`` into ``("test", "de")``; None if a name does not end in a language code."""
    split, _, code = stem.replace(".", "_").rpartition("_")
    named = _is_language(code) and split in _STEMS
    return (split, code) if named else (stem, None)


def _is_language(code: str) -> bool:
    return code in INDO_EUROPEAN or any(code in entry.spec.languages for entry in entries().values())


def _several(folder: Path, split: str, names: list[str]) -> DataError:
    return DataError(
        f"{folder} has {len(names)} files for {split}: {', '.join(names)}. Keep one, name one with "
        "train_file=, dev_file= or test_file=, or list the files in a task.yaml"
    )
