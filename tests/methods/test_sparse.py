"""SHiRA's random mask: the same elements through the whole training, held exactly, and nothing else but the head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from gradgate import Sparse, Tuner, deltas, gates, map_layers, method
from gradgate.errors import MethodError
from gradgate.settings.run import make_config
from gradgate.training.run import train
from support.bits import on_disk, same_bits
from support.loop import adamw, build, weights
from support.loop import train as steps
from support.power_cuts import Falls, PowerCutError
from support.run_folders import assert_same_run


def test_just_the_mask_moves_under_weight_decay() -> None:
    model = build("bert")
    before = weights(model)
    layers = map_layers(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, "sparse:share=0.25", seed=3):
        steps(model, optimizer, 6)
    after = weights(model)
    inner = {name for group in layers.layers for name in group.parameter_names}
    for name, tensor in after.items():
        moved = tensor != before[name]
        if name in inner and tensor.dim() == 2:
            key = gates.key(seed=3, stream="sparse", name=name, draw=0)
            mask = gates.mask(tensor.numel(), lo=0.0, hi=0.25, key=key).view(tensor.shape)
            assert same_bits(tensor[~mask], before[name][~mask])
            assert moved[mask].float().mean() > 0.9, "elements whose gradient is not zero"
        elif name in layers["head"].parameter_names:
            assert moved.any(), name
        else:
            assert same_bits(tensor, before[name]), name


def test_the_head_can_stay_closed_and_all_can_learn() -> None:
    model = build("bert")
    before = weights(model)
    optimizer = adamw(model)
    with Tuner(model, optimizer, Sparse(share=1.0, head="closed")) as tuner:
        steps(model, optimizer, 2)
        assert tuner.plan["layers.0"].open
        assert tuner.plan["head"].closed
    layers = map_layers(model)
    moved = {name for name, tensor in weights(model).items() if not same_bits(tensor, before[name])}
    assert moved <= {name for group in layers.layers for name in group.parameter_names if before[name].dim() == 2}
    assert moved


@pytest.mark.parametrize(
    "text", ["sparse:share=0", "sparse:share=1.5", "sparse:by=size", "sparse:rank=0", "sparse:head=shut"]
)
def test_what_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(MethodError, match=r"expected"):
        method(text)


@pytest.mark.slow  # test_grades.py and test_sparse_choices.py resume runs; test_catalog_promises.py this method
def test_a_run_resumes_with_the_same_mask_and_its_delta_is_the_mask(tmp_path: Path, settings: dict[str, Any]) -> None:
    config = make_config(**{**settings, "steps": 6, "save_every": 2, "method": "sparse:share=0.05", "store": "model"})
    train(config, tmp_path / "whole")
    with pytest.raises(PowerCutError):
        train(config, tmp_path / "cut", Falls(3))
    train(config, tmp_path / "cut")
    assert_same_run(tmp_path / "cut", tmp_path / "whole")

    made = deltas.create(tmp_path / "whole/model", settings["model"], tmp_path / "d.safetensors")
    assert made.sparse
    assert not [name for name in made.whole if "encoder" in name or "embeddings" in name]
    elements, stored = on_disk(tmp_path / "whole/model"), load_file(made.path)
    for name in made.sparse:
        key = gates.key(seed=0, stream="sparse", name=name, draw=0)
        mask = gates.mask(elements[name].numel(), lo=0.0, hi=0.05, key=key)
        assert mask[stored[f"{name}.idx"].long()].all()
