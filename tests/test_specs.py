"""The text form of methods, adapters and sweeps: what it means, what it refuses, and that it reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradgate.errors import GradgateError, MethodError
from gradgate.specs import Spec, Syntax

THING = Syntax("thing", error=MethodError, hint=lambda name: f"options: p={name}", plain=("plan",))
words = st.text("abcxyz019._-", min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("full", "full", {}),
        ("full:", "full", {}),
        (" gradual : every = 5 , order=top-down ", "gradual", {"every": "5", "order": "top-down"}),
        ("order:layers=10/1/0", "order", {"layers": "10/1/0"}),
        ("pfeiffer+inv:reduction=0:8/default:2", "pfeiffer+inv", {"reduction": "0:8/default:2"}),
        ("a:b=c=d", "a", {"b": "c=d"}),
    ],
)
def test_a_text_is_a_name_with_options(text: str, name: str, options: dict[str, str]) -> None:
    spec = THING.parse(text)
    assert (spec.name, spec.options, spec.argument) == (name, options, "")


def test_a_plain_name_takes_the_rest_as_it_is() -> None:
    spec = THING.parse("plan:C:/a,b=c/+d.yaml")
    assert (spec.argument, spec.pairs) == ("C:/a,b=c/+d.yaml", ())
    assert str(spec) == "plan:C:/a,b=c/+d.yaml"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("full", ["full"]),
        ("gradual:every=5+layerwise-lr:decay=0.9", ["gradual:every=5", "layerwise-lr:decay=0.9"]),
        ("full + mixout", ["full", "mixout"]),
        ("layerwise-lr:decay=1e+0", ["layerwise-lr:decay=1e+0"]),
        ("plan:a+b.yaml+mixout", ["plan:a+b.yaml", "mixout"]),
    ],
)
def test_plus_joins_names_and_stays_in_numbers_and_paths(text: str, parts: list[str]) -> None:
    assert [str(part) for part in THING.parse_joined(text)] == parts


@given(st.builds(Spec, words, st.dictionaries(words, words, max_size=4).map(lambda pairs: tuple(pairs.items()))))
def test_the_canonical_text_reads_back(spec: Spec) -> None:
    assert THING.parse(str(spec)) == spec
    assert hash(THING.parse(str(spec))) == hash(spec)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_by_a_gradgate_error(text: str) -> None:
    try:
        parts = THING.parse_joined(text)
    except GradgateError:
        return
    for part in parts:
        assert THING.parse(str(part)) == part


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:,,,", "'x:,,,' has an empty option. Expected option=value"),
        ("x:p=1,", "has an empty option"),
        ("x:p", r"Expected option=value in 'x', got 'p'; options: p=x"),
        ("x:=1", "Expected option=value in 'x', got '=1'"),
        ("x:p=", "option 'p' of 'x' has no value. Expected p=value"),
        ("x:p=1,p=2", "option 'p' of 'x' is given twice. Give it once"),
        ("x:p=1\0", r"character '\\x00' at position 6"),
        ("x\x1b[31m", r"character '\\x1b' at position 2"),
        ("\udcff", r"character '\\udcff' at position 1"),
        ("plan:a\0b", r"character '\\x00'"),
        (f"x:{'p' * 999}", r"\(999 characters\)"),
    ],
)
def test_what_cannot_be_right_is_refused(text: str, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        THING.parse_joined(text)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "5", 5),
        (float | None, "none", None),
        (str, "none", "none"),
        (tuple[int, ...], "3", (3,)),
        (tuple[int, ...] | str, "3/1", (3, 1)),
        (tuple[int, ...] | str, "preset-1", "preset-1"),
        (float | dict[str, float], "0:8/default:2", {"0": 8.0, "default": 2.0}),
        (bool, "true", True),
    ],
)
def test_options_become_values_of_their_types(kind: Any, text: str, value: object) -> None:
    assert THING.parse(f"x:o={text}").typed({"o": kind}) == {"o": value}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x:o=lots", "option 'o=lots' of 'x' cannot be read: expected a whole number"),
        ("x:oo=1", "thing 'x' has no option 'oo'. Did you mean 'o'. Options: p=x"),
        ("x:alias=1,o=2", "option 'o' of 'x' is given twice"),
    ],
)
def test_options_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(MethodError, match=message):
        THING.parse(text).renamed({"alias": "o"}).typed({"o": int})


def test_options_are_taken_out_and_set() -> None:
    spec = THING.parse("x:a=1,b=2,c=3")
    assert str(spec.without("b", "d")) == "x:a=1,c=3"
    assert str(spec.updated(b="9", e="5")) == "x:a=1,b=9,c=3,e=5"
