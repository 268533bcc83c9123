"""The grid of a study: which runs it consists of, where each of them lives, and what all of them share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.methods import Method
from gradgate.methods import method as read_method
from gradgate.training.adapter_choice import canonical, checked_text
from gradgate.training.config import FREE, RunConfig, make_config
from gradgate.training.folder import CACHE_FOLDER, RunFolder, in_use, read_json, write_json

STUDY_FILE = "study.json"
_OF_ONE_RUN = ("method", "adapter", "seed")


@dataclass(frozen=True)
class GridRun:
    """One run of a study: its configuration and its folder."""

    config: RunConfig
    folder: RunFolder

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.config.title} seed {self.config.seed}"


@dataclass(frozen=True)
class Grid:
    """Adapters times methods times seeds on one task and model; the others are compared to the first.

    An adapter that is None stands for the model itself.
    """

    path: Path
    base: RunConfig
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    adapters: tuple[str | None, ...] = (None,)

    @classmethod
    def of(
        cls,
        path: Path,
        base: RunConfig,
        methods: Sequence[str],
        seeds: Sequence[int],
        adapters: Sequence[str | None] = (),
    ) -> Grid:
        """The grid in a folder, with what an earlier call put there first.

        Without adapters it has those that are there; a new one is of the model itself.

        Raises:
            UsageError: without a method or a seed, or for an adapter that cannot be.
            RunError: if the folder holds a study with other settings.
        """
        names = [text.replace(" ", "") for text in methods]
        if not names or not seeds:
            raise UsageError("A comparison needs at least one method (-m) or a sweep (--sweep), and one seed.")
        kinds = [checked_text(text) for text in adapters]
        record = _held(path)
        if record:
            _same_settings(path, record["settings"], settings_of(base))
            names = [*record["methods"], *names]
            seeds = [*record["seeds"], *seeds]
            kinds = [*record.get("adapters", [None]), *kinds]
        elif in_use(path):
            raise RunError(f"{path} is not empty and holds no study. Give another --out.")
        found = _distinct_adapters(kinds or [None])
        base.model_copy(update={"adapter": next(filter(None, found), None)}).check_tapt()
        return cls(path, base, _distinct(names), tuple(dict.fromkeys(seeds)), found)

    @classmethod
    def read(cls, path: Path) -> Grid:
        """The grid that a study folder holds.

        Raises:
            RunError: if it holds none.
        """
        record = _held(path)
        if not record:
            raise RunError(f"{path} holds no study: {path / STUDY_FILE} is missing. Name a folder that compare made.")
        axes = (tuple(axis) for axis in (record["methods"], record["seeds"], record.get("adapters", [None])))
        return cls(path, make_config(**record["settings"]), *axes)

    def adding(self, methods: list[str]) -> Grid:
        """The same with further methods behind its own."""
        return replace(self, methods=_distinct([*self.methods, *methods]))

    def runs(self) -> list[GridRun]:
        """Every run, seed by seed, so that an early stop still leaves methods to compare."""
        return [self._run(a, method, seed) for seed in self.seeds for a in self.adapters for method in self.methods]

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
        adapters = _distinct_adapters([*(record.get("adapters", [None]) if record else []), *self.adapters])
        record = {
            "task": task,
            "model": model,
            "methods": list(methods),
            "adapters": list(adapters),
            "seeds": list(seeds),
            "settings": settings_of(self.base),
            "versions": versions,
        }
        write_json(self.path / STUDY_FILE, record)
        return replace(self, methods=methods, seeds=seeds, adapters=adapters)

    def _run(self, adapter: str | None, method: str, seed: int) -> GridRun:
        own: dict[str, Any] = {"method": method, "adapter": adapter, "seed": seed}
        if adapter is None:
            own |= {"tapt_steps": None, "tapt_epochs": None}
        config = self.base.model_copy(update=own)
        return GridRun(config, RunFolder(self.path / "runs" / folder_name(method, adapter) / f"seed-{seed}"))


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


def _distinct_adapters(adapters: Sequence[str | None]) -> tuple[str | None, ...]:
    texts: dict[str, str | None] = {}
    for text in adapters:
        texts.setdefault(canonical(text), text)
    return tuple(texts.values())


def settings_of(base: RunConfig) -> dict[str, Any]:
    """What all runs of a study share."""
    return {name: value for name, value in base.record().items() if name not in _OF_ONE_RUN}


def folder_name(method: str, adapter: str | None = None) -> str:
    """A name that every file system takes; unlike for unlike methods and adapters."""
    if adapter is not None:
        method = f"{adapter}__{method}"
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
            f"{path} already holds a study with other settings ({listed}). Methods, adapters and seeds may be added to "
            f"a study, settings not: give another --out."
        )
