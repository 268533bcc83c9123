"""``track=fisher:...`` measures each layer through a training, and changes no bit of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gradgate.errors import RunError, UsageError
from gradgate.layers import map_layers
from gradgate.measure.track import FisherRecord, FisherTrack, read_fisher, read_track
from gradgate.runs.folder import RunFolder
from gradgate.settings.identity import NOT_IN_IDENTITY
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.fisher_tracker import FisherTracker
from gradgate.training.gate_callback import GateCallback
from gradgate.training.run import train
from support.loop import build
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run

TRACK = "fisher:every=5,batches=2"
MEASURES: dict[str, Any] = {"method": "fun:every=4,batches=2", "adapter": "pfeiffer:reduction=8"}
"""A method that measures too, on batches of its own."""


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 10 an epoch; dropout on."""
    return make_config(**settings | {"steps": 12, "train_size": 75, "eval_every": 4, "save_every": 3} | changes)


def measured(folder: Path) -> tuple[FisherRecord, ...]:
    return read_fisher(RunFolder(folder).fisher_file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"method": "gradual:every=4", "dropout": 0.3},
        {"method": "layer-graddrop", "dropout": 0.3},
        {"method": "mixout:p=0.5", "dropout": 0.3},
        {"method": "gradual:every=4", "activation_cache": "cache"},
    ],
    ids=lambda changes: changes["method"],
)
def test_a_tracked_run_is_the_same_bit_for_bit(
    settings: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    if "activation_cache" in changes:
        changes = {**changes, "activation_cache": str(tmp_path / "cache")}
    train(config_of(settings, **changes), tmp_path / "plain")
    train(config_of(settings, **changes, track=TRACK), tmp_path / "tracked")
    assert_same_run(tmp_path / "tracked", tmp_path / "plain")
    assert [record.step for record in measured(tmp_path / "tracked")] == [0, 5, 10, 12]
    assert not RunFolder(tmp_path / "plain").fisher_file.exists()


@pytest.fixture(scope="module")
def plain(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plain") / "run"
    train(config_of(settings, **MEASURES), folder)
    return folder


@pytest.fixture(scope="module")
def tracked(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tracked") / "run"
    train(config_of(settings, **MEASURES, track=TRACK), folder)
    return folder


def test_tracking_changes_no_bit(plain: Path, tracked: Path) -> None:
    assert_same_run(tracked, plain)
    assert [record.step for record in measured(tracked)] == [0, 5, 10, 12]
    assert not RunFolder(plain).fisher_file.exists()


def test_a_resumed_run_measures_the_same(settings: dict[str, Any], tracked: Path, tmp_path: Path) -> None:
    config = config_of(settings, **MEASURES, track=TRACK)
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(11))
    with (tmp_path / "run/fisher.jsonl").open("a") as file:
        file.write('{"step": 12, "epo')
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", tracked)
    assert measured(tmp_path / "run") == measured(tracked)


def test_a_run_that_was_begun_without_it_goes_on_with_it(settings: dict[str, Any], plain: Path, tmp_path: Path) -> None:
    without, with_it = (config_of(settings, **MEASURES, track=track) for track in (None, TRACK))
    with pytest.raises(PowerCutError):
        train(without, tmp_path / "run", Falls(11))  # with a checkpoint of step 9
    train(with_it, tmp_path / "run")
    assert_same_run(tmp_path / "run", plain)
    assert [record.step for record in measured(tmp_path / "run")] == [10, 12]


def test_closed_layers_are_measured_on_the_same_batches_as_open_ones(settings: dict[str, Any], tmp_path: Path) -> None:
    for method in ("full", "gradual:every=4"):
        train(config_of(settings, method=method, track=TRACK, steps=6), tmp_path / method)
    full, gradual = measured(tmp_path / "full"), measured(tmp_path / "gradual:every=4")
    assert full[0].traces == gradual[0].traces
    assert full[0].traces != full[1].traces
    assert min(gradual[0].traces.values()) > 0
    assert [record.open for record in full] == [("layers.0", "layers.1")] * 3
    # The bottom layer opens before step 4.
    assert [record.open for record in gradual] == [("layers.1",)] + [("layers.0", "layers.1")] * 2


def test_what_is_tracked_is_free_to_differ() -> None:
    assert make_config(track=TRACK).fingerprint() == make_config().fingerprint()
    assert "track" in NOT_IN_IDENTITY
    assert make_config(track="fisher").record()["track"] == "fisher:every=50,batches=8"
    assert make_config(track=FisherTrack(every=7)).track == read_track("fisher:every=7")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fishes", "cannot track 'fishes'.*'fisher'.*Expected fisher:every=50,batches=8"),
        ("fisher:every=0", "every=0 is not a number of optimizer steps; expected 1 or more"),
        ("fisher:each=5", "'fisher' has no option 'each'.*every=50"),
        ("fisher:every=often", "'every=often' of 'fisher' cannot be read"),
    ],
)
def test_what_cannot_be_tracked_is_said(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config(track=text)


def test_sharded_weights_and_layers_without_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="track='fisher:every=5,batches=2' and fsdp= cannot be combined"):
        make_config(track=TRACK, fsdp=True)
    model = build("bert").requires_grad_(False)
    gate, folder = GateCallback("full"), RunFolder(tmp_path)
    with pytest.raises(UsageError, match=r"none of them has a trainable weight.*Leave track= out"):
        FisherTracker(read_track(TRACK), model, map_layers(model), gate, folder, 0, print)


def test_a_damaged_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "fisher.jsonl"
    good = FisherRecord(step=0, epoch=0.0, batches=2, open=("layers.0",), traces={"layers.0": 0.5})
    file.write_text(json.dumps(good.line()) + '\n{"step": 5, "epoch": 1.0, "batches": 2, "open": []}\n')
    with pytest.raises(RunError, match=r"fisher\.jsonl is damaged in line 2: it has no 'traces'"):
        read_fisher(file)
    file.write_text(json.dumps({**good.line(), "traces": {"layers.0": -1}}) + "\n")
    with pytest.raises(RunError, match=r"line 1: expected a trace of 0 or more"):
        read_fisher(file)
