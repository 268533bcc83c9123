"""A run that is paused at a step and goes on ends with the same bits as one that was never paused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from gradgate.errors import FolderLockedError, RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import PauseRecord, read_pauses, read_progress
from gradgate.runs.progress import Silent
from gradgate.runs.records import read_record, write_record
from gradgate.runs.state import RunState
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.run import train
from gradgate.training.weight_history import weight_files
from support.bits import assert_same_bits
from support.generators import save_generator, save_prompts
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, files, history

OFF, ON, EPOCH = 5, 8, 10  # steps: one where nothing is scored, logged or saved; one with a score; the end of an epoch


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 10 an epoch; steps that log, score and save fall apart; dropout on, the rate decays, losses by twos."""
    own = {
        "steps": 12,
        "train_size": 75,
        "batch_size": 4,
        "accumulate": 2,
        "eval_every": 4,
        "save_every": 3,
        "schedule": "cosine",
    }
    return make_config(**settings | own | changes)


def adapted(**given: Any) -> Callable[[Path], dict[str, Any]]:
    return lambda _: given


def generation(folder: Path) -> dict[str, Any]:
    """A decoder that TRL trains, and what it forgets of another text."""
    pytest.importorskip("trl")
    (folder / "text.txt").write_text("the film was good\na sad day\n")
    model, task = save_generator(folder / "model"), save_prompts(folder / "data")
    short = {"train_size": None, "batch_size": 2, "steps": 12, "max_new_tokens": 4, "lr": 1e-2}
    short |= {"forgetting": str(folder / "text.txt")}
    return {"model": str(model), "task": str(task), "method": "graddrop", **short}


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "full": adapted(method="full", test_each_epoch=True),
    "graddrop": adapted(method="graddrop", track="fisher:every=3"),
    "gradual": adapted(method="gradual:every=3", keep_checkpoints=True),
    "fun": adapted(method="fun:every=3,batches=2"),
    "lisa": adapted(method="lisa:layers=1,every=4", weights="bfloat16", lr=1e-4),
    "blocks": adapted(method="blocks:every=3,order=random"),
    "houlsby": adapted(method="gradual:every=3", adapter="houlsby"),
    "lora": adapted(method="full", adapter="lora:r=2"),
    "generation": generation,
}
SLOW = ("graddrop", "gradual", "fun", "lisa", "blocks", "houlsby", "lora", "generation")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow if c in SLOW else ()) for c in CASES])
def test_a_run_that_is_paused_ends_as_if_never(settings: dict[str, Any], case: str, tmp_path: Path) -> None:
    """Between scores, at a score, and where an epoch ends."""
    if case == "lora":
        pytest.importorskip("peft")
    config, run = config_of(settings, **CASES[case](tmp_path)), tmp_path / "run"
    train(config, tmp_path / "unbroken")
    for until in (OFF, ON, EPOCH) if case == "full" else (OFF, EPOCH):
        reached = train(config, run, until=until)
        assert (reached.step, reached.of_steps, reached.state) == (until, config.steps, RunState.PAUSED)
        assert not RunFolder(run).finished
        assert not RunFolder(run).error_file.exists()
    assert list(reached.dev) == [4, OFF, ON, EPOCH]  # 8 is one of the run's own scores
    train(config, run)
    assert_same_run(run, tmp_path / "unbroken")
    kept = [weight_files(RunFolder(folder)) for folder in (run, tmp_path / "unbroken")]
    assert list(kept[0]) == list(kept[1]) == ([4, 8, 12] if config.keep_checkpoints else [])
    for step, file in kept[0].items():
        assert_same_bits(load_file(file), load_file(kept[1][step]))
    fisher = [RunFolder(folder).fisher_file for folder in (run, tmp_path / "unbroken")]
    assert fisher[0].is_file() == (config.track is not None)
    assert not fisher[0].is_file() or fisher[0].read_text() == fisher[1].read_text()


@pytest.fixture(scope="module")
def unbroken(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    train(config_of(settings, method="graddrop"), folder)
    return folder


@pytest.fixture(scope="module")
def paused(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is paused between two scores. Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("paused")
    train(config_of(settings, method="full"), folder, until=OFF)
    return folder


def test_a_pause_scores_dev_as_an_evaluation_there_would_have(
    settings: dict[str, Any], paused: Path, tmp_path: Path
) -> None:
    scored = train(config_of(settings, method="full", eval_every=OFF), tmp_path / "run", until=OFF)
    between = train(config_of(settings, method="full", eval_every=12), tmp_path / "other", until=OFF)
    (evaluated,) = history(tmp_path / "run", "dev")
    pauses = read_pauses(RunFolder(tmp_path / "other"))
    assert pauses is not None
    own = {name: value for name, value in evaluated.items() if name not in ("step", "epoch", "split")}
    assert [record.metrics for record in pauses.dev] == [own]
    assert (between.dev, between.losses) == (scored.dev, scored.losses)
    assert not (tmp_path / "other/best").exists()
    assert [line["step"] for line in history(paused, "dev")] == [4], "nothing is selected by what the pause scored"
    assert [path.name for path in (paused / "best").iterdir()] == ["step-4"]


@pytest.mark.parametrize("until", [1, OFF])
def test_what_a_run_has_reached_is_not_done_again(settings: dict[str, Any], paused: Path, until: int) -> None:
    before, told = files(paused), []
    heard = Silent()
    heard.note = told.append  # type: ignore[method-assign]
    reached = train(config_of(settings, method="full"), paused, heard, until=until)
    assert reached == read_progress(RunFolder(paused))
    assert told == [f"{paused} is paused at step 5 of 12; nothing to do."]
    changed = {name for name, held in files(paused).items() if before[name] != held}
    assert changed <= {"run.lock"}


def test_a_step_beyond_the_end_finishes_the_run(settings: dict[str, Any], tmp_path: Path) -> None:
    config = config_of(settings, method="head", steps=6)
    reached = train(config, tmp_path / "run", until=100)
    assert (reached.step, reached.of_steps, reached.state) == (6, 6, RunState.FINISHED)
    assert reached.score == json.loads((tmp_path / "run/scores.json").read_text())["dev"]["accuracy"]
    assert list(reached.dev) == [4, 6]
    assert train(config, tmp_path / "run", until=3) == reached


def test_a_run_that_was_killed_on_its_way_reaches_its_step(
    settings: dict[str, Any], unbroken: Path, tmp_path: Path
) -> None:
    """With checkpoints of steps 6 and 9; what a checkpoint is beyond needs no step."""
    config, run = config_of(settings, method="graddrop"), tmp_path / "run"
    train(config, run, until=2)
    with pytest.raises(PowerCutError):
        train(config, run, Falls(7), until=OFF + 3)
    reached = read_progress(RunFolder(run))
    assert reached is not None
    assert reached.step == 2
    assert train(config, run, until=3).step == 6
    train(config, run)
    assert_same_run(run, unbroken)


def test_a_run_that_was_abandoned_begins_anew(settings: dict[str, Any], unbroken: Path, tmp_path: Path) -> None:
    config, run = config_of(settings, method="graddrop"), RunFolder(tmp_path / "run")
    train(config, run.path, until=4)
    before = read_progress(run)
    with run.locked(), pytest.raises(FolderLockedError, match="being trained by process"):
        run.abandon()
    assert run.latest_checkpoint() is not None
    run.abandon()
    assert not run.checkpoints.exists()
    assert not run.best.exists()
    assert read_progress(run) == before
    train(config, run.path)
    assert_same_run(run.path, unbroken)


def test_a_pause_belongs_to_the_configuration_of_the_run(settings: dict[str, Any], paused: Path) -> None:
    with pytest.raises(
        RunError, match=r"already holds a run with another configuration \(lr: 0\.001 there, 0\.1 here\)"
    ):
        train(config_of(settings, method="full", lr=0.1), paused, until=OFF)


def test_a_step_before_the_first_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"until=0: expected the optimizer step to pause at, 1 or more\. None trains"):
        train(config_of(settings), tmp_path / "run", until=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", r"pauses\.json"),
        ('{"metric": "accuracy", "of_steps": 3, "seconds": 1, "dev": []}', r"dev: .*at least one pause, got \[\]"),
    ],
)
def test_a_damaged_record_of_pauses_is_named(text: str, message: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.pauses_file.write_text(text)
    with pytest.raises(RunError, match=message):
        read_progress(folder)


def test_the_record_of_pauses_is_read_as_it_was_written(paused: Path, tmp_path: Path) -> None:
    record = read_pauses(RunFolder(paused))
    assert record is not None
    assert (record.step, record.of_steps, record.metric) == (OFF, 12, "accuracy")
    write_record(tmp_path / "pauses.json", record)
    assert read_record(tmp_path / "pauses.json", PauseRecord) == record
