"""Map AdapterHub's prediction heads onto the heads of transformers' own classes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gradgate.adapters.attach import Attached
from gradgate.adapters.record import model_entries
from gradgate.errors import AdapterFileError


class HeadMismatchError(AdapterFileError):
    """A prediction head that the model has no place for."""


@dataclass(frozen=True)
class Placed:
    """Tensors by the names of the model's own parameters, and what the labels are called."""

    tensors: Mapping[str, Tensor]
    labels: Mapping[str, int] | None = None


@dataclass(frozen=True)
class _Shape:
    """A flexible head of their library that computes what a head of transformers does.

    Attributes:
        kind, layers, pooled: entries of its configuration.
        activation: between its layers; with ``config.`` it is that of the model's configuration; None for any.
        modules: index in their flat sequence to the module of the model.
    """

    kind: str
    layers: int
    activation: str | None
    modules: Mapping[int, str]
    pooled: bool = False


def _classifier(activation: str, dense: str, out: str) -> _Shape:
    return _Shape("classification", 2, activation, {1: dense, 4: out})


def _lm(activation: str, dense: str, norm: str, decoder: str) -> _Shape:
    return _Shape("masked_lm", 2, activation, {0: dense, 2: norm, 3: decoder})


_TRANSFORM = "cls.predictions.transform"
_BERT_LM = _lm("config.hidden_act", f"{_TRANSFORM}.dense", f"{_TRANSFORM}.LayerNorm", "cls.predictions.decoder")
_ROBERTA_LM = _lm("gelu", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder")
_TWO_LAYERS = _classifier("tanh", "classifier.dense", "classifier.out_proj")
_TAGS = _Shape("tagging", 1, None, {1: "classifier"})
_SPANS = _Shape("question_answering", 1, None, {1: "qa_outputs"})
# BERT's pooler is a dense layer with tanh on the first token: the first layer of a head that takes no pooler.
_BERT_CLASSIFIERS = (
    _Shape("classification", 1, None, {1: "classifier"}, pooled=True),
    _classifier("tanh", "bert.pooler.dense", "classifier"),
)
_DEBERTA = _classifier("config.pooler_hidden_act", "pooler.dense", "classifier")
_SHAPES: dict[str, tuple[_Shape, ...]] = {
    "bert": (*_BERT_CLASSIFIERS, _TAGS, _SPANS, _BERT_LM),
    "roberta": (_TWO_LAYERS, _TAGS, _SPANS, _ROBERTA_LM),
    "xlm-roberta": (_TWO_LAYERS, _TAGS, _SPANS, _ROBERTA_LM),
    "camembert": (_TWO_LAYERS, _TAGS, _SPANS, _ROBERTA_LM),
    "mpnet": (_TWO_LAYERS, _TAGS, _SPANS, _ROBERTA_LM),
    "electra": (_classifier("gelu", "classifier.dense", "classifier.out_proj"), _TAGS, _SPANS),
    "distilbert": (
        _classifier("relu", "pre_classifier", "classifier"),
        _TAGS,
        _SPANS,
        _lm("config.activation", "vocab_transform", "vocab_layer_norm", "vocab_projector"),
    ),
    "deberta": (_DEBERTA, _TAGS, _SPANS, _BERT_LM),
    "deberta-v2": (_DEBERTA, _TAGS, _SPANS, _BERT_LM),
}
_CLASSES = {
    "classification": "ForSequenceClassification",
    "tagging": "ForTokenClassification",
    "question_answering": "ForQuestionAnswering",
    "masked_lm": "ForMaskedLM",
}


def place(model: Any, record: Mapping[str, Any], tensors: Mapping[str, Tensor], name: str, where: str) -> Placed:
    """Map each tensor of a head to its place in the model.

    Args:
        model: from transformers, with a head.
        record: ``head_config.json``. With an entry ``config`` it is a flexible head, which fits a class of
            transformers that computes the same; without, it is that of one such class.
        tensors: of the head's file.
        name: of the adapter in the file, which names a flexible head if the record has no other name.
        where: the files, for messages.

    Raises:
        HeadMismatchError: if the model has no such head, or one of another size.
    """
    config = record.get("config")
    if config is None:
        theirs = record.get("model_class")
        if theirs != type(model).__name__:
            raise HeadMismatchError(
                f"{where} has the head of a {theirs}; this model is a {type(model).__name__}. Use that class, or load "
                "without head=True."
            )
        placed = dict(tensors)
        labels = record.get("label2id")
    else:
        named = record.get("name") or name
        if not isinstance(config, Mapping) or not isinstance(named, str):
            raise HeadMismatchError(
                f"{where} has a damaged head: its config is {config!r:.60} and its name {named!r:.60}. Expected a "
                f"mapping and a text; fetch it again, or load the adapter without head=True."
            )
        placed = _flexible(model, config, tensors, named, where)
        labels = config.get("label2id")
    _check(model, placed, where)
    _check_labels(labels, where)
    return Placed(placed, labels)


def put(model: Any, found: Attached, placed: Placed | None) -> None:
    """Copy the tensors of a head into the model; remember the old values of those in the base model."""
    if placed is None:
        return
    base = {id(parameter) for parameter in model.base_model.parameters()}
    own = dict(model.named_parameters(remove_duplicate=False))
    for name, tensor in placed.tensors.items():
        parameter = own[name]
        if id(parameter) in base and not _is_same(parameter, tensor):
            found.overwritten.append((parameter, parameter.detach().clone()))
        parameter.data.copy_(tensor)
    if placed.labels is not None and len(placed.labels) == getattr(model.config, "num_labels", None):
        model.config.label2id = dict(placed.labels)
        model.config.id2label = {number: label for label, number in placed.labels.items()}


def written(model: Any, also: Collection[str] = ()) -> dict[str, Tensor]:
    """Return the tensors of the model's own head, by their own names; none for a model without a head.

    Args:
        also: names of tensors of the base model that belong to the head.
    """
    if model.base_model is model:
        return {}
    outside = f"{model.base_model_prefix}."
    state = model.state_dict()
    return {key: state[key].detach().cpu().clone() for key in state if key in also or not key.startswith(outside)}


def static_record(model: Any) -> dict[str, Any]:
    """Return ``head_config.json`` for the model's own head."""
    return {
        "config": None,
        "name": None,
        "label2id": getattr(model.config, "label2id", None),
        "num_labels": getattr(model.config, "num_labels", None),
        **model_entries(model),
    }


def _flexible(
    model: Any, config: Mapping[str, Any], tensors: Mapping[str, Tensor], name: str, where: str
) -> dict[str, Tensor]:
    shape = next((shape for shape in _SHAPES.get(model.config.model_type, ()) if _fits(shape, config, model)), None)
    if shape is None:
        kind, layers, between = config.get("head_type"), config.get("layers"), config.get("activation_function")
        raise HeadMismatchError(
            f"{where} has a head of type {kind!r} with layers={layers}, {between!r} and "
            f"use_pooler={bool(config.get('use_pooler'))}; {type(model).__name__} has another head. Load the adapter"
            " without head=True, or into the class of its head."
        )
    placed = {}
    for key, tensor in tensors.items():
        match = re.fullmatch(rf"heads\.{re.escape(name)}\.(\d+)\.(\w+)", key)
        module = shape.modules.get(int(match[1])) if match else None
        if match is None or module is None:
            raise HeadMismatchError(
                f"{where} has a tensor {key!r} that a head of type {shape.kind!r} does not have. Load the adapter "
                "without head=True."
            )
        placed[f"{module}.{match[2]}"] = tensor
    absent = [module for module in shape.modules.values() if f"{module}.weight" not in placed]
    if absent:
        raise HeadMismatchError(
            f"{where} is incomplete: its head has no weights for {absent[0]!r}. Fetch it again, or load the adapter "
            "without head=True."
        )
    return placed


def _fits(shape: _Shape, config: Mapping[str, Any], model: Any) -> bool:
    between = shape.activation
    if between is not None and between.startswith("config."):
        between = getattr(model.config, between.removeprefix("config."), None)
    return (
        type(model).__name__.endswith(_CLASSES[shape.kind])
        and config.get("head_type") == shape.kind
        and config.get("layers") == shape.layers
        and (between is None or config.get("activation_function") == between)
        and (shape.kind != "classification" or bool(config.get("use_pooler")) == shape.pooled)
    )


def _check(model: Any, placed: Mapping[str, Tensor], where: str) -> None:
    own = dict(model.named_parameters(remove_duplicate=False))
    base = {id(parameter) for parameter in model.base_model.parameters()}
    stem = f"{model.base_model_prefix}."
    for name, tensor in sorted(placed.items()):
        if name not in own:
            raise HeadMismatchError(
                f"{where} has a head with {name!r}; {type(model).__name__} has no such parameter. Load the adapter "
                "without head=True."
            )
        if own[name].shape != tensor.shape:
            raise HeadMismatchError(
                f"{where} has a head with {name} of shape {tuple(tensor.shape)}; the model's is "
                f"{tuple(own[name].shape)}, so it is for another number of labels or words. Load "
                "the adapter without head=True, or into a model with that number."
            )
        if id(own[name]) in base and not name.startswith(stem) and not _is_same(own[name], tensor):
            raise HeadMismatchError(
                f"{where} has a head whose {name} is not tied to the embeddings, as the model's is. Load it "
                f"into a model with tie_word_embeddings=False."
            )


def _check_labels(labels: Any, where: str) -> None:
    if labels is None:
        return
    numbers: list[Any] = list(labels.values()) if isinstance(labels, Mapping) else [None]
    if any(type(number) is not int for number in numbers) or sorted(numbers) != list(range(len(numbers))):
        raise HeadMismatchError(
            f"{where} has a head with the labels {labels!r:.100}. Expected a name for each number from 0; fetch it "
            f"again, or load the adapter without head=True."
        )


def _is_same(parameter: Tensor, tensor: Tensor) -> bool:
    return torch.equal(parameter.detach().cpu(), tensor.to(parameter.dtype))
