"""The cache's file: whatever happens to it, nothing wrong is ever read."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gradgate.activation_cache.store import HEADER, ActivationStore

WIDTH = 8
NAME = bytes(range(16))


class Notes(list[str]):
    def __call__(self, text: str) -> None:
        self.append(text)


def opened(
    folder: Path, *, limit: int = 1 << 30, dtype: torch.dtype = torch.float32, notes: Notes | None = None
) -> ActivationStore:
    return ActivationStore(folder, NAME, WIDTH, dtype, limit, notes if notes is not None else Notes())


def row(number: int) -> tuple[bytes, Tensor]:
    """A key and its states: 1 to 5 tokens."""
    draw = torch.Generator().manual_seed(number)
    return number.to_bytes(16, "little"), torch.randn(1 + number % 5, WIDTH, generator=draw)


def filled(folder: Path, rows: int = 12) -> Path:
    store = opened(folder)
    store.add(map(row, range(rows)))
    store.close()
    return store.path


def read(store: ActivationStore, rows: int = 12) -> set[int]:
    """The rows that the store has; fails if one of them is not what was put in."""
    found = set()
    for number in range(rows):
        key, states = row(number)
        got = store.get(key)
        if got is not None:
            assert torch.equal(got, states)
            found.add(number)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return filled(tmp_path_factory.mktemp("whole")).read_bytes()


@pytest.fixture
def place(tmp_path: Path, whole: bytes) -> Path:
    """Where the file of the whole store lies, to be written to."""
    return filled(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_come_back_as_they_were(tmp_path: Path, dtype: torch.dtype) -> None:
    store = opened(tmp_path, dtype=dtype)
    store.add(map(row, range(5)))
    store.add(map(row, range(5, 9)))
    for attempt in (store, opened(tmp_path, dtype=dtype)):
        for number in range(9):
            key, states = row(number)
            assert torch.equal(attempt.get(key), states.to(dtype))
    assert store.get(bytes(16 * [255])) is None


def test_states_are_packed(tmp_path: Path) -> None:
    path = filled(tmp_path)
    tokens = sum(len(row(number)[1]) for number in range(12))
    assert path.stat().st_size == 64 + 12 * HEADER + tokens * WIDTH * 4


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_flipped_byte_is_never_read(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("flipped")
    damaged = bytearray(whole)
    damaged[position] ^= change
    path = folder / f"{NAME.hex()}.rows"
    path.write_bytes(damaged)
    store = opened(folder)
    left = read(store)
    assert len(left) < 12
    store.add(row(number) for number in range(12) if number not in left)
    assert read(store) == set(range(12))
    store.close()
    assert read(opened(folder)) == set(range(12))


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_torn_file_gives_its_whole_rows(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    length = data.draw(st.integers(0, len(whole) - 1))
    folder = tmp_path_factory.mktemp("torn")
    path = folder / f"{NAME.hex()}.rows"
    path.write_bytes(whole[:length])
    store = opened(folder)
    left = read(store)
    assert left == set(range(len(left)))
    store.add(row(number) for number in range(12) if number not in left)
    store.close()
    assert path.read_bytes() == whole


def test_a_file_that_shrinks_while_it_is_open_is_survived(place: Path) -> None:
    store = opened(place.parent)
    assert read(store) == set(range(12))
    os.truncate(place, 64 + 100)
    assert read(store) <= {0, 1}
    os.truncate(place, 0)
    assert read(store) == set()


def test_another_fingerprint_reads_nothing(place: Path) -> None:
    other = ActivationStore(place.parent, bytes(16), WIDTH, torch.float32, 1 << 30, Notes())
    assert read(other) == set()
    renamed = place.with_name(f"{bytes(range(1, 17)).hex()}.rows")
    place.rename(renamed)
    moved = ActivationStore(place.parent, bytes(range(1, 17)), WIDTH, torch.float32, 1 << 30, Notes())
    assert read(moved) == set()


def test_another_width_or_type_reads_nothing(place: Path) -> None:
    assert len(opened(place.parent, dtype=torch.float16)) == 0
    assert len(ActivationStore(place.parent, NAME, WIDTH + 1, torch.float32, 1 << 30, Notes())) == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    store = opened(tmp_path, notes=notes)
    store.add(map(row, range(4)))
    size = store.path.stat().st_size

    def half(self: ActivationStore, block: bytes) -> None:
        self._file.seek(self._end)
        self._file.write(block[: len(block) // 2])
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(ActivationStore, "_write", half)
        store.add(map(row, range(4, 12)))
    store.add(map(row, range(4, 12)))  # it does not try again
    assert store.path.stat().st_size == size
    assert len(notes) == 1
    assert os.strerror(code) in notes[0]
    assert read(store) == read(opened(tmp_path)) == set(range(4))


def _write_beyond_what_is_allowed(folder: Path, most: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    store = opened(folder)
    for number in range(12):
        store.add([row(number)])
    os._exit(0 if read(store) == set(range(len(read(store)))) and 0 < len(read(store)) < 12 else 1)


def test_a_limit_of_the_system_in_the_middle_of_a_row(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_write_beyond_what_is_allowed, args=(tmp_path, 700))
    process.start()
    process.join()
    assert process.exitcode == 0
    again = opened(tmp_path)
    left = read(again)
    assert 0 < len(left) < 12
    again.add(row(number) for number in range(12) if number not in left)
    assert read(again) == set(range(12))


def _write_forever(folder: Path) -> None:
    store = opened(folder)
    number = 0
    while True:
        store.add([row(number % 12)])
        number += 1


def test_a_writer_that_is_killed_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / f"{NAME.hex()}.rows"
    process = multiprocessing.get_context("fork").Process(target=_write_forever, args=(tmp_path,))
    process.start()
    while not path.exists() or path.stat().st_size < 20_000:
        assert process.is_alive()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    store = opened(tmp_path)
    assert store.writes
    assert read(store) == set(range(12))


def test_one_process_writes_and_others_see_it(tmp_path: Path) -> None:
    writer, reader = opened(tmp_path), opened(tmp_path)
    assert writer.writes
    assert not reader.writes
    writer.add(map(row, range(3)))
    reader.add(map(row, range(3, 6)))
    assert read(reader) == set()
    reader.refresh()
    assert read(reader) == read(writer) == set(range(3))
    writer.close()
    heir = opened(tmp_path)
    assert heir.writes
    heir.add(map(row, range(3, 6)))
    assert read(opened(tmp_path)) == set(range(6))


def test_the_limit_counts_all_files_of_the_folder(tmp_path: Path) -> None:
    size = filled(tmp_path).stat().st_size
    notes = Notes()
    store = ActivationStore(tmp_path, bytes(16), WIDTH, torch.float32, size + 600, notes)
    for number in range(12):
        store.add([row(number)])
    assert 0 < len(read(store)) < 12
    assert sum(file.stat().st_size for file in tmp_path.glob("*.rows")) <= size + 600
    assert "limit" in notes[0]
    assert len(notes) == 1


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    notes = Notes()
    store = ActivationStore(tmp_path / "file" / "cache", NAME, WIDTH, torch.float32, 1 << 30, notes)
    store.add([row(0)])
    assert read(store) == set()
    assert "cannot be used" in notes[0]
