"""An agent may train only if a person started the server for that; what it asks for is what the command trains."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from gradgate.errors import RunError, UsageError
from gradgate.settings.command_line import flags_of

pytest.importorskip("mcp", reason="needs the extra mcp")

from gradgate.agents.process import RunsDone, run_command, runs_done
from gradgate.agents.tools import find
from gradgate.agents.training import TrainingTool, compared
from support.agent_client import COMMAND, Call, ask, ask_here, connected, environment
from support.budget_file import give_budget
from support.study_folder import fail, write_study

SMALL = {"train_size": 40, "languages": ["en"]}
ENDLESS = {"method": ["head"], "seeds": 1, "out": "x", "settings": {"steps": 100_000, "eval_every": 5, **SMALL}}
REFUSED: dict[str, tuple[Call, str]] = {
    "an unknown method": (("compare", {"method": ["full", "hed"]}), "Did you mean 'head'"),
    "a value out of range": (("compare", {"method": ["full"], "settings": {"lr": 0}}), "lr=0: expected"),
    "an unknown setting": (("compare", {"method": ["full"], "settings": {"batchsize": 8}}), "'batch_size'"),
    "an argument passed twice": (("compare", {"method": ["full"], "settings": {"seeds": 3}}), "seeds= is also in"),
    "a flag as a value": (("compare", {"method": ["full"], "settings": {"--out": "x"}}), "no setting '--out'"),
    "remote code": (("compare", {"method": ["full"], "settings": {"trust_remote_code": True}}), "by an agent"),
    "tracker": (("compare", {"method": ["full"], "settings": {"report_to": "wandb"}}), "by an agent"),
    "a database": (("compare", {"method": ["full"], "settings": {"queue": "postgresql://h/d"}}), "by an agent"),
    "a cluster": (("compare", {"method": ["full"], "settings": {"ray": "10.0.0.1:6379"}}), "by an agent"),
    "methods passed twice": (("compare", {"method": ["full"], "settings": {"method": ["head"]}}), "method= is also in"),
    "no language": (
        ("compare", {"method": ["full"], "settings": {"languages": ["de", None]}}),
        "=['de', None]: expected",
    ),
    "no rate to try": (("compare", {"method": ["full"], "settings": {"search": {"lr": [1, None]}}}), "has None for lr"),
    "no factor": (("compare", {"method": ["full"], "settings": {"lr_scale": [None]}}), "lr_scale has None. Expected"),
    "no minutes": (("recommend", {"minutes": 0}), "minutes=0"),
    "what the command refuses": (
        ("compare", {"method": ["full"], "task": "no.csv", "out": "x"}),
        "no file or folder no.csv",
    ),
}


def test_training_is_listed_and_checked_if_it_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = ask_here([call for call, _ in REFUSED.values()], allow_training=True)
    assert set(session.tools) >= {"compare", "recommend", "is_better"}
    assert not session.tools["compare"].annotations.read_only_hint
    for reply, (_, message) in zip(session.replies, REFUSED.values(), strict=True):
        assert reply.failed
        assert message in reply.text
    assert not list(tmp_path.iterdir())


def test_the_command_line_has_the_settings_of_the_agent() -> None:
    tool = find("compare", allow_training=True)
    assert isinstance(tool, TrainingTool)
    asked = {"method": ["full", "lora:r=8"], "seeds": 2, "out": "studies/x", "settings": {"audit": True, "lr": 3e-5}}
    words, study = tool.command(asked)
    assert study == Path("studies/x")
    own = ["-m", "full", "-m", "lora:r=8", "--model", "sample", "--task", "sample", "--seeds", "2"]
    assert words[1:] == ["-m", "gradgate", "compare", "--json", "--out", "studies/x", *own, "--audit", "--lr", "3e-05"]


def test_a_recommendation_is_told_with_its_command() -> None:
    tool = find("recommend", allow_training=True)
    assert isinstance(tool, TrainingTool)
    settings = {"max_length": 16, "seeds": [7]}
    words, study = tool.command({"task": "tickets.csv", "minutes": 5, "train": False, "settings": settings})
    asked = ["--minutes", "5.0", "--no-train", "--max-length", "16", "--seeds", "7,"]
    own = ["--model", "sample", "--task", "tickets.csv", *asked]
    assert words[1:] == ["-m", "gradgate", "recommend", "--json", "--out", "studies/recommended", *own]
    record = {"advice": "Train head.", "command": "gradgate train -m head", "report": "studies/recommended/report.html"}
    answer = tool.answer(study, json.dumps(record))
    assert answer.record == record
    assert answer.text.splitlines()[:2] == ["Train head.", "Train it again with: gradgate train -m head"]


def test_a_budget_answers_with_its_own_verdict(tmp_path: Path) -> None:
    tool = find("compare", allow_training=True)
    assert isinstance(tool, TrainingTool)
    study = write_study(tmp_path / "study", scores={"full": [0.7, 0.8, 0.9], "gradual:every=40": [0.6, 0.7, 0.8]})
    plain = tool.answer(study, "")
    assert not {"budget", "verdict"} & set(plain.record)
    record = give_budget(study, ["full", "gradual:every=40"], "full")
    answer = tool.answer(study, "")
    assert answer.text.splitlines()[0] == record.headline
    assert record.headline.startswith("Inconclusive")
    assert answer.record == {**plain.record, **record.record()}


def test_flags_stand_for_settings() -> None:
    given = {"method": ["a", "b"], "train_size": 4, "checkpointing": False, "lr_scale": {"head": 10.0}}
    words = ["-m", "a", "-m", "b", "--train-size", "4", "--no-checkpointing", "--lr-scale", "head=10.0"]
    assert flags_of(given) == words


def test_lists_and_what_is_not_given_become_flags_that_the_command_reads() -> None:
    tool = find("compare", allow_training=True)
    assert isinstance(tool, TrainingTool)
    settings = {
        "lr_scale": ["head=10", "layers.bottom4=0.1"],
        "search": {"lr": [1e-5, 2e-5]},
        "languages": ["de", "fr"],
        "train_size": [10, None],
        "adapter": [None, "lora:r=8"],
        "steps": None,
    }
    words, _ = tool.command({"method": ["full"], "settings": settings})
    sizes = ["--train-size", "10", "--train-size", "all", "--adapter", "none", "--adapter", "lora:r=8"]
    assert words[-16:-12] == ["--lr-scale", "head=10", "--lr-scale", "layers.bottom4=0.1"]
    assert words[-12:] == ["--search", "lr=1e-05,2e-05", "--languages", "de,fr", *sizes]


def test_a_tool_that_trains_is_refused_by_name_on_a_server_that_reads() -> None:
    with pytest.raises(UsageError, match="gradgate mcp --allow-training"):
        find("recommend", allow_training=False)


@pytest.mark.slow
def test_an_agent_compares(tmp_path: Path) -> None:
    comparison = {"method": ["full", "head"], "seeds": 2, "out": "studies/x", "settings": {"steps": 4, **SMALL}}
    (compared,) = ask([("compare", comparison)], tmp_path, "--allow-training").replies
    assert not compared.failed, compared.text
    assert sum(compared.record["words"].values()) == 1
    assert (tmp_path / compared.record["report"]).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["its client closes the connection", "SIGTERM", "one after the other"])
def test_a_server_that_ends_saves_what_it_trains(tmp_path: Path, how: str) -> None:
    parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "compare", "arguments": ENDLESS}},
    ]
    with (tmp_path / "stderr.txt").open("w") as said:
        server = subprocess.Popen(
            [*COMMAND, "--allow-training"],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.writelines(f"{json.dumps(line)}\n" for line in lines)
    server.stdin.flush()
    while not list(tmp_path.glob("x/runs/head/seed-0/best/*/seal.json")):
        with suppress(subprocess.TimeoutExpired):
            pytest.fail(f"the server ended with {server.wait(0.2)}")
    if how == "SIGTERM":
        server.send_signal(signal.SIGTERM)
    server.stdin.close()
    if how == "one after the other":  # as clients do that have waited for two seconds
        server.send_signal(signal.SIGTERM)
    assert server.wait() in {"SIGTERM": (-signal.SIGTERM,), "one after the other": (-signal.SIGTERM, 0)}.get(how, (0,))
    server.stdout.close()
    assert list(tmp_path.glob("x/runs/head/seed-0/checkpoints/*/trainer_state.json"))
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


@pytest.mark.slow
def test_a_cancelled_comparison_is_saved_and_resumes(tmp_path: Path) -> None:
    async def cancel() -> bool:
        async with connected(tmp_path, "--allow-training") as (session, _):
            with anyio.CancelScope() as scope:

                async def watch() -> None:
                    while not list(tmp_path.glob("x/runs/head/seed-0/best/*/seal.json")):
                        await anyio.sleep(0.2)
                    scope.cancel()

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(watch)
                    await session.call_tool("compare", ENDLESS)
            reply = await session.call_tool("methods", {"name": "full"})
            return not reply.is_error

    assert anyio.run(cancel)
    saved = list(tmp_path.glob("x/runs/head/seed-0/checkpoints/*/trainer_state.json"))
    assert saved
    assert json.loads(saved[-1].read_text())["global_step"] > 0
    assert not (tmp_path / "x/runs/head/seed-0/scores.json").exists()


def test_progress_counts_every_run_that_has_ended(tmp_path: Path) -> None:
    assert runs_done(tmp_path) is None
    write_study(tmp_path, ("full", "head"), range(4), {"full": [0.7, 0.71, 0.72], "head": [0.5, 0.52, 0.51]})
    fail(tmp_path, "full", 3)
    found = runs_done(tmp_path)
    assert found == RunsDone(done=7.0, ended=7, runs=8)


def test_failed_runs_are_named_beside_the_verdicts(tmp_path: Path) -> None:
    write_study(tmp_path, ("full", "head"), range(4), {"full": [0.7, 0.71, 0.72], "head": [0.5, 0.52, 0.51]})
    fail(tmp_path, "full", 3)
    answer = compared(tmp_path, "")
    assert answer.record["words"] == {"worse": 1}
    assert len(answer.record["failed"]) == 1
    assert "1 run failed; the first, full" in answer.text


def test_a_command_that_printed_its_result_has_one_although_runs_failed(tmp_path: Path) -> None:
    async def run(code: str) -> str:
        async def report(found: RunsDone) -> None: ...

        return await run_command([sys.executable, "-c", code], tmp_path, report)

    assert anyio.run(run, "print('[]'); raise SystemExit(1)") == "[]\n"
    with pytest.raises(RunError, match="it ended with code 2"):
        anyio.run(run, "print('[]'); raise SystemExit(2)")
    with pytest.raises(RunError, match="it ended with code 1"):
        anyio.run(run, "raise SystemExit(1)")
