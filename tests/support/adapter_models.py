"""Tiny models of every architecture that adapters know, and what tests do with them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from gradgate import adapters
from support.crossed import each_once, some_fast
from support.tiny_models import _DECODER, _ENCODER, TINY, tiny_batch
from support.tiny_models import tiny as builder

ENCODERS = ("bert", "roberta", "xlm-roberta", "distilbert", "electra", "deberta-v2", "mpnet")
MORE = {
    "camembert": builder("CamembertConfig", "CamembertForSequenceClassification", **_ENCODER),
    "deberta": builder("DebertaConfig", "DebertaForSequenceClassification", **_ENCODER, relative_attention=True),
    "mistral": builder("MistralConfig", "MistralForSequenceClassification", **_DECODER),
}
MODELS = (*ENCODERS, *MORE, "llama", "qwen2", "qwen3", "bert-lm")
# Each has its modules at places of its own; the others share them with one of these.
PLACES = ("bert", "distilbert", "deberta-v2", "mpnet", "electra", "llama", "bert-lm", "roberta")
EVERY_MODEL = some_fast("name", MODELS, PLACES)
DISTINCT = [kind for kind in adapters.KINDS if not kind.startswith("pfeiffer")]  # another name of seq_bn
EVERY_MODEL_AND_KIND = each_once("name", MODELS, "kind", DISTINCT)


def tiny(name: str) -> PreTrainedModel:
    return (TINY | MORE)[name]().eval()


@torch.no_grad()
def output(model: nn.Module, **options: Any) -> Tensor:
    batch = tiny_batch(getattr(model, "_orig_mod", model))
    batch.pop("labels")
    out: Tensor = model(**batch, **options)[0]
    return out


def disturb(model: nn.Module, seed: int = 1) -> None:
    """Give every adapter weights that change the output."""
    draw = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "adapters" in name:
            parameter.data.normal_(0.0, 0.3, generator=draw)
