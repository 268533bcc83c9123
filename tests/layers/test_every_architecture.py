"""Every model type of transformers' auto classes has a layer map; ``python -m benchmarks architectures`` lists them."""

from __future__ import annotations

import pytest

from benchmarks.architectures import MAPPED, Case, cases, look
from benchmarks.shrink import tiny_config

AT_LEAST = 0.97  # of all model types
# One of each way to be unlike the others: what a forward takes, what runs between layers, how layers are listed.
REPRESENTATIVE = [
    ("AutoModelForCausalLM", "granitemoehybrid"),
    ("AutoModelForCausalLM", "qwen3_next"),
    ("AutoModelForCausalLM", "deepseek_v2"),
    ("AutoModelForSequenceClassification", "funnel"),
    ("AutoModelForSequenceClassification", "xmod"),
    ("AutoModelForSequenceClassification", "qwen3_5"),
    ("AutoModelForImageClassification", "siglip2"),
    ("AutoModelForAudioClassification", "wav2vec2-bert"),
    ("AutoModelForImageTextToText", "pix2struct"),
    ("AutoModelForImageTextToText", "kosmos-2"),
    ("AutoModelForImageTextToText", "instructblip"),
    ("AutoModelForImageTextToText", "idefics"),
    ("AutoModelForImageTextToText", "glm4v"),
    ("AutoModelForImageTextToText", "udop"),
]


@pytest.mark.parametrize(("head", "model_type"), REPRESENTATIVE)
def test_each_parameter_of_unusual_architectures_is_in_one_group(head: str, model_type: str) -> None:
    seen = look(Case(head, model_type))
    assert seen.how in MAPPED, seen.reason
    assert seen.layer_map is not None
    assert seen.layer_map.layer_count >= 2


def test_tiny_configurations_keep_each_kind_of_layer() -> None:
    config = tiny_config("qwen3_next")
    assert set(config.layer_types) == {"linear_attention", "full_attention"}
    assert len(config.layer_types) == config.num_hidden_layers == 4


@pytest.mark.slow
def test_nearly_every_model_type_is_mapped() -> None:
    seen = [look(case) for case in cases()]
    missing = [each for each in seen if each.how not in MAPPED]
    shown = [f"{each.case.model_type}: {each.reason[:80]}" for each in missing]
    assert len(missing) <= (1 - AT_LEAST) * len(seen), shown
