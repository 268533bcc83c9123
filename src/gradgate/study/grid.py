"""The grid of a study: which runs it consists of, where each of them lives, and what all of them share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.files import in_use, read_json, write_json
from gradgate.methods import Method
from gradgate.methods import method as read_method
from gradgate.training.adapter_setting import canonical, checked_text, titled
from gradgate.training.config import FREE, RunConfig, make_config
from gradgate.training.run_folder import RunFolder

STUDY_FILE = "study.json"
Arm = tuple[str | None, str]  # an adapter and a method
_OF_ONE_RUN = ("method", "adapter", "seed")


@dataclass(frozen=True)
class GridRun:
    """One run of a study: its configuration, its folder, and its name for people.

    ``pruned_against`` names the runs of a search that end early where they are below each other's median.
    """

    config: RunConfig
    folder: RunFolder
    label: str
    pruned_against: str | None = None


@dataclass(frozen=True)
class Grid:
    """Adapters times methods times seeds on one task and model; the others are compared to the first.

    An adapter that is None stands for the model itself. ``search`` is what :mod:`gradgate.study.search` notes of a
    study that searches settings first; then only arms whose setting is chosen have runs. ``part`` is the task or model
    that runs are named after, where the study has several.
    """

    path: Path
    base: RunConfig
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    adapters: tuple[str | None, ...] = (None,)
    search: dict[str, Any] | None = None
    part: str = ""

    @classmethod
    def of(
        cls,
        path: Path,
        base: RunConfig,
        methods: Sequence[str],
        seeds: Sequence[int],
        adapters: Sequence[str | None] = (),
        part: str = "",
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
        return cls(path, base, _distinct(names), tuple(dict.fromkeys(seeds)), found, record.get("search"), part)

    @classmethod
    def read(cls, path: Path) -> Grid:
        """The grid that a study folder holds.

        Raises:
            RunError: if it holds none.
        """
        record = _held(path)
        if not record:
            raise RunError(f"{path} holds no study: {path / STUDY_FILE} is missing. Name a folder that compare made.")
        return cls(
            path,
            make_config(**record["settings"]),
            tuple(record["methods"]),
            tuple(record["seeds"]),
            tuple(record.get("adapters", [None])),
            record.get("search"),
            record.get("part", ""),
        )

    def adding(self, methods: list[str]) -> Grid:
        """The same with further methods behind its own."""
        return replace(self, methods=_distinct([*self.methods, *methods]))

    def searching(self, space: dict[str, Any]) -> Grid:
        """The same with a search before it.

        Raises:
            RunError: if the study was begun without one, or with another.
        """
        held = _held(self.path)
        there = {name: value for name, value in (held.get("search") or {}).items() if name in space}
        if held and there != space:
            raise RunError(
                f"{self.path} was begun with {'another search' if there else 'no search'}. Leave --search out to go on "
                f"as it was begun, or give another --out."
            )
        return self if held else replace(self, search={**space, "chosen": {}, "results": {}})

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Each adapter with each method."""
        return tuple(product(self.adapters, self.methods))

    def runs(self) -> list[GridRun]:
        """Every run, seed by seed, so that an early stop still leaves methods to compare."""
        chosen = {} if self.search is None else self.search["chosen"]
        arms = [arm for arm in self.arms if self.search is None or titled_arm(arm) in chosen]
        return [self._run(arm, seed, chosen.get(titled_arm(arm), {})) for seed in self.seeds for arm in arms]

    def write(self, task: dict[str, Any], model: dict[str, Any], versions: dict[str, str]) -> Grid:
        """Write ``study.json``. Returns the grid with what another process may have put there meanwhile.

        Raises:
            RunError: if the study was begun on other data.
        """
        self.check_data(task)
        record = _held(self.path)
        methods = _distinct([*record.get("methods", []), *self.methods])
        seeds = tuple(dict.fromkeys([*record.get("seeds", []), *self.seeds]))
        adapters = _distinct_adapters([*(record.get("adapters", [None]) if record else []), *self.adapters])
        search = record.get("search", self.search)
        record = {
            "task": task,
            "model": model,
            "methods": list(methods),
            "adapters": list(adapters),
            "seeds": list(seeds),
            "settings": settings_of(self.base),
            "versions": versions,
            **({"search": search} if search else {}),
            **({"part": self.part} if self.part else {}),
        }
        write_json(self.path / STUDY_FILE, record)
        return replace(self, methods=methods, seeds=seeds, adapters=adapters, search=search)

    def check_data(self, task: dict[str, Any]) -> None:
        """RunError if the study was begun on other data than a task's record tells of."""
        record = _held(self.path)
        if record and record["task"].get("fingerprint") != task["fingerprint"]:
            raise RunError(
                f"{self.path} was begun on other data: the files of task {task['name']!r} have changed since, so "
                f"that new runs would not compare with finished ones. Give another --out."
            )

    def write_search(self) -> None:
        """Write what the search has found into ``study.json``."""
        write_json(self.path / STUDY_FILE, {**_held(self.path), "search": self.search})

    def config_of(self, arm: Arm, seed: int, setting: dict[str, Any]) -> RunConfig:
        """The configuration of one run; ``setting`` replaces what all runs share."""
        own: dict[str, Any] = {**setting, "method": arm[1], "adapter": arm[0], "seed": seed}
        if arm[0] is None:
            own |= {"tapt_steps": None, "tapt_epochs": None}
        return self.base.model_copy(update=own)

    def folder_of(self, arm: Arm, seed: int) -> RunFolder:
        """The folder of one run."""
        return RunFolder(self.path / "runs" / folder_name(arm[1], arm[0]) / f"seed-{seed}")

    def _run(self, arm: Arm, seed: int, setting: dict[str, Any]) -> GridRun:
        config = self.config_of(arm, seed, setting)
        return GridRun(config, self.folder_of(arm, seed), self.labelled(f"{config.title} seed {seed}"))

    def labelled(self, text: str) -> str:
        """A run's name, with what it is a run of where the study has several tasks or models."""
        return f"{self.part}: {text}" if self.part else text


def titled_arm(arm: Arm) -> str:
    """An arm's name, as tables have it."""
    return titled(arm[1], arm[0])


def written(setting: dict[str, Any]) -> str:
    """A setting of a search, for people."""
    return ", ".join(f"{name}={value}" for name, value in setting.items())


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
