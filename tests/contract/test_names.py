"""The public names of the package are the recorded ones."""

from __future__ import annotations

import json
import subprocess
import sys

import gradgate as gg
from support.contract import check_json


def test_public_names_are_recorded() -> None:
    check_json("names.json", {"all": gg.__all__, "dir_beyond_all": _shown_beyond_all()})


def test_every_public_name_resolves() -> None:
    assert [name for name in gg.__all__ if getattr(gg, name, None) is None] == []


def test_no_public_name_occurs_twice() -> None:
    assert len(set(gg.__all__)) == len(gg.__all__)


def _shown_beyond_all() -> list[str]:
    """Return what ``dir`` of a fresh interpreter shows beside ``__all__``; the aim is that there is nothing."""
    code = "import gradgate, json; print(json.dumps([n for n in dir(gradgate) if n[0] != '_']))"
    shown = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert set(gg.__all__) <= set(shown)
    return sorted(set(shown) - set(gg.__all__))
