"""Runs keep what training changed where that is less than half of the model, and are read all the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from gradgate.errors import RunError
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.finished import load_finished
from gradgate.runs.folder import RunFolder
from gradgate.runs.scores import FileSizes, read_scores
from gradgate.settings.identity import fingerprint_of
from gradgate.settings.run import make_config
from gradgate.training import run as run_module
from gradgate.training.run import train
from support.bits import assert_same_bits, on_disk
from support.command_line import Command
from support.run_folders import weights

DELTA, WHOLE = "delta.safetensors", "model.safetensors"
STORED = {  # what the run trains, how it is to be stored, and what it has then
    "little": ("head", "auto", DELTA),
    "much": ("full", "auto", WHOLE),
    "little, whole": ("head", "model", WHOLE),
    "much, as a delta": ("full", "delta", DELTA),
    "single weights": ("sparse:share=0.02", "auto", DELTA),
}


def trained(folder: Path, settings: dict[str, Any], **changes: Any) -> Path:
    train(make_config(**{**settings, "steps": 3, **changes}), folder)
    return folder


@pytest.fixture(scope="module")
def stored_whole(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs that keep their model whole, by their methods."""

    @cache
    def made(method: str) -> Path:
        return trained(tmp_path_factory.mktemp("whole") / "run", settings, method=method, store="model")

    return made


@pytest.mark.parametrize(("method", "store", "file"), STORED.values(), ids=STORED)
def test_what_is_stored(
    tmp_path: Path,
    settings: dict[str, Any],
    stored_whole: Callable[[str], Path],
    command: Command,
    method: str,
    store: str,
    file: str,
) -> None:
    whole = stored_whole(method)
    run = whole if store == "model" else trained(tmp_path / "run", settings, method=method, store=store)
    assert [path.name for path in (run / "model").glob("*.safetensors")] == [file]
    assert_same_bits(weights(run), on_disk(whole / "model"))
    assert_same_bits(dict(load_finished(run).model.state_dict()), dict(load_finished(whole).model.state_dict()))
    sizes = [(folder / name).stat().st_size for folder, name in ((run / "model", file), (whole / "model", WHOLE))]
    base = 0 if file == WHOLE else (Path(settings["model"]) / WHOLE).stat().st_size
    assert read_scores(run / "scores.json").cost.files == FileSizes(stored=sizes[0], whole=sizes[1], base=base)

    said = command("delta", "apply", str(run), "-o", str(tmp_path / "plain"))
    if file == WHOLE:
        assert (said.code, "keeps its model whole" in said.err) == (2, True)
    else:
        assert f"gradgate delta apply {run.name} -o" in (run / "model/README.md").read_text()
        assert_same_bits(on_disk(tmp_path / "plain"), on_disk(whole / "model"))
        AutoModelForSequenceClassification.from_pretrained(tmp_path / "plain")


def test_a_stored_delta_is_scored_and_trained_on_like_a_model(tmp_path: Path, settings: dict[str, Any]) -> None:
    runs = {
        store: trained(tmp_path / store, settings, method="freeze:layers=1", store=store)
        for store in ("delta", "model")
    }
    scores = {store: evaluate(run, out=tmp_path / f"{store}-scores")["tests"] for store, run in runs.items()}
    assert scores["delta"] == scores["model"]

    for store, run in runs.items():
        trained(tmp_path / f"{store}-on", settings, model=str(run / "model"), method="head")
    assert_same_bits(weights(tmp_path / "delta-on"), weights(tmp_path / "model-on"))


def test_several_tasks_store_the_delta_of_their_encoder(
    tmp_path: Path, settings: dict[str, Any], tiny_task: Path
) -> None:
    other = shutil.copytree(tiny_task, tmp_path / "other")
    run = trained(tmp_path / "run", settings, task=f"{tiny_task}+{other}", method="head", lr=1e-2)
    assert (run / "model" / DELTA).is_file()
    trained(tmp_path / "on", settings, model=str(run / "model"), method="head")


def test_how_it_is_stored_is_no_part_of_what_is_computed(
    tmp_path: Path, settings: dict[str, Any], stored_whole: Callable[[str], Path]
) -> None:
    run = Path(shutil.copytree(stored_whole("head"), tmp_path / "run"))
    record = json.loads((run / "run.json").read_text())
    older = {name: value for name, value in record["config"].items() if name != "store"}
    assert fingerprint_of(older) == record["fingerprint"]
    (run / "run.json").write_text(json.dumps({**record, "config": older}))
    trained(run, settings, method="head", store="delta")  # finished: nothing to do
    assert load_finished(run).config.store == "auto"


def test_a_base_that_has_changed_or_gone_is_named(tmp_path: Path, settings: dict[str, Any], tiny_model: Path) -> None:
    base = shutil.copytree(tiny_model, tmp_path / "base")
    run = trained(tmp_path / "run", settings, model=str(base), method="head")
    assert (run / "model" / DELTA).is_file()
    tensors = load_file(base / WHOLE)
    tensors["pooler.dense.bias"][0] += 1
    save_file(tensors, base / WHOLE, {"format": "pt"})
    with pytest.raises(RunError, match=r"belongs to the base .*gradgate delta apply"):
        load_finished(run)
    shutil.rmtree(base)
    with pytest.raises(RunError, match=r"There is no folder .*base.*gradgate delta apply"):
        load_finished(run)


def test_a_run_that_was_cut_off_while_it_stored_its_delta(
    tmp_path: Path,
    settings: dict[str, Any],
    stored_whole: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cut(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(run_module, "_finish", cut)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "run", settings, method="head")
    assert not RunFolder(tmp_path / "run").finished
    (tmp_path / "run/model" / DELTA).write_bytes(b"")  # what came first is not read
    run = trained(tmp_path / "run", settings, method="head")
    assert_same_bits(weights(run), on_disk(stored_whole("head") / "model"))
