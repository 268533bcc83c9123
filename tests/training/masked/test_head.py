"""The head of a masked language model on the chosen tokens alone: the same loss and gradients from fewer logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    DebertaV2Config,
    DebertaV2ForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaForMaskedLM,
)

from gradgate import adapters
from gradgate.training.masked.head import head_on_chosen

VOCABULARY = 99
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
}
ENCODERS = [
    (BertForMaskedLM, BertConfig),
    (XLMRobertaForMaskedLM, XLMRobertaConfig),
    (DebertaV2ForMaskedLM, DebertaV2Config),
    (DistilBertForMaskedLM, DistilBertConfig),
    (AlbertForMaskedLM, AlbertConfig),
]


def batch() -> dict[str, Tensor]:
    """Three rows of up to 16 tokens, of which some are to be filled in."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, VOCABULARY, (3, 16), generator=draw)
    real = torch.arange(16) < torch.tensor([[16], [11], [7]])
    chosen = (torch.rand(3, 16, generator=draw) < 0.3) & real
    return {"input_ids": ids, "attention_mask": real.long(), "labels": torch.where(chosen, ids, -100)}


def build(kind: Any, config: Any, **settings: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    model: PreTrainedModel = kind(config(**SIZES, **settings))
    return model.eval()


def loss_and_gradients(model: PreTrainedModel) -> tuple[Tensor, dict[str, Tensor]]:
    loss = model(**batch()).loss
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(("kind", "config"), ENCODERS)
def test_the_loss_and_all_gradients_stay(kind: Any, config: Any) -> None:
    whole, chosen = build(kind, config), build(kind, config)
    assert head_on_chosen(chosen)
    expected, gradients = loss_and_gradients(whole)
    loss, mine = loss_and_gradients(chosen)
    torch.testing.assert_close(loss, expected)
    assert mine.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(mine[name], gradient, atol=1e-6, rtol=1e-4, msg=name)


def test_it_gives_logits_for_the_chosen_tokens_alone() -> None:
    model = build(BertForMaskedLM, BertConfig)
    head_on_chosen(model)
    given = batch()
    count = int((given["labels"] != -100).sum())
    assert model(**given).logits.shape == (1, count, VOCABULARY)
    del given["labels"]
    assert model(**given).logits.shape == (3, 16, VOCABULARY)


def test_the_inverse_of_an_invertible_adapter_runs_before_the_head_as_ever() -> None:
    losses = []
    for on_chosen in (False, True):
        model = build(BertForMaskedLM, BertConfig)
        torch.manual_seed(1)
        adapters.add(model, "sw", "pfeiffer+inv:reduction=2")
        adapters.activate(model, "sw", inverse=True)
        assert not on_chosen or head_on_chosen(model)
        losses.append(model(**batch()).loss)
    torch.testing.assert_close(losses[0], losses[1])


def test_a_decoder_that_makes_its_input_of_the_labels_is_left_as_it_is() -> None:
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
    torch.manual_seed(0)
    model = BartForConditionalGeneration(BartConfig(**sizes)).eval()
    expected = model(**batch()).loss
    assert not head_on_chosen(model)
    assert torch.equal(model(**batch()).loss, expected)


def test_trying_it_leaves_no_trace() -> None:
    model = build(BertForMaskedLM, BertConfig).train()
    before = torch.get_rng_state()
    head_on_chosen(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
