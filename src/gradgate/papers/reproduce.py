"""Reproduce a table or figure of a paper: a study per task, model and settings, and one record of them all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gradgate.errors import RunError, fault_with_place
from gradgate.files import read_json, refuse_used, remedy, write_json
from gradgate.papers.claims.numbers import DEV_BEST, DEV_MEAN, ON_THE_SAMPLE, Numbers, Place
from gradgate.papers.measured import PaperScore, numbers_of
from gradgate.papers.planning import PlannedCell, ReproductionPlan, Scale
from gradgate.papers.preset import Preset, TableEntry, find_preset
from gradgate.papers.published import Published
from gradgate.settings.arms.arm import Arm
from gradgate.settings.arms.recorded import arm_of_texts
from gradgate.study.compare import RunCounts, compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import StudyProgress
from gradgate.study.results import StudyResults, read_study
from gradgate.study.study_file import find_study

RECORD = "reproduction.json"


class CellRecord(BaseModel):
    """A cell of the table by its labels, with the arm that was run for it and the folder of its study."""

    model_config = ConfigDict(frozen=True)

    labels: tuple[str, str, str, str]
    method: str
    adapter: str | None
    study: str = Field(pattern=r"^[^/\\]*[^/\\.][^/\\]*$")


class ReproductionRecord(BaseModel):
    """``reproduction.json``, for writing and for reading."""

    model_config = ConfigDict(frozen=True)

    preset: str
    scale: Scale
    seeds: tuple[int, ...] = ()
    runs: tuple[CellRecord, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, plan: ReproductionPlan) -> ReproductionRecord:
        """Create the record of a plan."""
        runs = tuple(
            CellRecord(
                labels=_labels(run.cell),
                method=str(run.config.method),
                adapter=_text(run),
                study=run.study,
            )
            for run in plan.runs
        )
        return cls(
            preset=plan.preset.name,
            scale=plan.scale,
            seeds=plan.seeds,
            runs=runs,
            left_out=plan.left_out,
            notes=plan.notes,
        )

    @classmethod
    def read(cls, folder: Path) -> ReproductionRecord:
        """Read the record in the folder of a reproduction.

        Raises:
            RunError: if it is absent, damaged, or lacks an entry.
        """
        file = folder / RECORD
        found = read_json(file)
        lacking = [name for name, entry in cls.model_fields.items() if entry.is_required() and name not in found]
        if lacking:
            raise RunError(
                f"{folder} is not a complete reproduction: {RECORD} has no {', '.join(lacking)}. {remedy(file)}"
            )
        try:
            return cls.model_validate(found)
        except ValidationError as error:
            raise RunError(f"{file} is damaged: {fault_with_place(error.errors()[0])}. {remedy(file)}") from None

    @property
    def studies(self) -> list[str]:
        """The folders of its studies, each once."""
        return list(dict.fromkeys(run.study for run in self.runs))


@dataclass(frozen=True)
class Reproduced:
    """One cell of the paper with what was measured for it."""

    cell: TableEntry
    measured: PaperScore
    scale: Scale = "full"

    def metric(self, number: Published) -> str | None:
        """Return our name for the metric of a printed number; None for the task's own, ``""`` if there is none.

        The tasks of the sample have metrics of their own, which stand for the first one that is printed.
        """
        named = self.cell.metric_of(number)
        own = self.scale == "sample" and number.metric == self.cell.published()[0].metric
        return None if own and named not in (DEV_MEAN, DEV_BEST) else named


@dataclass(frozen=True)
class Reproduction:
    """The content of a reproduction's folder: the preset, its rows with their scores, and notes for the reader."""

    preset: Preset
    scale: Scale
    rows: tuple[Reproduced, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...]

    def numbers(self) -> Numbers:
        """Return the scores under the labels of the paper."""
        notes = [] if self.scale == "full" else [ON_THE_SAMPLE]
        return numbers_of(self.preset.paper, [row.measured for row in self.rows], notes=notes)


def run_plan(
    plan: ReproductionPlan, out: Path, progress: Callable[[str], AbstractContextManager[StudyProgress]]
) -> RunCounts:
    """Run what is missing in every study of a plan; finished runs are skipped.

    Args:
        out: the folder of the studies; created if absent.
        progress: makes the display of one study's runs, from a title.

    Raises:
        GradgateError: as :func:`gradgate.study.compare.compare` does, or if ``out`` holds something else.
    """
    _claim(out, plan)
    write_json(out / RECORD, ReproductionRecord.of(plan).model_dump(mode="json"))
    tallies = []
    studies = plan.studies()
    for number, (name, runs) in enumerate(studies.items(), 1):
        with progress(f"study {number} of {len(studies)}: {name}") as shown:
            tallies.append(_run_study(out / name, runs, plan, shown))
    return RunCounts(
        sum(tally.finished for tally in tallies),
        sum(tally.failed for tally in tallies),
        sum(tally.paused for tally in tallies),
    )


def _run_study(folder: Path, runs: list[PlannedCell], plan: ReproductionPlan, progress: StudyProgress) -> RunCounts:
    methods = [Arm(method) for method in dict.fromkeys(run.config.method for run in runs)]
    adapters = list(dict.fromkeys(run.config.adapter for run in runs))
    # A study resumes with the search that it started with, which has the seeds of that time.
    search = plan.search if find_study(folder) is None else None
    comparison = StudyRequest(runs[0].config, methods, list(plan.seeds), adapters=adapters, search=search)
    return compare(comparison, folder, progress)


def is_reproduction(folder: Path) -> bool:
    """Return True if ``gradgate reproduce`` made this folder."""
    return (folder / RECORD).is_file()


def reproduction_with(study: Path) -> Path | None:
    """Return the folder of the reproduction that a study is a part of; None if it is a study by itself."""
    parent = study.absolute().parent
    return parent if is_reproduction(parent) and study.name in ReproductionRecord.read(parent).studies else None


def read_reproduction(folder: Path, only: str | None = None) -> Reproduction:
    """Read what a reproduction has measured so far.

    Args:
        folder: of the reproduction.
        only: the name of the one study to read; None for all.

    Raises:
        RunError: if the folder is not a reproduction, or it is damaged.
    """
    record = ReproductionRecord.read(folder)
    preset = find_preset(record.preset)
    cells = {_labels(cell): cell for cell in preset.cells()}
    studies = {name: read_study(folder / name) for name in record.studies if only in (None, name)}
    rows = [
        _row(cells[run.labels], run, studies[run.study], record.scale)
        for run in record.runs
        if run.labels in cells and run.study in studies
    ]
    return Reproduction(preset, record.scale, tuple(rows), record.left_out, record.notes)


def study_folders(folder: Path) -> list[Path]:
    """Return the studies of a reproduction."""
    return [folder / name for name in ReproductionRecord.read(folder).studies]


def _row(cell: TableEntry, run: CellRecord, results: StudyResults, scale: Scale) -> Reproduced:
    wanted = arm_of_texts(run.method, run.adapter)
    own = [arm.name for arm in results.study.arms if arm == wanted]
    if not own:
        raise RunError(
            f"{results.folder} has no runs of {run.method}, which {RECORD} names; its arms are "
            f"{', '.join(results.study.arm_names)}. Run the reproduction again, or in another out=."
        )
    task = cell.paper_task
    place = Place(cell.model, task.published or cell.task, cell.size)
    measured = PaperScore(place, cell.label, own[0], results.of(own[0]), results, task.language)
    if scale == "full":  # the sample's tasks have other splits and metrics
        measured = replace(measured, split=task.split, metric=cell.metric)
    return Reproduced(cell, measured, scale)


def _text(run: PlannedCell) -> str | None:
    return None if run.config.adapter is None else str(run.config.adapter)


def _labels(cell: TableEntry) -> tuple[str, str, str, str]:
    return cell.model, cell.task, cell.size, cell.label


def _claim(out: Path, plan: ReproductionPlan) -> None:
    """Refuse a folder that holds something else."""
    if not is_reproduction(out):
        refuse_used(out, "is not a reproduction")
        return
    record = ReproductionRecord.read(out)
    if (record.preset, record.scale) != (plan.preset.name, plan.scale):
        raise RunError(f"{out} already holds {record.preset} at scale {record.scale}. Pass another out=.")
