"""The command without its optional package, and in the hands of a person."""

from __future__ import annotations

import os
import sys

import pytest

from gradgate.cli import run


def test_without_the_sdk_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delitem(sys.modules, "gradgate.agents.server", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mcp", "mcp_types")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert run(["mcp"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "pip install 'gradgate[mcp]'" in printed.err


def test_a_terminal_is_told_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mcp", reason="needs the extra mcp")
    from gradgate.agents import server

    allowed: list[bool] = []
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(server, "serve", allowed.append)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert run(["mcp"]) == 0
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Waiting for a client" in printed.err
    os.environ["HF_HUB_OFFLINE"] = "0"
    assert run(["mcp", "--allow-training"]) == 0
    assert os.environ["HF_HUB_OFFLINE"] == "0"
    assert allowed == [False, True]
