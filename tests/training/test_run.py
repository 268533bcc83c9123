"""One run: what it writes, what it selects, and which kinds of task and model it takes."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import (
    CONFIG_MAPPING,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PretrainedConfig,
    RobertaConfig,
    Trainer,
    TrainingArguments,
)

from gradgate import deltas
from gradgate.errors import NonFiniteError, RunError, UsageError
from gradgate.runs.folder import RunFolder
from gradgate.settings.run import RunConfig, make_config
from gradgate.training.arguments import training_arguments
from gradgate.training.pretrained import positions, set_dropout
from gradgate.training.run import train
from support.bits import assert_same_bits, on_disk
from support.heard import Heard
from support.run_folders import assert_same_run, files, history, outcome, weights
from support.tiny_folders import save_bert, save_mixtral, save_pairs, save_scores


@pytest.fixture(scope="module")
def finished(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunConfig]:
    """A run whose best step is not its last."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    config = make_config(**settings | {"steps": 24, "lr": 2e-3}, eval_every=6, dropout=0.0, method="gradual:every=8")
    train(config, folder)
    return folder, config


def test_a_finished_run_leaves_its_results_and_nothing_else(finished: tuple[Path, RunConfig]) -> None:
    names = {str(path.relative_to(finished[0])) for path in finished[0].rglob("*") if path.is_file()}
    model = {"README.md", "config.json", "delta.safetensors", "tokenizer.json", "tokenizer_config.json"}
    results = {"run.json", "history.jsonl", "scores.json", "plan.yaml"}
    predictions = {"predictions/dev.jsonl", "predictions/test.jsonl"}
    assert names == results | predictions | {f"model/{name}" for name in model}


def test_the_run_file_has_the_whole_configuration_and_what_computed_it(finished: tuple[Path, RunConfig]) -> None:
    folder, config = finished
    record = json.loads((folder / "run.json").read_text())
    assert record["config"] == config.record()
    assert record["config"].keys() == RunConfig.model_fields.keys()
    assert {name: record["versions"][name] for name in ("torch", "transformers", "gradgate")} == {
        name: version(name) for name in ("torch", "transformers", "gradgate")
    }
    assert record["task"]["rows"] == {"train": 80, "dev": 30, "test": 30}
    assert record["task"]["labels"] == ["bad", "good"]
    assert record["train_examples"] == 80
    assert record["model"]["parameters"] == sum(tensor.numel() for tensor in weights(folder).values())


def test_the_history_has_every_score_and_loss_by_step(finished: tuple[Path, RunConfig]) -> None:
    folder, _ = finished
    assert [line["step"] for line in history(folder, "dev")] == [6, 12, 18, 24]
    losses = history(folder, "train")
    assert [line["step"] for line in losses] == list(range(1, 25))
    assert all(line["loss"] > 0 and line["grad_norm"] > 0 for line in losses)
    # The fraction is that of the step to come: the layer below opens for step 8.
    assert [line["open_fraction"] < 1 for line in losses] == [line["step"] < 7 for line in losses]


def test_scores_are_those_of_the_earliest_best_dev_step(finished: tuple[Path, RunConfig]) -> None:
    folder, _ = finished
    scores = json.loads((folder / "scores.json").read_text())
    best = max(history(folder, "dev"), key=lambda line: (line["accuracy"], -line["step"]))
    assert scores["best_step"] == best["step"] < 24
    assert scores["dev"] == {name: best[name] for name in scores["dev"]}
    assert scores["dev"].keys() == scores["tests"]["test"].keys()


def test_scores_can_be_computed_again_from_the_prediction_files(
    finished: tuple[Path, RunConfig], tiny_task: Path
) -> None:
    scores = json.loads((finished[0] / "scores.json").read_text())
    for split, held in (("dev", scores["dev"]), ("test", scores["tests"]["test"])):
        rows = [json.loads(line) for line in (finished[0] / f"predictions/{split}.jsonl").read_text().splitlines()]
        assert [row["gold"] for row in rows] == [
            line.split("\t")[1] for line in (tiny_task / f"{split}.tsv").read_text().splitlines()[1:]
        ]
        assert sum(row["gold"] == row["predicted"] for row in rows) / len(rows) == held["accuracy"]
        assert all(0.5 <= row["probability"] <= 1 for row in rows)


def test_the_saved_model_gives_the_same_scores_by_itself(
    finished: tuple[Path, RunConfig], tiny_task: Path, tmp_path: Path
) -> None:
    folder, _ = finished
    whole = deltas.apply(folder / "model/delta.safetensors", None, tmp_path / "whole")
    model = AutoModelForSequenceClassification.from_pretrained(whole).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    rows = [line.split("\t") for line in (tiny_task / "test.tsv").read_text().splitlines()[1:]]
    with torch.no_grad():
        logits = model(**tokenizer([text for text, _ in rows], padding=True, return_tensors="pt")).logits
    named = [model.config.id2label[index] for index in logits.argmax(dim=1).tolist()]
    right = sum(name == label for name, (_, label) in zip(named, rows, strict=True)) / len(rows)
    scores = json.loads((folder / "scores.json").read_text())
    assert right == scores["tests"]["test"]["accuracy"]


def test_the_plan_is_written_as_it_happened(finished: tuple[Path, RunConfig]) -> None:
    plan = yaml.safe_load((finished[0] / "plan.yaml").read_text())
    assert plan["method"] == "gradual:every=8"
    assert plan["steps"] == 24
    assert plan["phases"] == [
        {"step": 0, "open": ["layers.1", "head"]},
        {"step": 7, "open": ["embeddings", "layers.0", "layers.1", "head"]},
    ]


def test_the_cost_counts_what_learned(finished: tuple[Path, RunConfig]) -> None:
    plan = yaml.safe_load((finished[0] / "plan.yaml").read_text())
    cost = json.loads((finished[0] / "scores.json").read_text())["cost"]
    total = sum(plan["sizes"].values())
    above = plan["sizes"]["layers.1"] + plan["sizes"]["head"]
    assert (cost["steps"], cost["parameters"], cost["parameters_trained"]) == (24, total, total)
    assert cost["trainable_share"] == pytest.approx((7 * above + 17 * total) / (24 * total))
    assert 0 < cost["seconds_per_step"] < cost["seconds_total"]


def test_a_finished_run_is_not_done_again(finished: tuple[Path, RunConfig]) -> None:
    heard = Heard()
    folder, config = finished
    before = files(folder)
    scores = train(config, folder, heard)
    assert files(folder) == before
    assert scores == json.loads((folder / "scores.json").read_text())
    assert heard.notes == [f"{folder} is finished; nothing to do."]


def test_a_finished_run_says_if_its_model_is_gone(finished: tuple[Path, RunConfig], tmp_path: Path) -> None:
    heard = Heard()
    folder, config = tmp_path / "run", finished[1]
    shutil.copytree(finished[0], folder)
    shutil.rmtree(folder / "model")
    train(config, folder, heard)
    assert heard.notes == [f"{folder} is finished, though {folder / 'model'} has been removed; nothing to do."]
    with pytest.raises(RunError, match=r"model has been removed\. Put it back"):
        RunFolder(folder).require_finished()


@pytest.fixture(scope="module")
def without_model(settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 steps that is scored each 5 and keeps no model."""
    folder = tmp_path_factory.mktemp("runs") / "without"
    train(make_config(**settings, eval_every=5, keep_model=False), folder)
    return folder


def test_a_finished_run_that_kept_no_model_says_so(settings: dict[str, Any], without_model: Path) -> None:
    heard = Heard()
    train(make_config(**settings, eval_every=5), without_model, heard)
    assert heard.notes == [
        f"{without_model} is finished, though it kept no model; pass another out= to train one; nothing to do."
    ]


def test_a_constant_rate_warms_up(settings: dict[str, Any], tmp_path: Path) -> None:
    config = make_config(**settings | {"steps": 4, "lr": 1e-3}, schedule="constant", warmup=0.5)
    train(config, tmp_path / "run")
    rates = [line["lr"] for line in history(tmp_path / "run") if "lr" in line]
    assert rates[-1] == pytest.approx(1e-3)
    assert rates[0] < 1e-3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux resets the peak of a process")
def test_a_second_run_of_a_process_has_a_peak_of_its_own(settings: dict[str, Any], tmp_path: Path) -> None:
    held = torch.ones(2**27)  # half a gigabyte, which both know
    short = make_config(**settings | {"steps": 2})
    train(short, tmp_path / "large")
    del held
    train(short, tmp_path / "small")
    peaks = [json.loads((tmp_path / name / "scores.json").read_text())["cost"] for name in ("large", "small")]
    large, small = (peak["peak_memory_bytes"] for peak in peaks)
    assert large - small > 2**28


def test_one_configuration_gives_one_result(settings: dict[str, Any], tmp_path: Path) -> None:
    for name, seed in (("first", 1), ("again", 1), ("other", 2)):
        train(make_config(**settings | {"steps": 4}, method="graddrop", seed=seed), tmp_path / name)
    assert_same_run(tmp_path / "first", tmp_path / "again")
    assert outcome(tmp_path / "first") != outcome(tmp_path / "other")


def test_a_pair_task_reads_both_texts(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "pairs").mkdir()
    config = make_config(**settings | {"task": str(save_pairs(tmp_path / "pairs")), "steps": 3})
    scores = train(config, tmp_path / "run")
    assert scores["metric"] == "accuracy"
    assert json.loads((tmp_path / "run/model/config.json").read_text())["id2label"] == {"0": "other", "1": "same"}


def test_a_regression_task_has_one_output_and_is_selected_by_correlation(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "scores").mkdir()
    config = make_config(**settings | {"task": str(save_scores(tmp_path / "scores")), "steps": 6}, eval_every=2)
    scores = train(config, tmp_path / "run")
    assert scores["metric"] == "pearson"
    assert scores["dev"].keys() == {"loss", "pearson", "spearman", "mse"}
    assert scores["dev"]["pearson"] == max(line["pearson"] for line in history(tmp_path / "run", "dev"))
    assert weights(tmp_path / "run")["classifier.weight"].shape == (1, 32)


def test_a_metric_that_should_fall_is_selected_at_its_lowest(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir()
    own = {"task": str(save_scores(tmp_path / "scores")), "steps": 6, "metric": "mse"}
    config = make_config(**settings | own, eval_every=2)
    scores = train(config, tmp_path / "run")
    assert scores["dev"]["mse"] == min(line["mse"] for line in history(tmp_path / "run", "dev"))


def test_a_decoder_without_padding_pads_with_its_end_of_text(
    settings: dict[str, Any], tiny_gpt2: Path, tmp_path: Path
) -> None:
    own = {"model": str(tiny_gpt2), "steps": 5, "audit": True}
    train(make_config(**settings | own, method="gradual:every=4"), tmp_path / "run")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run/model")
    config = json.loads((tmp_path / "run/model/config.json").read_text())
    assert tokenizer.pad_token == "[SEP]"
    assert config["pad_token_id"] == tokenizer.pad_token_id


def test_a_model_that_is_saved_under_other_names_gets_its_best_weights_back(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "experts").mkdir()
    config = make_config(**settings | {"model": str(save_mixtral(tmp_path / "experts")), "steps": 4})
    assert train(config, tmp_path / "run")["best_step"] == 4


def test_train_size_draws_that_many_examples_by_the_seed(settings: dict[str, Any], tmp_path: Path) -> None:
    shorter = {name: value for name, value in settings.items() if name != "steps"} | {"epochs": 1.0}
    scores = train(make_config(**shorter, train_size=24), tmp_path / "run")
    assert scores["cost"]["steps"] == 3
    assert json.loads((tmp_path / "run/run.json").read_text())["train_examples"] == 24


@pytest.mark.parametrize(("batch_size", "accumulate"), [pytest.param(2, 4, marks=pytest.mark.slow), (3, 3)])
def test_accumulated_batches_make_the_same_step_as_one_large_batch(
    settings: dict[str, Any], batch_size: int, accumulate: int, tmp_path: Path
) -> None:
    # 26 rows: in parts of 3, the last step of the epoch accumulates batches of unlike sizes.
    total = batch_size * accumulate
    same = {name: value for name, value in settings.items() if name != "steps"} | {"dropout": 0.0, "epochs": 1.0}
    same |= {"train_size": 26}
    train(make_config(**same | {"batch_size": total}, method="graddrop"), tmp_path / "large")
    train(
        make_config(**same | {"batch_size": batch_size, "accumulate": accumulate}, method="graddrop"),
        tmp_path / "in-parts",
    )
    for number in ("loss", "grad_norm"):
        large, in_parts = ([line[number] for line in history(tmp_path / n, "train")] for n in ("large", "in-parts"))
        assert in_parts == pytest.approx(large, rel=1e-3), number


@pytest.mark.parametrize(
    ("length", "steps"),
    [pytest.param({"epochs": 0.5}, 2, marks=pytest.mark.slow), ({"epochs": 1.5}, 6)],
)
def test_length_may_be_in_epochs(settings: dict[str, Any], length: dict[str, Any], steps: int, tmp_path: Path) -> None:
    of_run = {name: value for name, value in settings.items() if name != "steps"} | {"train_size": 32}
    config = make_config(**of_run | length)
    assert train(config, tmp_path / "run")["cost"]["steps"] == steps


def test_dev_is_scored_at_the_interval_and_at_the_end(without_model: Path) -> None:
    assert [line["step"] for line in history(without_model, "dev")] == [5, 10, 12]
    assert not (without_model / "model").exists()


def test_the_dropout_flag_reaches_the_model(settings: dict[str, Any], tmp_path: Path) -> None:
    train(make_config(**settings | {"steps": 1}, dropout=0.25), tmp_path / "run")
    config = json.loads((tmp_path / "run/model/config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.25


def test_a_loss_that_is_no_number_stops_the_run_with_its_step(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"loss of step 3 is nan\. Lower lr="):
        train(make_config(**settings | {"lr": 1e30}), tmp_path / "run")


def test_outputs_that_are_no_numbers_stop_the_run_with_its_step(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"After step 2: .* not finite .*Lower lr="):
        train(make_config(**settings | {"lr": 1e30, "steps": 2}), tmp_path / "run")
    assert not (tmp_path / "run/scores.json").exists()


def test_a_model_of_nan_is_stopped_at_its_first_step(settings: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config = make_config(**settings | {"model": str(save_bert(tmp_path / "model", spoiled=True))})
    with pytest.raises(NonFiniteError, match="loss of step 1 is nan"):
        train(config, tmp_path / "run")


def test_training_goes_on_only_with_the_data_that_it_began_with(
    settings: dict[str, Any], tiny_task: Path, tmp_path: Path
) -> None:
    task = tmp_path / "task"
    task.mkdir()
    for file in tiny_task.iterdir():
        (task / file.name).write_text(file.read_text())
    config = make_config(**settings | {"task": str(task), "lr": 1e30})
    with pytest.raises(NonFiniteError):
        train(config, tmp_path / "run")
    (task / "dev.tsv").write_text((task / "dev.tsv").read_text() + "a good day\tgood\n")
    with pytest.raises(RunError, match="started on other data: the files of task 'task' have changed"):
        train(config, tmp_path / "run")


def test_checkpointing_changes_no_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    for name, changes in {"plain": {}, "checkpointed": {"checkpointing": True}}.items():
        train(make_config(**settings | {"steps": 3, "store": "model"}, **changes), tmp_path / name)
    assert_same_bits(weights(tmp_path / "plain"), weights(tmp_path / "checkpointed"))


def test_the_optimizer_is_the_one_that_is_named(settings: dict[str, Any], tmp_path: Path) -> None:
    short = settings | {"steps": 1, "clip": 0.0, "weight_decay": 0.0, "warmup": 0.0, "store": "model"}
    start = {name: tensor.clone() for name, tensor in on_disk(Path(settings["model"])).items()}
    for lr in (1e-3, 2e-3):
        train(make_config(**short | {"optim": "sgd", "lr": lr}), tmp_path / f"{lr}")
    moved = [
        weights(tmp_path / f"{lr}")["bert.pooler.dense.weight"] - start["pooler.dense.weight"] for lr in (1e-3, 2e-3)
    ]
    assert torch.allclose(2 * moved[0], moved[1], atol=1e-6)  # as no step of AdamW's would
    assert not torch.allclose(moved[0].abs(), moved[0].abs().flatten()[0].expand_as(moved[0]))


def test_an_optimizer_that_cannot_be_had_is_told(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"Trainer has no such optimizer\. Did you mean 'adafactor'"):
        train(make_config(**settings | {"optim": "adafactr"}), tmp_path / "unknown")
    assert not (tmp_path / "unknown").exists()
    (tmp_path / "made").mkdir()
    with pytest.raises(UsageError, match="no such optimizer"):
        train(make_config(**settings | {"optim": "adafactr"}), tmp_path / "made")
    assert (tmp_path / "made").is_dir()
    if importlib.util.find_spec("bitsandbytes") is None:
        with pytest.raises(UsageError, match=r"optim=adamw_bnb_8bit cannot be built: .*bitsandbytes"):
            train(make_config(**settings | {"optim": "adamw_bnb_8bit"}), tmp_path / "absent")


def test_positions_that_padding_takes_serve_no_token(settings: dict[str, Any], tmp_path: Path) -> None:
    config = RobertaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    config.update({"intermediate_size": 16, "max_position_embeddings": 34, "pad_token_id": 1})
    model = AutoModelForSequenceClassification.from_config(config)
    assert positions(model, config) == 32
    model(input_ids=torch.full((1, 32), 5))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        model(input_ids=torch.full((1, 33), 5))


def test_a_run_takes_one_gpu_of_several(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(TrainingArguments, "n_gpu", property(lambda _: 4))
    made = training_arguments(make_config(), RunFolder(tmp_path), examples=64)
    assert made._n_gpu == 1


@pytest.mark.parametrize("kind", ["xlnet", "electra", "gemma3", "llama", "gpt2", "t5"])
def test_a_dropout_replaces_each_rate_of_a_model(kind: str) -> None:
    config = CONFIG_MAPPING[kind]()
    set_dropout(config, 0.37)
    parts = [config, *(each for each in vars(config).values() if isinstance(each, PretrainedConfig))]
    rates = {
        (name, value)
        for part in parts
        for name, value in vars(part).items()
        if "drop" in name and isinstance(value, float)
    }
    assert rates
    assert {value for _, value in rates} == {0.37}


def test_a_model_without_dropout_refuses_one() -> None:
    with pytest.raises(UsageError, match=r"dropout=0\.2: a model of type 'mamba' has no dropout"):
        set_dropout(CONFIG_MAPPING["mamba"](), 0.2)
    set_dropout(CONFIG_MAPPING["mamba"](), 0.0)


def test_trainer_has_the_method_by_which_a_finished_epoch_is_resumed() -> None:
    assert hasattr(Trainer, "_run_epoch")
