"""Selections as settings of other tools, and axolotl's configuration back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

import gradgate as gg
from gradgate.errors import MethodError, SelectorError
from gradgate.layers.exports import exported
from support.tiny_models import TINY

MODELS = {name: gg.map_layers(TINY[name]()) for name in ("llama", "qwen3", "bert", "mixtral")}
SELECTORS = ["layers.top2/head", "@norm/embeddings", "layers.1.attention.q_proj", "layers.0-1.mlp/!@norm"]


def text_of(selector: str, model: str, tool: str) -> str:
    return exported(gg.select(MODELS[model], selector), MODELS[model], tool)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["llama", "qwen3"])
@pytest.mark.parametrize("selector", SELECTORS)
def test_patterns_match_what_is_selected_alone(selector: str, model: str) -> None:
    patterns = text_of(selector, model, "regex").splitlines()
    matched = {name for name in MODELS[model].weights if any(re.fullmatch(p, name) for p in patterns)}
    assert matched == set(gg.select(MODELS[model], selector).names)


@pytest.mark.parametrize("model", ["llama", "qwen3"])
@pytest.mark.parametrize("selector", [*SELECTORS, "embeddings[90:]/layers.2", "embeddings[:4]/embeddings[90:]"])
def test_axolotl_there_and_back_is_the_same_selection(selector: str, model: str, tmp_path: Path) -> None:
    file = tmp_path / "axolotl.yaml"
    file.write_text(f"base_model: x\n{text_of(selector, model, 'axolotl')}\n")
    method = gg.method(f"axolotl:{file}")
    picked = gg.select(MODELS[model], selector)
    read = method.selection(MODELS[model])
    assert read is not None
    assert read.rows == picked.rows
    assert method.reaches(MODELS[model]) == {
        g.name for g in MODELS[model] if any(name in picked for name in g.parameter_names)
    }
    assert method.fingerprint.startswith(f"axolotl:{file}@")


def test_patterns_by_hand_are_read_as_axolotl_does(tmp_path: Path) -> None:
    file = tmp_path / "axolotl.yaml"
    file.write_text(
        "unfrozen_parameters: [^lm_head.weight$, 'model.layers.[01].+mlp', 'model.embed_tokens.weight$[:7]', "
        "model.embed_tokens]"
    )
    found = gg.method(f"axolotl:{file}").selection(MODELS["llama"])
    assert found is not None
    assert found.partial == {"model.embed_tokens.weight": ((0, 7),)}
    assert set(found.names) == set(gg.select(MODELS["llama"], "head/layers.0-1.mlp/embeddings/!@norm").names)


def opened_by_llamafactory(setting: dict[str, Any], names: Iterable[str], layer_count: int) -> set[str]:
    """Apply the rule of ``_setup_freeze_tuning`` in LlamaFactory's ``model/adapter.py``."""
    count = setting["freeze_trainable_layers"]
    chosen = range(layer_count - count, layer_count) if count > 0 else range(-count)
    modules = [module if module != "all" else "" for module in setting["freeze_trainable_modules"].split(",")]
    patterns = [f".{index}.{module}" for index in chosen for module in modules]
    patterns += filter(None, setting.get("freeze_extra_modules", "").split(","))
    return {name for name in names if any(pattern in name for pattern in patterns)}


@pytest.mark.parametrize(
    ("selector", "count", "modules", "extra"),
    [
        ("layers.top2/head/!@norm", 2, "mlp,self_attn", "lm_head"),
        ("layers/head", 3, "input_layernorm,mlp,post_attention_layernorm,self_attn", "lm_head,norm"),
        ("layers.bottom1.mlp", -1, "mlp", None),
        ("embeddings", 0, "all", "embed_tokens"),
    ],
)
def test_llamafactory_opens_what_is_selected_alone(selector: str, count: int, modules: str, extra: str | None) -> None:
    setting = yaml.safe_load(text_of(selector, "llama", "llamafactory"))
    wanted = {"freeze_trainable_layers": count, "freeze_trainable_modules": modules, "freeze_extra_modules": extra}
    assert setting == {"finetuning_type": "freeze"} | {k: v for k, v in wanted.items() if v is not None}
    layers = MODELS["llama"]
    opened = opened_by_llamafactory(setting, layers.weights, layers.layer_count)
    assert opened == set(gg.select(layers, selector).names)


def test_llamafactory_leaves_out_a_norm_whose_name_others_contain_and_says_so() -> None:
    text = text_of("layers.top1/head", "llama", "llamafactory")
    assert yaml.safe_load(text)["freeze_extra_modules"] == "lm_head"
    assert text.startswith("# model.norm.weight stays closed: LlamaFactory opens each name with 'norm', such as ")
    layers = MODELS["llama"]
    opened = opened_by_llamafactory(yaml.safe_load(text), layers.weights, layers.layer_count)
    assert opened == {*gg.select(layers, "layers.top1/head").names} - {"model.norm.weight"}
    with pytest.raises(SelectorError, match=r"its 'dense' also opens bert\.encoder\.layer\.0\.attention"):
        text_of("head", "bert", "llamafactory")


@pytest.mark.parametrize(
    ("selector", "tool", "message"),
    [
        ("embeddings[3:]", "regex", r"selects rows of model\.embed_tokens\.weight.*tool='axolotl'"),
        ("embeddings[3:]", "llamafactory", "it selects rows"),
        ("layers.1", "llamafactory", "neither the lowest nor the highest"),
        ("layers.0/layers.1.mlp", "llamafactory", "its layers have different modules"),
        ("layers.0.attention.q_proj", "llamafactory", "a part of layers.0's 'self_attn'"),
    ],
)
def test_what_a_tool_cannot_say_is_refused(selector: str, tool: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        text_of(selector, "llama", tool)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "is not a configuration"),
        ("base_model: x", "has unfrozen_parameters=None; expected a list"),
        ("unfrozen_parameters: []", r"has unfrozen_parameters=\[\]"),
        ("unfrozen_parameters: ['(']", r"'\(' is not a valid regular expression"),
        (
            "unfrozen_parameters: [lm_haed]",
            r"'lm_haed' matches no parameter .*Did you mean 'lm_head",
        ),
        (r"unfrozen_parameters: ['.*mlp']", r"'\.\*mlp' matches no parameter .* only \.\+ stands for any characters"),
        (r"unfrozen_parameters: ['model\.layers']", r"matches no parameter .* a dot is a dot"),
        ("unfrozen_parameters: ['lm_head.weight[500:]']", "selects no row; the parameter has 96 rows"),
    ],
)
def test_a_wrong_configuration_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "axolotl.yaml"
    file.write_text(content)
    with pytest.raises(MethodError, match=message):
        gg.method(f"axolotl:{file}").check(MODELS["llama"])
    with pytest.raises(MethodError, match="cannot be read"):
        gg.method(f"axolotl:{tmp_path / 'absent.yaml'}")
