"""Files that are whole or absent, and JSON and YAML that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradgate.errors import RunError
from gradgate.files import digests, in_use, read_bytes, read_json, write_files, write_json, write_text
from gradgate.plain_yaml import parse_yaml

DAMAGED = {
    "empty": b"",
    "cut off": b'{"a": ',
    "binary": b"\x00\xff\xfe",
    "a list": b"[1]",
    "a number that is none": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "a number beyond float64": b'{"a": 1e999}',
    "a number of 5,000 digits": b'{"a": ' + b"1" * 5000 + b"}",
    "100,000 levels": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_json_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "scores.json"
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"scores\.json is damaged: .+ Restore a good copy, or remove"):
        read_json(file)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"Cannot read .*absent\.json: No such file"):
        read_json(tmp_path / "absent.json")
    with pytest.raises(RunError, match=r"Cannot read .*: Is a directory"):
        read_json(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(RunError, match=r"pipe\.json is damaged: expected a file"):
        read_json(tmp_path / "pipe.json")


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"], ids=["a name of 300 characters", "a null byte"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="Cannot write"):
        write_text(tmp_path / name, "text")
    assert not in_use(tmp_path)


def test_a_surrogate_survives_in_json_that_is_not_escaped(tmp_path: Path) -> None:
    write_text(tmp_path / "row.json", '{"text": "\ud800é"}')
    assert read_json(tmp_path / "row.json") == {"text": "\ud800é"}


def test_files_of_one_folder_are_written_all_or_none(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": b"old", "b": b"old"})
    with pytest.raises(RunError, match="Cannot write"):
        write_files(tmp_path, {"a": b"new", "b" * 300: b"new"})
    assert (tmp_path / "a").read_bytes() == b"old"
    assert sorted(digests(tmp_path)) == ["a", "b"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    write_json(tmp_path / "scores.json", {"a": 1})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"Cannot write .*scores\.json: No space left on device"):
        write_json(tmp_path / "scores.json", {"a": 2})
    assert read_json(tmp_path / "scores.json") == {"a": 1}
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: 1\na: 2", "line 2: 'a' is given twice, first in line 1"),
        ("x: {b: 1, b: 1}", "line 1: 'b' is given twice"),
        ("[" * 100_000, "line 1: values are nested too deeply; expected at most 50 levels"),
        ("- " * 5_000, "nested too deeply"),
        ("a: [", "expected node content"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("{[a]: 1}", "unhashable key"),
        ("a: 2020-99-99", "month"),
        (b"\xff\xfe\x00", "."),
        ("a: \0", "."),
        ("1" * 5000, "."),
    ],
)
def test_yaml_that_is_not_plain_is_refused(content: bytes | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_yaml(content)


def test_plain_yaml_is_read() -> None:
    assert parse_yaml("a: &x {b: [1, 2.5, true, null]}\nc: {<<: *x, b: s}") == {
        "a": {"b": [1, 2.5, True, None]},
        "c": {"b": "s"},
    }
    assert parse_yaml(b"") is None


def test_a_pipe_and_a_file_that_is_too_large_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="expected a file, got a device or a pipe"):
        read_bytes(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"12345")
    with pytest.raises(ValueError, match="it has 5 bytes"):
        read_bytes(tmp_path / "large", most=4)
