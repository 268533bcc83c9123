"""Write imported scores as a study: a folder per task, model and training size, and ``import.json``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gradgate.errors import DataError, RunError, UsageError, counted, nearest, some_of
from gradgate.files import read_json, refuse_used, write_json
from gradgate.runs.records import TRAIN, ModelRecord, TaskRecord
from gradgate.settings.base import MOST_SEED
from gradgate.settings.imports import ImportSettings
from gradgate.study.conditions import Conditions, TaskChoice, condition_names
from gradgate.study.imported import (
    COSTS,
    IMPORT_FILE,
    UNSTATED_MODEL,
    UNSTATED_TASK,
    ImportedCosts,
    ImportedScore,
    ImportRecord,
)
from gradgate.study.importing.columns import UNPAIRED, ColumnMapping
from gradgate.study.importing.condition import ImportedCondition
from gradgate.study.importing.fairness import FairnessWarning, ScoredCondition, fairness
from gradgate.study.importing.joined import map_tables
from gradgate.study.importing.raw import RawTable
from gradgate.study.importing.scores import Cell, Missing, ReadScores, Score, read_scores, shares
from gradgate.study.importing.selection import select, selection_notes
from gradgate.study.importing.sources import SourceFile
from gradgate.study.importing.suites import with_reruns
from gradgate.study.results import StudyResults
from gradgate.study.study_file import StudyRecord
from gradgate.tasks.metrics.names import direction_is_known, higher_is_better, is_bounded, preference

_ALL_ROWS = ("full", "all", "")
Place = tuple[str, str, str]
"""Task, model and training size, as the source has them."""


@dataclass(frozen=True)
class Imported:
    """The result of an import, with doubts about the comparison.

    Attributes:
        rows_read, rows_kept: rows of all sources.
        left_out: reason to the number of rows.
        arms, tasks, models: the names, in the order of the source; the reference first.
        seeds: of all runs.
        notes: what was decided for the reader, such as the metric that is compared on.
        warnings: doubts about the comparison.
    """

    rows_read: int
    rows_kept: int
    left_out: Mapping[str, int]
    arms: tuple[str, ...]
    tasks: tuple[str, ...]
    models: tuple[str, ...]
    seeds: tuple[int, ...]
    notes: tuple[str, ...]
    warnings: tuple[FairnessWarning, ...]

    def record(self) -> dict[str, Any]:
        """Return plain values for scripts."""
        record = asdict(self)
        record["left_out"] = [{"reason": reason, "rows": rows} for reason, rows in self.left_out.items()]
        return record


def import_tables(
    tables: Sequence[RawTable], files: Sequence[SourceFile], asked: ImportSettings, out: Path
) -> Imported:
    """Write the study of some tables of results.

    Args:
        tables: as read.
        files: that they were read from; none for a data frame.
        asked: the columns that were named.
        out: the study's folder, new, empty, or with an import of the same files.

    Raises:
        UsageError: for a column or a reference that does not exist, or if no arm or score can be found.
        DataError: for two scores of one cell, or if no row has a score.
        RunError: if the folder holds something else.
    """
    _check_folder(out, files, asked)
    mapped = map_tables(with_reruns(tables), asked)
    found, plan = _planned(mapped, asked)
    sources = [asdict(file) for file in files]
    mapping = [{"source": table.source, **columns.record()} for table, columns in mapped if columns.arm][:20]
    out.mkdir(parents=True, exist_ok=True)
    # First, so that an import that was cut off is begun again rather than refused.
    write_json(out / IMPORT_FILE, {"files": sources, "asked": _asked(asked), "columns": mapping, **found.record()})
    plan.write(out)
    return found


def read_tables(tables: Sequence[RawTable], asked: ImportSettings, source: Path) -> tuple[Imported, list[StudyResults]]:
    """Return what :func:`import_tables` would import, and the results of each condition. Nothing is written.

    Args:
        tables: as read.
        asked: the columns that were named.
        source: where the tables are from.

    Raises:
        UsageError: as :func:`import_tables`.
        DataError: as :func:`import_tables`.
        RunError: if there are more runs than a study can have.
    """
    found, plan = _planned(map_tables(with_reruns(tables), asked), asked)
    return found, [condition.results(source) for condition in plan.conditions()]


def _planned(mapped: list[tuple[RawTable, ColumnMapping]], asked: ImportSettings) -> tuple[Imported, _StudyPlan]:
    """Return what the scores of some tables are, and the study that they make."""
    read = read_scores(mapped)
    read, percent = shares(read, {score.cell.metric: is_bounded(score.cell.metric) for score in read.scores})
    _check_metric(read, [columns for _, columns in mapped if columns.arm])
    pairs = [columns.pair for _, columns in mapped if columns.arm]
    plan = _StudyPlan(read, asked, pairs[0])
    notes = [*plan.notes(), *_lost_costs(asked, [columns for _, columns in mapped])]
    notes += [f"{counted(count, 'score')} not used: {reason}." for reason, count in read.unusable.items()]
    if percent:
        notes.append(f"Scores of {', '.join(percent)} are in percent; they are stored as shares of 1.")
    found = Imported(
        rows_read=read.rows_read,
        rows_kept=read.rows_kept,
        left_out=dict(read.left_out),
        arms=plan.arms,
        tasks=plan.tasks,
        models=plan.models,
        seeds=tuple(sorted(plan.seeds.values())),
        notes=tuple(notes),
        warnings=tuple(fairness(plan.doubted(), plan.arms[0])),
    )
    return found, plan


def _check_metric(read: ReadScores, mappings: Sequence[ColumnMapping]) -> None:
    """Raise UsageError if the metric to compare on is neither a column nor the metric of any score."""
    known = dict.fromkeys(score.cell.metric for score in read.scores)
    wanted = mappings[0].only_metric
    if wanted is not None and wanted not in known and all(mapping.only_metric for mapping in mappings):
        raise UsageError(
            f"metric={wanted!r}: no score has this metric.{nearest(wanted, known)} Metrics: {some_of(list(known), 20)}."
        )


def _lost_costs(asked: ImportSettings, mappings: Sequence[ColumnMapping]) -> Iterable[str]:
    """Yield which of the named costs no table has a place for."""
    known = {column for mapping in mappings for column, cost in mapping.costs if cost in COSTS}
    lost = [column for column in asked.cost if column not in known]
    if lost:
        yield (
            f"{', '.join(lost)}: left out, because no table shows this cost. Costs that are shown: {', '.join(COSTS)}."
        )


def _check_folder(out: Path, files: Sequence[SourceFile], asked: ImportSettings) -> None:
    """Refuse a folder with anything but an import of these files by the same columns."""
    if not (out / IMPORT_FILE).is_file():
        refuse_used(out, "holds no import")
        return
    record = read_json(out / IMPORT_FILE)
    before = {(file["name"], file["sha256"]) for file in record.get("files", [])}
    if before != {(file.name, file.sha256) for file in files} or not files:
        raise RunError(f"{out} holds an import of other files. Pass another out=, or remove the folder.")
    if record.get("asked") != _asked(asked):
        raise RunError(f"{out} holds an import of these files with other columns. Pass another out=, or remove it.")


def _asked(asked: ImportSettings) -> dict[str, Any]:
    return asked.model_dump(mode="json", exclude_defaults=True)


class _StudyPlan:
    """Sorts scores into conditions, arms and runs."""

    def __init__(self, read: ReadScores, asked: ImportSettings, pair: str | None) -> None:
        self._asked, self._pair, self._stated, self._stated_higher = asked, pair, read.metrics, read.higher
        self._has_sizes = _vary_within_tasks(read.scores)
        self.by_place: dict[Place, list[Score]] = {}
        for score in read.scores:
            if score.cell.split != TRAIN:
                self.by_place.setdefault(self._place(score.cell), []).append(score)
        if not self.by_place:
            raise DataError("All scores are on train, which is not compared. Name another split with split=.")
        self.unscored = self._unscored(read.missing)
        self.arms = self._ordered_arms()
        self.tasks = tuple(dict.fromkeys(task for task, _, _ in self.by_place))
        self.models = tuple(dict.fromkeys(model for _, model, _ in self.by_place))
        self.seeds = _numbered({score.cell.seed for score in read.scores})
        self._metrics = {place: self._main_metric(place[0], scores) for place, scores in self.by_place.items()}
        self._selected = {
            place: select(scores, metric, self._higher(metric))
            for (place, scores), metric in zip(self.by_place.items(), self._metrics.values(), strict=True)
        }

    def _place(self, cell: Cell) -> Place:
        return cell.task or UNSTATED_TASK, cell.model or UNSTATED_MODEL, cell.size if self._has_sizes else ""

    def _unscored(self, missing: Sequence[Missing]) -> dict[Place, dict[str, int]]:
        """Return the arms of which no run has a score at a place, with the number of their runs."""
        runs: dict[Place, dict[str, set[object]]] = {}
        for each in missing:
            place, arm = self._place(each.cell), each.cell.arm
            if all(score.cell.arm != arm for score in self.by_place.get(place, ())):
                runs.setdefault(place, {}).setdefault(arm, set()).add((each.cell.seed, each.settings))
        return {place: {arm: len(own) for arm, own in arms.items()} for place, arms in runs.items()}

    def _ordered_arms(self) -> tuple[str, ...]:
        arms = list(dict.fromkeys(score.cell.arm for scores in self.by_place.values() for score in scores))
        reference = self._asked.reference
        if reference is not None and reference not in arms:
            unscored = any(reference in own for own in self.unscored.values())
            why = "has no score in any run" if unscored else f"is not an arm.{nearest(reference, arms)}"
            raise UsageError(f"reference={reference!r} {why.rstrip('.')}. Arms: {', '.join(arms[:20])}.")
        first = reference or next((arm for arm in arms if re.fullmatch(r"full\b.*", arm, re.IGNORECASE)), arms[0])
        return (first, *(arm for arm in arms if arm != first))

    def _main_metric(self, task: str, scores: Sequence[Score]) -> str:
        """Return the metric to compare on: the one asked for, else the source's own, else one that most arms have.

        Of several, the usual one, and then the one with most scores: a run that failed may lack one of its metrics.
        """
        counts = Counter(score.cell.metric for score in scores)
        arms = Counter(metric for metric, _ in {(score.cell.metric, score.cell.arm) for score in scores})
        named = (each for each in (self._asked.metric, self._stated.get(task)) if each in counts)
        usual = max(counts, key=lambda metric: (arms[metric], -preference(metric), counts[metric]))
        return next(named, None) or usual

    def _higher(self, metric: str) -> bool:
        return not self._asked.lower_is_better and self._stated_higher.get(metric, higher_is_better(metric))

    def doubted(self) -> Iterable[ScoredCondition]:
        """Yield all conditions with their scores by arm, for the checks of fairness."""
        names = self._names()
        for place, scores in self.by_place.items():
            arms: dict[str, list[Score]] = {}
            for score in scores:
                arms.setdefault(score.cell.arm, []).append(score)
            metric = self._metrics[place]
            unscored, paired = self.unscored.get(place, {}), self._pair != UNPAIRED
            yield ScoredCondition(names[place], arms, metric, self._higher(metric), paired, unscored)
        for place in (each for each in self.unscored if each not in self.by_place):
            name = ", ".join(word for word in place if word not in (UNSTATED_TASK, UNSTATED_MODEL, ""))
            yield ScoredCondition(name, {}, "", True, unscored=self.unscored[place])

    def _names(self) -> dict[Place, str]:
        if len(self.by_place) == 1:
            return dict.fromkeys(self.by_place, "")
        tasks, models, sizes = zip(*self.by_place, strict=True)
        whole = [_size(size) for size in sizes] if self._has_sizes else ()
        return dict(zip(self.by_place, condition_names(tasks, models, whole), strict=True))

    def notes(self) -> list[str]:
        """Return what was decided for the reader."""
        tasks: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
        for place, metric in self._metrics.items():
            others = tuple(sorted({score.cell.metric for score in self.by_place[place]} - {metric}))
            if others:
                tasks.setdefault((metric, others), {})[place[0]] = None
        compared = [
            f"Compared on {metric}, together with {', '.join(others)}: {some_of(tuple(names), 4)}."
            for (metric, others), names in tasks.items()
        ]
        return [*compared, *selection_notes(self._selected.values()), *self._guesses()]

    def _guesses(self) -> Iterable[str]:
        """Yield of which metrics nothing says that higher scores are better."""
        if self._asked.lower_is_better:
            return
        metrics = sorted(set(self._metrics.values()) - set(self._stated_higher))
        unknown = [metric for metric in metrics if not direction_is_known(metric)]
        if unknown:
            yield (
                f"Higher scores are taken to be better for {some_of(unknown, 4)}, as the name does not say. If they "
                "are worse, pass lower_is_better=True."
            )

    def write(self, out: Path) -> None:
        """Write the folder of each condition."""
        sizes = tuple(dict.fromkeys(_size(size) for _, _, size in self.by_place)) if self._has_sizes else ()
        conditions = Conditions(tuple(map(TaskChoice, self.tasks)), self.models, sizes)
        found = list(self.conditions())
        if len(found) == 1:
            found[0].write(out)
            return
        for place, condition in zip(self.by_place, found, strict=True):
            condition.write(conditions.path_of(out, TaskChoice(place[0]), place[1], _size(place[2])))
        conditions.write(out)

    def conditions(self) -> Iterable[ImportedCondition]:
        """Yield the scores of each condition."""
        names = self._names()
        return (self._condition(place, names[place]) for place in self.by_place)

    def _condition(self, place: Place, name: str) -> ImportedCondition:
        task, model, size = place
        scores, metric = self._selected[place].scores, self._metrics[place]
        arms = {score.cell.arm for score in scores}
        rows = (
            {s.cell.split: int(s.cell.size) for s in scores if s.cell.size.isdecimal()} if not self._has_sizes else {}
        )
        numbered = self._pair != UNPAIRED and any(text != str(seed) for text, seed in self.seeds.items())
        study = StudyRecord(
            task=TaskRecord(
                name=task,
                kind="imported",
                metric=metric,
                metric_higher_is_better=self._higher(metric),
                rows=rows,
            ),
            model=ModelRecord(model, _parameters(scores)),
            methods=tuple(arm for arm in self.arms if arm in arms),
            seeds=tuple(sorted({self.seeds[score.cell.seed] for score in scores})),
            settings={"train_size": _size(size)} if self._has_sizes else {},
            part=name,
            imported=ImportRecord(pair=self._pair or "seed", pairs=dict(self.seeds) if numbered else None),
        )
        return ImportedCondition(study, tuple(map(self._score, scores)), tuple(self._runs(scores)))

    def _score(self, score: Score) -> ImportedScore:
        cell = score.cell
        return ImportedScore(
            arm=cell.arm,
            seed=self.seeds[cell.seed],
            split=cell.split,
            metric=cell.metric,
            score=score.value,
            step=cell.step,
        )

    def _runs(self, scores: Sequence[Score]) -> Iterable[ImportedCosts]:
        costs: dict[tuple[str, int], dict[str, float]] = {}
        for score in scores:
            run = score.cell.arm, self.seeds[score.cell.seed]
            costs.setdefault(run, {}).update({name: cost for name, cost in score.costs.items() if name in COSTS})
        return [ImportedCosts(arm=arm, seed=seed, **own) for (arm, seed), own in costs.items()]


def _vary_within_tasks(scores: Sequence[Score]) -> bool:
    """Return True if numbers of rows vary within a split of a task: they are sizes of training sets then.

    If each split has one, it is the number of rows that the split was evaluated on.
    """
    sizes: dict[tuple[str, str], str] = {}
    cells = [score.cell for score in scores]
    return any(sizes.setdefault((cell.task, cell.split), cell.size) != cell.size for cell in cells)


def _size(text: str) -> int | None:
    if text.lower() in _ALL_ROWS:
        return None
    if not text.isdecimal():
        raise DataError(f"rows= has the value {text!r}; expected a whole number, or full for all rows.")
    return int(text)


def _numbered(texts: set[str]) -> dict[str, int]:
    """Return a seed for each text: the text itself if all are numbers, else their places in order."""
    if all(text.isdecimal() and int(text) <= MOST_SEED for text in texts):
        return {text: int(text) for text in sorted(texts, key=int)}
    natural = sorted(
        texts, key=lambda text: [(not w.isdigit(), int(w) if w.isdigit() else 0, w) for w in re.split(r"(\d+)", text)]
    )
    return {text: place for place, text in enumerate(natural)}


def _parameters(scores: Sequence[Score]) -> int:
    return round(max((score.costs.get("parameters", 0.0) for score in scores), default=0.0))
