"""``report_to``: trackers have what the run's own files have, each step once, and only those that were asked for."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradgate.distributed import launch
from gradgate.errors import RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.runs.history import read_history
from gradgate.runs.scores import ForgettingRecord, read_scores
from gradgate.settings import reporting
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.arguments import scoring_arguments, training_arguments
from gradgate.training.gate_callback import GateCallback
from gradgate.training.reporting.services import SERVICES
from gradgate.training.reporting.trackers import final_logs
from gradgate.training.run import train
from support.crossed import some_fast
from support.heard import Heard
from support.loop import build
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run
from support.tracked import (
    Points,
    assert_same_points,
    mlflow_points,
    tensorboard_points,
    trackio_points,
)
from support.trainers import trainer_of

METHOD = "gradual:every=4"


def needs(package: str) -> None:
    """Skip if a tracker is not installed. Importing it would warn, which is no fault of ours."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 10 an epoch; steps that log, score and save fall apart."""
    length = {"steps": 12, "train_size": 75, "eval_every": 4, "save_every": 3, "method": METHOD}
    return make_config(**settings | length | changes)


@pytest.fixture(scope="module")
def plain(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without trackers."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    train(config_of(settings), folder)
    return folder


def expected(folder: Path) -> Points:
    """What a tracker should have of a run, from the files of the run."""
    files = RunFolder(folder)
    history, scores = read_history(files.history_file), read_scores(files.scores_file)
    found: Points = {
        "loss": list(history.losses),
        "eval/accuracy": [(each.step, each.metrics["accuracy"]) for each in history.dev],
        "test/accuracy": [(scores.cost.steps, scores.tests["test"]["accuracy"] or 0.0)],
    }
    return found


def assert_has_run(points: Points, folder: Path) -> None:
    for name, those in expected(folder).items():
        assert [step for step, _ in points[name]] == [step for step, _ in those], name
        assert [value for _, value in points[name]] == pytest.approx([value for _, value in those]), name
    # Layer 0 opens with the fourth step, and nothing is left to open.
    assert [phase for _, phase in points["gradgate/phase"]] == [1.0] * 3 + [2.0] * 9
    shares = [share for _, share in points["gradgate/open_share"]]
    assert len({*shares[:3]}) == 1
    assert shares[0] < 1.0
    assert shares[3:] == [1.0] * 9


@pytest.fixture(scope="module")
def reported(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in TensorBoard."""
    needs("tensorboard")
    folder = tmp_path_factory.mktemp("reported") / "run"
    train(config_of(settings, report_to="tensorboard"), folder)
    return folder


def test_a_run_in_tensorboard_is_the_same_bit_for_bit(plain: Path, reported: Path) -> None:
    assert_same_run(reported, plain)
    assert_has_run(tensorboard_points(reported / "tensorboard"), reported)


@some_fast("falls", [[2], [11], [8, 11, 12]], [[8, 11, 12]])
def test_a_resumed_run_has_each_step_once_in_tensorboard(
    settings: dict[str, Any], plain: Path, reported: Path, falls: list[int], tmp_path: Path
) -> None:
    """Whether it was paused, or lost its power, or both."""
    config = config_of(settings, report_to="tensorboard")
    if len(falls) > 1:
        train(config, tmp_path / "run", until=6)
    for step in falls:
        with pytest.raises(PowerCutError):
            train(config, tmp_path / "run", Falls(step))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", plain)
    resumed, unbroken = (tensorboard_points(folder / "tensorboard") for folder in (tmp_path / "run", reported))
    assert_same_points(resumed, unbroken)


def test_a_run_that_began_without_a_tracker_resumes_with_one(
    settings: dict[str, Any], plain: Path, tmp_path: Path
) -> None:
    needs("tensorboard")
    with pytest.raises(PowerCutError):
        train(config_of(settings), tmp_path / "run", Falls(11))  # with a checkpoint of step 9
    train(config_of(settings, report_to="tensorboard"), tmp_path / "run")
    assert_same_run(tmp_path / "run", plain)
    assert [step for step, _ in tensorboard_points(tmp_path / "run/tensorboard")["loss"]] == list(range(10, 13))


def test_a_resumed_run_has_each_step_once_in_mlflow(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("mlflow")
    import mlflow

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = config_of(settings, report_to="mlflow")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(11))
    train(config, tmp_path / "run")
    assert not mlflow.is_tracking_uri_set()  # the next training has a folder of its own
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path / 'run/mlflow/mlflow.db'}")
    (run,) = client.search_runs([client.get_experiment_by_name("gradgate").experiment_id])
    assert run.info.status == "FINISHED"
    assert {"arm": METHOD, "seed": "0"}.items() <= run.data.tags.items()
    assert run.info.run_name.startswith(f"{METHOD}, moods")
    assert_has_run(mlflow_points(client, run.info.run_id), tmp_path / "run")


def test_mlflow_logs_where_the_environment_says(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("mlflow")
    import mlflow

    uri = f"sqlite:///{tmp_path / 'mine.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "moods")
    train(config_of(settings, steps=2, report_to="mlflow"), tmp_path / "run")
    client = mlflow.MlflowClient(uri)
    assert len(client.search_runs([client.get_experiment_by_name("moods").experiment_id])) == 1
    assert not (tmp_path / "run/mlflow").exists()


@pytest.fixture
def trackio_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty store; Trackio reads the variable when it is imported."""
    needs("trackio")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        monkeypatch.delitem(sys.modules, name)
    yield tmp_path / "trackio"
    for name in [name for name in sys.modules if name.partition(".")[0] == "trackio"]:
        del sys.modules[name]


def test_a_resumed_run_has_each_step_once_in_trackio(
    settings: dict[str, Any], tmp_path: Path, trackio_store: Path
) -> None:
    config = config_of(settings, report_to="trackio")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(11))
    train(config, tmp_path / "run")
    import trackio

    (run,) = trackio.Api().runs("gradgate")
    assert run.config["gradgate/arm"] == METHOD
    assert_has_run(trackio_points("gradgate", run.name), tmp_path / "run")


def test_forgetting_is_logged_where_it_was_measured(plain: Path) -> None:
    scores = read_scores(RunFolder(plain).scores_file)
    assert not any(name.startswith("gradgate/forgetting") for name in final_logs(scores))
    record = ForgettingRecord(
        file="other.txt",
        fingerprint="0",
        metric="loss",
        higher_is_better=False,
        rows=3,
        before=2.0,
        after=2.5,
        difference=0.5,
    )
    logs = final_logs(replace(scores, forgetting=record))
    assert logs["gradgate/forgetting/before"] == 2.0
    assert logs["gradgate/forgetting/difference"] == 0.5


def test_nothing_is_sent_unless_it_is_asked_for(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = ("KUBEFLOW_TRAINER_SERVER_URL", "WANDB_PROJECT", "TENSORBOARD_LOGGING_DIR", "MLFLOW_TRACKING_URI")
    for name in variables:
        monkeypatch.setenv(name, "https://127.0.0.1:9/none")
    config, folder = config_of(settings), RunFolder(tmp_path / "run")
    assert training_arguments(config, folder, 75).report_to == []
    assert scoring_arguments(config, folder).report_to == []
    with pytest.raises(PowerCutError):
        train(config, folder.path, Falls(2))
    assert not folder.trackers_file.exists()
    assert not folder.tensorboard.exists()


def test_only_the_first_of_several_processes_reports(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradgate.training.reporting.trackers import Trackers

    monkeypatch.setattr(launch, "is_first", lambda: False)
    trackers = Trackers(config_of(settings, report_to="tensorboard"), RunFolder(tmp_path), print)
    assert trackers.arguments == {}


def test_a_tracker_that_cannot_be_opened_is_named_with_the_remedy(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("tensorboard")

    def fails(*_: Any) -> None:
        raise ValueError("no api_key configured")

    monkeypatch.setattr(SERVICES["tensorboard"], "open", fails)
    with pytest.raises(RunError, match=r"report_to=tensorboard: .*no api_key configured"):
        train(config_of(settings, report_to="tensorboard"), tmp_path / "run")


@pytest.mark.parametrize("event", ["on_log", "on_train_end"])
def test_a_run_finishes_without_a_tracker_that_fails(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    needs("tensorboard")
    from transformers.integrations import TensorBoardCallback

    def fails(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route to the server")

    heard = Heard()
    monkeypatch.setattr(TensorBoardCallback, event, fails)
    scores = train(config_of(settings, steps=2, report_to="tensorboard"), tmp_path / "run", heard)
    assert json.loads((tmp_path / "run/scores.json").read_text()) == scores
    lacking = {"on_log": ["some of what was logged", "the final scores"], "on_train_end": ["the end of the training"]}
    said = [note.removeprefix("tensorboard lacks ") for note in heard.notes if note.startswith("tensorboard lacks ")]
    assert [note.partition(", since it failed: no route")[0] for note in said] == lacking[event]


def test_it_is_not_another_training(settings: dict[str, Any], plain: Path) -> None:
    config = config_of(settings, report_to=["tensorboard", "mlflow"])
    assert config.report_to == "tensorboard,mlflow"
    assert config.fingerprint() == config_of(settings).fingerprint()
    assert RunFolder(plain).is_done(config)


def test_the_words_of_trainer_are_understood() -> None:
    assert make_config(report_to="none").trackers == ()
    assert make_config(report_to="wandb, mlflow,wandb").trackers == ("wandb", "mlflow")
    with pytest.raises(UsageError, match=r"no tracker 'tensorbord'. Did you mean 'tensorboard'\?"):
        make_config(report_to="tensorbord")
    with pytest.raises(UsageError, match=r"no tracker 'all'. Expected tensorboard, wandb, mlflow, trackio"):
        make_config(report_to="all")


@pytest.mark.parametrize("tracker", reporting.PACKAGES)
def test_a_tracker_that_is_not_installed_is_refused_by_name(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gradgate as gg

    monkeypatch.setattr(reporting, "find_spec", lambda name: None)
    for begin in (gg.train, gg.compare, gg.recommend):
        with pytest.raises(UsageError, match=rf"report_to={tracker}: .* not installed here.*pip install {tracker}"):
            begin(report_to=tracker, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_the_name_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "absent_tracker").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(reporting.PACKAGES, "wandb", ("absent_tracker",))
    with pytest.raises(UsageError, match="report_to=wandb"):
        make_config(report_to="wandb").require_trackers()


def test_a_damaged_record_is_named(settings: dict[str, Any], tmp_path: Path) -> None:
    needs("tensorboard")
    config = config_of(settings, report_to="tensorboard")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(2))
    (tmp_path / "run/trackers.json").write_text(json.dumps({"id": 3}))
    with pytest.raises(RunError, match=r"trackers\.json is damaged"):
        train(config, tmp_path / "run")


def test_the_users_own_trainer_logs_share_and_phase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    gate = GateCallback("gradual:every=2")
    trainer_of(build("bert"), tmp_path, gate, max_steps=5, logging_steps=1, report_to="tensorboard").train()
    points = tensorboard_points(tmp_path / "events")
    assert points["gradgate/phase"] == [(1, 1.0), (2, 2.0), (3, 2.0), (4, 3.0), (5, 3.0)]
    assert [step for step, _ in points["gradgate/open_share"]] == [1, 2, 3, 4, 5]
    assert points["gradgate/open_share"][-1] == (5, 1.0)
