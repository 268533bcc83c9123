"""Random flags and settings files through all that is parsed and checked before torch loads: never a traceback."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradgate import cli, methods
from gradgate.adapters.config import KINDS
from gradgate.errors import RunError
from gradgate.settings.pretraining import PretrainConfig
from gradgate.settings.run import RunConfig

COMMANDS = {"train": RunConfig, "compare": RunConfig, "plan": RunConfig, "pretrain-adapter": PretrainConfig}
# What each command would call with settings that are right.
BEYOND = {
    "gradgate.training.run": "train",
    "gradgate.training.masked.pretraining": "pretrain_adapter",
    "gradgate.training.pretrained": "load_bare",
}
NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str),
    st.floats().map(str),
    st.sampled_from(["nan", "inf", "-inf", "1e400", "1e-320", "-0", "0x10", "1_0", "٣", "1,5", "--", "1..2", "true"]),
)
TEXT = st.one_of(st.text(max_size=12), st.sampled_from(["sample", ".", "..", "/", "none", "\x1b[2J", "a+b", "a" * 300]))
SPECS = st.builds(
    lambda name, options: f"{name}:{','.join(f'{key}={value}' for key, value in options)}" if options else name,
    st.one_of(st.sampled_from([info.name for info in methods()] + list(KINDS) + ["plan", "full+mixout"]), TEXT),
    st.lists(
        st.tuples(st.sampled_from(["p", "every", "layers", "size", "order", "lr", "batches", "x"]), NUMBERS | TEXT),
        max_size=3,
    ),
)
VALUES = st.one_of(NUMBERS, TEXT, SPECS)


def stop(*_: Any, **__: Any) -> NoReturn:
    raise RunError("settings that could be trained with")


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module, function in BEYOND.items():
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{function: stop}))
    monkeypatch.setattr("gradgate.study.compare.compare", stop)
    monkeypatch.chdir(tmp_path)


def exit_code(words: list[str]) -> int:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(words)
    assert "\x1b" not in out.getvalue() + err.getvalue()
    if code:
        assert err.getvalue().strip()
    return code


def fuzzed(examples: int) -> Any:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@fuzzed(60)
@given(st.data())
def test_flags_end_with_a_message(data: st.DataObject) -> None:
    command = data.draw(st.sampled_from(sorted(COMMANDS)))
    names = [name.replace("_", "-") for name in COMMANDS[command].model_fields]
    flags = data.draw(st.lists(st.tuples(st.sampled_from(names), VALUES), max_size=4))
    words = [command, *(f"--{name}={value}" for name, value in flags)]
    assert exit_code(words) in (0, 1, 2)


@fuzzed(60)
@given(
    st.lists(st.one_of(VALUES, st.sampled_from(["train", "compare", "study", "-m", "--seeds", "--config"])), max_size=6)
)
def test_words_end_with_a_message(words: list[str]) -> None:
    assert exit_code(words) in (0, 1, 2)


PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, SPECS)
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))


@fuzzed(40)
@given(
    st.sampled_from(sorted(COMMANDS)),
    st.dictionaries(st.sampled_from(sorted({*RunConfig.model_fields, "seeds", "workers", "x"})), NESTED, max_size=4),
    st.one_of(st.none(), st.binary(max_size=30), st.text("[]{}:,-!&*? \n'\"|>#%@`abc0.", max_size=40)),
)
def test_settings_files_end_with_a_message(command: str, values: dict[str, Any], raw: bytes | str | None) -> None:
    content = yaml.safe_dump(values) if raw is None else raw
    file = Path("settings.yaml")
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert exit_code([command, "--config", str(file)]) in (0, 1, 2)
