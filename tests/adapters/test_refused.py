"""What adapters refuse, with a message that helps and nothing changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from gradgate import adapters
from gradgate.errors import AdapterError, AdapterFileError
from support.adapter_models import tiny
from support.tiny_models import BARE


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pfeifer", "no kind of adapter 'pfeifer'.*Did you mean 'pfeiffer'"),
        ("pfeiffer:reducton=4", "Did you mean 'reduction'"),
        ("pfeiffer:reduction=0", "reduction_factor=0.*above 0"),
        ("pfeiffer:reduction=many", "'many' of 'reduction_factor' cannot be read"),
        ("pfeiffer:size=8,reduction=2", "both reduction and size"),
        ("pfeiffer:size=0", "size=0 .*1 or more"),
        ("pfeiffer:dropout=1", "dropout=1.0"),
        ("pfeiffer:non_linearity=gilu", "non_linearity='gilu'"),
        ("pfeiffer:inv_adapter=glow,inv_adapter_reduction_factor=2", "glow does not work"),
        ("pfeiffer:leave_out=7", "names layer 7.*0 to 2"),
        ("pfeiffer:leave_out=0/1/2", "names all 3 layers"),
        ("pfeiffer:reduction=1:4", "have no entry for layer 0"),
        ("houlsby:residual_before_ln=post_add", "without original_ln_before"),
        ("houlsby:init_std=inf", "init_std=inf .*a finite number"),
        ("pfeiffer:init_weights_seed=99999999999999999999", r"init_weights_seed=9{20} .*to 2\*\*64 - 1"),
        ({"mh_adapter": True, "output_adapter": True}, "needs non_linearity"),
        ({"architecture": "lora", "r": 8}, "'lora'; only bottleneck"),
    ],
)
def test_a_wrong_configuration_is_refused_and_nothing_is_added(kind: Any, message: str) -> None:
    model = tiny("bert")
    names = list(model.state_dict())
    with pytest.raises(AdapterError, match=message):
        adapters.add(model, "task", kind)
    assert list(model.state_dict()) == names
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("name", ["", "a.b", "keys", "train", "a/b", "a b", "setup", "module"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    with pytest.raises(AdapterError, match="cannot be the name"):
        adapters.add(tiny("bert"), name)


def test_wrong_use_is_refused() -> None:
    model = tiny("bert")
    with pytest.raises(AdapterError, match="no adapters"):
        adapters.activate(model, "task")
    adapters.activate(model)
    adapters.add(model, "task")
    adapters.add(model, "par", "par_bn")
    with pytest.raises(AdapterError, match="already has an adapter 'task'"):
        adapters.add(model, "task")
    with pytest.raises(AdapterError, match=r"no adapter 'tusk'\. Did you mean 'task'"):
        adapters.activate(model, "tusk")
    with pytest.raises(AdapterError, match="in a stack only once"):
        adapters.activate(model, "task", "task")
    with pytest.raises(AdapterError, match="'par' is a parallel adapter"):
        adapters.activate(model, "task", "par")
    with pytest.raises(AdapterError, match="Cannot skip 4 layers"):
        adapters.activate(model, "task", skip_layers=4)
    for layers in (1.0, "1", ["1"], None):
        with pytest.raises(
            AdapterError, match=rf"skip_layers: expected numbers of layers.*got {re.escape(repr(layers))}"
        ):
            adapters.activate(model, "task", skip_layers=layers)  # type: ignore[arg-type]
    with pytest.raises(AdapterError, match=r"most=1\.0: expected a number of layers"):
        adapters.RandomDrop(model, most=1.0)  # type: ignore[arg-type]
    with pytest.raises(AdapterError, match=r"leave_out: expected numbers of layers.*got 1"):
        adapters.load(model, "anywhere", leave_out=1)  # type: ignore[arg-type]
    with pytest.raises(AdapterError, match=r"seed=1180591620717411303424: expected a whole number from -2\*\*63"):
        adapters.add(model, "seeded", seed=2**70)
    with pytest.raises(AdapterError, match="no adapter 'x'"):
        adapters.remove(model, "task", "x")
    assert list(adapters.added(model)) == ["task", "par"]
    assert adapters.active(model) == ("par",)
    adapters.remove(model, "par")
    assert adapters.active(model) == ()
    with pytest.raises(AdapterError, match="no active stack"):
        adapters.switch(model, "task")


def test_an_unknown_architecture_is_refused_with_what_is_supported() -> None:
    model = BARE["gpt2"]()
    with pytest.raises(AdapterError, match=r"places of GPT2Model \(model type 'gpt2'\). Supported: bert, "):
        adapters.add(model, "task")
    with pytest.raises(AdapterError, match="Adapters need a model from transformers, got Linear"):
        adapters.add(nn.Linear(2, 2), "task")


def test_peft_is_named_where_its_adapters_are_mixed_up_with_these(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["query"])
    with pytest.raises(AdapterError, match=r"no kind of adapter 'lora'.*peft\.get_peft_model"):
        adapters.add(tiny("bert"), "task", "lora:r=8")
    with pytest.raises(AdapterError, match=r"LoraConfig does not describe an adapter.*peft\.get_peft_model"):
        adapters.add(tiny("bert"), "task", config)
    wrapped = peft.get_peft_model(tiny("bert"), config)
    with pytest.raises(AdapterError, match=r"PEFT's wrapper of a model.*Use one of the two"):
        adapters.add(wrapped, "task")
    wrapped.save_pretrained(tmp_path)
    with pytest.raises(AdapterFileError, match=r"an adapter of PEFT.*PeftModel\.from_pretrained"):
        adapters.load(tiny("bert"), tmp_path)
