"""Stop trainings half way and resume them: the weights must be those of unbroken trainings, bit for bit."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import gradgate as gg
from benchmarks.gpu.bench import Bench, Case
from benchmarks.gpu.determinism import deterministic, differing
from benchmarks.gpu.figures import NONE_DIFFERS, Figure
from benchmarks.gpu.models import batch_of, encoder

METHODS = (
    "graddrop:p=0.2",
    "layer-graddrop:p=0.5",
    "gradual:every=2",
    "lisa:layers=2,every=2",
    "blocks:every=2,state=offload",
    "child-tuning:keep=0.3",
    "mixout:p=0.1",
)
_STEPS, _STOP = 8, 4


def cases(bench: Bench) -> list[Case]:
    """Return a case per method, in float32, and in bfloat16 with masters."""
    types = (torch.float32, torch.bfloat16)
    return [
        Case(f"{method}, {dtype}".replace("torch.", ""), partial(_resumed, method, dtype))
        for dtype in types
        for method in METHODS
        if dtype == torch.float32 or method in METHODS[:5:2]
    ]


def _resumed(method: str, dtype: torch.dtype, bench: Bench) -> Iterator[Figure]:
    with deterministic():
        unbroken, saved = _Training(bench, method, dtype), io.BytesIO()
        unbroken.train(range(_STOP))
        unbroken.save(saved)
        unbroken.train(range(_STOP, _STEPS))
        saved.seek(0)
        resumed = _Training(bench, method, dtype)
        resumed.load(saved)
        resumed.train(range(_STOP, _STEPS))
    differ = differing(unbroken.model.parameters(), resumed.model.parameters())
    name = f"{method}, {dtype}".replace("torch.", "")
    yield Figure(f"{name}, weights that differ after a resume", differ, "elements", NONE_DIFFERS)


class _Training:
    """A training whose dropout depends on the step alone."""

    def __init__(self, bench: Bench, method: str, dtype: torch.dtype) -> None:
        self.bench = bench
        self.model: Any = encoder(bench, layers=3).to(dtype)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.tuner = gg.Tuner(self.model, self.optimizer, method, total_steps=_STEPS, steps_per_epoch=2)

    def train(self, steps: range) -> None:
        for number in steps:
            torch.manual_seed(number)
            self.model(**batch_of(self.bench, self.model, 8, 64, seed=number)).loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()

    def save(self, file: io.BytesIO) -> None:
        state = self.tuner.state_dict()
        tensors: dict[str, Tensor] = state.pop("tensors", {})
        torch.save([self.model.state_dict(), self.optimizer.state_dict(), json.dumps(state), tensors], file)

    def load(self, file: io.BytesIO) -> None:
        weights, moments, state, tensors = torch.load(file, map_location="cpu", weights_only=True)
        self.model.load_state_dict(weights)
        self.optimizer.load_state_dict(moments)
        self.tuner.load_state_dict({**json.loads(state), "tensors": tensors})
