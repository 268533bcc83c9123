"""The embedded decoder: what it was pretrained on, what it knows, and what its task asks of it."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM, set_seed

from gradgate.sample import DATA, DECODER, OTHER_TEXT
from tools.sample import make_data as generator
from tools.sample.pretrain_decoder import batches, build_tokenizer, config, language_loss, texts


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(DECODER)


@pytest.fixture(scope="module")
def decoder() -> Any:
    model = AutoModelForCausalLM.from_pretrained(DECODER)
    assert isinstance(model, LlamaForCausalLM)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    return model.eval()


def rows(split: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / f"generation/{split}.en.jsonl").read_text("utf-8").splitlines()]


def test_no_text_of_pretraining_is_one_of_the_task_or_to_be_forgotten(sentences: frozenset[str]) -> None:
    avoid = sentences | set(OTHER_TEXT.read_text("utf-8").splitlines())
    assert {row["response"] for split in ("train", "dev", "test") for row in rows(split)} <= avoid
    assert not set(islice(texts(1, avoid), 2000)) & avoid
    assert set(islice(texts(1, set()), 2000)) & avoid


def test_the_text_to_be_forgotten_is_what_the_generator_writes() -> None:
    assert OTHER_TEXT.read_bytes() == generator.other_text().encode()


def test_texts_are_the_same_for_the_same_seed() -> None:
    assert list(islice(texts(4, set()), 20)) == list(islice(texts(4, set()), 20))


def test_every_text_survives_the_tokenizer(tokenizer: Any) -> None:
    written = [row["prompt"] + " => " + row["response"] for row in rows("test")] + ["Zürich, 老 & <tags>!"]
    for text in written:
        ids = tokenizer(text)["input_ids"]
        assert ids[0] == tokenizer.bos_token_id
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert len(ids) <= 64
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "<s>user: Hi\nassistant: Yes</s>\n"


def test_the_decoder_knows_texts_that_it_has_not_seen(tokenizer: Any, decoder: Any) -> None:
    """A token of the opinions costs it less than half of what it costs a model that knows how often each occurs."""
    lines = OTHER_TEXT.read_text("utf-8").splitlines()[:64]
    ids = tokenizer(lines, padding=True, return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        known = language_loss(decoder, ids).item()
    seen = ids[:, 1:][ids[:, 1:] != tokenizer.pad_token_id]
    shares = torch.bincount(seen).float() / len(seen)
    assert known < -(shares[seen].log().mean().item()) / 2


def test_what_the_decoder_has_just_read_costs_it_less_than_half(tokenizer: Any, decoder: Any) -> None:
    first, again = [], []
    for row in rows("test")[:64]:
        ids = tokenizer(row["response"])["input_ids"]
        twice = torch.tensor([ids + tokenizer(" " + row["response"], add_special_tokens=False)["input_ids"]])
        with torch.inference_mode():
            logits = decoder(twice[:, :-1]).logits[0]
        losses = torch.nn.functional.cross_entropy(logits, twice[0, 1:], reduction="none")
        first.append(losses[: len(ids) - 1].mean().item())
        again.append(losses[len(ids) :].mean().item())
    assert sum(again) < sum(first) / 2


def test_a_batch_of_pretraining_has_a_finite_loss_with_gradients() -> None:
    set_seed(0)
    made = build_tokenizer(islice(texts(3, set()), 200))
    model = LlamaForCausalLM(config(made))
    loss = language_loss(model, next(batches(made, texts(3, set())))[:8])
    loss.backward()
    assert 5 < loss.item() < 9
    assert all(parameter.grad is not None for parameter in model.parameters())
