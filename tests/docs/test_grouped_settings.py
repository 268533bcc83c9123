"""Pages of functions with many settings: an example first, then the settings by subject."""

from __future__ import annotations

import inspect
import re

import pytest
from gradgate_site.grouped_settings import HEADINGS, SETTINGS, ordered, short_signatures

import gradgate as gg


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_of_a_function_is_under_its_subject(name: str) -> None:
    lines = str(inspect.getdoc(getattr(gg, name.rpartition(".")[2]))).splitlines()
    made = ordered(lines, SETTINGS[name].sections())
    assert "Keyword Args:" not in made
    subject, found = "", {}
    for line in made:
        if line.rstrip(":") in HEADINGS.values():
            subject = line.rstrip(":")
        elif subject and line.startswith("    ") and not line.startswith("     "):
            found[line.split(":")[0].strip()] = subject
    described = "\n".join(lines).partition("\nKeyword Args:\n")[2].partition("\n\n")[0]
    subjects = SETTINGS[name].sections()
    assert found == {entry: HEADINGS[subjects[entry]] for entry in re.findall(r"^    (\w+):", described, re.MULTILINE)}


def test_an_example_comes_before_the_arguments() -> None:
    made = ordered(["Do it.", "", "Args:", "    a: one.", "", "Example:", "    >>> f()", ""], {})
    assert made.index("Example:") < made.index("Args:")


def test_signatures_are_short() -> None:
    for name, signature in short_signatures().items():
        assert signature.startswith("(model=None, task=None"), name
        assert signature.endswith("**settings)")
        assert len(signature) < 150
