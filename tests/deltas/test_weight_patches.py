"""Patches in TRL's published layout become deltas, and deltas are patches as its reader and vLLM take them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from gradgate import deltas
from gradgate.errors import DeltaError
from support.bits import assert_same_bits, on_disk


@pytest.fixture
def base(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    return save(
        tmp_path / "base", {"a.weight": torch.randn(300, 400).bfloat16(), "b.weight": torch.randn(8).bfloat16()}
    )


@pytest.fixture
def after(base: Path) -> dict[str, Tensor]:
    tensors = load_file(base / "model.safetensors")
    tensors["a.weight"].view(-1)[[0, 1, 70_000, 119_999]] += 1  # the third gap is beyond 16 bits
    tensors["b.weight"] += 1
    return tensors


def save(folder: Path, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text("{}")
    return folder


def patch(path: Path, base: Path, after: dict[str, Tensor], encoding: str) -> Path:
    """A file as TRL's encode_patch writes it: idx[k] - idx[k-1] - 1 for gap_delta, from -1 on."""
    before = load_file(base / "model.safetensors")
    places = (after["a.weight"] != before["a.weight"]).view(-1).nonzero().view(-1)
    stored = places.int()
    if encoding == "gap_delta":
        stored = (places - torch.cat([torch.tensor([-1]), places[:-1]]) - 1).to(torch.uint32)
    tensors = {
        "a.weight.idx": stored,
        "a.weight.val": after["a.weight"].view(-1)[places],
        "b.weight": after["b.weight"],
    }
    metadata = {"format": "sparse_weight_patch", "version": "1", "sparse": "True", "encoding": encoding}
    save_file(tensors, path, metadata)
    return path


@pytest.mark.parametrize("encoding", ["raw", "gap_delta"])
def test_a_patch_of_trl_becomes_a_delta(tmp_path: Path, base: Path, after: dict[str, Tensor], encoding: str) -> None:
    made = deltas.create(patch(tmp_path / "p.safetensors", base, after, encoding), base, tmp_path / "d.safetensors")
    assert made.sparse["a.weight"].elements == 4
    assert_same_bits(on_disk(deltas.apply(made, base, tmp_path / "again")), after)


def test_a_delta_is_a_patch_for_the_reader_of_trl_and_for_vllm(
    tmp_path: Path, base: Path, after: dict[str, Tensor]
) -> None:
    made = deltas.create(save(tmp_path / "after", after), base, tmp_path / "d.safetensors")
    with safe_open(made.path, framework="pt") as file:
        assert file.metadata()["encoding"] == "raw"
        assert file.get_tensor("a.weight.idx").dtype == torch.int32
    before = load_file(base / "model.safetensors")
    for patch in deltas.weight_patches(made):
        assert (patch.shape, patch.dtype) == (before[patch.name].shape, before[patch.name].dtype)
        if patch.indices is None:
            before[patch.name] = patch.values.view(patch.shape)
        else:  # as vLLM applies a CheckpointWeightPatch: what is NaN keeps its value
            flat = torch.full((before[patch.name].numel(),), float("nan"), dtype=patch.dtype)
            flat.index_copy_(0, patch.indices.long(), patch.values)
            before[patch.name] = torch.where(flat.isnan(), before[patch.name].view(-1), flat).view(patch.shape)
    assert_same_bits(before, after)


REFUSED = {
    "another encoding": ({"encoding": "nvcomp_cascaded"}, {}, "expected raw or gap_delta"),
    "another format": ({"format": "pt"}, {}, "is not a weight patch"),
    "another tensor": ({}, {"c.weight": torch.zeros(3)}, "changes c.weight"),
    "another type": ({}, {"b.weight": torch.zeros(8)}, "its entries for b.weight"),
    "a place out of range": ({}, {"a.weight.idx": torch.tensor([0, 1, 2, 120_000])}, "expected increasing ones below"),
}


@pytest.mark.parametrize(("metadata", "tensors", "message"), REFUSED.values(), ids=REFUSED)
def test_a_patch_that_does_not_fit_is_refused(
    tmp_path: Path,
    base: Path,
    after: dict[str, Tensor],
    metadata: dict[str, str],
    tensors: dict[str, Tensor],
    message: str,
) -> None:
    file = patch(tmp_path / "p.safetensors", base, after, "raw")
    with safe_open(file, framework="pt") as opened:
        held = dict(opened.metadata())
    save_file({**load_file(file), **tensors}, file, {**held, **metadata})
    with pytest.raises(DeltaError, match=message):
        deltas.create(file, base, tmp_path / "d.safetensors")
    assert not (tmp_path / "d.safetensors").exists()


def test_tensors_of_a_model_that_was_cast_are_patched_whole(tmp_path: Path) -> None:
    before = {"a.weight": torch.randn(30, 40), "b.weight": torch.randn(8)}
    base = save(tmp_path / "base", before)
    (base / "config.json").write_text('{"dtype": "float32"}')
    after = {name: tensor.bfloat16() for name, tensor in before.items()}
    after["a.weight"][0, 0] += 1
    trained = save(tmp_path / "after", after)
    (trained / "config.json").write_text('{"dtype": "bfloat16"}')
    patches = list(deltas.weight_patches(deltas.create(trained, base, tmp_path / "d.safetensors"), base))
    assert {patch.name: patch.indices is None for patch in patches} == {"a.weight": True, "b.weight": True}
    assert_same_bits({patch.name: patch.values.view(patch.shape) for patch in patches}, after)
