"""`gradgate analyze landscape`: the losses that a run has noted, only what was trained moves, resumed, refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradgate.analysis.finished import Loader
from gradgate.analysis.landscape import LINE, PLANE, landscape_folder
from gradgate.analysis.loss_surface import measure
from gradgate.analysis.runs import find_runs
from gradgate.errors import GradgateError, RunError, UsageError
from gradgate.evaluation.finished import load_finished
from gradgate.runs.progress import Silent
from gradgate.settings.analysis import ComputeSettings, LandscapeSettings
from gradgate.settings.base import checked_settings
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.generators import rows, save_generator, save_rows

HERE: dict[str, Any] = {"device": "cpu", "batch_size": 8}
SMALL = {"rows": 100, "points": 5, "plane": 3, "low": -0.5, "high": 1.5}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(None, id="whole"),
        pytest.param("houlsby:size=4", marks=pytest.mark.slow, id="houlsby"),
        pytest.param("lora:r=2", id="lora"),
    ],
)
def run(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, request: Any) -> Path:
    """A run of the upper layer, or of its adapter."""
    if request.param == "lora:r=2":
        pytest.importorskip("peft")
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(make_config(**settings | {"method": "freeze:layers=1", "lr": 1e-2}, adapter=request.param), folder)
    return folder


def measured(run: Path, out: Path, progress: Silent | None = None, **request: Any):
    (group,) = find_runs([run], lambda text: None)
    return measure(group.runs, landscape_folder(out), LandscapeSettings(**HERE | SMALL | request), progress or Silent())


def test_rows_whose_response_was_cut_off_have_no_part_in_the_loss(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    cut = {"prompt": "the day was not a good day the film was not ", "response": "bad bad"}
    data = save_rows(tmp_path / "data", {"train": [*rows(15, 0), cut], "dev": [cut, *rows(4, 1)]})
    model = str(save_generator(tmp_path / "model"))
    sizes = {"max_length": 8, "batch_size": 4, "steps": 4, "device": "cpu"}
    train(make_config(model=model, task=str(data), method="full", lr=1e-2, **sizes), tmp_path / "run")
    asked = {"points": 2, "plane": 0, "low": -1.0}
    alone = measured(tmp_path / "run", tmp_path / "alone", batch_size=1, **asked)
    together = measured(tmp_path / "run", tmp_path / "together", batch_size=16, **asked)
    assert [row.loss for row in alone] == pytest.approx([row.loss for row in together], abs=1e-5)
    chosen = next(seed for seed in range(99) if np.random.default_rng(seed).permutation(5)[0] == 0)
    with pytest.raises(RunError, match=r"None of the 1 sampled rows of dev has a label within max_length=8; expected"):
        measured(tmp_path / "run", tmp_path / "one", rows=1, seed=chosen, **asked)


def test_the_loss_at_the_tuned_weights_is_the_dev_loss_of_the_run(run, tmp_path):
    rows = measured(run, tmp_path)
    dev = json.loads((run / "scores.json").read_text())["dev"]["loss"]
    tuned = [row for row in rows if row.split == "dev" and (row.where, row.x) == (LINE, 1.0)]
    centre = [row for row in rows if row.split == "dev" and (row.where, row.x, row.y) == (PLANE, 0.0, 0.0)]
    assert [row.loss for row in (*tuned, *centre)] == pytest.approx([dev, dev], abs=1e-5)
    assert {row.rows for row in rows if row.split == "dev"} == {30}
    assert {row.rows for row in rows if row.split == "train"} == {80}
    assert sorted({row.x for row in rows if row.where == LINE}) == [-0.5, 0.0, 0.5, 1.0, 1.5]
    assert len({(row.x, row.y) for row in rows if row.where == PLANE}) == 9
    assert len({row.loss for row in rows}) > 20  # the points differ


def test_weights_are_back_and_only_what_was_trained_has_moved(run, tmp_path, monkeypatch):
    loaded: list[Any] = []
    seen: list[dict[str, torch.Tensor]] = []

    class Watching(Loader):
        def load(self, kept):
            loaded.append(super().load(kept))
            return loaded[-1]

    class Looks(Silent):
        def advance(self, step: int, loss: float | None) -> None:
            seen.append({n: p.detach().clone() for n, p in loaded[-1].found.model.named_parameters()})
            if step == stop:
                raise KeyboardInterrupt

    monkeypatch.setattr("gradgate.analysis.loss_surface.Loader", Watching)
    for stop in (2, 8):  # on the line, and on the plane
        with pytest.raises(KeyboardInterrupt):
            measured(run, tmp_path / str(stop), Looks())
        kept = dict(load_finished(run).model.named_parameters())
        for name, weight in loaded[-1].found.model.named_parameters():
            assert torch.equal(weight, kept[name]), name
    moved = {name for state in seen for name, weight in state.items() if not torch.equal(weight, kept[name])}
    bottom = {name for name in kept if "embeddings" in name or "layer.0." in name}
    assert moved
    assert not moved & bottom
    if json.loads((run / "run.json").read_text())["config"]["adapter"]:
        own = ("lora", "adapter", "Norm", "classifier", "pooler")
        assert all(any(part in name for part in own) for name in moved), moved


@pytest.mark.slow
def test_an_interrupted_analysis_goes_on_where_it_stopped(run, tmp_path):
    class Stops(Silent):
        def advance(self, step: int, loss: float | None) -> None:
            if step == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured(run, tmp_path / "out", Stops())
    file = tmp_path / "out" / "landscape.csv"
    before = file.read_text()
    assert len(before.splitlines()) == 1 + 2 * 4
    file.write_text(before[:-3])  # the last line was cut off, so that its point lacks a split
    rows = measured(run, tmp_path / "out")
    assert file.read_text().startswith("".join(before.splitlines(keepends=True)[:7]))
    whole = measured(run, tmp_path / "whole")
    assert {repr(row) for row in rows} == {repr(row) for row in whole}
    assert measured(run, tmp_path / "out") == rows
    with pytest.raises(RunError, match="rows: 100 there, 10 here"):
        measured(run, tmp_path / "out", rows=10)


def test_a_head_alone_has_a_line_and_a_plane(settings, tmp_path, command):
    train(make_config(**settings | {"method": "head"}), tmp_path / "run")
    words = ("--rows", "8", "--points", "5", "--plane", "3", "--device", "cpu")
    said = command("analyze", "landscape", str(tmp_path / "run"), *words)
    assert said.code == 0, said.err
    assert "The minimum of head is" in said.out
    out = tmp_path / "run" / "analyses" / "landscape"
    assert {row.where for row in landscape_folder(out).read()} == {LINE, PLANE}
    assert {file.name for file in out.iterdir()} == {
        "landscape.csv", "settings.json", *(f"landscape-{w}.{end}" for w in (LINE, PLANE) for end in ("svg", "pdf")),
    }  # fmt: skip


def test_the_line_begins_where_training_began(run, tmp_path):
    rows = measured(run, tmp_path, plane=0)
    loaded = Loader(ComputeSettings(device="cpu")).load(find_runs([run], lambda text: None)[0].runs[0].files.path)
    model = loaded.start()
    batches = list(loaded.trainer(model).get_test_dataloader(loaded.features(loaded.rows("dev"))))
    with torch.no_grad():
        total = sum(float(model(**batch).loss) * len(batch["labels"]) for batch in batches)
    (begun,) = [row.loss for row in rows if (row.split, row.where, row.x) == ("dev", LINE, 0.0)]
    assert begun == pytest.approx(total / 30, abs=1e-5)


@pytest.mark.parametrize("run", [None], indirect=True, ids=["whole"])
def test_rows_of_another_definition_are_not_continued(run, tmp_path):
    folder = landscape_folder(tmp_path)
    measured(run, tmp_path, points=2, plane=0)
    settings = {name: value for name, value in folder.settings().items() if name not in ("line", "filters")}
    folder.settings_file.write_text(json.dumps(settings))
    assert folder.read()
    with pytest.raises(RunError, match="line: None there, 'with the head' here"):
        measured(run, tmp_path, points=2, plane=0)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"plane": 4}, "plane=4: expected an odd number"),
        ({"low": 0.5}, "low=0.5: expected a number less than 0"),
        ({"high": 1.0, "rows": 0}, "rows=0: expected .*; high=1.0: expected a number greater than 1"),
        ({"span": float("nan")}, "span=nan"),
    ],
)
def test_settings_out_of_range_are_refused_together(request_, message):
    with pytest.raises(UsageError, match=message):
        checked_settings(LandscapeSettings, request_)


@pytest.mark.parametrize("run", [None], indirect=True, ids=["whole"])
def test_a_damaged_model_is_said(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    for file in (tmp_path / "run" / "model").glob("*.safetensors"):
        file.write_bytes(b"no tensors")
    with pytest.raises(GradgateError, match="safetensors"):
        measured(tmp_path / "run", tmp_path / "out")
