"""Runs that torchrun launches in two processes: as good as one process, and stopped at any moment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from gradgate.errors import RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.pauses import read_progress
from gradgate.settings.run import make_config
from gradgate.study.compare import compare
from gradgate.study.planning import StudyRequest
from gradgate.study.progress import SilentStudy
from gradgate.training.run import train
from support.generators import save_generator, save_prompts
from support.launched import ACCELERATE, launch, launch_run
from support.run_folders import assert_same_run, history, weights
from support.spoken_folders import save_language_adapters, save_spoken_task

slow = pytest.mark.slow


@pytest.fixture
def short(settings: dict[str, Any]) -> dict[str, Any]:
    """12 steps of 4 rows in each of two processes, 10 an epoch; dropout off, which differs with the rows beside it."""
    return settings | {"batch_size": 4, "dropout": 0.0, "eval_every": 4, "save_every": 3}


@slow
@pytest.mark.parametrize("fsdp", [False, True])
@pytest.mark.parametrize("method", ["gradual:every=3", "graddrop-epoch", "layer-graddrop:p=0.5"])
def test_two_processes_train_as_one_with_twice_the_batch(
    short: dict[str, Any], method: str, fsdp: bool, tmp_path: Path
) -> None:
    ended = launch_run(short | {"method": method, "fsdp": fsdp}, tmp_path / "two")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    train(make_config(**short | {"method": method, "batch_size": 8}), tmp_path / "one")
    assert (tmp_path / "two" / "plan.yaml").read_text() == (tmp_path / "one" / "plan.yaml").read_text()
    mine, theirs = history(tmp_path / "two"), history(tmp_path / "one")
    assert [(line["step"], line["split"]) for line in mine] == [(line["step"], line["split"]) for line in theirs]
    for line, other in zip(mine, theirs, strict=True):
        assert line["loss"] == pytest.approx(other["loss"], abs=1e-5)
    for name, tensor in weights(tmp_path / "two").items():
        if not name.endswith("key.bias"):  # its gradient is rounding, which Adam makes large
            torch.testing.assert_close(tensor, weights(tmp_path / "one")[name], rtol=0, atol=1e-5)


@slow
def test_two_processes_score_each_language_with_its_adapter(short: dict[str, Any], tmp_path: Path) -> None:
    task, spoken = save_spoken_task(tmp_path / "task"), save_language_adapters(short["model"], tmp_path / "adapters")
    own = {"task": str(task), "adapter": "pfeiffer:reduction=4", "language_adapters": f"{spoken}/{{language}}"}
    ended = launch_run(short | own, tmp_path / "two")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    one = train(make_config(**short | own | {"batch_size": 8}), tmp_path / "one")
    two = json.loads((tmp_path / "two/scores.json").read_text())
    assert len({scores["loss"] for scores in one["tests"].values()}) == 3
    for split, scores in one["tests"].items():
        assert two["tests"][split]["loss"] == pytest.approx(scores["loss"], rel=1e-5)


@slow
def test_two_processes_share_an_epoch_of_pretraining(short: dict[str, Any], tmp_path: Path) -> None:
    ended = launch_run(short | {"adapter": "pfeiffer:reduction=4,tapt_epochs=1"}, tmp_path / "two")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads((tmp_path / "two/tapt/scores.json").read_text())["steps"] == 10, "of 8 of the 80 rows"


@slow
@pytest.mark.parametrize("fsdp", [False, True])
@pytest.mark.parametrize("metric", ["loss", "kl"])
def test_two_processes_generate_the_texts_of_one(metric: str, fsdp: bool, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    model, task = save_generator(tmp_path / "model"), save_prompts(tmp_path / "data")
    (tmp_path / "other.txt").write_text("the film was good\na sad day\n" * 3 + "not the poor user\n")
    own = {"model": str(model), "task": str(task), "max_length": 32, "lr": 1e-2, "steps": 4, "max_new_tokens": 4}
    own |= {"forgetting": f"{tmp_path / 'other.txt'}:metric={metric}", "keep_checkpoints": True}
    ended = launch_run({**own, "batch_size": 2, "device": "cpu", "fsdp": fsdp}, tmp_path / "two")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    one = train(make_config(**own, batch_size=4, device="cpu"), tmp_path / "one")
    two = json.loads((tmp_path / "two/scores.json").read_text())
    assert two["dev"] == pytest.approx(one["dev"], rel=1e-5), "the loss of 5 rows, of which none is counted twice"
    for split in ("dev", "test"):
        mine, theirs = ((tmp_path / run / f"predictions/{split}.jsonl").read_text() for run in ("two", "one"))
        assert mine == theirs
    for name in ("before", "after"):
        assert two["forgetting"][name] == pytest.approx(one["forgetting"][name], rel=1e-5)
    kept, held = (load_file(tmp_path / run / "weights/step-4.safetensors") for run in ("two", "one"))
    assert kept.keys() == held.keys()
    assert all(torch.allclose(kept[name], held[name], atol=1e-5) for name in kept)


@slow
@pytest.mark.parametrize("fsdp", [False, True])
def test_masters_of_a_run_that_lost_a_process_go_on(short: dict[str, Any], fsdp: bool, tmp_path: Path) -> None:
    """From step 6, in the middle of a turn; each process has rounded moments when the tuner attaches, or shards."""
    settings = short | {"method": "blocks:every=4", "weights": "bfloat16", "lr": 1e-4, "fsdp": fsdp}
    assert launch_run(settings, tmp_path / "run", 1, 7, "kill").returncode != 0
    assert launch_run(settings, tmp_path / "run").returncode == 0
    assert launch_run(settings, tmp_path / "unbroken").returncode == 0
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


@slow
@pytest.mark.parametrize("fsdp", [False, True])
@pytest.mark.parametrize(("rank", "event"), [(0, "kill"), (1, "kill"), (1, "stop")])
def test_a_run_that_lost_a_process_goes_on_as_if_unbroken(
    short: dict[str, Any], fsdp: bool, rank: int, event: str, tmp_path: Path
) -> None:
    accumulating = {"method": "graddrop:p=0.3+layerwise-lr", "accumulate": 2, "batch_size": 2, "dropout": 0.1}
    settings = short | accumulating | {"fsdp": fsdp}
    broken = launch_run(settings, tmp_path / "run", rank, 7, event)
    assert broken.returncode != 0
    if event == "stop":
        assert "Stopped at step 8 of 12" in broken.stdout
    assert launch_run(settings, tmp_path / "run").returncode == 0
    assert launch_run(settings, tmp_path / "unbroken").returncode == 0
    if event == "kill":
        assert_same_run(tmp_path / "run", tmp_path / "unbroken")
    assert history(tmp_path / "run", "dev") == history(tmp_path / "unbroken", "dev")
    for name, tensor in weights(tmp_path / "unbroken").items():
        assert torch.equal(weights(tmp_path / "run")[name], tensor), name


@slow
@pytest.mark.parametrize("fsdp", [False, True])
def test_a_launched_run_that_is_paused_ends_as_if_never(short: dict[str, Any], fsdp: bool, tmp_path: Path) -> None:
    """Between two scores, and at one; each process has losses of its own since the latest log."""
    accumulating = {"method": "graddrop:p=0.3+layerwise-lr", "accumulate": 2, "batch_size": 2, "dropout": 0.1}
    settings = short | accumulating | {"fsdp": fsdp, "train_size": 75}
    for step in (5, 8):
        ended = launch_run(settings, tmp_path / "run", "until", step)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        reached = read_progress(RunFolder(tmp_path / "run"))
        assert reached is not None
        assert list(reached.dev) == ([4, 5] if step == 5 else [4, 5, 8])
    assert launch_run(settings, tmp_path / "run").returncode == 0
    assert launch_run(settings, tmp_path / "unbroken").returncode == 0
    assert_same_run(tmp_path / "run", tmp_path / "unbroken")


@slow
def test_a_loss_that_is_no_number_in_one_process_ends_all(short: dict[str, Any], tmp_path: Path) -> None:
    ended = launch_run(short, tmp_path / "run", 1, 5, "nan")
    assert ended.returncode != 0
    for rank in (0, 1):
        assert f"process {rank}: The loss of step 6 is nan" in ended.stdout


@slow
def test_the_command_line_runs_under_accelerate_and_tells_once(short: dict[str, Any], tmp_path: Path) -> None:
    flags = [word for name, value in short.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    ended = launch(ACCELERATE, "-m", "gradgate", "train", *flags, "--out", tmp_path / "run")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("Everything is in") == 1
    assert json.loads((tmp_path / "run" / "run.json").read_text())["processes"] == 2
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "run.json",
        "scores.json",
        "history.jsonl",
        "plan.yaml",
        "model",
        "predictions",
    }


def test_a_run_goes_on_with_as_many_processes_as_it_began_with(settings: dict[str, Any], tmp_path: Path) -> None:
    config = make_config(**settings | {"steps": 2})
    train(config, tmp_path / "run")
    (tmp_path / "run" / "scores.json").unlink()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps(record | {"processes": 4}))
    with pytest.raises(RunError, match=r"another number of processes \(4 there, 1 here\)"):
        train(config, tmp_path / "run")


def test_launches_that_would_mean_something_else_are_refused(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="fsdp=True shards a model over several processes"):
        train(make_config(**settings | {"fsdp": True}), tmp_path / "run")
    for variable in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        with monkeypatch.context() as set_up:
            set_up.setenv(variable, "true")
            with pytest.raises(UsageError, match="Launch plain processes"):
                train(make_config(**settings), tmp_path / "run")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="each run in one process, and 2 were launched"):
        compare(StudyRequest(make_config(**settings), ["full"], [0]), tmp_path / "study", SilentStudy())
    assert not any(tmp_path.iterdir())
