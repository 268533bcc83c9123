"""A wrong base, a damaged or hostile file, a full disk and a kill: a clear error, and nothing is applied or written."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from gradgate import deltas
from gradgate.deltas.patched import entry_of, weight_files
from gradgate.deltas.safetensors_file import streamed
from gradgate.errors import DeltaError
from support.run_folders import files

Edit = Callable[[dict[str, Tensor], dict[str, str]], Any]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    return save(tmp_path / "base", {"a.weight": torch.randn(6, 10), "b.weight": torch.randn(8)})


@pytest.fixture
def delta(tmp_path: Path, base: Path) -> Path:
    tensors = load_file(base / "model.safetensors")
    tensors["a.weight"].view(-1)[[3, 17, 40]] += 1
    tensors["b.weight"] += 1
    trained = save(tmp_path / "trained", tensors)
    return deltas.create(trained, base, tmp_path / "delta.safetensors", method="full").path


def save(folder: Path, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text("{}")
    return folder


def rewritten(delta: Path, edit: Edit) -> Path:
    """A file with other content and a digest that is right, as one who means harm would write it."""
    tensors = load_file(delta)
    metadata = _metadata(delta)
    edit(tensors, metadata)
    with streamed(delta, {n: entry_of(t) for n, t in tensors.items()}, metadata, digest=True) as file:
        for name, tensor in tensors.items():
            file.write(name, tensor)
    return delta


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        found = dict(file.metadata())
    del found["digest"]
    return found


def put(name: str, values: list[int], dtype: torch.dtype = torch.int32) -> Edit:
    return lambda tensors, _: tensors.update({name: torch.tensor(values, dtype=dtype)})


def take(name: str) -> Edit:
    return lambda tensors, _: tensors.pop(name)


def rename(old: str, new: str) -> Edit:
    return lambda tensors, _: tensors.update({new: tensors.pop(old)})


def say(**changes: Any) -> Edit:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in changes.items()}
    return lambda _, metadata: metadata.update(texts)


HOSTILE: dict[str, tuple[Edit, str]] = {
    "a place out of range": (
        put("a.weight.idx", [3, 17, 60]),
        "indices from 3 to 60; expected increasing ones below 60",
    ),
    "a place below zero": (put("a.weight.idx", [-1, 17, 40]), "indices from -1 to 40"),
    "places out of order": (put("a.weight.idx", [17, 3, 40]), "unsorted or repeated indices"),
    "a place twice": (put("a.weight.idx", [3, 3, 40]), "unsorted or repeated indices"),
    "fewer places than values": (put("a.weight.idx", [3, 17]), "one index of I32 or I64 per value"),
    "places of another type": (put("a.weight.idx", [3, 17, 40], torch.int16), "one index of I32 or I64"),
    "places without values": (take("a.weight.val"), "a.weight.idx without a.weight.val"),
    "values without places": (take("a.weight.idx"), "a.weight.val without a.weight.idx"),
    "values of another type": (
        lambda tensors, _: tensors.update({"a.weight.val": tensors["a.weight.val"].double()}),
        "a.weight.val is F64, and the base has F32",
    ),
    "a tensor twice": (put("a.weight", [1]), "'a.weight' is stored twice"),
    "a path as a name": (rename("b.weight", "../../b.weight"), "'../../b.weight' cannot be the name of a weight"),
    "a path to a root": (rename("b.weight", "/etc/b"), "'/etc/b' cannot be the name of a weight"),
    "a control character": (rename("b.weight", "b\x1b[2Jweight"), "cannot be the name of a weight"),
    "a path as a file": (say(files={"../config.json": "{}"}), "'../config.json' cannot be the name of a file"),
    "code as a file": (say(files={"modeling.py": "boom()"}), "'modeling.py' cannot be the name of a file"),
    "another format": (say(format="pt"), "is not a delta: its format is 'pt'"),
    "another version": (say(version="2"), "has version '2' of the format"),
    "metadata that is no JSON": (say(left_out="["), "its metadata cannot be read"),
    "metadata of another kind": (say(shapes=["a"]), "shapes: expected a mapping"),
    "a shape that does not fit": (say(shapes={"a.weight": [6, 11]}), r"has the shape \[6, 11\], and \[6, 10\]"),
    "a shape beyond memory": (say(shapes={"a.weight": [10**12, 10]}), "leaves out elements of the rows"),
    "a shape of nothing": (say(shapes={"c.weight": [3]}), "'c.weight' is given a shape and not stored"),
    "a type that there is not": (say(dtype="F31"), "dtype"),
    "a cast between kinds": (say(dtypes={"a.weight": "I32"}), "cast a.weight to I32, and it is F32 in the base"),
    "a cast to no type": (say(dtypes={"a.weight": "F31"}), "cast a.weight to F31"),
    "a cast of nothing": (say(dtypes={"c.weight": "F16"}), "cast c.weight to F16, and it is not in the base"),
}


@pytest.mark.parametrize(("edit", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused(tmp_path: Path, base: Path, delta: Path, edit: Edit, message: str) -> None:
    refused(tmp_path, base, rewritten(delta, edit), message)


def refused(tmp_path: Path, base: Path, delta: Path, message: str) -> None:
    before = files(base)
    with pytest.raises(DeltaError, match=message) as said:
        deltas.apply(delta, base, tmp_path / "out")
    assert str(delta) in str(said.value)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "out"))]
    assert files(base) == before


def test_a_sparse_tensor_that_the_base_lacks_is_refused(tmp_path: Path, base: Path, delta: Path) -> None:
    def other(tensors: dict[str, Tensor], _: dict[str, str]) -> None:
        for end in (".idx", ".val"):
            tensors[f"c{end}"] = tensors.pop(f"a.weight{end}")

    refused(tmp_path, base, rewritten(delta, other), "belongs to a tensor that the base does not have")


@pytest.mark.parametrize("place", [0, 3, 9, 200, -30, -1])
def test_a_byte_that_has_changed_is_seen(tmp_path: Path, base: Path, delta: Path, place: int) -> None:
    content = bytearray(delta.read_bytes())
    content[place] ^= 0x11
    delta.write_bytes(content)
    refused(tmp_path, base, delta, "is damaged|is no delta")


@pytest.mark.parametrize("length", [0, 7, 8, 100, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, base: Path, delta: Path, length: int) -> None:
    delta.write_bytes(delta.read_bytes()[:length])
    refused(tmp_path, base, delta, "is damaged")


def test_a_giant_header_is_refused_before_it_is_read(tmp_path: Path, base: Path, delta: Path) -> None:
    with delta.open("r+b") as file:
        file.write((2**40).to_bytes(8, "little"))
    refused(tmp_path, base, delta, "its header would have 1,099,511,627,776")


def test_another_base_is_refused_and_both_are_named(tmp_path: Path, base: Path, delta: Path) -> None:
    other = load_file(base / "model.safetensors")
    other["b.weight"].view(torch.int32)[0] ^= 1
    elsewhere = save(tmp_path / "elsewhere", other)
    with pytest.raises(DeltaError, match=r"belongs to the base .*base' \(fingerprint .*elsewhere' has the fingerprint"):
        deltas.apply(delta, elsewhere, tmp_path / "out")
    assert not (tmp_path / "out").exists()


MISSING = {
    "no delta": ("no.safetensors", "base", "There is no file .*no.safetensors"),
    "no base": ("delta.safetensors", "./nowhere", "There is no folder"),
    "a base without weights": ("delta.safetensors", "empty", "has no weights"),
    "an output that is taken": ("delta.safetensors", "base", "is not empty"),
}


@pytest.mark.parametrize(("file", "named", "message"), MISSING.values(), ids=MISSING)
def test_what_is_not_there(tmp_path: Path, base: Path, delta: Path, file: str, named: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/config.json").write_text("{}")
    with pytest.raises(DeltaError, match=message):
        deltas.apply(tmp_path / file, tmp_path / named, base if named == "base" else tmp_path / "out")


def test_a_delta_that_is_its_own_base_is_refused(tmp_path: Path, base: Path, delta: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("{}")
    for folder, named in ((base, other), (other, base)):
        rewritten(delta, say(base=str(named)))
        (folder / "delta.safetensors").write_bytes(delta.read_bytes())
    (base / "model.safetensors").unlink()
    with pytest.raises(DeltaError, match=r"delta\.safetensors has no base: .* lead back to its own folder"):
        deltas.apply(delta, None, tmp_path / "out")
    with pytest.raises(DeltaError, match="lead back to its own folder"):
        weight_files(str(other))


def test_an_index_of_shards_that_names_a_path_is_refused(tmp_path: Path, base: Path) -> None:
    (base / "model.safetensors").rename(tmp_path / "outside.safetensors")
    (base / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../outside.safetensors"}}))
    with pytest.raises(DeltaError, match="expected names of files in its folder"):
        deltas.create(base, base, tmp_path / "d.safetensors")


def test_models_without_a_common_tensor_are_refused(tmp_path: Path, base: Path) -> None:
    other = save(tmp_path / "other", {"x.y": torch.zeros(3)})
    with pytest.raises(DeltaError, match="has no tensor of the base"):
        deltas.create(other, base, tmp_path / "d.safetensors")


def test_a_full_disk_leaves_nothing(tmp_path: Path, base: Path, delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    refused_to_write = pytest.raises(DeltaError, match=r"Cannot write .*: No space left on device.* free space")
    before = files(tmp_path)
    with refused_to_write:
        deltas.apply(delta, base, tmp_path / "out")
    with refused_to_write:
        deltas.create(tmp_path / "trained", base, delta)
    assert files(tmp_path) == before


def test_folders_of_people_survive_an_apply(tmp_path: Path, base: Path, delta: Path) -> None:
    for name in (".out.part", "other/.v.part", "locked"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "my.lock").touch()
    deltas.apply(delta, base, tmp_path / "out")
    for name in ("other", "locked"):
        with pytest.raises(DeltaError, match="is not empty"):
            deltas.apply(delta, base, tmp_path / name)
    assert len(list(tmp_path.rglob("my.lock"))) == 3


KILLED = """
import os, signal, sys
from gradgate import deltas
from gradgate.deltas.safetensors_file import StreamedFile
written = StreamedFile.write
def write(self, name, tensor):
    written(self, name, tensor)
    os.kill(os.getpid(), signal.SIGKILL)
StreamedFile.write = write
deltas.apply(*sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_kill_in_mid_write_leaves_nothing_that_looks_finished(tmp_path: Path, base: Path, delta: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(delta), str(base), str(tmp_path / "out")])
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert [path.is_dir() for path in tmp_path.glob(".out.*.part")] == [True]
    deltas.apply(delta, base, tmp_path / "out")
    assert (tmp_path / "out/model.safetensors").is_file()
