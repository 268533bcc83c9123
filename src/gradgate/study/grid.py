"""Expand a study into its runs: which there are, where each of them is stored, and what all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from gradgate.errors import RunError, UsageError
from gradgate.files import refuse_used
from gradgate.runs.folder import RUNS_FOLDER, RunFolder
from gradgate.runs.records import ModelRecord, TaskRecord
from gradgate.settings.arms.adapter import AdapterSetting
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.own_settings import format_settings
from gradgate.settings.run import RunConfig, make_config
from gradgate.settings.same import differing, worded_as
from gradgate.study.arms import cross, model_alone, not_for
from gradgate.study.study_file import (
    RECOMMEND_FILE,
    STUDY_FILE,
    SearchRecord,
    StudyRecord,
    find_study,
    larger_search,
    read_study_file,
    write_study_file,
)

MOST_RUNS = 10_000
LARGEST_SEED = 2**32 - 1  # of numpy, which each run seeds as well
Value = TypeVar("Value")
_OF_ONE_RUN = ("method", "adapter", "seed")


@dataclass(frozen=True)
class GridRun:
    """One run of a study.

    Attributes:
        arm: what it trains.
        config: its settings.
        folder: where it is stored.
        label: its name for people.
        pruned_against: names the runs of a search that end early if they are below each other's median.
        until: the optimizer step at which the run is paused; None for one that is trained to its end.
    """

    arm: Arm
    config: RunConfig
    folder: RunFolder
    label: str
    pruned_against: str | None = None
    until: int | None = None


@dataclass(frozen=True)
class Grid:
    """Adapters times methods times seeds on one task and model. The others are compared to the first arm.

    Attributes:
        path: the study folder.
        base: the settings that all runs share.
        methods: methods, and arms with an adapter of their own, which are not crossed.
        seeds: one run of each arm per seed.
        adapters: of the methods without one; None is the model itself.
        search: of a study that searches settings first (:mod:`gradgate.study.search`). Only arms with a chosen setting
            then have runs.
        condition: names the task, model or training size in a study of several.
        variants: settings that each make an arm of every method.
    """

    path: Path
    base: RunConfig
    methods: tuple[Arm, ...]
    seeds: tuple[int, ...]
    adapters: tuple[AdapterSetting | None, ...] = (None,)
    search: SearchRecord | None = None
    condition: str = ""
    variants: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        path: Path,
        base: RunConfig,
        methods: Sequence[Arm],
        seeds: Sequence[int],
        adapters: Sequence[AdapterSetting | None] = (),
        condition: str = "",
    ) -> Grid:
        """Return the grid in a folder, with what an earlier call put there first.

        Without ``adapters`` it has the existing ones; a new grid trains the model itself.

        Raises:
            UsageError: without a method or a seed, for a seed that is out of range, or for more than 10,000 runs.
            RunError: if the folder holds a study with other settings.
        """
        check_counts(methods, seeds)
        existing = find_study(path)
        if existing is not None:
            _check_same_settings(path, existing.settings, settings_of(base))
            base = base.model_copy(update=worded_as(existing.settings, settings_of(base)))
        else:
            refuse_used(path, "holds no study", besides=(RECOMMEND_FILE,))
        grid = cls(path, base, tuple(methods), tuple(seeds), tuple(adapters), condition=condition)
        grid.check_probes()
        grid = grid._merge_existing(existing)
        if existing is not None and (base.tapt_steps or base.tapt_epochs) and model_alone(existing.arms):
            grid.check_model_alone()
        grid.check_size()
        return grid

    def _merge_existing(self, existing: StudyRecord | None) -> Grid:
        """Return the grid with what a study has already in front of its own; each method, seed and adapter once."""
        if existing is None:
            adapters = _once(self.adapters) or (None,)
            return replace(self, methods=_once(self.methods), seeds=_once(self.seeds), adapters=adapters)
        return replace(
            self,
            methods=_once([*existing.given, *self.methods]),
            seeds=_once([*existing.seeds, *self.seeds]),
            adapters=_once([*existing.crossed_with, *self.adapters]),
            search=larger_search(existing.search, self.search),
            variants=existing.variants or self.variants,
        )

    @classmethod
    def read(cls, path: Path) -> Grid:
        """Read the grid of a study folder.

        Raises:
            RunError: if it holds none, or one that is damaged.
        """
        study = read_study_file(path)
        try:
            base = make_config(**study.settings)
        except UsageError as error:
            raise RunError(
                f"{path / STUDY_FILE} has settings that cannot be used: {error} Restore a good copy, or pass another "
                f"out=."
            ) from None
        return cls(path, base, study.given, study.seeds, study.crossed_with, study.search, study.part, study.variants)

    def check_probes(self) -> None:
        """Raise UsageError for a probe that is crossed with an adapter, which it does not train."""
        probe = next((arm for arm in self.methods if not arm.is_trained), None)
        adapter = next((adapter for adapter in self.adapters if adapter is not None), None)
        if probe is not None and adapter is not None:
            raise UsageError(
                f"{probe.name} fits the head on the pretrained model and trains no adapter, so it cannot be "
                f"crossed with adapter={str(adapter)!r}. Pass the adapter with its method instead, as in "
                f"'{adapter} + full', or leave {probe.name} out."
            )

    def check_model_alone(self) -> None:
        """Raise RunError for an adapter in a study that was started with pretraining of the model itself."""
        adapter = next((arm.adapter for arm in self.arms if arm.adapter is not None), None)
        if adapter is not None:
            raise RunError(
                f"The runs in {self.path} pretrain the model itself on the task's texts, but a study with adapters "
                f"pretrains only these. Expected methods without an adapter, got {str(adapter)!r}: use another out=."
            )

    def check_language_adapters(self) -> None:
        """Refuse language adapters that no arm, or not every adapter, could be stacked on.

        Raises:
            UsageError: if so.
        """
        if self.base.language_adapters is None:
            return
        stacked: list[AdapterSetting | None] = [*self.own_adapters]
        for adapter in stacked or [None]:
            self.base.model_copy(update={"adapter": adapter}).check_adapter()

    def check_size(self) -> None:
        """Raise UsageError for more runs than a study can hold, or a seed that is out of range."""
        wrong = [seed for seed in self.seeds if not 0 <= seed <= LARGEST_SEED]
        if wrong:
            raise UsageError(f"Seed {wrong[0]} is out of range: expected 0 to {LARGEST_SEED}. Pass other seeds=.")
        count = len(self.arms) * len(self.seeds)
        if count > MOST_RUNS:
            raise UsageError(
                f"{len(self.arms)} methods with {len(self.seeds)} seeds are {count:,} runs, more than the "
                f"{MOST_RUNS:,} that a study can hold. Pass fewer seeds=, or make several studies."
            )

    def with_methods(self, methods: Iterable[Arm]) -> Grid:
        """Return the grid with further methods behind its own."""
        grid = replace(self, methods=_once([*self.methods, *methods]))
        grid.check_size()
        return grid

    def with_search(self, search: SearchRecord) -> Grid:
        """Return the grid with a search before it.

        A study that has a search continues it; further values and seeds open the choice of every arm again.

        Raises:
            RunError: if the study was started without a search, or with one that tries something else.
        """
        existing = find_study(self.path)
        if existing is None:
            return replace(self, search=search.without_results())
        if existing.search is None:
            raise RunError(
                f"{self.path} was started with no search. Leave search= out to continue the study, or pass another "
                f"out=."
            )
        return replace(self, search=existing.search.continued(search, self.path))

    def with_variants(self, variants: tuple[dict[str, Any], ...]) -> Grid:
        """Return the grid with an arm of each method for each of these settings.

        Raises:
            RunError: if the study was started with others, or without any.
            UsageError: for more runs than a study can hold.
        """
        existing = find_study(self.path)
        if existing is not None and existing.variants != variants:
            there = "; ".join(map(format_settings, existing.variants)) or "none"
            raise RunError(
                f"{self.path} was started with other settings as arms: {there}. Expected the same, got "
                f"{'; '.join(map(format_settings, variants))}. Leave search= out to continue the study, or pass "
                "another out=."
            )
        grid = replace(self, variants=variants)
        grid.check_size()
        return grid

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Each adapter with each method, and the arms that were given with adapters of their own."""
        return cross(self.methods, self.adapters, self.variants, settings_of(self.base))

    @property
    def given_arms(self) -> tuple[Arm, ...]:
        """The arms as they were given, without the settings that ``variants`` add."""
        return self.arms if not self.variants else cross(self.methods, self.adapters)

    @property
    def tried(self) -> tuple[dict[str, Any], ...]:
        """Settings that each method is tried with, by a search or as arms."""
        return (*(self.search.settings if self.search is not None else ()), *self.variants)

    @property
    def own_adapters(self) -> list[AdapterSetting]:
        """The adapters of its arms, each once."""
        return list(dict.fromkeys(arm.adapter for arm in self.arms if arm.adapter is not None))

    def runs(self) -> list[GridRun]:
        """Return every run, seed by seed, so that an early stop still leaves methods to compare."""
        chosen = {} if self.search is None else self.search.chosen
        return self.runs_of(arm for arm in self.arms if self.search is None or arm.name in chosen)

    def runs_of(self, arms: Iterable[Arm]) -> list[GridRun]:
        """Return the runs of some arms, each with the setting that a search has chosen for it."""
        chosen = {} if self.search is None else self.search.chosen
        own = list(arms)
        return [self._run(arm, seed, chosen.get(arm.name, {})) for seed in self.seeds for arm in own]

    def write(
        self,
        task: TaskRecord,
        model: ModelRecord,
        versions: dict[str, str],
        language_adapters: Mapping[str, str] | None = None,
    ) -> Grid:
        """Write ``study.json``. Return the grid with what another process may have added in the meantime.

        Raises:
            RunError: if the study was started on other data or language adapters.
        """
        self.check_data(task)
        self.check_same_languages(language_adapters or {})
        grid = self._merge_existing(find_study(self.path))
        study = StudyRecord(
            task=task,
            model=model,
            methods=tuple(arm.name for arm in grid.methods),
            adapters=tuple(None if adapter is None else str(adapter) for adapter in grid.adapters),
            seeds=grid.seeds,
            settings=settings_of(grid.base),
            versions=versions,
            search=grid.search,
            part=grid.condition,
            variants=grid.variants,
            language_adapters={**(language_adapters or {})},
        )
        write_study_file(self.path, study)
        return grid

    def check_data(self, task: TaskRecord) -> None:
        """Raise RunError if the study was started on other data than that of a task's record."""
        existing = find_study(self.path)
        if existing is not None and existing.task.fingerprint != task.fingerprint:
            raise RunError(
                f"{self.path} was started on other data: the files of task {task.name!r} have changed since, so "
                "new runs would not be comparable with finished ones. Pass another out=."
            )

    def check_same_languages(self, digests: Mapping[str, str]) -> None:
        """Raise RunError if the study was started with other language adapters than those of these digests."""
        existing = find_study(self.path)
        known = {} if existing is None else existing.language_adapters
        changed = [code for code, own in known.items() if digests.get(code) != own]
        if changed:
            raise RunError(
                f"{self.path} was started with other language adapters: those for {', '.join(changed)} in "
                f"{self.base.language_adapters} have changed since, so new runs would not be comparable with "
                "finished ones. Restore them, or pass another out=."
            )

    def write_search(self) -> None:
        """Write the results of the search into ``study.json``."""
        write_study_file(self.path, replace(read_study_file(self.path), search=self.search))

    def config_of(self, arm: Arm, seed: int, setting: dict[str, Any]) -> RunConfig:
        """Return the configuration of one run; ``setting`` replaces what all runs share."""
        own = {**arm.overrides, **setting}
        left_out = not_for(arm, self.arms, own)
        return self.base.model_copy(update={**left_out, **arm.settings, **setting, "seed": seed})

    def folder_of(self, arm: Arm, seed: int) -> RunFolder:
        """Return the folder of one run."""
        return RunFolder(self.path / RUNS_FOLDER / arm.folder / f"seed-{seed}")

    def _run(self, arm: Arm, seed: int, setting: dict[str, Any]) -> GridRun:
        config = self.config_of(arm, seed, setting)
        return GridRun(arm, config, self.folder_of(arm, seed), self.labelled(f"{arm.name} seed {seed}"))

    def labelled(self, text: str) -> str:
        """Return a run's name, with its condition if the study has several."""
        return f"{self.condition}: {text}" if self.condition else text


def check_counts(methods: Sequence[Arm], seeds: Sequence[int]) -> None:
    """Raise UsageError without a method or a seed."""
    if not methods or not seeds:
        raise UsageError(
            "A comparison needs at least one method (method=) or a sweep (sweep=), and one seed. "
            f"Got {len(methods)} methods and {len(seeds)} seeds."
        )


def existing_settings(path: Path) -> dict[str, Any] | None:
    """Return what all runs of the study in a folder share. None if there is no study."""
    existing = find_study(path)
    return None if existing is None else existing.settings


def _once(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(values))


def settings_of(base: RunConfig) -> dict[str, Any]:
    """Return what all runs of a study share."""
    return {name: value for name, value in base.record().items() if name not in _OF_ONE_RUN}


def _check_same_settings(path: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    others = differing(there, here, path)
    if others:
        listed = ", ".join(f"{name}: {old!r} there, {new!r} here" for name, (old, new) in others.items())
        raise RunError(
            f"{path} already holds a study with other settings ({listed}). Methods, adapters and seeds can be "
            "added to a study, but settings cannot be changed. Pass another out=."
        )
