"""Measure the loss around the weights of finished runs: after He et al. 2021, Fig. 6, and Li et al. 2018."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gradgate.analysis.filters import filter_axes
from gradgate.analysis.finished import LoadedRun, Loader
from gradgate.analysis.folder import AnalysisFolder
from gradgate.analysis.landscape import LINE, PLANE, LandscapeRow, Where
from gradgate.analysis.runs import AnalyzedRuns
from gradgate.analysis.weight_space import displace, distance, filter_normalized, interpolate, put_back
from gradgate.distributed import launch
from gradgate.errors import RunError, counted
from gradgate.layers import named_parameters
from gradgate.runs.progress import RunProgress, about
from gradgate.runs.records import DEV, TRAIN
from gradgate.settings.analysis import LandscapeSettings
from gradgate.study.run_result import RunResult
from gradgate.tasks.types import IGNORED
from gradgate.torch_state import cpu_threads
from gradgate.training.pretrained import silence_libraries

SPLITS = (TRAIN, DEV)
Point = tuple[float, float | None]
"""``x`` and ``y``; a point of the line has no ``y``."""


_MEASURED = ("rows", "seed", "low", "high", "points", "plane", "span")
_DEFINITION = {"line": "with the head", "filters": "by output"}
"""What is measured, so that rows of earlier versions, which kept the head tuned on the line, are not continued."""


def line_points(asked: LandscapeSettings) -> list[Point]:
    """Return the points along the line, with 0 and 1 among them."""
    even = {round(float(x), 9) for x in np.linspace(asked.low, asked.high, asked.points)}
    return [(x, None) for x in sorted(even | {0.0, 1.0})]


def plane_points(asked: LandscapeSettings) -> list[Point]:
    """Return the points of the plane, row by row."""
    side = [round(float(x), 9) for x in np.linspace(-asked.span, asked.span, asked.plane)] if asked.plane > 1 else []
    return [(x, y) for y in side for x in side]


@dataclass(frozen=True)
class Todo:
    """A run with the points that are still to be measured."""

    run: RunResult
    line: list[Point]
    plane: list[Point]

    @property
    def count(self) -> int:
        """The number of points."""
        return len(self.line) + len(self.plane)


def measure(
    runs: Sequence[RunResult],
    folder: AnalysisFolder[LandscapeRow],
    asked: LandscapeSettings,
    progress: RunProgress,
) -> list[LandscapeRow]:
    """Measure the loss on the line of each run, and on the plane of some; points in the folder are not measured again.

    Args:
        runs: of one pretrained model and task.
        folder: keeps the rows.
        asked: what is measured, and how it is computed.

    Raises:
        FolderLockedError: while another process measures there.
        UsageError: for runs of different models or tasks.
        RunError: for a damaged run, or data that have changed.
        DataError: for data that cannot be read.
    """
    launch.refuse("gradgate analyze")
    silence_libraries()
    with folder.locked(), cpu_threads(asked.threads):
        return _measure(runs, folder, asked, Loader(asked), progress)


def _measure(
    runs: Sequence[RunResult],
    folder: AnalysisFolder[LandscapeRow],
    asked: LandscapeSettings,
    loader: Loader,
    progress: RunProgress,
) -> list[LandscapeRow]:
    folder.claim({name: getattr(asked, name) for name in _MEASURED} | _DEFINITION)
    analyzed, done = AnalyzedRuns(runs), _done(folder.read())
    kept = folder.keep(lambda row: _key(row) in done and not analyzed.supersede(row))
    rows = [row for row in kept if analyzed.have(row)]
    todo = [item for item in _todo(runs, asked, done) if item.count]
    counter = _Counter(progress, todo, len(rows) // len(SPLITS))

    def keep(found: list[LandscapeRow]) -> None:
        folder.append(found)
        rows.extend(found)

    for item in todo:
        measured = loader.load(item.run.files.path)
        _PointsOfRun(item.run, measured, asked, counter, keep).measure(item)
    if not todo:
        progress.note("Every point is measured already.")
    return rows


def _key(row: LandscapeRow) -> tuple[object, ...]:
    return row.arm, row.seed, row.run, row.where, row.x, row.y


def _done(rows: Sequence[LandscapeRow]) -> set[tuple[object, ...]]:
    """Return the points that every split has."""
    splits: dict[tuple[object, ...], set[str]] = {}
    for row in rows:
        splits.setdefault(_key(row), set()).add(row.split)
    return {point for point, found in splits.items() if found >= set(SPLITS)}


def _todo(runs: Sequence[RunResult], asked: LandscapeSettings, done: set[tuple[object, ...]]) -> Iterator[Todo]:
    planes: dict[str, int] = {}
    for run in runs:
        planes[run.arm.name] = planes.get(run.arm.name, 0) + 1
        wanted = {
            LINE: line_points(asked),
            PLANE: plane_points(asked) if planes[run.arm.name] <= asked.plane_seeds else [],
        }
        left = {
            where: [(x, y) for x, y in points if (run.arm.name, run.seed, run.mark, where, x, y) not in done]
            for where, points in wanted.items()
        }
        yield Todo(run, left[LINE], left[PLANE])


class _Counter:
    """Says once how long the points will take, then counts them."""

    def __init__(self, progress: RunProgress, todo: Sequence[Todo], done: int) -> None:
        self._progress, self._runs = progress, len(todo)
        self._line, self._plane = sum(len(item.line) for item in todo), sum(len(item.plane) for item in todo)
        self._done = done
        self._total = self._done + self._line + self._plane
        self.announced = False

    def announce(self, seconds: float) -> None:
        """Say how long all points take, if one takes ``seconds``."""
        self._progress.note(
            f"{counted(self._runs, 'run')}, {self._line} points on lines and {self._plane} on planes: "
            f"{about(seconds * (self._line + self._plane))}."
        )
        self._progress.begin(self._total, self._done)
        self.announced = True

    def advance(self, points: int, loss: float | None) -> None:
        """Count measured points."""
        self._done += points
        self._progress.advance(self._done, loss)


class _Losses:
    """The mean loss of a model on a sample of each split, as the loss on dev is computed in training."""

    def __init__(self, measured: LoadedRun, asked: LandscapeSettings) -> None:
        self._trainer = measured.trainer(measured.found.model)
        config = measured.found.model.config
        # A decoder predicts each token but the first from those before it.
        self._shifts = measured.found.task.kind == "generation" and not config.is_encoder_decoder
        self._max_length = measured.config.max_length
        self._batches = {split: self._sample(measured, split, asked) for split in SPLITS}
        self.rows = {split: sum(_rows(batch) for batch in batches) for split, batches in self._batches.items()}

    def _sample(self, measured: LoadedRun, split: str, asked: LandscapeSettings) -> list[dict[str, Tensor]]:
        rows = measured.rows(split)
        drawn = np.random.default_rng(asked.seed).permutation(len(rows))[: asked.rows]
        features = measured.features(rows.select(drawn))
        lengths = [len(row) for row in features["input_ids"]]
        features = features.select(np.argsort(lengths, kind="stable"))  # batches of one length pad the least
        return [self._trainer._prepare_inputs(batch) for batch in self._trainer.get_test_dataloader(features)]

    def __call__(self) -> dict[str, float | None]:
        """Return split to mean loss; None if it is not finite."""
        with torch.no_grad(), self._trainer.compute_loss_context_manager():
            found = {split: self._mean(split) for split in self._batches}
        return {split: loss if math.isfinite(loss) else None for split, loss in found.items()}

    def _mean(self, split: str) -> float:
        model, total, items = self._trainer.model, 0.0, 0
        for batch in self._batches[split]:
            if weight := int((self._labels(batch) != IGNORED).sum()):  # the loss of no labels is not a number
                total += float(self._trainer.compute_loss(model, dict(batch))) * weight
                items += weight
        if not items:
            raise RunError(
                f"None of the {self.rows[split]:,} sampled rows of {split} has a label within max_length="
                f"{self._max_length}; expected at least one. Pass a larger rows=, or train with a larger max_length=."
            )
        return total / items

    def _labels(self, batch: dict[str, Tensor]) -> Tensor:
        """Return the labels that the mean loss of a batch is over, so that batches of any size give one mean."""
        items = self._trainer.items(batch)
        return items[..., 1:] if self._shifts else items


def _rows(batch: dict[str, Tensor]) -> int:
    return len(next(iter(batch.values())))


class _Trained:
    """The parameters that a run has trained, and where they began.

    Attributes:
        parameters: every parameter that has moved, the head and adapters among them: they begin with the random weights
            that training began with.
    """

    def __init__(self, measured: LoadedRun) -> None:
        model = measured.found.model
        start = measured.start()
        before, own = named_parameters(start), named_parameters(model)
        if own.keys() != before.keys():
            differing = sorted(own.keys() ^ before.keys())
            raise RunError(
                f"The model in {measured.path} and the one that its training started from differ in their "
                f"parameters ({differing[0]}); expected the same. Was it trained by another version?"
            )
        self.parameters = {
            name: parameter for name, parameter in own.items() if not torch.equal(parameter.cpu(), before[name].cpu())
        }
        self.filters = filter_axes(model)
        self._start = {name: before[name].detach() for name in self.parameters}

    @cached_property
    def start(self) -> dict[str, Tensor]:
        """The weights where the run began, on the device of the model."""
        return {name: weight.to(self.parameters[name].device) for name, weight in self._start.items()}


class _PointsOfRun:
    """Measures the points of one run; the weights of its model are as they were afterwards.

    Args:
        keep: called with the rows of each point.
    """

    def __init__(
        self,
        run: RunResult,
        measured: LoadedRun,
        asked: LandscapeSettings,
        counter: _Counter,
        keep: Callable[[list[LandscapeRow]], None],
    ) -> None:
        self.run, self.asked, self.counter, self.keep = run, asked, counter, keep
        self.trained, self.losses = _Trained(measured), _Losses(measured, asked)
        if not counter.announced:
            began = time.monotonic()
            self.losses()
            counter.announce(time.monotonic() - began)

    def measure(self, todo: Todo) -> None:
        """Measure what is left."""
        self.line(todo.line)
        if todo.plane:
            self.plane(todo.plane)

    def line(self, points: Sequence[Point]) -> None:
        """Measure from the weights that training began with to those that it found, and beyond."""
        parameters, start = self.trained.parameters, self.trained.start
        way = distance(start, parameters)
        with put_back(parameters) as end:
            for x, _ in points:
                interpolate(parameters, start, end, x)
                self._point(LINE, x, None, way)

    def plane(self, points: Sequence[Point]) -> None:
        """Measure around the weights that training found. Biases and the weights of norms do not move."""
        parameters = {name: weight for name, weight in self.trained.parameters.items() if weight.ndim > 1}
        with put_back(parameters) as centre:
            directions = [filter_normalized(centre, self.asked.seed, axis, self.trained.filters) for axis in (0, 1)]
            for x, y in points:
                displace(parameters, centre, directions, (x, y or 0.0))
                self._point(PLANE, x, y, None)

    def _point(self, where: Where, x: float, y: float | None, way: float | None) -> None:
        found, run = self.losses(), self.run
        self.keep(
            [
                LandscapeRow(
                    arm=run.arm.name,
                    seed=run.seed,
                    run=run.mark,
                    where=where,
                    split=split,
                    rows=self.losses.rows[split],
                    x=x,
                    y=y,
                    loss=found[split],
                    distance=way,
                )
                for split in SPLITS
            ]
        )
        self.counter.advance(1, found[DEV])
