"""Measure what a training forgets: score the pretrained model before and the best weights after."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

import torch
import transformers

from gradgate.deltas.bits import digest_of
from gradgate.distributed import launch
from gradgate.distributed.shards import local
from gradgate.errors import RunError
from gradgate.files import read_json, write_json
from gradgate.settings.forgetting import ForgettingRecord
from gradgate.tasks.metrics import KL
from gradgate.training.arguments import on_cpu
from gradgate.training.forgetting.data import LOSS
from gradgate.training.forgetting.measures import Measure, perplexity

_BEFORE = "before"
_TOO_LARGE = (
    "The divergence is not measured: memory does not hold the pretrained model in addition to the trained one. "
    "'gradgate analyze forgetting' measures it for the finished run; device='cpu' uses the memory of the CPU."
)


class Forgetting:
    """The measurements of one run.

    The pretrained model is loaded again only to compare the trained one with it, after training. Its score does not
    depend on method, adapter and seed, so the runs of a study share one measurement, and a resumed run reuses it.

    Args:
        measure: the metric on its texts.
        shared: a folder that these runs have in common.
        note: called before a measurement, which may take a while.
    """

    def __init__(self, measure: Measure, shared: Path, note: Callable[[str], None]) -> None:
        self.measure, self._shared, self._note = measure, shared, note
        self._before: float | None = None

    def begin(self, model: Any) -> None:
        """Score the pretrained model, or read its score from the shared folder.

        Args:
            model: before it gets an adapter; on the CPU, or in shards on its device.
        """
        self._before = self.measure.before
        if self._before is not None:
            return
        file = self._shared / f"forgetting-{self._key(model)}.json"
        self._before = launch.on_first(lambda: _kept(file))
        if self._before is None:
            self._note(f"Measuring {self.measure.config.forgetting} with the pretrained model.")
            self._before = self._on_device(model)
            launch.on_first(lambda: write_json(file, {_BEFORE: self._before}))

    def record(self, model: Any) -> ForgettingRecord | None:
        """Score the trained weights and return both scores; the model's adapter must be active.

        Returns None if the pretrained model is needed too and there is no memory for it: a training is not lost for it.
        """
        measure, before = self.measure, self._before
        assert before is not None, "the pretrained model comes first"
        self._note(f"Measuring {measure.config.forgetting} with the best weights.")
        try:
            after = measure.value(model)
        except torch.OutOfMemoryError:
            if measure.metric != KL or launch.count() > 1:  # other processes would wait for this one
                raise
            self._note(_TOO_LARGE)
            return None
        is_loss = measure.metric == LOSS
        return ForgettingRecord(
            file=str(measure.config.forgetting),
            fingerprint=measure.fingerprint,
            metric=measure.metric,
            higher_is_better=measure.higher_is_better,
            before=before,
            after=after,
            difference=after - before,
            perplexity_before=perplexity(before) if is_loss else None,
            perplexity_after=perplexity(after) if is_loss else None,
            tokens=measure.tokens,
            rows=measure.rows,
        )

    def _on_device(self, model: Any) -> float:
        """Return the score of a model on the device that the run trains on, and move the model back."""
        config, here = self.measure.config, next(model.parameters()).device
        if on_cpu(config) or here.type != "cpu":
            return self.measure.value(model)
        accelerator = torch.accelerator.current_accelerator()
        assert accelerator is not None
        try:
            return self.measure.value(model.to(torch.device(accelerator.type, launch.local_rank())))
        finally:
            model.to(here)
            if accelerator.type == "cuda":
                torch.cuda.reset_peak_memory_stats()  # the run's peak is that of its training

    def _key(self, model: Any) -> str:
        """Return a digest that is equal for the same weights, texts and settings."""
        config = self.measure.config
        weights = [(name, digest_of(local(tensor)[0].cpu())) for name, tensor in model.state_dict().items()]
        how = (config.batch_size, config.precision, config.threads, on_cpu(config), launch.count())
        versions = (torch.__version__, transformers.__version__)
        text = json.dumps([type(model).__name__, weights, self.measure.fingerprint, how, versions])
        return sha256(text.encode()).hexdigest()[:16]


def _kept(file: Path) -> float | None:
    """Return the score that another run has stored; None if there is none, or its file is damaged."""
    with suppress(RunError, KeyError, TypeError, ValueError):
        value = float(read_json(file)[_BEFORE]) if file.is_file() else None
        return value if value is not None and isfinite(value) else None
    return None
