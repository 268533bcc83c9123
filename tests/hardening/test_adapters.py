"""Bad texts of adapters and hostile adapter files: refused with the file named, and the model as it was."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

from gradgate import adapters
from gradgate.adapters.config import adapter_config
from gradgate.errors import AdapterError, AdapterFileError, GradgateError
from support.adapter_models import tiny

TEXTS = {
    "commas alone": ("pfeiffer:,,,", "has an empty option"),
    "a null byte": ("pfeiffer\0", r"character '\\x00' at position 9"),
    "a size of 99999999": ("houlsby:size=99999999", r"size=99999999 \(expected 1 or more, at most 16,384"),
    "a scaling that is no number": ("par_bn:scaling=nan", r"scaling=nan \(expected a finite float"),
    "a scaling without end": ("par_bn:scaling=inf", "scaling=inf"),
    "a factor without a layer": ("pfeiffer:reduction=0:8/4", "reduction_factor"),
}


@pytest.mark.parametrize(("text", "message"), TEXTS.values(), ids=TEXTS)
def test_a_bad_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(AdapterError, match=message):
        adapter_config(text)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = tiny("bert")
    adapters.add(model, "task", "pfeiffer:reduction=2")
    adapters.save(model, "task", tmp_path / "task")
    return tmp_path / "task"


def changed(**values: Any) -> Callable[[Path], None]:
    """Writes other settings into the file of the adapter."""

    def change(folder: Path) -> None:
        file = folder / "adapter_config.json"
        record = json.loads(file.read_text())
        record["config"] |= values
        file.write_text(json.dumps(record))

    return change


def with_nan(folder: Path) -> None:
    file = folder / "adapter.safetensors"
    tensors = load_file(file)
    next(iter(tensors.values())).view(-1)[0] = float("nan")
    save_file(tensors, file)


def as_pipe(folder: Path) -> None:
    (folder / "adapter.safetensors").unlink()
    os.mkfifo(folder / "adapter.safetensors")


class _Payload:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/gradgate-was-here",)


def with_payload(folder: Path) -> None:
    (folder / "adapter.safetensors").unlink()
    (folder / "pytorch_adapter.bin").write_bytes(pickle.dumps(_Payload()))


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a factor that fills the memory": (changed(reduction_factor=1e-9), "reduction_factor=1e-09 makes a bottleneck of"),
    "an inverse that fills the memory": (
        changed(inv_adapter="nice", inv_adapter_reduction_factor=1e-9),
        "inv_adapter_reduction_factor=1e-09 makes",
    ),
    "NaN as scaling": (changed(scaling=float("nan")), "damaged|scaling"),
    "NaN in the weights": (with_nan, r"adapter\.safetensors in .* is damaged: .* contains NaN or infinity"),
    "a pipe as the weights": (as_pipe, "adapter.safetensors cannot be read: expected a file, got a device or a pipe"),
    "a pickle that runs code": (
        with_payload,
        r"pytorch_adapter\.bin in .* is damaged \(it contains more than tensors",
    ),
}


@pytest.mark.parametrize(("spoil", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_folder_is_refused(spoil: Callable[[Path], None], message: str, saved: Path) -> None:
    spoil(saved)
    refused(saved, message)
    assert not Path("/tmp/gradgate-was-here").exists()


def test_a_large_member_of_an_archive_is_not_read(saved: Path, tmp_path: Path) -> None:
    file = tmp_path / "large.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part in saved.iterdir():
            archive.write(part, f"task/{part.name}")
        with archive.open("task/other.safetensors", "w", force_zip64=True) as member:
            member.write(bytes(1 << 20))
        archive.getinfo("task/other.safetensors").file_size = 17 * 64 << 20  # what the archive says of it
    refused(file, r"would unpack to 1\.\d GiB, too much for an adapter: at most 1 GiB")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=60), st.text('{}[]:,"0a', max_size=30).map(lambda text: headed(text))))
def test_any_header_of_weights_is_read_or_refused(content: bytes, saved: Path) -> None:
    (saved / "adapter.safetensors").write_bytes(content)
    refused(saved, "adapter.safetensors")


@given(st.text(max_size=12), st.text(max_size=12))
def test_any_text_makes_an_adapter_or_an_error_of_gradgate(option: str, value: str) -> None:
    with suppress(GradgateError):
        adapter_config(f"pfeiffer:{option}={value}")


def headed(header: str) -> bytes:
    return struct.pack("<Q", len(header)) + header.encode()


def refused(where: Path, message: str) -> None:
    model: nn.Module = tiny("bert")
    names = list(model.state_dict())
    with pytest.raises(AdapterFileError, match=message) as raised:
        adapters.load(model, where)
    assert "will likely succeed" not in str(raised.value)
    assert list(model.state_dict()) == names
    assert torch.is_tensor(model.state_dict()[names[0]])
