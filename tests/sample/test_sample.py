"""The embedded sample: the files are what the generator writes, and its models know what they were pretrained on."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, BertForMaskedLM, set_seed

from gradgate.sample import DATA, DECODER, MODEL, TASKS
from gradgate.tasks import find_task, load_task
from tools.sample import make_data as generator
from tools.sample.corpus import passages
from tools.sample.draw import Dice, Draw
from tools.sample.languages import GRAMMARS, SOURCE
from tools.sample.lexicon import concepts
from tools.sample.pretrain import batches, config, masked_loss
from tools.sample.tokens import vocabulary


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL)


@pytest.mark.parametrize("name", generator.TASKS)
def test_committed_files_are_what_the_generator_writes(name: str) -> None:
    made = generator.files(generator.TASKS[name])
    assert {path.name for path in (DATA / name).iterdir()} == {*made, "task.yaml"}
    for file, content in made.items():
        assert (DATA / name / file).read_bytes() == content.encode(), file


@pytest.mark.parametrize("name", TASKS)
def test_every_task_loads_by_name_in_every_language(name: str) -> None:
    rows = load_task(find_task(name)).rows
    languages = [SOURCE] if name == "sample-generation" else list(GRAMMARS)
    assert set(rows) == {"train", "dev", *(f"test.{language}" for language in languages)}
    assert len({rows[f"test.{language}"] for language in languages}) == 1


def test_no_sentence_of_pretraining_is_one_of_the_tasks(sentences: frozenset[str]) -> None:
    written = {text for one in islice(passages(1, sentences), 1000) for text in (one.first, one.second) if text}
    assert not written & sentences
    careless = {text for one in islice(passages(1), 1000) for text in (one.first, one.second) if text}
    assert careless & sentences


@pytest.mark.parametrize("name", generator.TASKS)
def test_splits_share_no_item(name: str) -> None:
    task, english = generator.TASKS[name], GRAMMARS[SOURCE]
    items = [item for split in task.splits().values() for item in split]
    texts = [english.join_sentences(task.sentences(english, item)) for item in items]
    assert len(set(texts)) == len(texts) == sum(task.rows)


def test_a_third_of_the_names_are_new_in_test() -> None:
    words = concepts()
    names = {*words.genders, *words.surnames, *words.cities, *words.brands}
    train, test = ((DATA / "ner" / f"{split}.en.tsv").read_text("utf-8") for split in ("train", "test"))
    assert not any(f"{name}\t" in train for name in names - generator.FAMILIAR)
    assert sum(f"{name}\t" in test for name in names - generator.FAMILIAR) >= 10


def test_dice_follow_the_seed() -> None:
    assert [Dice(4).pick(range(1000)) for _ in range(3)] == [Dice(4).pick(range(1000))] * 3
    assert Draw(Dice(4)).event() == Draw(Dice(4)).event()


def test_the_model_weighs_less_than_six_megabytes_and_the_data_about_two() -> None:
    assert (MODEL / "model.safetensors").stat().st_size < 6_000_000
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < 2_400_000
    assert sum(path.stat().st_size for path in DECODER.iterdir()) < 5_000_000


def test_every_text_is_tokenized_without_unknown_or_cut_words(tokenizer: Any, sentences: frozenset[str]) -> None:
    texts = sorted(sentences)[::20]
    for text, ids in zip(texts, tokenizer(texts)["input_ids"], strict=True):
        assert tokenizer.unk_token_id not in ids, text
        assert len(ids) <= 64
        assert tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "") == folded(text)


def folded(text: str) -> str:
    return text.replace("İ", "i").lower().replace(" ", "")


def test_any_plain_word_or_pair_can_be_tokenized(tokenizer: Any) -> None:
    pair = tokenizer("Zyx qwv-jk!", "A second one?")
    assert tokenizer.unk_token_id not in pair["input_ids"]
    assert set(pair["token_type_ids"]) == {0, 1}


def test_vocabulary_is_the_same_for_the_same_text() -> None:
    texts = [one.first for one in islice(passages(2), 400)]
    first, second = vocabulary(texts, 1500), vocabulary(texts, 1500)
    assert first == second
    assert {"the", "##s", "[MASK]", "z", "老"} <= set(first)


def test_the_encoder_loads_in_float32_with_a_fresh_head() -> None:
    model, report = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=4, output_loading_info=True)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not report["unexpected_keys"]
    assert all(name.startswith(("classifier.", "bert.pooler.")) for name in report["missing_keys"])


def test_a_translation_is_the_nearest_sentence(tokenizer: Any) -> None:
    """Mean states of the lower layers find the German translation among a hundred, which a fresh encoder does not."""
    set_seed(0)
    pretrained = AutoModel.from_pretrained(MODEL)
    fresh = AutoModel.from_config(pretrained.config)
    items = generator.TASKS["pos"].splits()["test"][:100]
    texts = [[GRAMMARS[code].text(GRAMMARS[code].statement(item)) for item in items] for code in (SOURCE, "de")]
    assert found(pretrained, tokenizer, texts) > found(fresh, tokenizer, texts) + 0.2


def found(model: Any, tokenizer: Any, texts: list[list[str]]) -> float:
    """How often a text's translation is nearest to it."""
    one, other = (states(model, tokenizer, lines) for lines in texts)
    return float((torch.cdist(one, other).argmin(1) == torch.arange(len(one))).float().mean())


def states(model: Any, tokenizer: Any, lines: list[str]) -> torch.Tensor:
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = model.eval()(**batch, output_hidden_states=True).hidden_states[2]
    mask = batch["attention_mask"].unsqueeze(-1)
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return (mean - mean.mean(0)) / mean.std(0)


def test_a_batch_of_pretraining_has_a_finite_loss_with_gradients(tokenizer: Any) -> None:
    set_seed(0)
    model = BertForMaskedLM(config(len(tokenizer)))
    batch = next(batches(tokenizer, passages(3)))
    loss = masked_loss(model, tokenizer, batch[:8], torch.Generator().manual_seed(0))
    loss.backward()
    assert 7 < loss.item() < 12
    assert all(p.grad is not None for name, p in model.named_parameters() if "pooler" not in name)


def test_task_files_name_every_language() -> None:
    for name, folder in TASKS.items():
        task = yaml.safe_load((folder / "task.yaml").read_text("utf-8"))
        assert task["name"] == name
        assert task["languages"] == ([SOURCE] if name == "sample-generation" else list(GRAMMARS))
