"""The run folder: whose it is, and what can be trusted in it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import gradgate as gg
from gradgate.errors import FolderLockedError, RunError, UsageError
from gradgate.files import read_json, write_json, write_text
from gradgate.runs.checkpoints import is_whole, seal
from gradgate.runs.folder import RunFolder
from gradgate.settings.run import make_config
from support.run_folders import files


@pytest.fixture
def begun(tmp_path: Path) -> RunFolder:
    """A folder in which a run with lr=0.1 has begun to train."""
    folder = RunFolder(tmp_path / "run")
    folder.claim(make_config(lr=0.1))
    write_text(folder.history_file, "")
    return folder


def test_a_new_folder_is_claimed_by_its_configuration(begun: RunFolder) -> None:
    assert read_json(begun.run_file) == {"config": make_config(lr=0.1).record(), "processes": 1}


def test_the_same_configuration_may_claim_again_and_changes_nothing(begun: RunFolder) -> None:
    before = files(begun.path)
    begun.claim(make_config(lr=0.1, audit=True, keep_model=False))
    assert files(begun.path) == before


def test_another_configuration_is_refused_and_told_apart(begun: RunFolder) -> None:
    before = files(begun.path)
    differing = r"already holds a run with another configuration \(seed: 0 there, 3 here, lr: 0\.1 there, 0\.2 here\)"
    with pytest.raises(RunError, match=rf"{differing}\. Pass another out=, such as {begun.path}-2, or"):
        begun.claim(make_config(lr=0.2, seed=3))
    assert files(begun.path) == before


def test_the_folder_that_is_offered_is_free(begun: RunFolder) -> None:
    begun.path.with_name(f"{begun.path.name}-2").mkdir()
    with pytest.raises(RunError, match=f"such as {begun.path}-3, or"):
        begun.claim(make_config(lr=0.2))


def test_a_task_that_is_not_there_is_named_although_the_folder_has_a_finished_run(begun: RunFolder) -> None:
    begun.scores_file.write_text("{}")
    with pytest.raises(UsageError, match=r"no file or folder tickt\.csv"):
        gg.train(task="tickt.csv", lr=0.1, out=begun.path, quiet=True)


def test_a_run_that_never_trained_gives_up_its_folder(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.claim(make_config(method="freeze:layers=99"))
    folder.claim(make_config(method="freeze:layers=1"))
    assert read_json(folder.run_file)["config"]["method"] == "freeze:layers=1"


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("42")
    with pytest.raises(RunError, match=r"is not empty and holds no run\. Pass another out="):
        RunFolder(tmp_path).claim(make_config())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("42")
    with pytest.raises(UsageError, match=r"run is a file\. Expected a folder"):
        RunFolder(tmp_path / "run").claim(make_config())
    with pytest.raises(RunError, match=r"Cannot write .*Not a directory"):
        RunFolder(tmp_path / "run/below").claim(make_config())


def test_what_a_kill_during_the_first_write_leaves_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".run.json.part").write_text('{"conf')
    RunFolder(tmp_path).claim(make_config())
    assert read_json(tmp_path / "run.json")["config"] == make_config().record()


@pytest.mark.parametrize("text", ["", '{"config": ', "[]", "\x00\x00", '{"config": []}', "{}"])
def test_a_damaged_run_file_is_named(begun: RunFolder, text: str) -> None:
    begun.run_file.write_text(text)
    with pytest.raises(RunError, match=r"run\.json is damaged: .*remove .*run to start over"):
        begun.claim(make_config(lr=0.1))


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write_json(tmp_path / "scores.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "scores.json", {"a": object()})
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match=r"Cannot write .*folder: Is a directory"):
        write_text(tmp_path / "folder", "text")
    assert read_json(tmp_path / "scores.json") == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "scores.json"]


def test_a_seal_holds_for_every_file_and_no_other(tmp_path: Path) -> None:
    write_text(tmp_path / "weights", "0123")
    write_text(tmp_path / "below/rng", "7")
    assert not is_whole(tmp_path)
    seal(tmp_path)
    assert is_whole(tmp_path)
    write_text(tmp_path / "extra", "")
    assert not is_whole(tmp_path)
    (tmp_path / "extra").unlink()
    assert is_whole(tmp_path)
    write_text(tmp_path / "below/rng", "8")
    assert not is_whole(tmp_path)


def test_the_newest_whole_checkpoint_is_by_number_not_by_name(begun: RunFolder) -> None:
    assert begun.latest_checkpoint() is None
    for step in (9, 10, 100):
        write_text(begun.checkpoints / f"checkpoint-{step}" / "weights", "w")
    assert begun.latest_checkpoint() is None
    for step in (9, 10):
        seal(begun.checkpoints / f"checkpoint-{step}")
    assert begun.latest_checkpoint() == begun.checkpoints / "checkpoint-10"


def test_one_process_at_a_time_trains_in_a_folder(begun: RunFolder) -> None:
    with begun.locked():
        assert begun.is_locked
        with pytest.raises(FolderLockedError, match=f"run is being trained by process {os.getpid()} on "):
            RunFolder(begun.path).locked().__enter__()
    assert not begun.is_locked
    with begun.locked():
        pass


def test_a_lock_ends_with_the_process_that_holds_it(begun: RunFolder) -> None:
    ready, write = os.pipe()
    child = os.fork()
    if child == 0:
        with begun.locked():
            os.write(write, b"!")
            signal.pause()
    assert os.read(ready, 1) == b"!"
    assert begun.is_locked
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not begun.is_locked
    assert begun.lock_file.is_file()


def test_a_folder_with_other_files_gets_no_lock_file(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("42")
    with pytest.raises(RunError, match="holds no run"):
        RunFolder(tmp_path).locked().__enter__()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_lock_file_that_a_kill_left_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "run.lock").write_text("process 1 on afar")
    with RunFolder(tmp_path).locked():
        RunFolder(tmp_path).claim(make_config())


def test_half_written_files_of_a_killed_run_are_removed(begun: RunFolder) -> None:
    own = [begun.path / ".v.part", begun.path / ".mine.deadbee.part"]  # names that nobody makes for a temporary file
    left = [begun.path / ".scores.json.0123abcd.part", begun.best / ".model.safetensors.89abcdef.part"]
    for file in (*own, *left):
        file.parent.mkdir(exist_ok=True)
        file.write_text("half")
    with begun.locked():
        assert all(file.is_file() for file in own)
        assert not any(file.exists() for file in left)
