"""Find the splits of a folder: named files, folders of splits, shards, what ``datasets`` saved, clones of the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gradgate.errors import DataError
from gradgate.plain_yaml import parse_yaml
from gradgate.tasks.catalog import entries
from gradgate.tasks.languages import INDO_EUROPEAN
from gradgate.tasks.readers.arrow import SPLITS, STATE
from gradgate.tasks.readers.files import ENDINGS, files_of, splits_in
from gradgate.tasks.readers.text_folders import class_folders, visible
from gradgate.tasks.split_names import WORDS, by_split
from gradgate.tasks.types import TRAIN_AND_DEV
from gradgate.tasks.unused import unused_data, unused_notes

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
        notes: on data that no split uses.
    """

    files: dict[str, str]
    languages: tuple[str, ...] = ()
    source: str = "en"
    formats: dict[str, dict[str, Any]] = field(default_factory=dict)
    found: str = ""
    notes: tuple[str, ...] = ()


def splits_of_folder(folder: Path, source: str | None, given: Mapping[str, str] = MappingProxyType({})) -> Splits:
    """Return the splits of a folder; none without a train split or data files.

    Args:
        folder: any.
        source: language of train and dev; by default English if the folder has it, else the one that it has.
        given: split -> file, which the user has named in place of what the folder has for the split.

    Raises:
        DataError: two files for one split, a broken link, or a description of a data set with faults.
    """
    if (folder / SPLITS).is_file():
        return Splits(_saved(folder), source=source or "en", found=SAVED_SPLITS)
    if (folder / STATE).is_file():
        return Splits({"train": "."}, source=source or "en", found=SAVED)
    if configured := _configured(folder):
        return Splits(configured, source=source or "en", found=CLONE)
    splits = _recognised(folder, source, given)
    if "train" not in {**splits.files, **given}:
        return splits
    places = [*splits.files.values(), *given.values()]
    left = unused_data(folder, places, _language_folders(folder), beside=splits.found in (PER_SPLIT, PER_CLASS))
    return replace(splits, notes=(*splits.notes, *unused_notes(left)))


def _recognised(folder: Path, source: str | None, given: Collection[str]) -> Splits:
    """Return the splits of a folder that nothing describes."""
    by_name = _named_splits(folder, source, given)
    if "train" in by_name.files:
        return by_name
    for files, found in (
        (_shards(folder, given), SHARDS),
        (_split_folders(folder, given), PER_SPLIT),
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
    parts, others = splits_in(file)
    if not parts:
        return Splits({"train": file.name})
    formats = {split: {"part": part} for split, part in parts.items()}
    notes = tuple(unused_notes(f"{name} of {file.name}" for name in others))
    return Splits(dict.fromkeys(parts, file.name), formats=formats, found=OF_SPLITS, notes=notes)


def _saved(folder: Path) -> dict[str, str]:
    try:
        names = json.loads((folder / SPLITS).read_text(encoding="utf-8"))["splits"]
        found = by_split(map(str, names), others=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / SPLITS} cannot be read ({type(error).__name__}: {error}); expected one as "
            "`DatasetDict.save_to_disk` writes it. Save the data set again"
        ) from None
    return _in_order(_one_each(folder, found))


def _one_each(place: Path, found: Mapping[str, list[str]], given: Collection[str] = ()) -> dict[str, str]:
    """Return split -> its only file or folder, or any if the user has named another one.

    Raises:
        DataError: several for one split.
    """
    for split, names in found.items():
        if len(names) > 1 and split not in given:
            raise _several(place, split, names)
    return {split: names[0] for split, names in found.items()}


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
    files: list[tuple[str, str]] = []
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
        files.append((str(entry.get("split", "train")), path))
    absent = [path for _, path in files if not files_of(readme.parent / path)]
    if absent:
        raise DataError(
            f"{readme} names the data files {', '.join(absent)}, which do not exist. Fetch them, as with `git lfs pull`"
        )
    words = by_split((name for name, _ in files), others=True)
    paths = {split: [path for name, path in files if name in own] for split, own in words.items()}
    return _in_order(_one_each(readme.parent, paths))


def _shards(folder: Path, given: Collection[str]) -> dict[str, str]:
    """Return a pattern per split of files such as ``data/train-00000-of-00002.parquet``."""
    for place in (folder, folder / "data", folder / "default"):
        names = [path.name for path in visible(place)] if place.is_dir() else []
        matches = [match for name in names if (match := _SHARD.fullmatch(name))]
        shards: dict[str, list[re.Match[str]]] = {}
        for match in matches:
            shards.setdefault(match["split"], []).append(match)
        words = by_split(shards, others=True)
        if "train" in words:
            patterns = {name: f"{name}-{_ANY}.{own[0]['ending']}" for name, own in shards.items()}
            found = _one_each(place, {split: [patterns[name] for name in own] for split, own in words.items()}, given)
            for name, own in shards.items():
                _check_shards(place, name, own)
            below = "" if place == folder else f"{place.name}/"
            return _in_order({split: below + pattern for split, pattern in found.items()})
    return {}


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


def _split_folders(folder: Path, given: Collection[str]) -> dict[str, str]:
    """Return the data in folders that are named like splits: files, folders of texts per class, or saved splits."""
    for place in (folder, folder / "data"):
        below = [sub for sub in visible(place) if sub.is_dir()] if place.is_dir() else []
        named = {sub.name for sub in below if by_split([sub.name])}
        data = {sub.name: held for sub in below if sub.name in named and (held := _data_in(sub, folder)) is not None}
        found = by_split(data)
        if "train" in found:
            chosen = _one_each(place, found, given)
            return _in_order({split: data[name] for split, name in chosen.items()})
    return {}


def _data_in(sub: Path, folder: Path) -> str | None:
    """Return the folder of a split, or a pattern of its files; None if it has no data."""
    own = sub.relative_to(folder).as_posix()
    if files_of(sub):
        return own
    endings = {path.suffix for path in visible(sub) if path.is_file() and path.suffix.lower() in ENDINGS}
    if len(endings) > 1:
        raise DataError(f"{sub} holds files of several types: {', '.join(sorted(endings))}. Keep one type")
    return f"{own}/{_ANY}{endings.pop()}" if endings else None


def _in_order(splits: Mapping[str, str]) -> dict[str, str]:
    order = sorted(splits, key=lambda split: (split != "train", split != "dev", split))
    return {split: splits[split] for split in order}


def _named_splits(folder: Path, source: str | None, given: Collection[str]) -> Splits:
    """Infer the files of a folder from their names; ``test.csv`` next to ``test.de.csv`` is in the source language."""
    found = _named_files(folder, given)
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


def _named_files(folder: Path, given: Collection[str]) -> dict[tuple[str, str | None], str]:
    """Map (split, language or None) to files; ``test_mismatched.tsv`` is the test split ``test_mismatched``."""
    stems: dict[Path, tuple[str, str | None]] = {}
    below = [path for sub in _language_folders(folder) for path in visible(sub)]
    for path in sorted([*visible(folder), *below]):
        if path.is_symlink() and not path.exists():
            raise DataError(f"{path} is a link to {path.readlink()}, which does not exist. Fix or remove the link")
        if not path.is_file() or path.suffix.lower() not in (*ENDINGS, ".txt"):
            continue
        stem, language = _language_in(path.stem.lower().replace("-", "_"))
        if language == "id" and any(other.stem.lower() == f"{stem}_ood" for other in folder.iterdir()):
            stem, language = f"{stem}_id", None  # in-domain, next to out-of-domain
        stems[path] = stem, language if path.parent == folder else path.parent.name
    splits = {word: split for split, words in by_split(stem for stem, _ in stems.values()).items() for word in words}
    found: dict[tuple[str, str | None], list[str]] = {}
    for path, (stem, language) in stems.items():
        if stem in splits:
            found.setdefault((splits[stem], language), []).append(path.relative_to(folder).as_posix())
    for (split, language), names in found.items():
        if len(names) > 1 and split not in given:
            raise _several(folder, split if language is None else f"{split} in {language}", names)
    order = sorted(found, key=lambda key: (key[0] != "train", key[0] != "dev", key[0], key[1] or ""))
    return {key: found[key][0] for key in order}


def _language_folders(folder: Path) -> list[Path]:
    return [sub for sub in folder.iterdir() if sub.is_dir() and _is_language(sub.name)]


def _language_in(stem: str) -> tuple[str, str | None]:
    """Split ``test.de`` and ``test_de`` into ``("test", "de")``; None if a name does not end in a language code."""
    split, _, code = stem.replace(".", "_").rpartition("_")
    named = _is_language(code) and split in WORDS
    return (split, code) if named else (stem, None)


def _is_language(code: str) -> bool:
    return code in INDO_EUROPEAN or any(code in entry.spec.languages for entry in entries().values())


def _several(folder: Path, split: str, names: list[str]) -> DataError:
    return DataError(
        f"{folder} has {len(names)} files for {split}: {', '.join(names)}. Keep one, name one with "
        "train_file=, dev_file= or test_file=, or list the files in a task.yaml"
    )
