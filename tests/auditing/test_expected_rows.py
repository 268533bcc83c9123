"""Expectations of single rows, in a training and between two checkpoints; and what joins an optimizer on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BertForSequenceClassification

import gradgate as gg
from gradgate.auditing.checkpoints import audit_checkpoints
from support.audited_models import bert

ROWS = "embeddings[60:]"
TABLE = "bert.embeddings.word_embeddings.weight"


def only_rows(model: BertForSequenceClassification, first: int) -> Tensor:
    """Freeze all but the table, and leave the gradients of its rows from ``first`` on alone."""
    model.requires_grad_(False)
    table = model.get_parameter(TABLE).requires_grad_(True)
    table.register_hook(lambda gradient: gradient.index_fill(0, torch.arange(first), 0.0))
    return table


@pytest.mark.parametrize(("first", "expected"), [(60, True), (50, False)])
def test_rows_that_are_not_selected_must_not_move(first: int, expected: bool, tmp_path: Path) -> None:
    model = bert()
    model.save_pretrained(tmp_path / "base")
    optimizer = torch.optim.SGD([only_rows(model, first)], lr=1.0)
    with gg.audit(model, expect=ROWS) as found:
        for step in range(3):
            model(input_ids=torch.arange(48, 64)[None], labels=torch.tensor([step])).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    model.save_pretrained(tmp_path / "trained")
    stored = audit_checkpoints(str(tmp_path / "base"), str(tmp_path / "trained"), ROWS)
    assert (found.expected, stored.expected) == (expected, expected)
    for report in (found, stored):
        texts = [each.text for each in report.findings if each.kind == "unexpected" and TABLE in each.names]
        assert bool(texts) is not expected
        assert all("that the expectation does not select" in text for text in texts)


def test_new_rows_of_a_table_are_no_change_of_the_old_ones(tmp_path: Path) -> None:
    model = bert()
    model.save_pretrained(tmp_path / "base")
    model.resize_token_embeddings(70)
    model.save_pretrained(tmp_path / "trained")
    words = str(tmp_path / "base"), str(tmp_path / "trained")
    assert audit_checkpoints(*words, "embeddings[64:]").expected is True
    with torch.no_grad():
        model.get_parameter(TABLE)[3] += 1.0
    model.save_pretrained(tmp_path / "trained")
    assert audit_checkpoints(*words, "embeddings[64:]").strayed == (TABLE,)


def test_what_joins_an_optimizer_between_two_looks_is_in_it() -> None:
    model = bert()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith("classifier"))
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-2)
    joined = list(model.bert.encoder.layer[1].parameters())
    with gg.audit(model) as found:
        for step in range(7):  # looked at after 1, 2 and 4 steps
            if step == 4:
                for parameter in joined:
                    parameter.requires_grad_(True)
                optimizer.add_param_group({"params": joined})
            model(input_ids=torch.arange(6)[None], labels=torch.tensor([1])).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    (row,) = (line.split() for line in str(found).splitlines() if line.split()[:1] == ["layers.1"])
    assert row[2:] == ["all", "all", "all", "all", "AdamW"]
