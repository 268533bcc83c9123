"""Archives of adapters: read as folders are, refused where they are unsafe or damaged."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gradgate import adapters
from support.adapter_files import refused, save_task
from support.adapter_models import tiny
from support.loop import assert_same_weights


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_task(tmp_path / "task")


@pytest.mark.parametrize("form", ["zip", "zip-in-a-folder", "tar", "tar.gz"])
def test_archives_are_read_as_folders_are(saved: Path, tmp_path: Path, form: str) -> None:
    path = tmp_path / "adapter.archive"
    inside = "some/folder/" if form == "zip-in-a-folder" else ""
    if form.startswith("zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for file in saved.iterdir():
                archive.write(file, inside + file.name)
    else:
        with tarfile.open(path, "w:gz" if form == "tar.gz" else "w") as tar:
            tar.add(saved, "task")
    one, other = tiny("bert"), tiny("bert")
    adapters.load(one, saved)
    adapters.load(other, path)
    assert_same_weights(one, other)


@pytest.mark.parametrize("member", ["../evil", "a/../../evil", "/tmp/evil", "..\\evil", "C:\\evil", "\\evil"])
@pytest.mark.parametrize("form", ["zip", "tar"])
def test_an_archive_that_leads_out_of_itself_is_refused(saved: Path, tmp_path: Path, member: str, form: str) -> None:
    path = archived(saved, tmp_path / "adapter.archive", form, member)
    before = sorted(tmp_path.rglob("*"))
    refused(path, "unsafe.*points outside the archive")
    assert sorted(tmp_path.rglob("*")) == before


def archived(saved: Path, path: Path, form: str, member: str) -> Path:
    if form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in saved.iterdir():
                archive.write(file, file.name)
            archive.writestr(zipfile.ZipInfo(member), b"evil")
    else:
        with tarfile.open(path, "w") as tar:
            tar.add(saved, "task")
            info = tarfile.TarInfo(member)
            info.size = 4
            tar.addfile(info, io.BytesIO(b"evil"))
    return path


@pytest.mark.parametrize("kind", ["zip", "symlink", "hardlink", "device"])
def test_links_in_an_archive_are_refused(saved: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "adapter.archive"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(saved / "adapter_config.json", "adapter_config.json")
            link = zipfile.ZipInfo("adapter.safetensors")
            link.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(link, "/etc/passwd")
    else:
        with tarfile.open(path, "w") as tar:
            tar.add(saved / "adapter_config.json", "adapter_config.json")
            info = tarfile.TarInfo("adapter.safetensors")
            info.type = {"symlink": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "device": tarfile.CHRTYPE}[kind]
            info.linkname = "/etc/passwd"
            tar.addfile(info)
    refused(path, "unsafe.*is a link or not a regular file")


@pytest.mark.parametrize("form", ["zip", "tar", "tar.gz"])
@pytest.mark.parametrize("keep", [0.2, 0.6, 0.97])
def test_a_truncated_archive_is_refused(saved: Path, tmp_path: Path, form: str, keep: float) -> None:
    path = tmp_path / "adapter.archive"
    if form == "zip":
        archived(saved, path, "zip", "more")
    else:
        with tarfile.open(path, "w:gz" if form == "tar.gz" else "w") as tar:
            for file in sorted(saved.iterdir(), key=lambda file: file.stat().st_size):
                tar.add(file, file.name)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    if form == "tar" and keep == 0.97:  # only the padding after the last member is cut
        data = data[: data.rindex(b"bert.") + 200]
        path.write_bytes(data)
    refused(path, "damaged|truncated|lacks|has no")


def test_a_flipped_byte_in_an_archive_is_refused(saved: Path, tmp_path: Path) -> None:
    path = archived(saved, tmp_path / "adapter.archive", "zip", "more")
    data = bytearray(path.read_bytes())
    data[data.index((saved / "adapter.safetensors").read_bytes()) + 5000] ^= 1
    path.write_bytes(data)
    refused(path, "is damaged .*CRC")


def test_an_archive_that_would_fill_the_memory_is_refused(saved: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from gradgate.adapters import archive

    path = archived(saved, tmp_path / "adapter.archive", "zip", "more")
    monkeypatch.setattr(archive, "_MOST_BYTES", 1000)
    refused(path, "GiB, too much for an adapter")
