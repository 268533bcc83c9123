"""The grid of a study: which runs it consists of, where each of them lives, and what all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, UsageError
from gradgate.files import in_use
from gradgate.methods import Full
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import ModelRecord, TaskRecord
from gradgate.settings.adapter import AdapterSetting, read_adapter
from gradgate.settings.identity import FREE
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.arms import Arm, crossed, distinct, model_alone, read_arm, written
from gradgate.study.study_file import (
    STUDY_FILE,
    SearchRecord,
    StudyRecord,
    find_study,
    read_study_file,
    write_study_file,
)

MOST_RUNS = 10_000
LARGEST_SEED = 2**32 - 1  # of numpy, which each run seeds as well
_OF_ONE_RUN = ("method", "adapter", "seed")


@dataclass(frozen=True)
class GridRun:
    """One run of a study: its configuration, its folder, and its name for people.

    ``pruned_against`` names the runs of a search that end early where they are below each other's median. ``until`` is
    the optimizer step at which the run is paused; None for one that is trained to its end.
    """

    config: RunConfig
    folder: RunFolder
    label: str
    pruned_against: str | None = None
    until: int | None = None


@dataclass(frozen=True)
class Grid:
    """Adapters times methods times seeds on one task and model; the others are compared to the first.

    An adapter that is None stands for the model itself. ``search`` is that of a study that searches settings first
    (:mod:`gradgate.study.search`); then only arms with a chosen setting have runs. ``part`` names the task, model
    or training size in a study of several. ``variants`` are settings that each make an arm of every method.
    """

    path: Path
    base: RunConfig
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    adapters: tuple[str | None, ...] = (None,)
    search: SearchRecord | None = None
    part: str = ""
    variants: tuple[dict[str, Any], ...] = ()

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
            UsageError: without a method or a seed, for a seed that is out of range or an adapter that cannot be, or
                for more than 10,000 runs.
            RunError: if the folder holds a study with other settings.
        """
        check_arms(methods, seeds, adapters)
        names = [read_arm(text).label for text in methods]
        kinds = [None if adapter is None else adapter.text for adapter in map(read_adapter, adapters)]
        held = find_study(path)
        if held is not None:
            _same_settings(path, held.settings, settings_of(base))
            names = [*held.methods, *names]
            seeds = [*held.seeds, *seeds]
            kinds = [*held.adapters, *kinds]
        elif in_use(path):
            raise RunError(f"{path} is not empty and holds no study. Give another --out.")
        found = _distinct_adapters(kinds or [None])
        search, variants = (held.search, held.variants) if held else (None, ())
        grid = cls(path, base, _distinct_methods(names), tuple(dict.fromkeys(seeds)), found, search, part, variants)
        if held is not None and (base.tapt_steps or base.tapt_epochs) and model_alone(held.arms):
            grid.check_model_alone()
        grid.check_size()
        return grid

    @classmethod
    def read(cls, path: Path) -> Grid:
        """The grid that a study folder holds.

        Raises:
            RunError: if it holds none, or one that is damaged.
        """
        study = read_study_file(path)
        try:
            base = make_config(**study.settings)
        except UsageError as error:
            raise RunError(
                f"{path / STUDY_FILE} has settings that cannot be used: {error} Put back a good copy, or give another "
                f"--out."
            ) from None
        return cls(path, base, study.methods, study.seeds, study.adapters, study.search, study.part, study.variants)

    def check_model_alone(self) -> None:
        """RunError for an adapter in a study that was begun with pre-training of the model itself."""
        adapter = next((arm.adapter for arm in self.arms if arm.adapter is not None), None)
        if adapter is not None:
            raise RunError(
                f"The runs in {self.path} pre-train the model itself on the task's texts, which a study with adapters "
                f"does with these alone. Expected methods without an adapter, got {adapter!r}: give it another --out."
            )

    def check_language_adapters(self) -> None:
        """Refuse language adapters that no arm, or not every adapter, could be stacked on.

        Raises:
            UsageError: if so.
        """
        if self.base.language_adapters is None:
            return
        stacked: list[AdapterSetting | None] = [*self.adapter_settings]
        for adapter in stacked or [None]:
            self.base.model_copy(update={"adapter": adapter}).check_adapter()

    def check_size(self) -> None:
        """UsageError for more runs than a study can hold, or a seed that is out of range."""
        wrong = [seed for seed in self.seeds if not 0 <= seed <= LARGEST_SEED]
        if wrong:
            raise UsageError(f"Seed {wrong[0]} is out of range: expected 0 to {LARGEST_SEED}. Give other --seeds.")
        count = len(self.arms) * len(self.seeds)
        if count > MOST_RUNS:
            raise UsageError(
                f"{len(self.arms)} methods with {len(self.seeds)} seeds are {count:,} runs, more than the "
                f"{MOST_RUNS:,} that a study can hold. Give fewer --seeds, or make several studies."
            )

    def adding(self, methods: list[str]) -> Grid:
        """The same with further methods behind its own."""
        grid = replace(self, methods=_distinct_methods([*self.methods, *methods]))
        grid.check_size()
        return grid

    def searching(self, search: SearchRecord) -> Grid:
        """The same with a search before it.

        Raises:
            RunError: if the study was begun without one, or with another.
        """
        held = find_study(self.path)
        if held is None:
            return replace(self, search=search.without_results())
        if held.search is None or held.search.without_results() != search.without_results():
            raise RunError(
                f"{self.path} was begun with {'another search' if held.search else 'no search'}. Leave --search out to "
                f"go on as it was begun, or give another --out."
            )
        return self

    def varied(self, variants: tuple[dict[str, Any], ...]) -> Grid:
        """The same with an arm of each method for each of these settings.

        Raises:
            RunError: if the study was begun with others, or without any.
            UsageError: for more runs than a study can hold.
        """
        held = find_study(self.path)
        if held is not None and held.variants != variants:
            there = "; ".join(map(written, held.variants)) or "none"
            raise RunError(
                f"{self.path} was begun with other settings as arms: {there}. Expected the same, here "
                f"{'; '.join(map(written, variants))}. Leave --search out to go on as it was begun, or give another "
                f"--out."
            )
        grid = replace(self, variants=variants)
        grid.check_size()
        return grid

    @property
    def arms(self) -> tuple[Arm, ...]:
        """Each adapter with each method, and the methods that were given with adapters of their own."""
        return crossed(self.methods, self.adapters, self.variants)

    @property
    def tried(self) -> tuple[dict[str, Any], ...]:
        """Settings that each method is tried with, by a search or as arms."""
        return (*(self.search.settings if self.search is not None else ()), *self.variants)

    @property
    def adapter_settings(self) -> list[AdapterSetting]:
        """The adapters of its arms, each once."""
        return list(filter(None, map(read_adapter, dict.fromkeys(arm.adapter for arm in self.arms))))

    def runs(self) -> list[GridRun]:
        """Every run, seed by seed, so that an early stop still leaves methods to compare."""
        chosen = {} if self.search is None else self.search.chosen
        return self.runs_of(arm for arm in self.arms if self.search is None or arm.label in chosen)

    def runs_of(self, arms: Iterable[Arm]) -> list[GridRun]:
        """The runs of some arms, each with the setting that a search has chosen for it."""
        chosen = {} if self.search is None else self.search.chosen
        own = list(arms)
        return [self._run(arm, seed, chosen.get(arm.label, {})) for seed in self.seeds for arm in own]

    def write(
        self,
        task: TaskRecord,
        model: ModelRecord,
        versions: dict[str, str],
        language_adapters: Mapping[str, str] | None = None,
    ) -> Grid:
        """Write ``study.json``. Returns the grid with what another process may have put there meanwhile.

        Raises:
            RunError: if the study was begun on other data or language adapters.
        """
        self.check_data(task)
        self.check_same_languages(language_adapters or {})
        held = find_study(self.path)
        grid = self
        if held is not None:
            grid = replace(
                self,
                methods=_distinct_methods([*held.methods, *self.methods]),
                seeds=tuple(dict.fromkeys([*held.seeds, *self.seeds])),
                adapters=_distinct_adapters([*held.adapters, *self.adapters]),
                search=held.search or self.search,
                variants=held.variants or self.variants,
            )
        study = StudyRecord(
            task=task,
            model=model,
            methods=grid.methods,
            adapters=grid.adapters,
            seeds=grid.seeds,
            settings=settings_of(grid.base),
            versions=versions,
            search=grid.search,
            part=grid.part,
            variants=grid.variants,
            language_adapters={**(language_adapters or {})},
        )
        write_study_file(self.path, study)
        return grid

    def check_data(self, task: TaskRecord) -> None:
        """RunError if the study was begun on other data than a task's record tells of."""
        held = find_study(self.path)
        if held is not None and held.task.fingerprint != task.fingerprint:
            raise RunError(
                f"{self.path} was begun on other data: the files of task {task.name!r} have changed since, so "
                f"that new runs would not compare with finished ones. Give another --out."
            )

    def check_same_languages(self, digests: Mapping[str, str]) -> None:
        """RunError if the study was begun with other language adapters than those of these digests, by language."""
        held = find_study(self.path)
        changed = (
            [] if held is None else [code for code, own in held.language_adapters.items() if digests.get(code) != own]
        )
        if changed:
            raise RunError(
                f"{self.path} was begun with other language adapters: those for {', '.join(changed)} in "
                f"{self.base.language_adapters} have changed since, so that new runs would not compare with finished "
                f"ones. Put them back, or give another --out."
            )

    def write_search(self) -> None:
        """Write what the search has found into ``study.json``."""
        write_study_file(self.path, replace(read_study_file(self.path), search=self.search))

    def config_of(self, arm: Arm, seed: int, setting: dict[str, Any]) -> RunConfig:
        """The configuration of one run; ``setting`` replaces what all runs share."""
        own: dict[str, Any] = {
            **dict(arm.setting),
            **setting,
            "method": arm.method,
            "adapter": arm.adapter,
            "seed": seed,
        }
        if arm.adapter is None and not model_alone(self.arms):
            own |= {"tapt_steps": None, "tapt_epochs": None}
        if arm.adapter is None:
            own |= {"language_adapters": None}
        return self.base.model_copy(update=own)

    def folder_of(self, arm: Arm, seed: int) -> RunFolder:
        """The folder of one run."""
        return RunFolder(self.path / "runs" / arm.folder / f"seed-{seed}")

    def _run(self, arm: Arm, seed: int, setting: dict[str, Any]) -> GridRun:
        config = self.config_of(arm, seed, setting)
        title = " ".join(filter(None, (config.title, written(dict(arm.setting)))))
        return GridRun(config, self.folder_of(arm, seed), self.labelled(f"{title} seed {seed}"))

    def labelled(self, text: str) -> str:
        """A run's name, with what it is a run of where the study has several tasks or models."""
        return f"{self.part}: {text}" if self.part else text


def check_arms(methods: Sequence[str], seeds: Sequence[int], adapters: Sequence[str | None]) -> None:
    """Refuse what cannot be compared whatever the data and the model are.

    Raises:
        UsageError: without a method or a seed, or for a method or an adapter that cannot be.
    """
    if not methods or not seeds:
        raise UsageError(
            "A comparison needs at least one method (-m) or a sweep (--sweep), and one seed. "
            f"Got {len(methods)} methods and {len(seeds)} seeds."
        )
    for method in methods:
        read_arm(method)
    for adapter in adapters:
        read_adapter(adapter)


def held_settings(path: Path) -> dict[str, Any] | None:
    """What all runs of the study in a folder share; None where there is no study."""
    held = find_study(path)
    return None if held is None else held.settings


def _distinct_methods(methods: Iterable[str]) -> tuple[str, ...]:
    return tuple(arm.label for arm in distinct(map(Arm.typed, methods)))


def _distinct_adapters(adapters: Iterable[str | None]) -> tuple[str | None, ...]:
    return tuple(arm.adapter for arm in distinct(Arm(Full.name, adapter) for adapter in adapters))


def settings_of(base: RunConfig) -> dict[str, Any]:
    """What all runs of a study share."""
    return {name: value for name, value in base.record().items() if name not in _OF_ONE_RUN}


def _same_settings(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    differing = [name for name in here if name not in FREE and there.get(name) != here[name]]
    if differing:
        listed = ", ".join(f"{name}: {there.get(name)!r} there, {here[name]!r} here" for name in differing)
        raise RunError(
            f"{path} already holds a study with other settings ({listed}). Methods, adapters and seeds may be added to "
            f"a study, settings not: give another --out."
        )
