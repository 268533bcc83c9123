"""Decode data files: UTF-8, UTF-16 with a byte order mark, cp1252 where the text shows it; name what is not text."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from gradgate.errors import DataError
from gradgate.files import read_bytes

_MOST_BYTES = 64 << 30
_POINTER = b"version https://git-lfs"
_OTHER_FORMS = {
    b"\x1f\x8b": "compressed by gzip; unpack it with `gunzip`",
    b"BZh": "compressed by bzip2; unpack it with `bunzip2`",
    b"\xfd7zXZ": "compressed by xz; unpack it with `unxz`",
    b"\x28\xb5\x2f\xfd": "compressed by zstandard; unpack it with `unzstd`",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it",
    b"Rar!": "a rar archive; unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word document; save the sheet as 'CSV UTF-8'",
    b"PAR1": "a Parquet file with another ending; rename it to end in .parquet",
    b"ARROW1": "an Arrow file with another ending; rename it to end in .arrow",
    b"ORC": "an ORC file; write it as Parquet, as with pandas.read_orc(...).to_parquet(...)",
    b"Obj\x01": "an Avro file; write it as Parquet or JSON lines",
    b"SQLite format 3": "an SQLite database; export the table as CSV, or use pandas.read_sql(...).to_parquet(...)",
    b"\x93NUMPY": "a NumPy array, which has no named columns; write texts and labels as CSV or Parquet",
    b"\x89HDF": "an HDF5 file; write the table as Parquet, as with pandas.read_hdf(...).to_parquet(...)",
    b"%PDF": "a PDF document; extract its text, one example per line",
    b"{\\rtf": "an RTF document; save its text as plain text",
    b"$FL2": "an SPSS file; write it as CSV, as with pandas.read_spss(...).to_csv(...)",
    b"RDX": "data of R; write it with write.csv(...)",
    b"\x89PNG": "an image, but gradgate trains on text",
    b"\xff\xd8\xff": "an image, but gradgate trains on text",
    b"<!DOCTYPE": "a web page: a download may have failed; fetch the file itself",
    b"<html": "a web page: a download may have failed; fetch the file itself",
    b"<?xml": "XML, which is not read; write one row per example as CSV or JSON lines",
    _POINTER: "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
}
_EXPECTED = "expected a csv, tsv, jsonl, json, parquet or arrow file"
_ASKS = f"{_EXPECTED[0].upper()}{_EXPECTED[1:]}, or an `encoding` in the `format` of a task.yaml"
_TYPOGRAPHIC = frozenset("‘’“”„–—…•€£¥©®™°±²³·«»¿¡½¼¾ªº§´µ×÷‚‹›\xa0\xad")
_INSIDE_WORDS = frozenset("’‘–—…·\xad\xa0")
_RUN = re.compile(r"[^\W\d_a-zA-Z]{4,}")
_CASES = re.compile(r"[a-z][À-ÖØ-ÞŠŒŽŸ](?![A-ZÀ-ÖØ-ÞŠŒŽŸ])")
_SYMBOL_IN_WORD = re.compile(r"(?<=[^\W\d_])[^\w\s\x00-\x7f](?=[^\W\d_])")


def lines_of(text: str) -> list[str]:
    """Split a text where a file's lines end; ``str.splitlines`` would split at form feeds and U+2028 in them, too."""
    return re.split(r"\r\n?|\n", text) if "\r" in text else text.split("\n")


def decode(path: Path, encoding: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file, and notes on how it was decoded.

    Args:
        path: of the file.
        encoding: of the text; None is UTF-8, or UTF-16 with a byte order mark, or cp1252 if the text shows it.

    Raises:
        DataError: a file that cannot be read, holds no text, or is in another encoding.
    """
    try:
        data = read_bytes(path, _MOST_BYTES)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror}. Expected a data file; check its path and permissions"
        ) from error
    except ValueError as error:
        raise DataError(f"{path} cannot be read: {error}; {_EXPECTED}") from None
    _refuse_other_forms(path, data)
    if encoding is not None:
        return _in(path, data, encoding), ()
    data = data.removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _in(path, data, "utf-16"), (f"{path.name} is read as UTF-16",)
    if 4 * data[:1000].count(0) > len(data[:1000]):
        raise DataError(f"{path} is a binary file, or UTF-16 without a byte order mark. {_ASKS}")
    try:
        return data.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        return _not_utf8(path, data, error)


def _in(path: Path, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise DataError(
            f"{path}: encoding {encoding!r} is not known; expected a name such as cp1252, shift_jis or utf-16"
        ) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line} is not {encoding} (byte 0x{data[error.start]:02x}); name its encoding, as `format: "
            f"{encoding: ...}` in a task.yaml"
        ) from error


def _not_utf8(path: Path, data: bytes, error: UnicodeDecodeError) -> tuple[str, tuple[str, ...]]:
    """Return the text of a file in cp1252; raise DataError if it is in another encoding or mixes two."""
    line = data.count(b"\n", 0, error.start) + 1
    what = f"{path}:{line} is not UTF-8 (byte 0x{data[error.start]:02x})"
    if b"\0" in data:
        raise DataError(f"{path} is a binary file. {_ASKS}")
    if _holds_utf8(data):
        raise DataError(
            f"{what}, and other lines are: the file mixes encodings. Convert the lines that differ, for example with "
            "`iconv -f cp1252 -t utf-8`, before joining the files"
        )
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        text = ""
    if _is_western(text):
        return text, (f"{path.name} is not UTF-8 (line {line}) and is read as cp1252: check its accented letters",)
    raise DataError(
        f"{what}, nor cp1252. Name its encoding, as `format: {{encoding: cp1251}}` in a "
        "task.yaml, or convert it with `iconv -f ENCODING -t utf-8`"
    )


def _is_western(text: str) -> bool:
    """Return True if the characters beyond ASCII are where cp1252's languages have them.

    Other encodings of one byte decode as well, with letters in place of quotes, capitals within words (Mac Roman),
    signs within words (cp1250) or long runs of accents (cp1251).
    """
    found = [character for character in text if character > "\x7f"]
    letters = sum(character.isalpha() for character in found)
    plain = sum(character.isascii() and character.isalpha() for character in text)
    if any(not (character.isalpha() or character in _TYPOGRAPHIC) for character in found):
        return False
    signs = (match[0] for match in _SYMBOL_IN_WORD.finditer(text))
    odd = _RUN.search(text) or _CASES.search(text) or any(sign not in _INSIDE_WORDS for sign in signs)
    return bool(found) and not odd and 2 * letters <= max(plain, 4)


def _holds_utf8(data: bytes) -> bool:
    """Return True if some lines with bytes beyond ASCII are UTF-8."""
    for line in data.split(b"\n"):
        if line.isascii():
            continue
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            continue
        return True
    return False


def _refuse_other_forms(path: Path, data: bytes) -> None:
    """Raise DataError for a file that holds something other than text, by its first bytes."""
    start = data[:64].lstrip()
    if data.startswith(b"PK\x03\x04"):
        raise DataError(f"{path} is {_in_zip(path)}. {_EXPECTED[0].upper()}{_EXPECTED[1:]}")
    if data[:1] == b"\x80" and data[1:2] <= b"\x05":
        raise DataError(
            f"{path} is a pickle, which could run code when opened, so it is not read. If you trust it, convert it "
            f"to Parquet, as with pandas.read_pickle(...).to_parquet(...)"
        )
    for magic, name in _OTHER_FORMS.items():
        if start.lower().startswith(magic.lower()) if magic[:1] == b"<" else data.startswith(magic):
            raise DataError(f"{path} is {name}. {_EXPECTED[0].upper()}{_EXPECTED[1:]}")


def refuse_pointers(path: Path) -> None:
    """Raise DataError for a pointer of Git LFS, which stands for a file that has not been fetched."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_POINTER))
    except OSError:
        return  # reading it says what is wrong
    if start == _POINTER:
        raise DataError(f"{path} is {_OTHER_FORMS[_POINTER]}")


def _in_zip(path: Path) -> str:
    """Return what a zip archive holds, and what to do with it."""
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            names = archive.namelist()
    except (BadZipFile, OSError, ValueError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook; save the sheet as 'CSV UTF-8', or with pandas.read_excel(...).to_parquet(...)"
    if "content.xml" in names:
        return "an OpenDocument file; save the sheet as CSV (UTF-8)"
    if any(name.startswith("word/") for name in names):
        return "a Word document; save its text, one example per line or row"
    if any(name.endswith(".npy") for name in names):
        return "a NumPy archive, which has no named columns; write texts and labels as CSV or Parquet"
    if any(name.endswith("data.pkl") for name in names):
        return "a file of torch.save; write texts and labels as CSV or Parquet"
    return f"a zip archive ({', '.join(names[:3])}); unpack it" if names else "a zip archive; unpack it"
