"""Bad texts of methods and bad plan files: each is refused with its value and what was expected."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from gradgate import Clock, method, methods
from gradgate.errors import GradgateError, MethodError, RunError
from gradgate.methods.plan_file import read_plan, read_timeline
from gradgate.methods.timeline import foresee
from gradgate.settings.run import make_config
from support.arms import arms, names
from support.every_method import FOUR

TEXTS = {
    "commas alone": ("graddrop:,,,", "'graddrop:,,,' has an empty option. Expected option=value"),
    "a comma at the end": ("graddrop:p=0.5,", "has an empty option"),
    "a null byte in a name": ("grad\0drop", r"character '\\x00' at position 5"),
    "a null byte in a value": ("gradual:order=top-down\0", r"character '\\x00'"),
    "a null byte in a plan": ("plan:a\0b.yaml", r"character '\\x00'"),
    "an escape sequence": ("\x1b[31mfull", r"character '\\x1b' at position 1"),
    "a value left out": ("graddrop:p=", "option 'p' of 'graddrop' has no value"),
    "an option twice under two names": ("fun:batches=1,fisher_batches=2", "'batches' of 'fun' is given twice"),
    "no method before a plus": ("+mixout", "There is no method ''"),
    "a name of 100,000 letters": ("x" * 100_000, r"\(100,000 characters\)"),
    "a number of 5,000 digits": ("gradual:every=" + "9" * 5000, "cannot be read"),
    "no file of a plan": ("plan:", r"plan '' cannot be read.*Expected plan:FILE"),
    "a folder as a plan": ("plan:.", "plan '.' cannot be read: Is a directory"),
    "layers=0 of gradfreeze": ("gradfreeze:layers_per_epoch=0", r"layers_per_epoch=0 \(expected 1 or more, or auto\)"),
}
DEEP = "phases: " + "[" * 5_000 + "]" * 5_000
PLANS = {
    "a number as a group": ("phases: [{step: 0, open: [1]}]", r"open=\[1\]: expected a list of group names"),
    "a text as groups": ("phases: [{step: 0, open: head}]", "open='head': expected a list of group names"),
    "half a step": ("phases: [{step: 0.5, open: [head]}]", "step is 0.5: expected a whole number"),
    "a truth as a step": ("phases: [{step: true, open: []}]", "step is True: expected a whole number"),
    "a step before the first": ("phases: [{step: -1, open: []}]", "step is -1"),
    "no step": ("phases: [{open: [head]}]", "step is None"),
    "no open": ("phases: [{step: 0}]", "'open' is missing"),
    "a first step of 5": ("phases: [{step: 5, open: [head]}]", "must begin at step 0"),
    "steps that fall": ("phases: [{step: 0, open: []}, {step: 0, open: []}]", "rising steps"),
    "a group twice": ("phases: [{step: 0, open: [head], dropped: [head]}]", "names 'head' twice"),
    "a key twice": ("phases: []\nphases: []", "line 2: 'phases' is given twice"),
    "an unknown entry": ("phases: [{step: 0, opne: []}]", "unknown entry 'opne'; expected step, open"),
    "a list as sparse": ("phases: [{step: 0, open: [], sparse: [1]}]", r"sparse=\[1\]: expected a mapping"),
    "a window of nothing": (
        "phases: [{step: 0, open: [], sparse: {head: {lo: 1, hi: 0}}}]",
        "expected 0 <= lo < hi <= 1",
    ),
    "a window without an end": ("phases: [{step: 0, open: [], sparse: {head: {lo: 0}}}]", "hi is None"),
    "a factor of infinity": ("phases: [{step: 0, open: [head], lr: {head: .inf}}]", "lr of head is inf"),
    "5,000 levels": (DEEP, "nested too deeply; expected at most 50 levels"),
    "a phase that is a text": ("phases: [x]", "expected a phase such as"),
    "phases that are no list": ("phases: 7", "'phases' is not a list"),
    "a list": ("[1]", "it contains list, not a mapping"),
    "nothing": ("", "it contains NoneType"),
    "a tag of Python": ("phases: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
}


@pytest.mark.parametrize(("text", "message"), TEXTS.values(), ids=TEXTS)
def test_a_bad_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(MethodError, match=message) as raised:
        method(text)
    assert len(str(raised.value)) < 2_000
    with pytest.raises(GradgateError):
        make_config(method=text)


@pytest.mark.parametrize(("content", "message"), PLANS.values(), ids=PLANS)
def test_a_bad_plan_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(content)
    with pytest.raises(MethodError, match=message) as raised:
        method(f"plan:{file}")
    assert str(file) in str(raised.value)
    assert len(str(raised.value)) < 2_000


def test_a_pipe_as_a_plan_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MethodError, match="expected a file, got a device or a pipe"):
        method(f"plan:{tmp_path / 'pipe'}")


def test_a_path_with_punctuation_and_blanks_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "a, b=c:d +e.yaml"
    file.write_text("phases: [{step: 0, open: [head]}]")
    config = make_config(method=f"plan:{file}")
    assert config.record()["method"] == config.method.spec == f"plan:{file}"


def test_a_plan_of_a_million_steps_is_as_fast_as_one_of_few() -> None:
    timeline = foresee(method("gradual:every=50"), FOUR, Clock(0, 1_000_000, 1_000_000))
    assert [phase.step for phase in timeline.phases] == [0, 49, 99, 149]


def test_a_study_of_a_plan_can_be_made(tmp_path: Path) -> None:
    from gradgate.study.grid import Grid

    file = tmp_path / "plan.yaml"
    file.write_text("phases: [{step: 0, open: [head]}]")
    grid = Grid.of(tmp_path / "study", make_config(), arms(["full", f"plan:{file}", f"plan:{file}"]), [0])
    assert names(grid.methods) == ["full", f"plan:{file}"]


def test_an_edited_plan_is_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    from gradgate.training.run import train

    file, out = tmp_path / "plan.yaml", tmp_path / "run"
    file.write_text("phases: [{step: 0, open: [head]}]")
    given = settings | {"steps": 2, "method": f"plan:{file}"}
    config = make_config(**given)
    scores = train(config, out)
    file.write_text("phases: [{step: 0, open: [head, layers.1]}]")
    assert train(config, out) == scores
    edited = make_config(**given)
    assert edited.fingerprint() != config.fingerprint()
    with pytest.raises(RunError, match=r"started with another plan: the file of 'plan:.*Restore the file"):
        train(edited, out)


# Fuzz.

NAMES = st.sampled_from([*(entry.name for entry in methods()), "plan", "nothing"])
WORDS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["p", "every", "layers", "open", "order", "0", "-1", "1e999", "nan", "0/1", "preset-1", "true", "a:1"]
    ),
)
TREES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["head", "step"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["step", "open", "sparse", "dropped", "lr", "head", "lo", "hi", "draw"]), inner
        ),
    ),
    max_leaves=12,
)


@given(st.lists(st.tuples(NAMES, st.lists(st.tuples(WORDS, WORDS), max_size=3)), min_size=1, max_size=2))
def test_a_text_makes_a_method_or_an_error_of_gradgate(parts: list[tuple[str, list[tuple[str, str]]]]) -> None:
    text = "+".join(f"{name}:{','.join(f'{option}={value}' for option, value in options)}" for name, options in parts)
    try:
        made = method(text)
    except GradgateError:
        return
    assert method(made.spec) == made


@bounded(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(TREES, st.fixed_dictionaries({"phases": st.lists(TREES, max_size=3), "steps": TREES, "groups": TREES}))
)
def test_a_plan_file_makes_a_plan_or_an_error_of_gradgate(tmp_path: Path, tree: Any) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(yaml.safe_dump(tree))
    with suppress(MethodError):
        hash(read_plan(str(file)))
    with suppress(RunError):
        read_timeline(file)
