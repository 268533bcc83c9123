"""Sentence-transformers' trainer with a gate: the layers are the transformer's, what follows them is the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from gradgate import GateCallback, map_layers
from gradgate.errors import AttachError
from support.clients import FIRST, SECOND, SETTINGS, table, train_and_resume
from support.crossed import some_fast
from support.loop import moved, weights

library = pytest.importorskip("sentence_transformers")


def embedder(folder: Path) -> Any:
    from sentence_transformers.sentence_transformer import modules

    transformer = modules.Transformer(str(folder))
    torch.manual_seed(0)
    parts = [transformer, modules.Pooling(32, "mean"), modules.Dense(32, 8, activation_function=torch.nn.Tanh())]
    return library.SentenceTransformer(modules=parts, device="cpu")


def trainer_of(folder: Path, callbacks: list[Any], settings: dict[str, Any], loss: Any = None) -> Any:
    model = embedder(folder)
    args = library.SentenceTransformerTrainingArguments(**settings)
    labels = {"label": [0, 1, 0, 1]} if loss else {}
    objective = (loss or library.sentence_transformer.losses.MultipleNegativesRankingLoss)(model)
    data = table(anchor=FIRST, positive=SECOND, **labels)
    return library.SentenceTransformerTrainer(model, args, train_dataset=data, loss=objective, callbacks=callbacks)


def test_layers_are_the_transformers_and_the_head_is_what_follows(tiny_model: Path) -> None:
    layers = map_layers(embedder(tiny_model))
    assert layers.names == ("embeddings", "layers.0", "layers.1", "head")
    assert [group.stack for group in layers.layers] == ["0.model.encoder.layer"] * 2
    assert {"2.linear.weight", "2.linear.bias"} < set(layers["head"].parameter_names)


def test_a_cross_encoder_is_mapped_too(tiny_model: Path) -> None:
    layers = map_layers(library.CrossEncoder(str(tiny_model), num_labels=1, device="cpu"))
    assert layers.names == ("embeddings", "layers.0", "layers.1", "head")


@some_fast("method", ["gradual:every=2", "lisa:layers=1,every=2"], ["lisa:layers=1,every=2"])
def test_only_what_is_open_moves_and_a_checkpoint_resumes(method: str, tiny_model: Path, tmp_path: Path) -> None:
    train_and_resume(lambda callbacks, settings: trainer_of(tiny_model, callbacks, settings), method, tmp_path)


def test_weights_of_the_loss_learn_beside_any_method(tiny_model: Path, tmp_path: Path) -> None:
    """They belong to no group: what a loss holds is no part of the model."""
    losses = library.sentence_transformer.losses
    gate = GateCallback("freeze:layers=2", audit=True)
    settings = {**SETTINGS, "output_dir": str(tmp_path), "save_strategy": "no"}
    trainer = trainer_of(tiny_model, [gate], settings, lambda model: losses.SoftmaxLoss(model, 8, 2))
    before = weights(trainer.loss)
    trainer.train()
    assert gate.tuner is not None
    head = {f"model.{name}" for name in gate.tuner.layers["head"].parameter_names if "pooler" not in name}
    assert moved(before, trainer.loss) == head | {"classifier.weight", "classifier.bias"}


def test_methods_that_measure_say_that_they_cannot(tiny_model: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "output_dir": str(tmp_path)}
    trainer = trainer_of(tiny_model, [GateCallback("fun:every=2,batches=1")], settings)
    with pytest.raises(AttachError, match=r"calling SentenceTransformer .* failed for its entries anchor_input_ids, "):
        trainer.train()


def router(folder: Path) -> Any:
    from sentence_transformers.sentence_transformer import modules

    each = [[modules.Transformer(str(folder)), modules.Pooling(32, "mean")] for _ in range(2)]
    routes = modules.Router.for_query_document(query_modules=each[0], document_modules=each[1])
    return library.SentenceTransformer(modules=[routes], device="cpu")


def test_routes_of_a_router_are_towers(tiny_model: Path) -> None:
    model = router(tiny_model)
    assert {tower: len(groups) for tower, groups in map_layers(model).towers.items()} == {"document": 2, "query": 2}
    model[0].sub_modules["document"].requires_grad_(False)
    layers = map_layers(model)
    assert layers.names == ("embeddings", "layers.0", "layers.1", "head")
    assert list(layers.towers) == ["query"]
