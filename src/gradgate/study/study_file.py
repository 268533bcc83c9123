"""Read and write ``study.json``: what a study compares, on what, and with which settings. Lock its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gradgate.errors import RunError, StoreError
from gradgate.files import NoLocksError, check_name, read_json, take_lock, write_json
from gradgate.runs.folder import STUDY_FILE as STUDY_FILE
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import IF_GIVEN, ModelRecord, TaskRecord, read_record, to_json
from gradgate.runs.scores import Scores
from gradgate.settings.arms.adapter import AdapterSetting
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.recorded import imported_arm, recorded_adapter, recorded_arm
from gradgate.settings.values import MOST_SEEDS
from gradgate.study.arms import cross
from gradgate.study.imported import ImportRecord

RECOMMEND_FILE = "recommend.json"
"""The plan of a recommendation, which is written before the study is."""
LOCK_FILE = "study.lock"
_MOST_RUNS = 100_000
_LOCK_PATIENCE = 30  # seconds for another process to release the lock of a study folder


@dataclass(frozen=True)
class SearchResult:
    """A setting that was tried, and its mean score on dev."""

    setting: dict[str, Any]
    dev: float


@dataclass(frozen=True)
class SearchRecord:
    """The search of a study: what is tried for each arm, and what was found.

    Attributes:
        space: the ranges and lists, as they were typed.
        settings: to try for each arm.
        seeds: each setting runs once with each.
        prune: whether runs below the median of their arm's end early.
        added: how many of the settings, the last ones, were added after the study had begun; None for none.
        chosen: an arm's name to the setting that its runs take.
        results: an arm's name to the settings of which every run has finished, the best first.
    """

    space: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...]
    prune: bool = False
    added: int | None = field(default=None, metadata=IF_GIVEN)
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, tuple[SearchResult, ...]] = field(default_factory=dict)

    def covers(self, other: SearchRecord) -> bool:
        """Return True if this search tries all that another one does, with all of its seeds."""
        return (
            self.prune == other.prune
            and set(self.seeds) >= set(other.seeds)
            and all(setting in self.settings for setting in other.settings)
        )

    def continued(self, search: SearchRecord, path: Path) -> SearchRecord:
        """Return this search, or the one that continues it if ``search`` tries more.

        Settings that are there stay first, so that a tie leaves an arm at its setting.

        Args:
            search: that was asked for.
            path: of the study, for the error.

        Raises:
            RunError: if it leaves out something of this one.
        """
        if not search.covers(self):
            seeds = len(self.seeds)
            raise RunError(
                f"{path} was started with another search: {'; '.join(self.space)}, "
                f"{seeds} seed{'s' * (seeds > 1)} each, {'with' if self.prune else 'without'} prune. Values of lists, "
                f"trials and seeds can be added; nothing else can change. Leave search= out to continue the study, or "
                f"pass another out=."
            )
        if self.covers(search):
            return self
        new = tuple(setting for setting in search.settings if setting not in self.settings)
        added = (self.added or 0) + len(new)
        return replace(search.without_results(), settings=(*self.settings, *new), added=added or None)

    def without_results(self) -> SearchRecord:
        """Return the same search before anything was found."""
        return replace(self, chosen={}, results={})


def larger_search(there: SearchRecord | None, own: SearchRecord | None) -> SearchRecord | None:
    """Return the search of a study's file, unless another one tries all of it and more."""
    if there is None or own is None:
        return there or own
    return own if own.covers(there) and not there.covers(own) else there


@dataclass(frozen=True)
class StudyRecord:
    """``study.json``: the grid of adapters, methods and seeds, and the settings that all runs share.

    ``part`` names the task, model or training size in a study of several. ``variants`` are settings, such as rates,
    that each make an arm of every method, in place of what is shared. ``language_adapters`` has the digest of each
    language's. ``imported`` says how the scores of an imported study are paired; it is None if the runs were trained
    here.
    """

    task: TaskRecord
    model: ModelRecord
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)
    adapters: tuple[str | None, ...] = (None,)
    search: SearchRecord | None = None
    part: str = ""
    variants: tuple[dict[str, Any], ...] = ()
    language_adapters: dict[str, str] = field(default_factory=dict)
    imported: ImportRecord | None = None

    @cached_property
    def given(self) -> tuple[Arm, ...]:
        """The objects that ``methods`` name: methods, and arms with an adapter of their own."""
        return tuple(map(recorded_arm if self.imported is None else imported_arm, self.methods))

    @cached_property
    def crossed_with(self) -> tuple[AdapterSetting | None, ...]:
        """The objects that ``adapters`` name, with which methods without an adapter are crossed."""
        return tuple(map(recorded_adapter, self.adapters))

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Every adapter with every method, and the arms that were given with adapters of their own."""
        if self.imported is not None:
            return self.given
        return cross(self.given, self.crossed_with, self.variants, self.settings)

    @property
    def size_fault(self) -> str | None:
        """The reason why a study is too large to be read; None if it is not."""
        seeds = len(self.seeds)
        runs = seeds * len(self.methods) * max(1, len(self.adapters)) * max(1, len(self.variants))
        if seeds <= MOST_SEEDS and runs <= _MOST_RUNS:
            return None
        return f"has {seeds:,} seeds and {runs:,} runs; expected at most {MOST_SEEDS:,} and {_MOST_RUNS:,}"

    @property
    def tried(self) -> tuple[dict[str, Any], ...]:
        """Settings that each method was tried with, by a search or as arms."""
        return (*(self.search.settings if self.search is not None else ()), *self.variants)

    @property
    def train_size(self) -> int | None:
        """The number of rows that each run trained on; None for all rows."""
        return self.settings.get("train_size")

    @property
    def arm_names(self) -> tuple[str, ...]:
        """The names of the arms, as tables and figures have them."""
        return tuple(arm.name for arm in self.arms)


def find_study(folder: Path) -> StudyRecord | None:
    """Read ``study.json`` in a folder. Return None if there is none.

    Raises:
        RunError: if the file is damaged.
    """
    file = folder / STUDY_FILE
    if not file.is_file():
        return None
    given = read_json(file)
    lacking = [name for name in ("task", "methods", "seeds", "settings") if name not in given]
    if lacking:
        raise RunError(f"{file} is damaged: it has no {', '.join(lacking)}. Restore a good copy, or pass another out=.")
    study = read_record(file, StudyRecord)
    fault = study.size_fault
    if fault is not None:
        raise RunError(f"{file} {fault}. Restore a good copy, or pass another out=.")
    if not study.arms or not study.seeds:
        raise RunError(
            f"{file} is damaged: expected at least one method, adapter and seed. Restore a good copy, or pass another "
            f"out=."
        )
    return study if study.search is None else replace(study, search=_with_names(study.search, study.arms))


def _with_names(search: SearchRecord, arms: Iterable[Arm]) -> SearchRecord:
    """Return a search whose arms go by the names of this version."""
    known = {arm.name: arm.name for arm in arms}

    def named(text: str) -> str:
        return known.get(text) or recorded_arm(text).name

    return replace(
        search,
        chosen={named(text): setting for text, setting in search.chosen.items()},
        results={named(text): results for text, results in search.results.items()},
    )


def read_study_file(folder: Path) -> StudyRecord:
    """Read ``study.json`` in a folder.

    Raises:
        RunError: if the file is absent or damaged.
    """
    study = find_study(folder)
    if study is None and (run := RunFolder(folder)).run_file.is_file():
        raise RunError(
            f"{folder} is a single run, not a study, and has no report. Its scores are in {run.scores_file}; use "
            "'gradgate evaluate', 'gradgate predict' or 'gradgate analyze' with it, or name the folder of a "
            "study."
        )
    if study is None:
        raise RunError(
            f"{folder} holds no study: {folder / STUDY_FILE} is missing. Name a folder that `gradgate compare` or "
            f"`gradgate study import` made."
        )
    return study


def check_size(study: StudyRecord) -> None:
    """Raise RunError for a study with more runs than one can have."""
    if study.size_fault is not None:
        raise RunError(f"The study {study.size_fault}. Split it into smaller studies.")


def write_study_file(folder: Path, study: StudyRecord) -> None:
    """Write ``study.json``; raise RunError if it has more runs than a study can have."""
    check_size(study)
    optional = ("search", "part", "variants", "language_adapters", "imported")
    record = {name: value for name, value in to_json(study).items() if value or name not in optional}
    write_json(folder / STUDY_FILE, record)


def damage_of(folder: RunFolder) -> str | None:
    """Return why the scores of a finished run cannot be read. None if they can, or if the run has not finished."""
    try:
        if folder.finished:
            read_record(folder.scores_file, Scores)
    except RunError as error:
        return str(error)
    return None


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a study folder, on every machine that sees it."""
    lock = None
    check_name(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder / LOCK_FILE, wait=_LOCK_PATIENCE)
        if lock is None:
            raise StoreError(
                f"{folder / LOCK_FILE} has been locked by another process for {_LOCK_PATIENCE} s. Wait for that "
                "process or stop it, and run the same command again."
            )
    except NoLocksError:
        pass
    except OSError as error:
        raise StoreError(
            f"{folder} cannot be written: {error.strerror or error}. Nothing is lost: finished runs can be "
            "reported, and the study continues once the folder is writable."
        ) from error
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
