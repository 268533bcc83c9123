"""Read adapter files from a folder, an archive or the hub, as bytes: no archive is ever unpacked to disk."""

from __future__ import annotations

import io
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gradgate import hub
from gradgate.errors import AdapterFileError
from gradgate.files import read_bytes
from gradgate.places import typed_path

CONFIG_FILE, SETUP_FILE = "adapter_config.json", "adapter_setup.json"
_HUB_FILES = ["*.json", "*.safetensors", "pytorch_adapter.bin", "pytorch_model_head.bin"]
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
_MOST_BYTES = 1 << 30  # limit for one file and for all files of an archive; adapters have megabytes
_ENDINGS = (".json", ".safetensors", ".bin")  # of the files that are read


@dataclass(frozen=True)
class Files:
    """Adapter files by name.

    Attributes:
        where: what to call the place in messages.
        folder: of the files, unless they are in an archive.
        members: of the archive.
    """

    where: str
    folder: Path | None = None
    members: Mapping[str, bytes] | None = None

    def read(self, name: str) -> bytes | None:
        """Read the bytes of one file; None if there is none.

        Raises:
            AdapterFileError: if it cannot be read.
        """
        if self.members is not None:
            return self.members.get(name)
        assert self.folder is not None
        try:
            return read_bytes(self.folder / name, most=_MOST_BYTES)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AdapterFileError(
                f"{self.folder / name} cannot be read: {reason}. Check its permissions, or fetch it again."
            ) from error


def open_files(where: str | os.PathLike[str], *, revision: str | None = None) -> Files:
    """Open the files in a folder, a zip or tar archive, or a repository of the hub.

    The network is used only for a text ``owner/name`` that is not a local path, never for a ``Path``, and never with
    HF_HUB_OFFLINE.

    Raises:
        AdapterFileError: if nothing exists there, or an archive is damaged or has a member outside of itself.
    """
    path = typed_path(where)
    if path.is_dir():
        return Files(str(path), folder=path)
    if path.is_file():
        return Files(str(path), members=_at_config(_archived(path), path))
    if isinstance(where, str) and _HUB_NAME.fullmatch(where):
        return Files(where, folder=_from_hub(where, revision))
    raise AdapterFileError(
        f"There is no adapter at {os.fspath(where)!r}. Expected a folder with {CONFIG_FILE}, a zip or tar archive of "
        f"one, or a name on the hub such as 'AdapterHub/bert-base-uncased-pf-imdb'."
    )


def _archived(path: Path) -> dict[str, bytes]:
    try:
        if zipfile.is_zipfile(path):
            return _zipped(path)
        if tarfile.is_tarfile(path):
            return _tarred(path)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise AdapterFileError(f"The archive {path} is damaged ({error}). Fetch it again.") from None
    except RuntimeError as error:  # a password, in zipfile
        raise AdapterFileError(
            f"The archive {path} cannot be read: {error}. Pass one without a password, or unpack it."
        ) from None
    raise AdapterFileError(f"{path} is neither a folder nor a zip or tar archive, or it is truncated. Fetch it again.")


def _zipped(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.is_dir()]
        for member in members:
            _check_member(path, member.orig_filename, link=stat.S_ISLNK(member.external_attr >> 16))
        members = [member for member in members if member.filename.endswith(_ENDINGS)]
        _check_size(path, sum(member.file_size for member in members))
        return {_plain(member.filename): archive.read(member) for member in members}


def _tarred(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        members = [member for member in archive.getmembers() if not member.isdir()]
        for member in members:
            _check_member(path, member.name, link=not member.isreg())
        members = [member for member in members if member.name.endswith(_ENDINGS)]
        _check_size(path, sum(member.size for member in members))
        read = ((member, archive.extractfile(member) or io.BytesIO()) for member in members)
        return {_plain(member.name): file.read() for member, file in read}


def _check_member(path: Path, name: str, *, link: bool) -> None:
    """Refuse a member that would be written outside of the folder that the archive is unpacked to."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    outside = ".." in parts or name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name) or "\0" in name
    if link or outside:
        what = "is a link or not a regular file" if link else "points outside the archive"
        raise AdapterFileError(
            f"The archive {path} is unsafe: its member {name!r} {what}. Nothing was read; expected files in one "
            "folder. Fetch it again from a source that you trust."
        )


def _check_size(path: Path, size: int) -> None:
    if size > _MOST_BYTES:
        raise AdapterFileError(
            f"The archive {path} would unpack to {size / (1 << 30):.1f} GiB, too much for an adapter: at most "
            f"{_MOST_BYTES >> 30} GiB are read. Expected an archive of one adapter."
        )


def _plain(name: str) -> str:
    return str(PurePosixPath(name.replace("\\", "/")))


def _at_config(members: Mapping[str, bytes], path: Path) -> dict[str, bytes]:
    """Return the members by their names relative to the configuration: an archive may contain a folder."""
    configs = [PurePosixPath(name) for name in members if PurePosixPath(name).name in (CONFIG_FILE, SETUP_FILE)]
    if not configs:
        raise AdapterFileError(
            f"The archive {path} has no {CONFIG_FILE}, so it is not an adapter. Expected an archive from "
            f"adapters.save or AdapterHub."
            ""
        )
    top = min(configs, key=lambda name: (len(name.parts), name.name != SETUP_FILE)).parent
    inside = (PurePosixPath(name) for name in members)
    return {str(name.relative_to(top)): members[str(name)] for name in inside if name.is_relative_to(top)}


def _from_hub(name: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=_HUB_FILES))
    except Exception as error:  # also those of the HTTP library
        offline = " (HF_HUB_OFFLINE is set, and no copy is in the cache)" if hub.is_offline() else ""
        raise AdapterFileError(
            f"There is no folder {name!r} here, and no adapter of that name could be fetched from the hub{offline}: "
            f"{hub.first_line(error)}. Pass a folder, an archive, or a name such as "
            f"'AdapterHub/bert-base-uncased-pf-imdb'."
        ) from error
