"""Judge verdicts by test rows as well as by seeds, if the runs store what they predicted for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from gradgate.errors import RunError
from gradgate.runs.folder import RunFolder
from gradgate.runs.predictions import read_predictions
from gradgate.runs.records import DEV
from gradgate.statistics import Word
from gradgate.statistics.multibootstrap import Array, Metric, RowNoise, multi_bootstrap
from gradgate.study.conditions import condition_folders
from gradgate.study.results import StudyResults, read_study
from gradgate.study.row_counts import counted_metric, row_counts
from gradgate.study.run_result import RunResult
from gradgate.study.verdicts import ArmVerdict, verdicts_of
from gradgate.tasks.languages import averaged_splits

_ROUNDING = 1e-6


def row_verdicts(folder: Path, margin: float | None = None) -> list[ArmVerdict]:
    """Judge every arm of a study as :func:`gradgate.study.verdicts.study_verdicts`, with the noise of test rows.

    Args:
        folder: of the study.
        margin: as there.

    Raises:
        RunError: if the folder holds no study.
    """
    found = []
    for part in condition_folders(folder):
        results = read_study(part)
        found += with_row_noise(results, [each for each in verdicts_of(results, margin) if each.collapsed.runs])
    return found


def with_row_noise(results: StudyResults, verdicts: Sequence[ArmVerdict], seed: int = 0) -> list[ArmVerdict]:
    """Return the verdicts of one condition with the noise of its test rows, or with why it is unknown.

    Args:
        results: of the condition.
        verdicts: of its arms.
        seed: of the resampling.
    """
    rows = _StoredRows(results)
    found = []
    for verdict in verdicts:
        noise, note = rows.noise_of(verdict, seed)
        found.append(replace(verdict, rows=noise, rows_note=note))
    return found


@dataclass(frozen=True, eq=False)
class _StoredRows:
    """The predictions of the runs of one condition."""

    results: StudyResults

    @property
    def metric(self) -> Metric | None:
        """The score from sums over rows; None if it is not one."""
        task = self.results.study.task
        return counted_metric(task.metric, task.kind, len(task.labels or ()))

    @cached_property
    def splits(self) -> tuple[str, ...]:
        """The splits whose mean arms are compared on."""
        task, main = self.results.study.task, self.results.main_split
        members = averaged_splits((DEV, *self.results.test_splits), task.languages, task.source)
        return members.get(main, (main,))

    @cached_property
    def counts(self) -> dict[tuple[str, int], tuple[Array, ...]]:
        """Arm and seed to the counts of each split, of runs whose stored rows give their recorded scores."""
        found = {}
        for cell in self.results.cells:
            if cell.scores is not None and cell.folder is not None:
                counts = self._read(cell)
                if counts is not None:
                    found[cell.arm.name, cell.seed] = counts
        return found

    @cached_property
    def translated(self) -> bool:
        """Whether the splits are one test set in several languages: their labels are equal, row by row."""
        run = next((cell for cell in self.results.cells if (cell.arm.name, cell.seed) in self.counts), None)
        if run is None or run.folder is None or len(self.splits) < 2:
            return False
        folder = RunFolder(run.folder)
        first, *others = ([row.get("gold") for row in read_predictions(folder, split)] for split in self.splits)
        return all(each == first for each in others)

    def noise_of(self, verdict: ArmVerdict, seed: int) -> tuple[RowNoise | None, str | None]:
        """Return the noise of a verdict, or why it is unknown."""
        if self.results.study.imported is not None:
            return None, "Judged by seeds only: imported scores have no rows."
        if self.metric is None:
            return None, f"Judged by seeds only: {verdict.metric} is not computed from sums over rows."
        shared = [each for each in self.results.study.seeds if self._has(verdict.arm, each, verdict.reference)]
        pairs = verdict.verdict.comparison.n
        if len(shared) < pairs:
            return (
                None,
                f"Judged by seeds only: {pairs - len(shared)} of {pairs} pairs stored no predictions.",
            )
        if len(shared) < 2:
            return None, "Estimating the noise of seeds and rows needs two pairs."
        sides = [
            [[self.counts[name, each][place] for each in shared] for place in range(len(self.splits))]
            for name in (verdict.arm, verdict.reference)
        ]
        if any(len({len(counts) for side in sides for counts in side[place]}) > 1 for place in range(len(self.splits))):
            return None, "Judged by seeds only: the runs were scored on different numbers of rows."
        ours, theirs = ([np.stack(split) for split in side] for side in sides)
        noise = multi_bootstrap(ours, theirs, self.metric, seed=seed, translated=self.translated)
        return noise, _note(verdict, noise)

    def _has(self, arm: str, seed: int, reference: str) -> bool:
        return (arm, seed) in self.counts and (reference, seed) in self.counts

    def _read(self, cell: RunResult) -> tuple[Array, ...] | None:
        """Return the counts of each split of a run; None if a file is absent, damaged or of another score."""
        task, found = self.results.study.task, []
        assert cell.folder is not None
        for split in self.splits:
            try:
                rows = read_predictions(RunFolder(cell.folder), split)
                counts = row_counts(rows, task.metric, task.labels or ())
            except (RunError, ValueError):
                return None
            score = cell.score(split)
            if not len(counts) or score is None or self.metric is None:
                return None
            if not abs(float(self.metric(counts.sum(axis=0))) - score) <= _ROUNDING:
                return None
            found.append(counts)
        return tuple(found)


def _note(verdict: ArmVerdict, noise: RowNoise | None) -> str | None:
    if noise is None:
        return "Judged by seeds only: neither seeds nor rows vary."
    low, high = noise.interval_t
    if verdict.verdict.word in (Word.BETTER, Word.WORSE) and low <= 0 <= high:
        word = verdict.verdict.word.value.capitalize()
        return f"{word} on these test rows only: the 95 % interval over seeds and rows includes 0."
    if verdict.verdict.word is Word.INCONCLUSIVE and noise.variance_rows > 0.5:
        return (
            f"Rows more than seeds: {noise.variance_rows:.0%} of the variance comes from test rows; more seeds would "
            f"settle it on these rows only."
        )
    return None
