"""Names to methods: texts, their errors, and a user's own method."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gradgate import (
    Clock,
    Freeze,
    Full,
    Gate,
    GradDrop,
    Gradual,
    LayerGradDrop,
    LayerMap,
    Method,
    MethodInfo,
    MethodState,
    Plan,
    method,
    methods,
    register,
)
from gradgate.errors import MethodError
from gradgate.methods import catalog
from support.command_line import Command
from support.every_method import EVERY_METHOD, FOUR, a_method, example

# Promises of every entry.


@EVERY_METHOD
def test_each_entry_says_what_it_is_and_where_it_is_from(entry: MethodInfo) -> None:
    assert entry.cls.name == entry.name
    assert entry.summary == entry.cls.summary
    assert 10 < len(entry.summary) < 90
    assert "\n" not in entry.summary
    assert len(entry.paper) > 10
    assert entry.cls.__doc__
    documented = " ".join(cls.__doc__ or "" for cls in entry.cls.__mro__ if issubclass(cls, Method))
    assert set(entry.defaults) == {option.name for option in fields(entry.cls)}
    for option in entry.defaults:
        assert re.search(rf"^ +(\w+, )*{option}(, \w+)*: ", documented, re.MULTILINE), f"{option} is documented"


@EVERY_METHOD
@settings(suppress_health_check=[HealthCheck.filter_too_much], max_examples=40)
@given(data=st.data())
def test_a_method_reads_back_from_its_text_and_its_plans_are_pure_and_name_each_group_in_order(
    entry: MethodInfo, data: st.DataObject
) -> None:
    drawn = data.draw(a_method(entry))
    assert method(drawn.spec) == drawn
    try:
        drawn.check(FOUR)
    except MethodError:
        assume(False)
    memory = MethodState(seed=data.draw(st.integers(0, 9)))
    clock = Clock(data.draw(st.integers(0, 99)), steps_per_epoch=10, total_steps=100)
    plan = drawn.plan(clock, FOUR, memory)
    assert tuple(plan) == FOUR.names
    assert plan == drawn.plan(clock, FOUR, memory)
    assert memory.notes == {}
    opened = {name for name, gate in plan.items() if not gate.closed}
    assert opened <= drawn.reaches(FOUR)
    assert all(0.0 <= gate.lo <= 1.0 and 0.0 <= gate.hi <= 1.0 for gate in plan.values())


@EVERY_METHOD
def test_what_a_method_reaches_it_opens_at_some_step(entry: MethodInfo) -> None:
    drawn = example(entry, 4)
    plans = [
        drawn.plan(Clock(step, steps_per_epoch=100, total_steps=1000), FOUR, MethodState()) for step in range(1000)
    ]
    opened = {name for plan in plans for name, gate in plan.items() if gate.share > 0}
    closes_by_measuring = drawn.traits.watches is not None
    if closes_by_measuring or not drawn.traits.decides_by_measuring:
        assert opened == drawn.reaches(FOUR)
    else:
        assert opened < drawn.reaches(FOUR), "the rest opens by what is measured"


def test_the_catalogue_holds_the_first_methods() -> None:
    names = [entry.name for entry in methods()]
    assert names[:1] == ["full"]
    assert {"full", "head", "freeze", "gradual", "graddrop", "layer-graddrop"} <= set(names)
    assert len(names) == len(set(names))


# Texts.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("full", Full()),
        ("freeze:layers=9", Freeze(layers=9)),
        ("gradual:every=50", Gradual(every=50)),
        ("gradual:every=25,order=bottom-up,rev_start=none", Gradual(every=25, order="bottom-up", rev_start="none")),
        ("gradual: every = 25 , order = bottom-up ", Gradual(every=25, order="bottom-up")),
        ("graddrop:p=0.2", GradDrop()),
        ("graddrop:p=.5,mask_target=update", GradDrop(p=0.5, mask_target="update")),
        ("layer-graddrop:p=0.2,layer_scale=true", LayerGradDrop(layer_scale=True)),
        ("graddrop:", GradDrop()),
    ],
)
def test_texts_name_methods(text: str, expected: Method) -> None:
    assert method(text) == expected


def test_a_method_is_its_own_name() -> None:
    mine = GradDrop(p=0.3)
    assert method(mine) is mine


def test_the_text_of_a_method_leaves_defaults_out() -> None:
    assert GradDrop().spec == "graddrop"
    assert Freeze(layers=3).spec == "freeze:layers=3"
    assert LayerGradDrop(p=0.5, layer_scale=True).spec == "layer-graddrop:p=0.5,layer_scale=true"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gradul", r"There is no method 'gradul'\. Did you mean 'gradual'.*Known: full, head, probe, freeze"),
        ("layer_graddrop", r"Did you mean 'layer-graddrop'"),
        ("zzz", r"There is no method 'zzz'\. Known: full.*, plan:FILE, axolotl:FILE \(see"),
        ("", r"There is no method ''"),
        ("graddrop:q=0.2", r"'graddrop' has no option 'q'.*Options: p=0.2, mask_target=grad"),
        ("gradual:evry=5", r"no option 'evry'\. Did you mean 'every'"),
        ("full:p=0.2", r"'full' has no option 'p'.*Options: none"),
        ("graddrop:0.2", r"Expected option=value in 'graddrop', got '0.2'; options: p=0.2"),
        ("graddrop:p=0.2,p=0.3", r"option 'p' of 'graddrop' is given twice"),
        ("graddrop:p=lots", r"'p=lots' of 'graddrop' cannot be read: expected a number"),
        ("gradual:every=2.5", r"'every=2.5' of 'gradual' cannot be read: expected a whole number"),
        ("gradual:order=sideways", r"'order=sideways' of 'gradual' cannot be read: .*'top-down' or 'bottom-up'"),
        ("freeze", r"'freeze' needs layers=\.\.\."),
        ("freeze:layers=-1", r"cannot have layers=-1 \(expected 0 or more\)"),
        ("graddrop:p=1.0", r"cannot have p=1.0 \(expected 0 <= p < 1; at 1 nothing would ever learn\)"),
        ("layer-graddrop:p=nan", r"cannot have p=nan"),
        ("gradual:every=0", r"cannot have every=0"),
    ],
)
def test_texts_that_cannot_be_right_say_why(text: str, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        method(text)


# One's own method.


@pytest.fixture
def _own_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "_CATALOG", dict(catalog._CATALOG))


def own(name_: str) -> Any:
    @dataclass(frozen=True, kw_only=True)
    class Sandwich(Method):
        """The lowest and the highest ``slices`` layers learn."""

        name: ClassVar[str] = name_
        summary: ClassVar[str] = "the outermost layers learn"
        source: ClassVar[str] = "kitchen"
        slices: int = 1

        def plan(self, clock: Clock, layers: LayerMap, memory: MethodState) -> Plan:
            inner = layers.layers[self.slices : -self.slices]
            return Plan.opening(layers, {group.name: group not in inner for group in layers})

    return Sandwich


def test_a_plan_has_the_gates_and_groups_that_it_was_given() -> None:
    half = Gate(lo=0.5)
    plan = Plan.opening(FOUR, {"layers.0": half, "layers.1": Gate(lo=0.0, hi=0.0), "head": True})
    assert plan["layers.0"] is half
    assert [name for name, gate in plan.items() if not gate.closed] == ["layers.0", "head"]
    with pytest.raises(MethodError, match=r"There is no group 'layer\.1'\. Did you mean 'layers\.1'"):
        Plan.opening(FOUR, {"layer.1": True})


@pytest.mark.usefixtures("_own_catalogue")
def test_a_registered_method_is_known_by_its_text() -> None:
    cls = register(own("sandwich"))
    assert method("sandwich:slices=2") == cls(slices=2)
    entry = methods()[-1]
    assert (entry.name, entry.cls, entry.paper, entry.defaults) == ("sandwich", cls, "kitchen", {"slices": 1})
    assert register(cls) is cls


@pytest.mark.usefixtures("_own_catalogue")
def test_a_taken_name_is_refused() -> None:
    with pytest.raises(MethodError, match=r"'graddrop' is taken by gradgate\.methods\.graddrop\.GradDrop"):
        register(own("graddrop"))
    assert method("graddrop") == GradDrop()


def test_other_objects_are_not_methods() -> None:
    with pytest.raises(MethodError, match=r"3 is not a method\. Expected a text such as"):
        method(3)  # type: ignore[arg-type]
    with pytest.raises(MethodError, match=r"Cannot register .*int"):
        register(int)  # type: ignore[type-var]


FILE = """
from dataclasses import dataclass
import gradgate as gg

@gg.register
@dataclass(frozen=True, kw_only=True)
class OfFile(gg.Method):
    name, summary, source = "of-file", "nothing learns", "a test"
    each: int = 1

    def plan(self, clock, layers, memory):
        return gg.Plan.opening(layers, {})
"""


@pytest.mark.usefixtures("_own_catalogue")
def test_a_file_that_the_environment_names_registers_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "mine.py", tmp_path / "others" / "mine.py"]
    files[1].parent.mkdir()
    files[0].write_text(FILE)
    files[1].write_text(FILE.replace("of-file", "of-another"))
    monkeypatch.setenv("GRADGATE_METHODS", os.pathsep.join(map(str, files)))
    assert str(method("of-file:each=3")) == "of-file:each=3"
    assert [info.name for info in methods()[-2:]] == ["of-file", "of-another"]
    assert catalog.registered_modules() == ()  # processes of runs have the variable


@pytest.mark.usefixtures("_own_catalogue")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, r"names .*wrong\.py, which is not a Python file"),
        ("x = 2\n1 / 0", r"failed with ZeroDivisionError: division by zero \(wrong\.py, line 2\)"),
        ("x = (", r"failed with SyntaxError: .*\(wrong\.py, line 1\)"),
        (
            FILE.replace("@gg.register", ""),
            r"defines the method OfFile but does not register it\. Put @gg\.register above",
        ),
    ],
)
def test_a_file_of_methods_that_cannot_be_run_is_named(
    code: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code:
        (tmp_path / "wrong.py").write_text(code)
    monkeypatch.setenv("GRADGATE_METHODS", str(tmp_path / "wrong.py"))
    assert method("full") == Full()
    with pytest.raises(MethodError, match=message):
        method("of-no-file")


@pytest.mark.usefixtures("_own_catalogue")
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            "gg.CLOSED",
            r"failed at step 1: AttributeError: .*'CLOSED' \(mine\.py, line \d+\)\. Fix plan\(\)",
        ),
        ("{name: True for name in layers.names}", r"plan\(\) of 'of-file' returned dict\. Expected a Plan"),
    ],
)
def test_a_plan_that_cannot_be_made_names_the_line(
    returned: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    (tmp_path / "mine.py").write_text(FILE.replace("gg.Plan.opening(layers, {})", returned))
    monkeypatch.setenv("GRADGATE_METHODS", str(tmp_path / "mine.py"))
    code, _, err = command("plan", "-m", "of-file", "--steps", "4")
    assert code == 2
    assert re.search(message, err)
