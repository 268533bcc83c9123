"""A run with an adapter: what learns, what is written, what it costs, and that it resumes exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from gradgate import adapters
from gradgate.errors import AdapterError, UsageError
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks import find_task, kind_of, load_task
from gradgate.training.run import train
from support.crossed import some_fast
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history, weights

FLOAT = 4


def config_of(settings: dict[str, Any], **changes: Any) -> RunConfig:
    """12 steps, 10 an epoch, with dropout."""
    return make_config(**settings | {"adapter": "houlsby:size=4", "eval_every": 4, "save_every": 5} | changes)


@pytest.fixture(scope="module")
def done(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapted") / "run"
    train(config_of(settings, method="gradual:every=4"), folder)
    return folder


def cost(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "scores.json").read_text())["cost"]
    return record


@some_fast("step", [3, 7, 12], [7])  # tests/training/test_resume.py has more moments
def test_a_run_without_power_ends_as_if_unbroken(
    settings: dict[str, Any], done: Path, step: int, tmp_path: Path
) -> None:
    config = config_of(settings, method="gradual:every=4")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "run", Falls(step))
    train(config, tmp_path / "run")
    assert_same_run(tmp_path / "run", done)


@pytest.mark.parametrize("has_pooler", [True, False])
def test_what_is_kept_gives_the_scores_that_were_reported(
    settings: dict[str, Any], done: Path, has_pooler: bool, tmp_path: Path
) -> None:
    """Without a pooler in the pretrained weights, the one that was drawn for the run is a part of its head."""
    if not has_pooler:
        settings = settings | {"model": str(without_pooler(Path(settings["model"]), tmp_path / "base"))}
        train(config_of(settings, steps=4), tmp_path / "run")
    run = done if has_pooler else tmp_path / "run"
    scores, kept = json.loads((run / "scores.json").read_text()), run / "model"
    torch.manual_seed(99)
    model = AutoModelForSequenceClassification.from_pretrained(
        settings["model"], config=AutoConfig.from_pretrained(kept)
    )
    adapters.activate(model, adapters.load(model, kept, head=True))
    assert {path.name for path in kept.glob("*.safetensors")} == {
        "adapter.safetensors",
        "layer_norms.safetensors",
        "model_head.safetensors",
    }
    data = load_task(find_task(settings["task"]))
    rows = kind_of(data.spec).encode(data.dev, AutoTokenizer.from_pretrained(kept), 32)
    batch = kind_of(data.spec).collator(AutoTokenizer.from_pretrained(kept))(list(rows))
    with torch.no_grad():
        assert float(model.eval()(**batch).loss) == pytest.approx(scores["dev"]["loss"], abs=1e-6)


def test_a_pretrained_pooler_learns_with_the_head(settings: dict[str, Any], done: Path) -> None:
    before = load_file(Path(settings["model"]) / "model.safetensors")["pooler.dense.weight"]
    after = load_file(done / "model/model_head.safetensors")
    assert [not torch.equal(tensor, before) for tensor in after.values() if tensor.shape == before.shape] == [True]


def test_a_frozen_pooler_keeps_its_bits_and_what_is_kept_gives_the_scores(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    scores = train(config_of(settings, adapter="pfeiffer:size=4,pooler=frozen", steps=4), tmp_path / "run")
    kept = tmp_path / "run/model"
    assert not [name for name in load_file(kept / "model_head.safetensors") if "pooler" in name]
    model = AutoModelForSequenceClassification.from_pretrained(
        settings["model"], config=AutoConfig.from_pretrained(kept)
    )
    pretrained = load_file(Path(settings["model"]) / "model.safetensors")
    adapters.activate(model, adapters.load(model, kept, head=True))
    for name in ("dense.weight", "dense.bias"):
        assert torch.equal(model.get_parameter(f"bert.pooler.{name}"), pretrained[f"pooler.{name}"])
    data = load_task(find_task(settings["task"]))
    rows = kind_of(data.spec).encode(data.dev, AutoTokenizer.from_pretrained(kept), 32)
    batch = kind_of(data.spec).collator(AutoTokenizer.from_pretrained(kept))(list(rows))
    with torch.no_grad():
        assert float(model.eval()(**batch).loss) == pytest.approx(scores["dev"]["loss"], abs=1e-6)


def test_a_pooler_that_the_pretrained_weights_lack_is_trained_even_so(settings: dict[str, Any], tmp_path: Path) -> None:
    base = without_pooler(Path(settings["model"]), tmp_path / "base")
    adapter = "pfeiffer:size=4,pooler="
    for pooler in ("frozen", "trained"):
        train(config_of(settings, adapter=adapter + pooler, model=str(base), steps=4), tmp_path / pooler)
    one, other = (load_file(tmp_path / name / "model/model_head.safetensors") for name in ("frozen", "trained"))
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_pooler_is_trained_or_frozen(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"'pfeiffer' cannot have pooler='off' \(expected trained or frozen\)"):
        config_of(settings, adapter="pfeiffer:pooler=off")


def without_pooler(model: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    from safetensors.torch import save_file

    tensors = load_file(model / "model.safetensors")
    save_file(
        {name: tensor for name, tensor in tensors.items() if "pooler" not in name},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    return folder


def test_a_task_has_to_store_what_was_kept(settings: dict[str, Any], done: Path, tmp_path: Path) -> None:
    held = cost(done)
    kept = sum(tensor.numel() for tensor in weights(done).values())
    assert held["bytes_stored"] == FLOAT * kept
    assert held["parameters_trained"] == kept
    train(config_of(settings, adapter=None, steps=2), tmp_path / "full")
    full = cost(tmp_path / "full")
    assert full["bytes_stored"] == FLOAT * full["parameters"]
    assert held["parameters"] > full["parameters"]


@pytest.mark.parametrize("method", ["freeze:layers=1", "groups:open=embeddings[20:22]/head"], ids=["layers", "rows"])
def test_of_a_model_in_part_frozen_the_rest_is_stored(settings: dict[str, Any], method: str, tmp_path: Path) -> None:
    train(config_of(settings, adapter=None, method=method, steps=2), tmp_path / "frozen")
    held = cost(tmp_path / "frozen")
    assert 0 < held["parameters_trained"] < held["parameters"]
    assert held["bytes_stored"] == FLOAT * held["parameters_trained"]


def test_an_adapter_that_never_opened_is_stored_all_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    train(config_of(settings, method="freeze:layers=1", steps=2), tmp_path / "frozen")
    held = cost(tmp_path / "frozen")
    assert held["bytes_stored"] == FLOAT * sum(tensor.numel() for tensor in weights(tmp_path / "frozen").values())
    assert held["bytes_stored"] > FLOAT * held["parameters_trained"]


def test_the_adapters_own_learning_rate_is_used(settings: dict[str, Any], tmp_path: Path) -> None:
    changes = {"schedule": "constant", "warmup": 0.0, "steps": 2, "keep_model": False}
    train(config_of(settings, adapter="houlsby:size=4,lr=0.02", **changes), tmp_path / "own")
    train(config_of(settings, adapter="houlsby:size=4", **changes), tmp_path / "shared")
    assert {line["lr"] for line in history(tmp_path / "own", "train")} == {0.02}
    assert {line["lr"] for line in history(tmp_path / "shared", "train")} == {settings["lr"]}


@pytest.mark.slow  # tests/activation_cache has runs, tests/adapters/test_activation_cache.py has adapters
def test_the_cache_of_closed_layers_changes_nothing_that_is_learned(settings: dict[str, Any], tmp_path: Path) -> None:
    for name in ("auto", "off"):
        own = {"steps": 9, "train_size": 32, "eval_every": 9, "save_every": 9}
        config = config_of(settings, method="freeze:layers=1", activation_cache=name, **own)
        train(config, tmp_path / name)
    assert cost(tmp_path / "auto")["prefix_rows"]["read"] > 0
    mine, theirs = history(tmp_path / "auto"), history(tmp_path / "off")
    assert [line["loss"] for line in mine] == pytest.approx([line["loss"] for line in theirs], abs=2e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adapter": "houlsbi"}, r"no kind of adapter 'houlsbi'\. Did you mean 'houlsby'"),
        ({"adapter": "houlsby:siz=8"}, r"no option 'siz'\. Did you mean 'size'"),
        ({"adapter": "houlsby:size=0"}, r"size=0 \(expected 1 or more, at most 16,384\)"),
        ({"adapter": "houlsby:lr=0"}, r"'houlsby' cannot have lr='0': expected a number greater than 0"),
        ({"adapter": "houlsby:lr=1,lr=2"}, r"option 'lr' of 'houlsby' is given twice"),
        ({"adapter": "houlsby", "fsdp": True}, "adapter= and fsdp= cannot be combined"),
    ],
)
def test_a_wrong_adapter_is_refused_before_anything_is_loaded(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        make_config(**given)
    assert refused.value.exit_code == 2


def test_none_is_no_adapter() -> None:
    assert make_config(adapter="none") == make_config()


def test_a_model_without_places_for_adapters_is_refused(
    settings: dict[str, Any], tiny_gpt2: Path, tmp_path: Path
) -> None:
    with pytest.raises(AdapterError, match=r"do not know the places of GPT2.*Supported: bert"):
        train(config_of(settings, model=str(tiny_gpt2)), tmp_path / "run")
