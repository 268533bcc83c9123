"""The tables of the scores of each class, and of which classes are mistaken for which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from gradgate.errors import RunError, counted
from gradgate.report.formats import NONE, ScoreFormat
from gradgate.report.sections.base import Section
from gradgate.report.study_summary import ArmSummary, StudySummary
from gradgate.report.table import Column, Entry, Raw, Table, records_of, text_column
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import read_predictions
from gradgate.statistics import Summary, summarize
from gradgate.tasks.metrics.per_class import KINDS, ClassScores, score_each_class

_LONGEST = 50
_WIDEST = 20
"""Classes up to which the page shows which are taken for which; a longer table is a file."""


@dataclass(frozen=True)
class _OfArm:
    """The scores of each class of one arm: one per seed, over the rows of all splits that the study compares on."""

    arm: ArmSummary
    by_seed: tuple[ClassScores, ...]

    def summary(self, place: int, score: str) -> Summary:
        """Return a score of the class at this place over the seeds."""
        return summarize([getattr(each.scores[place], score) for each in self.by_seed])

    def support(self, place: int) -> float:
        """Return the rows of the class at this place in one run."""
        return fmean(each.scores[place].support for each in self.by_seed)

    @property
    def confusion(self) -> list[list[int]] | None:
        """The number of rows of all seeds, by label and by prediction; None if it is not counted."""
        counts = [each.confusion for each in self.by_seed if each.confusion is not None]
        if len(counts) < len(self.by_seed):
            return None
        return [[sum(cells) for cells in zip(*rows, strict=True)] for rows in zip(*counts, strict=True)]


@dataclass(frozen=True)
class PerClassSection(Section):
    """The scores of each class, of the best arm and of the reference."""

    arms: tuple[_OfArm, ...]
    problems: tuple[str, ...] = ()

    @classmethod
    def find(cls, study: StudySummary) -> PerClassSection | None:
        """Return None for a task without classes, several tasks, and until a run has finished."""
        task = study.record.task
        if study.results.parts or task.kind not in KINDS or not task.labels or not study.best:
            return None
        shown = dict.fromkeys((study.best[0].name, study.reference.name))
        found, problems = [], []
        for arm in study.arms:
            if arm.name not in shown or not arm.finished:
                continue
            try:
                found.append(_OfArm(arm, _read(study, arm)))
            except (RunError, ValueError) as error:
                problems.append(f"The scores of each class of {arm.name} cannot be computed: {error}")
        found.sort(key=lambda each: each.arm is not study.best[0])
        found = [each for each in found if each.by_seed]
        return cls(study, tuple(found), tuple(problems)) if found or problems else None

    def tables(self) -> list[Table]:
        """Return one row per class, and for few classes one column per prediction."""
        if not self.arms:
            return []
        tables = [class_table(self.study, self.arms)]
        confusion = self.arms[0].confusion
        return [*tables, confusion_table(self.study, self.arms[0], confusion)] if confusion is not None else tables

    def notes(self) -> list[str]:
        """Say how the numbers are made."""
        return [
            "Per-class scores are computed by scikit-learn from each run's prediction file on "
            f"{self.study.split_label}, and averaged over seeds."
        ]

    def cautions(self) -> list[str]:
        """Say which prediction files cannot be read."""
        return list(self.problems)


def class_table(study: StudySummary, arms: Sequence[_OfArm]) -> Table:
    """Return one row per class: its rows, and the scores of the best arm, and the reference's F1."""
    labels, counts = study.record.task.labels or (), study.record.task.train_counts or {}
    best, form = arms[0], ScoreFormat("f1", 100, 1)
    rows = [place for _, place in sorted((-best.support(place), place) for place in range(len(labels)))]
    settings = study.record.settings
    drawn = "all of " if settings.get("train_size") or settings.get("dev_size") else ""  # runs saw a part of them
    unit = "tokens" if study.record.task.kind == "token-classification" else "rows"

    def score(name: str, title: str, of: _OfArm = best, key: str = "") -> Column[int]:
        def show(place: int) -> Entry:
            found = of.summary(place, name)
            return Entry(form.with_spread(found.mean, found.sd), found.mean)

        return Column(key or name, title, show=show, raw=lambda place: of.summary(place, name).mean)

    columns: list[Column[int]] = [
        Column("method", raw=lambda place: best.arm.name),
        text_column("label", "Label", of=lambda place: labels[place]),
        Column("train", f"In {drawn}train ({unit})", show=lambda place: _count(counts.get(labels[place])),
               raw=lambda place: counts.get(labels[place])),
        Column("support", f"In {study.split_label}", show=lambda place: _count(round(best.support(place))),
               raw=lambda place: best.support(place)),
        score("precision", "Precision × 100"),
        score("recall", "Recall × 100"),
        score("f1", "F1 × 100"),
        *(score("f1", f"F1 × 100 of {each.arm.name}", each, "reference_f1") for each in arms[1:]),
    ]  # fmt: skip
    title = f"Each label: {best.arm.name}, {study.split_label}"
    columns = [column for column in columns if counts or column.key != "train"]
    cut = f"Only the {_LONGEST} most frequent labels are shown; the file has all {len(labels)}."
    more = (cut,) if len(labels) > _LONGEST else ()
    return Table.of("classes", title, rows[:_LONGEST], columns, records=records_of(rows, columns), notes=more)


def confusion_table(study: StudySummary, best: _OfArm, confusion: list[list[int]]) -> Table:
    """Return one row per label and one column per prediction, with shares as heat; for many labels the usual errors."""
    labels = study.record.task.labels or ()
    totals = [sum(row) for row in confusion]
    pairs = [(place, to) for place in range(len(labels)) for to in range(len(labels))]
    records: tuple[dict[str, Raw], ...] = tuple(
        {"method": best.arm.name, "label": labels[place], "predicted": labels[to], "rows": confusion[place][to]}
        for place, to in pairs
    )
    title = f"Confusion matrix: {best.arm.name}, {study.split_label}"
    note = f"Each row is a true label: shares of its rows, and their number over {counted(len(best.by_seed), 'seed')}."

    def cell(place: int, to: int) -> Entry:
        share = confusion[place][to] / totals[place] if totals[place] else 0.0
        return Entry(f"{share:.0%}", share, f"{confusion[place][to]:,}", heat=share)

    def as_label(to: int) -> Column[int]:
        return Column(f"as_{to}", f"as {labels[to]}", show=lambda place: cell(place, to))

    if len(labels) <= _WIDEST:
        columns = [text_column("label", "Label", of=lambda place: labels[place]), *map(as_label, range(len(labels)))]
        return Table.of("confusion", title, range(len(labels)), columns, records=records, notes=(note,))
    errors = sorted((pair for pair in pairs if pair[0] != pair[1]), key=lambda pair: -confusion[pair[0]][pair[1]])
    common: list[Column[tuple[int, int]]] = [
        text_column("label", "Label", of=lambda pair: labels[pair[0]]),
        text_column("predicted", "Predicted", of=lambda pair: labels[pair[1]]),
        Column("share", "Share", show=lambda pair: cell(*pair)),
    ]
    notes = (note, f"Only the {_WIDEST} most frequent errors are shown; the file has all pairs.")
    return Table.of("confusion", title, errors[:_WIDEST], common, records=records, notes=notes)


def _read(study: StudySummary, arm: ArmSummary) -> tuple[ClassScores, ...]:
    """Return the scores of each seed; RunError or ValueError for prediction files that cannot be used."""
    task = study.record.task
    by_seed = []
    for cell in arm.finished:
        folder = None if cell.folder is None else RunFolder(cell.folder)
        if folder is None or not folder.predictions.is_dir():  # results that were imported or copied without them
            continue
        rows = [row for split in study.units for row in read_predictions(folder, split)]
        scores = score_each_class(task.kind, task.labels or (), rows)
        by_seed += [scores] if scores is not None else []
    return tuple(by_seed)


def _count(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"
