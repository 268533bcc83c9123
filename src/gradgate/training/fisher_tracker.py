"""Measure the Fisher information of each layer while Trainer trains, without changing a bit of the training."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from torch import nn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from gradgate.distributed import launch
from gradgate.errors import NonFiniteError, UsageError
from gradgate.files import append_text, write_text
from gradgate.layers import LayerMap, named_parameters
from gradgate.measure import Batches
from gradgate.measure.batches import batches_of
from gradgate.measure.trace import trace
from gradgate.measure.track import FisherRecord, FisherTrack, read_fisher
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import lines_until
from gradgate.training.gate_callback import GateCallback


class FisherTracker(TrainerCallback):  # type: ignore[misc]
    """Appends tr(F) of each layer to ``fisher.jsonl`` every n steps, at the start and at the end.

    Each measurement uses the same batches and the same draws of labels, so that two differ by the weights alone.
    Closed layers are measured as well. Of a layer, only parameters that may learn count: those of its adapter if it
    has one. Construct it before the tuner freezes any, and add it after the callback that measures time.

    Args:
        track: how often to measure, and on how many batches.
        model: the one that is trained; not sharded.
        layers: its map.
        gate: the callback whose tuner has the open layers.
        folder: of the run.
        seed: of the batches and the draws.
        note: called with a message for the user.

    Raises:
        UsageError: if no layer has a parameter that may learn.
    """

    def __init__(
        self,
        track: FisherTrack,
        model: nn.Module,
        layers: LayerMap,
        gate: GateCallback,
        folder: RunFolder,
        seed: int,
        note: Callable[[str], None],
    ) -> None:
        trained = {name for name, parameter in named_parameters(model).items() if parameter.requires_grad}
        members = {g.name: [name for name in g.parameter_names if name in trained] for g in layers.at("layer").layers}
        self._groups = {group: names for group, names in members.items() if names}
        if not self._groups:
            raise UsageError(
                f"track={track} measures the layers, but none of them has a trainable weight: the adapter is "
                f"outside them. Leave track= out, or train another adapter=."
            )
        self._track, self._model, self._gate, self._folder = track, model, gate, folder
        self._seed, self._note = seed, note
        self._batches: Batches | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Drop the measurements after the checkpoint that training resumes from; measure the start."""
        if not launch.is_first():
            return
        self._batches = batches_of(kwargs["train_dataloader"], self._seed)
        path, step = self._folder.fisher_file, state.global_step
        write_text(path, lines_until(path, step) if step > 0 and path.is_file() else "")
        if all(record.step != step for record in read_fisher(path)):
            self._measure_if_due(state)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Measure if a measurement is due."""
        if launch.is_first():
            self._measure_if_due(state)

    def _measure_if_due(self, state: TrainerState) -> None:
        step = state.global_step
        if not self._track.is_due(step, state.max_steps):
            return
        assert self._batches is not None, "a run trains on one dataset"
        request = self._track.request(self._groups, self._seed)
        try:
            traces = trace(self._model, self._groups, self._batches(0), request)
        except NonFiniteError as error:  # not fatal: the training itself raises if it cannot continue
            self._note(f"Step {step} has no Fisher trace. {error}")
            return
        record = FisherRecord(
            step=step,
            epoch=round(float(state.epoch or 0.0), 4),
            batches=self._track.batches,
            open=self._open_layers(),
            traces=traces,
        )
        append_text(self._folder.fisher_file, json.dumps(record.line()) + "\n")

    def _open_layers(self) -> tuple[str, ...]:
        tuner = self._gate.tuner
        assert tuner is not None, "the gate's callback comes before"
        opened = {group.layer for group in tuner.layers if not tuner.plan[group.name].closed}
        return tuple(name for name in self._groups if name in opened)
