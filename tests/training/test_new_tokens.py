"""``open_new_tokens``: rows for added tokens are found, made where they are missing, trained, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

import gradgate as gg
from gradgate import sample
from gradgate.errors import RunError, UsageError
from gradgate.evaluation.evaluate import evaluate
from gradgate.evaluation.finished import load_finished
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.loop import same

BASE = 6000


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sample with two more tokens: in the tokenizer alone, and in the table too."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("tokenizer", "table")}
    tokenizer = AutoTokenizer.from_pretrained(sample.MODEL)
    tokenizer.add_tokens(["<new>", "<newer>"])
    for name, folder in folders.items():
        model = AutoModel.from_pretrained(sample.MODEL)
        if name == "table":
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folders


def settings(model: Path, **more: Any) -> Any:
    given = {"model": str(model), "open_new_tokens": True, "languages": "en", "steps": 3, "train_size": 48}
    return make_config(**{**given, "batch_size": 16, "max_length": 32, "audit": True, **more})


@pytest.mark.parametrize(
    ("held", "adapter"),
    [
        ("tokenizer", None),
        pytest.param("table", None, marks=pytest.mark.slow),
        pytest.param("table", "houlsby:size=8", marks=pytest.mark.slow),
        pytest.param("tokenizer", "lora:r=2", marks=pytest.mark.slow),
    ],
)
def test_a_run_trains_the_new_rows_and_is_scored_again_alike(
    grown: dict[str, Path], held: str, adapter: str | None, tmp_path: Path
) -> None:
    config = settings(grown[held], method="freeze:layers=3", adapter=adapter, weight_decay=0.1)
    scores = train(config, tmp_path)
    again = evaluate(tmp_path, languages=["en"], out=tmp_path / "again")
    assert again["tests"] == scores["tests"]
    before = load_file(sample.MODEL / "model.safetensors")["embeddings.word_embeddings.weight"]
    after = load_finished(tmp_path).model.get_input_embeddings().weight
    assert len(after) == BASE + 2
    assert same(after[:BASE], before.float())


def test_rows_begin_where_the_table_or_the_vocabulary_ended(grown: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(grown["table"])
    assert gg.new_token_rows(tokenizer) == gg.new_token_rows(tokenizer, BASE) == ((BASE, BASE + 2),)
    assert gg.new_token_rows(tokenizer, BASE + 1) == ((BASE + 1, BASE + 2),)


def test_a_tokenizer_without_new_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no added token with an id from 6000 on"):
        train(settings(Path("sample")), tmp_path)


def test_new_tokens_without_rows_are_refused_with_the_way_out(grown: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"token ids up to 6001, .*open_new_tokens=True adds rows"):
        train(settings(grown["tokenizer"], open_new_tokens=None), tmp_path)


def test_rows_and_pre_training_of_the_adapter_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="open_new_tokens= and tapt_steps"):
        make_config(open_new_tokens=True, adapter="houlsby", tapt_steps=5)
