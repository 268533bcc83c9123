"""Several tasks on one encoder: routing, what is written, resuming, and one task from the result."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

import gradgate
from gradgate.cli.runs import scores_table
from gradgate.errors import RunError, UsageError
from gradgate.evaluation.finished import load_finished
from gradgate.measure.track import read_fisher
from gradgate.runs.folder import RunFolder
from gradgate.settings.run import make_config
from gradgate.training.arguments import training_arguments
from gradgate.training.multitask.model import MultitaskModel
from gradgate.training.multitask.task import PreparedMultitask
from gradgate.training.named_tasks import check_tasks
from gradgate.training.pretrained import load_tokenizer
from gradgate.training.preview import preview
from gradgate.training.run import train
from support.kind_folders import save_choices, save_questions, save_tags
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run, history, weights
from support.tiny_folders import save_pairs, save_scores


@pytest.fixture(scope="session")
def mixture(tiny_task: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classification of texts and regression of scores, 80 and 40 training rows, both with tests."""
    folder = tmp_path_factory.mktemp("mixture")
    (folder / "scores").mkdir()
    save_scores(folder / "scores")
    (folder / "both.yaml").write_text(
        f"kind: multitask\ntasks:\n  - {{task: '{tiny_task}', name: moods}}\n  - {{task: scores, metric: spearman}}\n"
    )
    return folder / "both.yaml"


@pytest.fixture(scope="session")
def together(settings: dict[str, Any], mixture: Path) -> dict[str, Any]:
    """11 steps, 8 an epoch."""
    own = {"task": str(mixture), "batch_size": 16, "steps": 11, "eval_every": 4, "save_every": 3}
    return settings | own | {"method": "gradual:every=4"}


@pytest.fixture(scope="module")
def finished(together: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "together"
    train(make_config(**together), folder)
    return folder


def built(settings: dict[str, Any], task: Path, out: Path) -> tuple[MultitaskModel, list[Any]]:
    """The model of several tasks, and a batch of each."""
    config = make_config(**settings | {"task": str(task)})
    work, tokenizer = PreparedMultitask.of(config), load_tokenizer(config)
    lesson = work.encode(config, tokenizer)
    model, _ = work.load_model(config, tokenizer)
    arguments = training_arguments(config, RunFolder(out), lesson.windows)
    trainer = lesson.trainer(model=model, args=arguments, processing_class=tokenizer)
    batches = {int(batch["task_ids"][0]): batch for batch in trainer.get_train_dataloader()}
    return model, [batches[index] for index in range(len(work.tasks))]


def test_what_is_looked_at_on_the_way_changes_nothing(together: dict[str, Any], finished: Path, tmp_path: Path) -> None:
    looking = {"track": "fisher:every=5,batches=2", "test_each_epoch": True}
    train(make_config(**together | looking), tmp_path)
    tests = [line for line in history(tmp_path) if "used_for_selection" in line]
    ends = (8, 11)  # of an epoch, and of the training
    assert [(line["step"], line["split"]) for line in tests] == [
        (step, split) for step in ends for split in ("moods/test", "scores/test")
    ]
    assert [record.step for record in read_fisher(tmp_path / "fisher.jsonl")] == [0, 5, 10, 11]
    kept = [line for line in history(tmp_path) if line not in tests]
    (tmp_path / "history.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in kept))
    assert_same_run(tmp_path, finished)


@contextmanager
def quiet(model: torch.nn.Module) -> Iterator[None]:
    model.eval()
    with torch.no_grad():
        yield


def test_a_batch_teaches_its_own_head_and_the_encoder_alone(
    settings: dict[str, Any], mixture: Path, tmp_path: Path
) -> None:
    model, batches = built(settings, mixture, tmp_path)
    for task, batch in zip(model.tasks, batches, strict=True):
        model.zero_grad()
        model(**batch).loss.backward()
        taught = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
        heads = {name.split(".")[1] for name in taught if name.startswith("heads.")}
        assert heads == {f"{task}_head"}
        assert any(name.startswith("encoder.encoder.layer.0.") for name in taught)


def test_every_weight_is_named_once_and_heads_see_what_the_encoder_learns(
    settings: dict[str, Any], mixture: Path, tmp_path: Path
) -> None:
    model, batches = built(settings, mixture, tmp_path)
    assert len(model.state_dict()) == len({tensor.data_ptr() for tensor in model.state_dict().values()})
    with quiet(model):
        before = [model(**batch).logits for batch in batches]
        model.encoder.embeddings.word_embeddings.weight += 0.5
        after = [model(**batch).logits for batch in batches]
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_the_layer_map_has_all_heads_in_one_group(settings: dict[str, Any], mixture: Path, tmp_path: Path) -> None:
    model, _ = built(settings, mixture, tmp_path)
    groups = {group.name: group.parameter_names for group in gradgate.map_layers(model)}
    assert list(groups) == ["embeddings", "layers.0", "layers.1", "head"]
    heads = {name for name, _ in model.named_parameters() if name.startswith(("heads.", "encoder.pooler."))}
    assert set(groups["head"]) == heads


def test_every_kind_shares_the_encoder(settings: dict[str, Any], tmp_path: Path) -> None:
    makers = {"choices": save_choices, "questions": save_questions, "tags": save_tags, "pairs": save_pairs}
    for name, make in makers.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name)
    (tmp_path / "all.yaml").write_text(f"kind: multitask\ntasks: [{', '.join(makers)}]\n")
    config = settings | {"task": str(tmp_path / "all.yaml"), "method": "fun:every=2,batches=2", "accumulate": 2}
    scores = train(make_config(**config | {"steps": 6}, mix="temperature:5"), tmp_path / "run")
    assert list(scores["tasks"]) == list(makers)
    assert all(own["dev"][own["metric"]] >= 0 for own in scores["tasks"].values())
    assert json.loads((tmp_path / "run/run.json").read_text())["task"]["mix"] == "temperature:5"


def test_scores_are_means_over_tasks_of_each_ones_metric(finished: Path) -> None:
    scores = json.loads((finished / "scores.json").read_text())
    moods, numbers = scores["tasks"]["moods"], scores["tasks"]["scores"]
    assert (scores["metric"], moods["metric"], numbers["metric"]) == ("mean", "accuracy", "spearman")
    assert scores["dev"]["mean"] == fmean([moods["dev"]["accuracy"], numbers["dev"]["spearman"]])
    tests = [moods["tests"]["test"]["accuracy"], numbers["tests"]["test"]["spearman"]]
    assert scores["tests"] == {"test": {"mean": fmean(tests)}}
    best = max(history(finished, "dev"), key=lambda line: (line["mean"], -line["step"]))
    assert (scores["best_step"], scores["dev"]["mean"]) == (best["step"], best["mean"])
    assert moods["dev"]["accuracy"] == best["moods/accuracy"]


def test_each_task_has_its_prediction_files(finished: Path) -> None:
    found = {str(path.relative_to(finished)) for path in (finished / "predictions").rglob("*.jsonl")}
    assert found == {f"predictions/{task}/{split}.jsonl" for task in ("moods", "scores") for split in ("dev", "test")}
    scores = json.loads((finished / "scores.json").read_text())["tasks"]["moods"]
    for split, held in (("dev", scores["dev"]), ("test", scores["tests"]["test"])):
        rows = [json.loads(line) for line in (finished / f"predictions/moods/{split}.jsonl").read_text().splitlines()]
        assert sum(row["gold"] == row["predicted"] for row in rows) / len(rows) == held["accuracy"]


def test_the_encoder_is_kept_as_a_pretrained_model_and_the_heads_beside_it(finished: Path) -> None:
    encoder = AutoModel.from_pretrained(finished / "model")
    assert type(encoder).__name__ == "BertModel"
    assert AutoTokenizer.from_pretrained(finished / "model").pad_token == "[PAD]"
    settings = json.loads((finished / "model/config.json").read_text())
    assert settings.keys().isdisjoint({"id2label", "problem_type"})
    heads = {path.stem: load_file(path) for path in (finished / "heads").iterdir()}
    assert {task: head["classifier.weight"].shape for task, head in heads.items()} == {
        "moods": (2, 32),
        "scores": (1, 32),
    }
    assert not (finished / "checkpoints").exists()


def test_one_task_is_trained_from_the_encoder_with_frozen_layers(
    settings: dict[str, Any], tiny_task: Path, finished: Path, tmp_path: Path
) -> None:
    config = make_config(**settings | {"model": str(finished / "model"), "steps": 6}, method="freeze:layers=1")
    train(config, tmp_path / "run")
    start, end = weights(finished), weights(tmp_path / "run")
    for name, tensor in start.items():
        frozen = name.startswith(("embeddings.", "encoder.layer.0."))
        assert torch.equal(tensor, end[f"bert.{name}"]) == frozen, name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"packing": True, "max_new_tokens": 7}, "packing=, max_new_tokens=: these are for tasks of kind generation"),
        ({"open_new_tokens": True}, "open_new_tokens=: .* Train one task with it, then the tasks together"),
    ],
)
def test_settings_that_several_tasks_would_ignore_are_refused(
    together: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        check_tasks(make_config(**together | changes))


def test_a_run_that_was_paused_and_lost_its_power_ends_as_if_unbroken(
    together: dict[str, Any], finished: Path, tmp_path: Path
) -> None:
    # 8 batches an epoch: the fall is in the second, a step after a checkpoint within it.
    assert list(train(make_config(**together), tmp_path / "run", until=5).dev) == [4, 5]
    with pytest.raises(PowerCutError):
        train(make_config(**together), tmp_path / "run", Falls(10))
    train(make_config(**together), tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)
    for task in ("moods", "scores"):
        mine, theirs = (load_file(folder / f"heads/{task}.safetensors") for folder in (tmp_path / "run", finished))
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())


def test_truncated_rows_are_said_with_their_task(together: dict[str, Any]) -> None:
    notes = [note for note in preview(make_config(**together | {"max_length": 4})).notes if "truncates" in note]
    assert [note.partition(" of ")[0].rstrip("0123456789") for note in notes] == [
        f"{task}: train: max_length=4 truncates " for task in ("moods", "scores")
    ]


def test_a_study_can_say_what_it_will_work_on(together: dict[str, Any], mixture: Path) -> None:
    seen = preview(make_config(**together))
    assert seen.task.rows == {"train": 120, "dev": 46}
    assert [task.name for task in seen.task.tasks] == ["moods", "scores"]
    assert seen.layers.names == ("embeddings", "layers.0", "layers.1", "head")


def test_a_finished_run_of_several_tasks_is_asked_for_one(finished: Path) -> None:
    with pytest.raises(UsageError, match=r"several tasks at once \(moods, scores\), .* choose one with of_task="):
        load_finished(finished)
    assert load_finished(finished, of_task="moods").task.name == "moods"


def test_damaged_head_is_named(finished: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / "run"))
    shutil.copy(copy / "heads/moods.safetensors", copy / "heads/scores.safetensors")
    with pytest.raises(RunError, match=r"scores\.safetensors"):
        load_finished(copy, of_task="scores")
    (copy / "heads/scores.safetensors").write_bytes(b"no weights")
    with pytest.raises(RunError, match=r"Cannot read the head .*scores\.safetensors"):
        load_finished(copy, of_task="scores")


def test_checkpointing_recomputes_the_encoder_and_changes_nothing(
    together: dict[str, Any], finished: Path, tmp_path: Path
) -> None:
    train(make_config(**together | {"checkpointing": True}), tmp_path / "run")
    assert_same_run(tmp_path / "run", finished)


def test_closed_layers_are_computed_once_for_all_tasks(together: dict[str, Any], tmp_path: Path) -> None:
    same = together | {"method": "freeze:layers=1", "dropout": 0.0, "eval_every": 11}
    losses = {}
    for cache in ("off", str(tmp_path / "cache")):
        scores = train(make_config(**same, activation_cache=cache), tmp_path / f"run-{len(losses)}")
        losses[cache] = [line["loss"] for line in history(tmp_path / f"run-{len(losses)}", "train")]
    assert scores["cost"]["prefix_rows"]["read"] > 0
    assert losses["off"] == pytest.approx(losses[str(tmp_path / "cache")], rel=1e-5)


def test_the_table_has_a_row_for_each_task_and_their_mean(together: dict[str, Any], finished: Path) -> None:
    scores = json.loads((finished / "scores.json").read_text())
    table = scores_table(make_config(**together), scores)
    columns = [list(column.cells) for column in table.columns]
    assert [str(cell) for cell in columns[0]] == ["moods", "scores", "mean"]
    assert columns[1] == ["accuracy", "spearman", ""]
    assert columns[2][2] == f"{scores['dev']['mean']:.4f}"
    assert columns[3][0] == f"{scores['tasks']['moods']['tests']['test']['accuracy']:.4f}"


def test_tasks_share_one_way_to_begin_words(settings: dict[str, Any], tiny_task: Path, tmp_path: Path) -> None:
    """Tagging makes a byte-level tokenizer mark the first word; the tokenizer that is saved serves all tasks."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = Tokenizer(models.BPE({piece: number for number, piece in enumerate(["<pad>", "<unk>", *alphabet])}, []))
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=pieces, pad_token="<pad>", unk_token="<unk>")
    (tmp_path / "tags").mkdir()
    save_tags(tmp_path / "tags")
    (tmp_path / "t.yaml").write_text(
        f"kind: multitask\ntasks:\n  - {{task: '{tiny_task}', name: moods}}\n  - {{task: tags}}\n"
    )
    config = make_config(**settings | {"task": str(tmp_path / "t.yaml")})
    encoded = PreparedMultitask.of(config).encode(config, tokenizer).encoded_tasks["moods"]
    split = encoded.splits["dev"]
    again = encoded.kind.encode(split.rows, tokenizer, config.max_length)
    assert split.features["input_ids"][:] == again["input_ids"][:]
    assert tokenizer.convert_ids_to_tokens(split.features[0]["input_ids"])[0] == "Ġ"
