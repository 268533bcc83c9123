"""Ten SIGKILLs at random moments for each kind of run: what is resumed ends as if nothing had happened."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gradgate.settings.base import checked_settings
from gradgate.settings.pretraining import PretrainConfig
from gradgate.settings.run import make_config
from gradgate.study.compare import compare
from gradgate.study.planning import Execution, StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.study.workers.store import Heartbeat
from gradgate.training.masked.pretraining import pretrain_adapter
from gradgate.training.run import train
from support.arms import arms
from support.generators import save_generator, save_prompts
from support.kills import Job, killed_at_random
from support.run_folders import assert_same_run
from support.tiny_folders import save_scores

KILLS = 10
METHODS, SEEDS = ("full", "graddrop"), (0, 1)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a session"),
]


def train_one(settings: dict[str, Any], out: Path) -> None:
    train(make_config(**settings), out)


def pretrain(settings: dict[str, Any], out: Path) -> None:
    pretrain_adapter(checked_settings(PretrainConfig, settings), out)


def study(settings: dict[str, Any], out: Path) -> None:
    """Two methods with two seeds, by two workers. A worker that was killed fails its run, which is tried again."""
    execution = Execution(workers=2, heartbeat=Heartbeat(1, 4))
    for _ in range(3):
        counts = compare(StudyRequest(make_config(**settings), arms(METHODS), SEEDS), out, SilentStudy(), execution)
        if not counts.failed:
            return
    sys.exit(3)


@pytest.fixture(scope="module")
def jobs(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """Runs of one to four seconds each, which score, save and log at different steps."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("scores", "prompts"):
        (folder / name).mkdir()
    save_scores(folder / "scores")
    save_prompts(folder / "prompts")
    save_generator(folder / "llama", "llama")
    moods = f"{{task: '{settings['task']}', name: moods}}"
    (folder / "both.yaml").write_text(f"kind: multitask\ntasks: [{moods}, {{task: scores, metric: spearman}}]\n")
    (folder / "lines.txt").write_text("the day was good and fine\nthe film seems bright and warm\n" * 60)
    usual = settings | {"steps": 40, "train_size": 75, "eval_every": 8, "save_every": 3}
    language = {"model": settings["model"], "language_data": str(folder / "lines.txt"), "device": "cpu"}
    generator = {"model": str(folder / "llama"), "task": str(folder / "prompts"), "max_new_tokens": 4}
    return {
        "classification": Job(train_one, (usual | {"method": "graddrop"},)),
        "adapter": Job(train_one, (usual | {"method": "gradual:every=6", "adapter": "houlsby:size=4"},)),
        "generation": Job(train_one, (usual | generator | {"method": "lisa:layers=1,every=5", "train_size": None},)),
        "multitask": Job(train_one, (usual | {"task": str(folder / "both.yaml"), "train_size": None},)),
        "masked": Job(pretrain, (language | {"max_length": 24, "steps": 40, "batch_size": 8, "save_every": 3},)),
        "study": Job(study, (usual | {"steps": 16},)),
    }


KINDS = ("classification", "adapter", "generation", "multitask", "masked", "study")


@pytest.mark.parametrize("kind", KINDS)
def test_killed_runs_end_as_if_unbroken(kind: str, jobs: dict[str, Job], tmp_path: Path) -> None:
    if kind == "generation":
        pytest.importorskip("trl")
    job, began = jobs[kind], time.monotonic()
    job.finish(tmp_path / "unbroken")
    seconds = job.finish(tmp_path / "timed")  # without what only the first one loads
    tally = killed_at_random(job, tmp_path, KILLS, seconds, seed=KINDS.index(kind))
    assert tally.kills == KILLS
    for folder in (*tally.folders, tmp_path / "timed"):
        assert_same(folder, tmp_path / "unbroken", kind)
    print(
        f"{kind}: {tally.kills} kills ({tally.parts} of one process of several), {len(tally.folders)} jobs the same, "
        f"each {seconds:.1f} s; in all {time.monotonic() - began:.0f} s"
    )


def assert_same(folder: Path, other: Path, kind: str) -> None:
    """Bit-identical weights, and equal scores and history."""
    if kind == "study":
        for method in METHODS:
            for seed in SEEDS:
                assert_same_run(*(place / f"runs/{method}/seed-{seed}" for place in (folder, other)))
    elif kind == "masked":
        mine, theirs = (load_file(place / "adapter.safetensors") for place in (folder, other))
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())
        scores, wanted = (json.loads((place / "scores.json").read_text()) for place in (folder, other))
        assert (scores["before"], scores["after"]) == (wanted["before"], wanted["after"])
        assert (folder / "history.jsonl").read_text() == (other / "history.jsonl").read_text()
    else:
        assert_same_run(folder, other)
