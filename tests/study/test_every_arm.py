"""Every form of an arm is compared, raced within a budget, trained by a worker, and taken by recommend."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradgate.methods import methods
from gradgate.settings.run import RunConfig, make_config

PLAN = "phases:\n- {step: 0, open: [head]}\n- {step: 2, open: [layers.3, head]}\n"
OPTIONS = {"order": "order:layers=0/1/2/3,every=1", "groups": "groups:open=head", "fun": "fun:every=1,batches=1"}
COMBINED = (
    "freeze:layers=2+graddrop",
    "houlsby:size=4",
    "lora:r=2 + gradual:every=1",
    "lora:r=2,lr=1e-3",
    "full,lr=1e-3",
)


@pytest.fixture
def base(base: RunConfig) -> RunConfig:
    return make_config(**{**base.record(), "steps": 3, "epochs": None, "eval_every": None, "skip_test": True})


def forms(folder: Path) -> list[str]:
    (folder / "plan.yaml").write_text(PLAN)
    known = [OPTIONS.get(info.name, info.name) for info in methods() if info.name != "plan"]
    return [*known, *COMBINED, f"plan:{folder / 'plan.yaml'}"]
