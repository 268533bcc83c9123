"""Measure other text on the weights of finished runs: before training, at each kept step, and the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import isfinite
from typing import Any

import torch

from gradgate.analysis.finished import LoadedRun, Loader
from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.forgetting import ForgettingRow
from gradgate.analysis.runs import AnalyzedRuns
from gradgate.distributed import launch
from gradgate.runs.progress import RunProgress
from gradgate.runs.scores import read_scores
from gradgate.settings.analysis import ComputeSettings
from gradgate.settings.forgetting import ForgettingSetting
from gradgate.settings.run import RunConfig
from gradgate.study.run_result import RunResult
from gradgate.torch_state import cpu_threads, move
from gradgate.training.arguments import on_cpu
from gradgate.training.forgetting.data import fingerprint_of, read_forgotten
from gradgate.training.forgetting.measures import Measure, measure_of
from gradgate.training.pretrained import silence_libraries
from gradgate.training.weight_history import put_weights, weight_files


def measure(
    runs: Sequence[RunResult],
    folder: AnalysisFolder[ForgettingRow],
    setting: ForgettingSetting,
    computing: ComputeSettings,
    progress: RunProgress,
) -> list[ForgettingRow]:
    """Measure the texts on every step that each run has kept; what the folder holds is not measured again.

    Args:
        runs: of tasks of generation.
        folder: keeps the rows, of any number of texts.

    Raises:
        FolderLockedError: while another process measures there.
        UsageError: for a run that does not generate text.
        RunError: for a damaged run, or a model that the texts cannot be measured on.
        DataError: for texts or data that cannot be read.
    """
    launch.refuse("gradgate analyze")
    silence_libraries()
    fingerprint = fingerprint_of(read_forgotten(setting))
    with folder.locked(), cpu_threads(computing.threads):
        folder.claim({})
        analyzed = AnalyzedRuns(runs)
        whole = {row.key for row in folder.read() if row.best}

        def is_current(row: ForgettingRow) -> bool:
            has_changed = row.text == str(setting) and row.fingerprint != fingerprint
            return row.key in whole and not analyzed.supersede(row) and not has_changed

        rows = [row for row in folder.keep(is_current) if analyzed.have(row)]
        missing = [run for run in runs if (run.arm.name, run.seed, run.mark, str(setting), fingerprint) not in whole]
        if not missing:
            progress.note("Every step is measured already.")
        course = _Course(setting, fingerprint, Loader(computing))
        progress.begin(len(missing), 0)
        for number, run in enumerate(missing, 1):
            found = list(course.rows(run))
            folder.append(found)
            rows += found
            progress.advance(number, None)
    return [row for row in rows if row.text == str(setting)]


class _Course:
    """Measures one run after another; what pretrained models score is measured once."""

    def __init__(self, setting: ForgettingSetting, fingerprint: str, loader: Loader) -> None:
        self._setting, self._fingerprint, self._loader = setting, fingerprint, loader
        self._before: dict[tuple[object, ...], float] = {}
        self._held: tuple[tuple[object, ...] | None, Any] = None, None

    def rows(self, run: RunResult) -> Iterator[ForgettingRow]:
        """Yield the rows of a run, its best weights last."""
        measured = self._loader.load(run.files.path)
        config = measured.config.model_copy(
            update={"forgetting": self._setting, "batch_size": measured.batch_size, "fsdp": False}
        )
        pretrained = partial(self._reference, measured)
        measure = measure_of(config, measured.found.task, measured.found.tokenizer, pretrained)
        assert measure is not None, "the setting asks for it"
        yield self._row(run, measure, 0, self._pretrained(measured, measure))
        best = read_scores(run.files.scores_file).best_step
        kept = {step: file for step, file in weight_files(measured.found.folder).items() if step != best}
        if kept:
            model = measured.start()
            for step, file in kept.items():
                put_weights(model, file)
                yield self._row(run, measure, step, _value(measure, model))
            del model
        yield self._row(run, measure, best or 0, _value(measure, measured.found.model), best=True)

    def _pretrained(self, measured: LoadedRun, measure: Measure) -> float:
        if measure.before is not None:
            return measure.before
        key = (*_start(measured.config), measured.config.precision, measure.fingerprint)
        if key not in self._before:
            self._before[key] = _value(measure, measured.pretrained())
        return self._before[key]

    def _reference(self, measured: LoadedRun, device: torch.device) -> Any:
        """Return the pretrained model to compare with; it is held, as each step of each run needs it."""
        key = _start(measured.config)
        if key != self._held[0]:
            self._held = None, None  # not two at once
            model = measured.pretrained()
            move(model, device)
            self._held = key, model
        return self._held[1]

    def _row(self, run: RunResult, measure: Measure, step: int, value: float, best: bool = False) -> ForgettingRow:
        return ForgettingRow(
            arm=run.arm.name,
            seed=run.seed,
            run=run.mark,
            text=str(self._setting),
            fingerprint=self._fingerprint,
            metric=measure.metric,
            higher_is_better=measure.higher_is_better,
            step=step,
            best=best,
            value=value if isfinite(value) else None,
        )


def _start(config: RunConfig) -> tuple[object, ...]:
    """Return what is equal for runs that start from the same weights."""
    return config.model, config.weights, config.seed if config.open_new_tokens else None  # which draws their rows


def _value(measure: Measure, model: Any) -> float:
    """Measure the value on the device of the analysis, where the model stays."""
    accelerator = None if on_cpu(measure.config) else torch.accelerator.current_accelerator()
    return measure.value(model if accelerator is None else model.to(accelerator))
