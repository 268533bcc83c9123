"""Every method of the catalogue on LoRA and on adapters, and where a method makes no sense, the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from gradgate import MethodInfo, Plan, Tuner, map_layers
from gradgate.errors import AttachError, MethodError
from support.catalog_table import ROWS, attach, build, changed, is_kind, layers_of, learns, method_of, names_of
from support.crossed import some_fast
from support.loop import adamw, fisher_data, learnable, step, train, weights
from support.loop import build as build_tiny

Row = MethodInfo | str

# The methods that open layers one after another, or a few at a time.
ONE_AFTER_ANOTHER = {"gradual", "gradfreeze", "random", "order", "fun", "lisa", "blocks"}

COUNT_EPOCHS = {
    "gradfreeze",
    "grades",
    "anneal-graddrop",
    "anneal-layer-graddrop",
    "graddrop-epoch",
    "graddrop-epoch-toggle",
}


def every_row(refused: set[str]) -> pytest.MarkDecorator:
    """Every row; fast are the methods that stand for others, and those that are refused."""
    fast = [row for row in ROWS if not isinstance(row, str) and (is_kind(row) or row.name in refused)]
    return some_fast("row", ROWS, fast)


def lora(*, head: bool = True) -> nn.Module:
    """The tiny BERT with a frozen backbone and LoRA in its attention, with or without the classifier."""
    config = LoraConfig(
        r=2, target_modules=["query", "value"], init_lora_weights=False, task_type="SEQ_CLS" if head else None
    )
    return get_peft_model(build("encoder"), config)


class Bottleneck(nn.Module):
    """Two layers with a narrow middle, added to what comes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, 4), nn.Linear(4, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.up(torch.tanh(self.down(x)))


def adapters() -> nn.Module:
    """The tiny BERT with a frozen backbone, an adapter after each feed-forward block, and the classifier."""
    model = build("encoder")
    model.bert.requires_grad_(False)
    for layer in model.bert.encoder.layer:
        layer.output.dense = nn.Sequential(layer.output.dense, Bottleneck(16))
    return model


def flags(model: nn.Module) -> dict[str, bool]:
    return {name: p.requires_grad for name, p in model.named_parameters()}


BACKBONES = (lora, adapters)


@pytest.mark.parametrize(
    ("row", "backbone"),
    [
        pytest.param(
            row,
            backbone,
            marks=() if is_kind(row) and not isinstance(row, str) and (place + turn) % 2 == 0 else pytest.mark.slow,
            id=f"{row if isinstance(row, str) else row.name}-{backbone.__name__}",
        )
        for place, row in enumerate(sorted(ROWS, key=is_kind))
        for turn, backbone in enumerate(BACKBONES)
    ],
)
def test_a_method_moves_what_it_opens_of_the_trainable_part_and_nothing_else(
    row: Row, backbone: Callable[[], nn.Module]
) -> None:
    model, method = backbone(), method_of(row)
    layers, before, matrices = map_layers(model), flags(model), learnable(model)
    trainable = {name for name, wanted in before.items() if wanted}
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0.1)
    plans: list[Plan] = []
    seen = [weights(model)]
    with attach(model, optimizer, method, layers, total_steps=3) as tuner:
        plans.append(tuner.plan)
        for number in range(3):
            step(model, optimizer, number)
            plans.append(tuner.plan)
            seen.append(weights(model))
    for number in range(3):
        moved = changed(seen[number], seen[number + 1])
        assert moved <= names_of(method, layers, plans[number], lambda gate: not gate.closed) & trainable
        assert names_of(method, layers, plans[number], learns) & matrices <= moved, f"step {number + 1}"
    assert changed(seen[0], seen[-1])
    assert flags(model) == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("head", r"'head' would never open anything: its groups \(head\) have no parameter that requires grad"),
        ("freeze:layers=3", r"would never open anything: its groups \(head\)"),
        ("groups:open=embeddings", r"would never open anything: its groups \(embeddings\)"),
        ("bitfit", r"'bitfit' would never open anything"),
        ("lpft:every=2", r"'lpft:every=2' opens nothing for step 1: .* Does the model have a head, or adapters"),
        ("gradual:timing=algorithm", "opens nothing for step 1"),
        ("fun:timing=algorithm", "opens nothing for step 1"),
    ],
)
def test_what_would_train_nothing_of_lora_without_a_head_is_refused(text: str, reason: str) -> None:
    model = lora(head=False)
    before = flags(model)
    with pytest.raises(AttachError, match=reason):
        Tuner(model, adamw(model), text, fisher_data=fisher_data(model))
    assert flags(model) == before


@every_row(ONE_AFTER_ANOTHER)
def test_on_a_model_that_shares_its_layers_a_method_trains_or_is_refused_with_the_reason(row: Row) -> None:
    model, method = build_tiny("albert"), method_of(row, layers=1)
    layers, optimizer = map_layers(model), adamw(model)
    before, all_open = weights(model), flags(model)
    name = method.spec.partition(":")[0]
    if name in ONE_AFTER_ANOTHER or name == "spectrum":
        reason = "share of 0.5 of these rounds to none" if name == "spectrum" else "so there is no order to follow"
        with pytest.raises(MethodError, match=reason):
            attach(model, optimizer, method, layers)
    else:
        with attach(model, optimizer, method, layers):
            train(model, optimizer, 2)
        assert changed(before, weights(model))
    assert flags(model) == all_open


@every_row(COUNT_EPOCHS)
def test_a_method_that_counts_epochs_says_that_it_must_know_their_length(row: Row) -> None:
    model, method = build("encoder"), method_of(row)
    layers, optimizer = layers_of("encoder"), adamw(model)
    if method.spec.partition(":")[0] in COUNT_EPOCHS:
        with pytest.raises(MethodError, match=r"counts epochs .*: pass (steps_per_epoch|total_steps)= to the tuner"):
            attach(model, optimizer, method, layers, total_steps=None, steps_per_epoch=None)
    else:
        with attach(model, optimizer, method, layers, total_steps=None, steps_per_epoch=None):
            train(model, optimizer, 1)
    assert all(flags(model).values())
