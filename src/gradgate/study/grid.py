"""The grid of a study: which runs it consists of, where each of them lives, and what all of them share."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.methods import Method
from gradgate.methods import method as read_method
from gradgate.training.config import FREE, RunConfig, make_config
from gradgate.training.folder import CACHE_FOLDER, RunFolder, in_use, read_json, write_json

STUDY_FILE = "study.json"
_OF_ONE_RUN = ("method", "seed")


@dataclass(frozen=True)
class GridRun:
    """One run of a study: its configuration and its folder."""

    config: RunConfig
    folder: RunFolder

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.config.method} seed {self.config.seed}"


@dataclass(frozen=True)
class Grid:
    """Methods times seeds on one task and model; the first method is the one that others are compared to."""

    path: Path
    base: RunConfig
    methods: tuple[str, ...]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, path: Path, base: RunConfig, methods: list[str], seeds: list[int]) -> Grid:
        """The grid in a folder, with what an earlier call put there first.

        Raises:
            UsageError: without a method or a seed.
            RunError: if the folder holds a study with other settings.
        """
        names = [text.replace(" ", "") for text in methods]
        if not names or not seeds:
            raise UsageError("A comparison needs at least one method (-m) or a sweep (--sweep), and one seed.")
        record = _held(path)
        if record:
            _same_settings(path, record["settings"], settings_of(base))
            names = [*record["methods"], *names]
            seeds = [*record["seeds"], *seeds]
        elif in_use(path):
            raise RunError(f"{path} is not empty and holds no study. Give another --out.")
        return cls(path, base, _distinct(names), tuple(dict.fromkeys(seeds)))

    @classmethod
    def read(cls, path: Path) -> Grid:
        """The grid that a study folder holds.

        Raises:
            RunError: if it holds none.
        """
        record = _held(path)
        if not record:
            raise RunError(f"{path} holds no study: {path / STUDY_FILE} is missing. Name a folder that compare made.")
        return cls(path, make_config(**record["settings"]), tuple(record["methods"]), tuple(record["seeds"]))

    def adding(self, methods: list[str]) -> Grid:
        """The same with further methods behind its own."""
        return replace(self, methods=_distinct([*self.methods, *methods]))

    def runs(self) -> list[GridRun]:
        """Every run, seed by seed, so that an early stop still leaves methods to compare."""
        return [self._run(method, seed) for seed in self.seeds for method in self.methods]

    @property
    def cache(self) -> Path:
        """What closed layers gave out, shared by all runs until the study has finished."""
        return self.path / CACHE_FOLDER

    def write(self, task: dict[str, Any], model: dict[str, Any], versions: dict[str, str]) -> Grid:
        """Write ``study.json``. Returns the grid with what another process may have put there meanwhile.

        Raises:
            RunError: if the study was begun on other data.
        """
        record = _held(self.path)
        if record and record["task"].get("fingerprint") != task["fingerprint"]:
            raise RunError(
                f"{self.path} was begun on other data: the files of task {task['name']!r} have changed since, so "
                f"that new runs would not compare with finished ones. Give another --out."
            )
        methods = _distinct([*record.get("methods", []), *self.methods])
        seeds = tuple(dict.fromkeys([*record.get("seeds", []), *self.seeds]))
        record = {
            "task": task,
            "model": model,
            "methods": list(methods),
            "seeds": list(seeds),
            "settings": settings_of(self.base),
            "versions": versions,
        }
        write_json(self.path / STUDY_FILE, record)
        return replace(self, methods=methods, seeds=seeds)

    def _run(self, method: str, seed: int) -> GridRun:
        config = self.base.model_copy(update={"method": method, "seed": seed})
        return GridRun(config, RunFolder(self.path / "runs" / folder_name(method) / f"seed-{seed}"))


def held_settings(path: Path) -> dict[str, Any] | None:
    """What all runs of the study in a folder share; None where there is no study."""
    settings: dict[str, Any] | None = _held(path).get("settings")
    return settings


def _held(path: Path) -> dict[str, Any]:
    """What ``study.json`` says; empty where there is none."""
    file = path / STUDY_FILE
    if not file.is_file():
        return {}
    record = read_json(file)
    lacking = [name for name in ("task", "methods", "seeds", "settings") if name not in record]
    if lacking:
        raise RunError(f"{file} is damaged: it has no {', '.join(lacking)}. Give another --out.")
    return record


def _distinct(methods: list[str]) -> tuple[str, ...]:
    """Each method once, under the text that came first: ``graddrop`` is ``graddrop:p=0.2``."""
    texts: dict[Method, str] = {}
    for text in methods:
        texts.setdefault(read_method(text), text)
    return tuple(texts.values())


def settings_of(base: RunConfig) -> dict[str, Any]:
    """What all runs of a study share."""
    return {name: value for name, value in base.record().items() if name not in _OF_ONE_RUN}


def folder_name(method: str) -> str:
    """A name that every file system takes; unlike for unlike methods."""
    name = re.sub(r"[:,]", "-", method)
    if re.fullmatch(r"[\w.=-]{1,60}", name):
        return name
    digest = sha256(method.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.=-]', '-', name)[:50]}-{digest}"


def _same_settings(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    differing = [name for name in here if name not in FREE and there.get(name) != here[name]]
    if differing:
        listed = ", ".join(f"{name}: {there.get(name)!r} there, {here[name]!r} here" for name in differing)
        raise RunError(
            f"{path} already holds a study with other settings ({listed}). Methods and seeds may be added to a "
            f"study, settings not: give another --out."
        )
