"""Read what a launcher says in the environment, and let the processes of a run decide together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from gradgate.distributed import launch
from gradgate.errors import GradgateError, RunError, UsageError
from support.command_line import Command
from support.gloo_group import in_processes
from support.launched import TORCHRUN
from support.launched import launch as in_two_processes

VARIABLES = ("WORLD_SIZE", "RANK", "LOCAL_RANK")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment without what a launcher sets."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@contextmanager
def launched() -> Iterator[int]:
    """Say in the environment what torchrun says to this process of a group; return its rank."""
    rank, count = dist.get_rank(), dist.get_world_size()
    os.environ |= {"WORLD_SIZE": str(count), "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"}  # accelerate wants them, but the group exists
    launch.join(on_cpu=True)
    yield rank
    for name in VARIABLES:
        del os.environ[name]


@pytest.mark.usefixtures("environment")
def test_one_process_works_without_a_launcher() -> None:
    assert (launch.count(), launch.rank(), launch.local_rank(), launch.is_first()) == (1, 0, 0, True)
    launch.join(on_cpu=True)
    launch.wait()
    launch.refuse("gradgate compare")
    assert launch.on_first(lambda: 3) == 3
    assert launch.any_of(True)
    assert not launch.any_of(False)
    assert launch.gather("a") == ["a"]
    assert launch.share([1, 2, 3]) == [1, 2, 3]
    assert launch.add_up(torch.ones(2)).tolist() == [1, 1]
    launch.raise_together(None)
    with pytest.raises(RunError, match="alone"):
        launch.raise_together(RunError("alone"))


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two'"),
        ({"WORLD_SIZE": "0"}, "WORLD_SIZE='0'.*at least 1"),
        ({"WORLD_SIZE": "-2"}, "WORLD_SIZE='-2'"),
        ({"WORLD_SIZE": "1.5"}, r"WORLD_SIZE='1\.5'"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE=''"),
        ({"WORLD_SIZE": "2"}, "RANK=''.*from 0 to 1"),
        ({"WORLD_SIZE": "2", "RANK": "2"}, "RANK='2'.*from 0 to 1"),
        ({"WORLD_SIZE": "2", "RANK": "x"}, "RANK='x'"),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "first"}, "LOCAL_RANK='first'"),
        ({"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "-1"}, "LOCAL_RANK='-1'"),
    ],
)
def test_odd_variables_are_refused_by_name(
    environment: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    with pytest.raises(UsageError, match=message):
        launch.join(on_cpu=True)


@pytest.mark.usefixtures("environment")
def test_odd_variables_end_the_command(
    command: Command, settings: dict[str, object], tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    said = command("train", *words, "--out", f"{tmp_path}/run")
    assert said.code == 2
    assert "WORLD_SIZE='many'" in said.err


@pytest.mark.parametrize(
    ("rank", "count", "work", "part"),
    [
        (0, 2, [1, 2, 3, 4], [1, 3]),
        (1, 2, [1, 2, 3, 4], [2, 4]),
        (1, 2, [1, 2, 3], [2, 3]),
        (3, 4, [1], [1]),
        (1, 3, [], []),
    ],
)
def test_shares_are_equally_long(
    environment: pytest.MonkeyPatch, rank: int, count: int, work: list[int], part: list[int]
) -> None:
    environment.setenv("WORLD_SIZE", str(count))
    environment.setenv("RANK", str(rank))
    assert launch.share(work) == part


@pytest.mark.parametrize("count", [2, 3, 7])
def test_shares_together_are_the_work(environment: pytest.MonkeyPatch, count: int) -> None:
    for size in range(1, 16):
        parts = []
        environment.setenv("WORLD_SIZE", str(count))
        for rank in range(count):
            environment.setenv("RANK", str(rank))
            parts.append(launch.share(range(size)))
        assert len({len(part) for part in parts}) == 1
        together = [item for row in zip(*parts, strict=True) for item in row]
        assert together[:size] == list(range(size))
        assert set(together[size:]) <= {size - 1}, "only the last item is in several"


@pytest.mark.parametrize("command", ["gradgate compare", "gradgate analyze"])
def test_several_processes_are_refused_by_number(environment: pytest.MonkeyPatch, command: str) -> None:
    environment.setenv("WORLD_SIZE", "3")
    with pytest.raises(UsageError, match=f"{command} trains each run in one process, and 3 were launched"):
        launch.refuse(command)


def test_leaving_ends_communication_and_may_be_done_twice() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    launch.leave()
    assert not dist.is_initialized()
    launch.leave()


@pytest.mark.slow
def test_processes_that_joined_leave_when_they_end(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import atexit\nimport os\nimport torch.distributed as dist\nfrom gradgate.distributed import launch\n"
        # One write each, as the processes share a pipe, where the parts of two prints mix.
        "atexit.register(lambda: os.write(1, b'communicates ' if dist.is_initialized() else b'left '))\n"
        "launch.join(on_cpu=True)\nlaunch.wait()\n"
    )
    ended = in_two_processes(TORCHRUN, program)
    assert (ended.returncode, ended.stdout.split()) == (0, ["left", "left"])


@in_processes
def test_processes_know_their_place() -> None:
    with launched() as rank:
        assert (launch.count(), launch.rank(), launch.local_rank()) == (2, rank, rank)
        assert launch.is_first() == (rank == 0)
        assert launch.gather(10 * rank) == [0, 10]
        assert launch.gather({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
        launch.wait()


@in_processes
def test_first_process_works_for_all() -> None:
    with launched() as rank:
        calls: list[int] = []
        assert launch.on_first(lambda: calls.append(rank) or "done") == "done"
        assert calls == ([0] if rank == 0 else [])
        assert launch.on_first(lambda: None) is None


@in_processes
def test_error_of_first_reaches_all() -> None:
    def fail(error: Exception) -> None:
        raise error

    with launched() as rank:
        with pytest.raises(RunError, match="no space") as raised:
            launch.on_first(lambda: fail(RunError("no space")))
        assert raised.value.reported_by_main == (rank != 0), "only the first process prints it"
        expected = KeyError if rank == 0 else GradgateError
        with pytest.raises(expected, match="lost"):
            launch.on_first(lambda: fail(KeyError("lost")))
        assert launch.gather(rank) == [0, 1], "the processes still communicate"


@in_processes
def test_flags_and_sums_are_common() -> None:
    with launched() as rank:
        for one, other, together in ((False, False, False), (True, False, True), (False, True, True)):
            assert launch.any_of((one, other)[rank]) == together
        assert launch.add_up(torch.tensor([1.0, 10.0 * rank])).tolist() == [2.0, 10.0]


@pytest.mark.parametrize("failing", [(0,), (1,), (0, 1)])
@in_processes
def test_error_in_one_process_ends_all(failing: tuple[int, ...]) -> None:
    with launched() as rank:
        mine = RunError(f"process {rank} failed") if rank in failing else None
        with pytest.raises(RunError, match=f"process {failing[0]} failed") as raised:
            launch.raise_together(mine)
        assert raised.value.reported_by_main == (rank != failing[0])
        launch.raise_together(None)
