"""What AdapterHub's own library wrote gives the outputs that it gave there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from gradgate import adapters
from support.crossed import some_fast
from support.loop import assert_same_weights, weights

FIXTURES = Path(os.environ.get("GRADGATE_SHARED", Path(__file__).parents[3] / "shared")) / "fixtures" / "adapterhub"
MANIFEST = FIXTURES / "manifest.json"
CASES = json.loads(MANIFEST.read_text())["cases"] if MANIFEST.is_file() else {}
HALF_FAST = some_fast("case", list(CASES), [case for case in CASES if case.startswith("bert/")])
HIDDEN, LM_LOGITS = 2e-5, 1e-4  # absolute, from the README beside the fixtures

pytestmark = pytest.mark.skipif(
    not CASES, reason=f"no files of AdapterHub's library at {FIXTURES}; set GRADGATE_SHARED"
)


def base(case: str) -> PreTrainedModel:
    """The fixtures' model with the head that the case needs, if any."""
    folder = FIXTURES / case.split("/")[0] / "base"
    if case.endswith("mlm_head"):
        return AutoModelForMaskedLM.from_pretrained(folder).eval()
    if case.endswith("_head"):
        return AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3).eval()
    return AutoModel.from_pretrained(folder).eval()


@torch.no_grad()
def outputs(model: PreTrainedModel, case: str) -> dict[str, Tensor]:
    inputs = load_file(FIXTURES / case.split("/")[0] / "inputs.safetensors")
    out = model(**inputs, output_hidden_states=True)
    named = {f"hidden_states.{number}": hidden for number, hidden in enumerate(out.hidden_states)}
    return named | {name: out[name] for name in ("last_hidden_state", "logits") if name in out}


def assert_near(got: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    wrong = {}
    for name, tensor in expected.items():
        allowed = LM_LOGITS if name == "logits" and tensor.dim() == 3 else HIDDEN
        difference = float((got[name] - tensor).abs().max())
        if not difference <= allowed:
            wrong[name] = difference
    assert not wrong


def expected(case: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What the case gives as it is saved, and what it gives under other setups, by setup."""
    stored = load_file(FIXTURES / case / "expected.safetensors")
    plain = {k: v for k, v in stored.items() if k in ("last_hidden_state", "logits") or k.startswith("hidden_states.")}
    return plain, {k.removesuffix(".last_hidden_state"): v for k, v in stored.items() if k not in plain}


@pytest.mark.parametrize("case", CASES)
def test_gives_the_stored_outputs(case: str) -> None:
    model, names = base(case), CASES[case]["adapters"]
    for name in names:
        assert adapters.load(model, FIXTURES / case / name, head=case.endswith("_head") or None) == name
    adapters.activate(model, *names)
    plain, _ = expected(case)
    assert plain
    assert_near(outputs(model, case), plain)


@pytest.mark.parametrize("case", [case for case in CASES if expected(case)[1]])
def test_every_setup_that_is_stored(case: str) -> None:
    setups: dict[str, dict[str, Any]] = {
        "skip_layers": {"names": ["pf"], "skip_layers": 2},
        "lang_only": {"names": ["lang"]},
        "task_only": {"names": ["task"]},
        "stack_task_lang": {"names": ["task", "lang"]},
    }
    model = base(case)
    for name in CASES[case]["adapters"]:
        adapters.load(model, FIXTURES / case / name)
    for setup, tensor in expected(case)[1].items():
        names = setups[setup]["names"]
        adapters.activate(model, *names, skip_layers=setups[setup].get("skip_layers", ()))
        assert_near(outputs(model, case), {"last_hidden_state": tensor})


@HALF_FAST
def test_the_base_model_is_the_same_before_with_inactive_adapters_and_after(case: str) -> None:
    model = base(case)
    before, plain = weights(model.base_model), outputs(model, case)
    for name in CASES[case]["adapters"]:
        adapters.load(model, FIXTURES / case / name, head=False)
    assert all(torch.equal(plain[name], tensor) for name, tensor in outputs(model, case).items())
    adapters.activate(model, *CASES[case]["adapters"])
    adapters.remove(model)
    assert all(torch.equal(plain[name], tensor) for name, tensor in outputs(model, case).items())
    assert weights(model.base_model).keys() == before.keys()
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(model.base_model).items())


@HALF_FAST
def test_what_is_saved_again_has_the_same_tensors_and_configuration(case: str, tmp_path: Path) -> None:
    model = base(case)
    for name in CASES[case]["adapters"]:
        source = FIXTURES / case / name
        adapters.load(model, source, head=False)
        adapters.save(model, name, tmp_path / name, head=False)
        theirs, mine = (
            json.loads((folder / "adapter_config.json").read_text()) for folder in (source, tmp_path / name)
        )
        assert mine["config"] == theirs["config"]
        assert {k: mine[k] for k in ("name", "hidden_size", "model_type", "version")} == {
            k: theirs[k] for k in ("name", "hidden_size", "model_type", "version")
        }
        written, stored = load_file(tmp_path / name / "adapter.safetensors"), stored_tensors(source)
        stem = f"{model.base_model_prefix}."
        assert {k.removeprefix(stem) for k in written} == {k.removeprefix(stem) for k in stored}
        prefix = stem if any(k.startswith(stem) for k in stored) else ""
        assert all(torch.equal(tensor, stored[prefix + key.removeprefix(stem)]) for key, tensor in written.items())


def stored_tensors(folder: Path) -> dict[str, Tensor]:
    if (folder / "adapter.safetensors").is_file():
        return load_file(folder / "adapter.safetensors")
    loaded: dict[str, Tensor] = torch.load(folder / "pytorch_adapter.bin", weights_only=True)
    return loaded


@pytest.mark.parametrize("model_name", ["bert", "xlmr"])
def test_a_saved_stack_is_loaded_and_active(model_name: str, tmp_path: Path) -> None:
    case = f"{model_name}/madx"
    model, other = base(case), base(case)
    assert adapters.load_setup(model, FIXTURES / case) == ("lang", "task") == adapters.active(model)
    adapters.save_setup(model, tmp_path)
    theirs, mine = (json.loads((folder / "adapter_setup.json").read_text()) for folder in (FIXTURES / case, tmp_path))
    assert mine == theirs
    adapters.load_setup(other, tmp_path)
    assert_near(outputs(model, case), expected(case)[0])
    assert_same_weights(model, other)


def test_the_inverse_before_the_decoder_can_be_left_out() -> None:
    case = "bert/inv_mlm_head"
    model = base(case)
    adapters.load(model, FIXTURES / case / "lang")
    adapters.activate(model, "lang", inverse=False)
    difference = (outputs(model, case)["logits"] - expected(case)[0]["logits"]).abs().max()
    assert difference > 1.0


def test_a_head_over_the_pooler_gives_the_base_its_own_pooler_back() -> None:
    case = "bert/seq_bn_cls_head"
    model = base(case)
    before = weights(model.base_model)
    adapters.load(model, FIXTURES / case / "sent")
    assert not torch.equal(before["pooler.dense.weight"], model.base_model.pooler.dense.weight)
    adapters.remove(model)
    assert all(torch.equal(before[name], tensor) for name, tensor in weights(model.base_model).items())
