"""What others wrote runs within bounds of time and size, or is refused: expressions, aliases, templates, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradgate as gg
from gradgate.errors import AdapterError, GradgateError, MethodError, RunError, SelectorError
from gradgate.layers import patterns
from gradgate.layers.patterns import NamePattern
from gradgate.plain_yaml import parse_yaml
from gradgate.settings.run import make_config
from gradgate.tasks.data import kind_of, load_task
from gradgate.tasks.find import find_task
from gradgate.tasks.kinds import template_trial
from gradgate.tasks.kinds.template_trial import why_unbounded
from support.command_line import Command
from support.generators import save_rows, word_tokenizer
from support.study_folder import write_study
from support.tiny_models import TINY

pytest.importorskip("peft")
MODEL = gg.map_layers(TINY["llama"]())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MOST_SECONDS", 0.2)


EXPRESSIONS = {
    "repeats in repeats": r"(a+)+$",
    "choices in a repeat": r"(.|.)*!",
    "many repeats": ".*" * 60 + "!",
    "optional parts": "a?" * 400 + "a" * 400,
    "a back reference": r"(.*)(.*)(.*)(.*)\1\2\3\4!",
    "counts in counts": r"((a{1000}){1000}){1000}",
    "a count of thousands of digits": "a{" + "9" * 5000 + "}",
    "a count of a googol": "a{" + "9" * 100 + "}",
    "5,000 levels": "(" * 5000 + ")" * 5000,
    "a million characters": "a|" * 500_000,
}


@pytest.mark.parametrize("text", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_matches_in_time(text: str) -> None:
    with pytest.raises(SelectorError) as raised:
        gg.select(MODEL, f"re:{text}")
    assert len(str(raised.value)) < 3_000


def test_what_takes_too_long_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "MOST_SECONDS", 1e-9)
    with pytest.raises(SelectorError, match=r"takes more than 1e-09 seconds on the names of this model"):
        gg.select(MODEL, r"re:((.?)(.?)\2)*[0-3]{3}")


PLAIN = [r".*", r"model\.layers\.\d+\.self_attn\.(q|v)_proj\.weight", r".*norm.*weight", r".*\.(0|1)\..*bias|.*weight"]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_expressions_select_what_re_does(text: str) -> None:
    import re

    assert NamePattern(text).matches(MODEL.weights) == [name for name in MODEL.weights if re.fullmatch(text, name)]
    NamePattern(text).check_for_re()


@pytest.mark.parametrize("text", ["(a+)+", "(.|.)*!", ".*" * 60, "((a{1000}){1000}){1000}"])
def test_files_and_libraries_get_no_slow_expression(tmp_path: Path, text: str) -> None:
    from gradgate.adapters.peft.options import check_patterns

    for option in ("target_modules", "exclude_modules"):
        with pytest.raises(AdapterError, match=f"{option}=.*Name the modules themselves"):
            check_patterns({option: text})
    with pytest.raises(AdapterError):
        check_patterns({"rank_pattern": {text: 4}})
    (tmp_path / "axolotl.yaml").write_text(f"unfrozen_parameters: ['{text}!']\n")
    method: Any = gg.method(f"axolotl:{tmp_path / 'axolotl.yaml'}")
    with pytest.raises(MethodError):
        method.check(MODEL)


def bomb(levels: int, inner: str = "x") -> str:
    lines = [f"a0: &a0 [{','.join([inner] * 10)}]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


ALIASES = {
    "a billion laughs": (bomb(10), "stand for too much"),
    "laughs in keys": (bomb(10).replace("[", "{").replace("]", "}").replace("x,", "x: 1,"), "stand for too much"),
    "a value in itself": ("a: &a [*a]", r"\*a stands inside the value"),
    "a mapping in itself": ("a: &a {b: *a}", r"\*a stands inside the value"),
    "a long text many times": (f"a: &a {'x' * 10_000}\nb: [{','.join(['*a'] * 1000)}]", "stand for too much"),
    "levels behind names": ("a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 90)), "50 levels"),
}
READERS: dict[str, Callable[[Path], object]] = {
    "plan": lambda file: gg.method(f"plan:{file}"),
    "axolotl": lambda file: gg.method(f"axolotl:{file}"),
    "task": lambda file: find_task(str(file)),
}


@pytest.mark.parametrize(("text", "message"), ALIASES.values(), ids=ALIASES)
def test_aliases_do_not_grow_without_end(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_yaml(text)
    file = tmp_path / "file.yaml"
    file.write_text(text)
    for read in READERS.values():
        with pytest.raises(GradgateError) as raised:
            read(file)
        assert len(str(raised.value)) < 2_000


def test_names_of_values_are_read() -> None:
    text = "a: &a {x: [1, 2]}\nb: {<<: *a, y: 3}\nc: [*a, *a]\na2: &five 5\nd: *five\n"
    assert parse_yaml(text) == {
        "a": {"x": [1, 2]}, "b": {"x": [1, 2], "y": 3}, "c": [{"x": [1, 2]}] * 2, "a2": 5, "d": 5,
    }  # fmt: skip


TALK = [{"role": "user", "content": "the day"}, {"role": "assistant", "content": "was good"}]
GOOD = (
    "{% for m in messages %}{% generation %}{{ m.content | trim }}{% endgeneration %}"
    "{% if loop.last %}{% break %}{% endif %} {% endfor %}"
)
TEMPLATES = {
    "loops in loops": ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "seconds"),
    "a huge range": ("{% for a in range(10000000000) %}x{% endfor %}", "memory"),
    "a huge product": ("{{ 'a' * 10**11 }}", "memory"),
    "a huge list": ("{{ [0] * 10**10 }}", "memory"),
    "a huge width": ("{{ 'a'.center(10**10) }}", "memory"),
    "a text that doubles": (
        "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
        "memory",
    ),
    "a million characters": ("{# " + "x" * 1_000_000 + " #}", "characters"),
}


@pytest.mark.parametrize(("template", "message"), TEMPLATES.values(), ids=TEMPLATES)
def test_a_template_ends_or_is_refused(monkeypatch: pytest.MonkeyPatch, template: str, message: str) -> None:
    if message == "seconds":
        monkeypatch.setattr(template_trial, "SECONDS", 0.5)
    assert message in str(why_unbounded(template, TALK, {}))


def test_no_row_is_encoded_with_a_template_that_does_not_end(tmp_path: Path) -> None:
    save_rows(tmp_path, {"train": [{"messages": TALK}], "dev": [{"messages": TALK}]})
    data = load_task(find_task(str(tmp_path)))
    words = word_tokenizer()
    words.chat_template = TEMPLATES["a huge range"][0]
    with pytest.raises(RunError, match=r"The chat template of .* `template: none`"):
        kind_of(data.spec).encode(data.train, words, 32)


@pytest.mark.parametrize("template", [GOOD, "{{ raise_exception('no') }}", "{% for %}", "{{ nothing.at.all }}"])
def test_a_template_that_ends_is_left_alone(template: str) -> None:
    assert why_unbounded(template, TALK, {"eos_token": "</s>"}) is None


def test_a_template_imports_nothing_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert why_unbounded(GOOD, TALK, {}) is None


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "layers": {"num_hidden_layers": 100_000},
    "labels": {"num_labels": 10**9},
    "layers of another name": {"n_layer": 100_000},
    "experts": {"num_local_experts": 10**7},
    "layers of a part": {"text_config": {"num_hidden_layers": 10**400}},
    "stages": {"depths": [2, 2, 10**6]},
}


@pytest.mark.parametrize("entries", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_model_of_absurd_size_is_refused(tmp_path: Path, command: Command, entries: dict[str, Any]) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **entries}))
    name = next(iter(entries.get("text_config", entries)))
    for words in (("memory", "--model", str(tmp_path)), ("memory", "--model", str(tmp_path / "config.json"))):
        said = command(*words)
        assert said.code == 1
        assert f"config.json says {name}: " in said.err
        assert "Expected at most" in said.err


def test_a_study_of_absurd_size_is_refused(tmp_path: Path, command: Command) -> None:
    write_study(tmp_path, seeds=range(300_000))
    for words in (("study", "export"), ("study", "status"), ("report",)):
        said = command(*words, str(tmp_path))
        assert said.code == 1
        assert "study.json has 300,000 seeds and 600,000 runs; expected at most" in said.err


def test_long_words_are_read_quickly() -> None:
    for text in ("a" * 100_000, "plan:" + "," * 50_000, "full" + "(" * 50_000, "lora:" + "r=1," * 20_000):
        with pytest.raises(GradgateError) as raised:
            make_config(method=text)
        assert len(str(raised.value)) < 5_000
