"""Write ``src/gradgate/settings/keywords.py``, which names the settings of each request for type checkers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from gradgate.settings.base import CheckedSettings
from gradgate.settings.compare import CompareSettings, RecommendSettings
from gradgate.settings.finished import EvaluateSettings, PredictSettings
from gradgate.settings.imports import ImportSettings
from gradgate.settings.memory import MemorySettings
from gradgate.settings.plan import PlanSettings
from gradgate.settings.run import RunConfig
from gradgate.settings.signature import in_sections

FILE = Path(__file__).parents[1] / "src/gradgate/settings/keywords.py"
REQUESTS: dict[str, tuple[type[CheckedSettings], frozenset[str]]] = {
    "RunKeywords": (RunConfig, frozenset({"model", "task", "method"})),
    "CompareKeywords": (CompareSettings, frozenset({"model", "task", "method"})),
    "RecommendKeywords": (RecommendSettings, frozenset({"model", "task"})),
    "ImportKeywords": (ImportSettings, frozenset()),
    "EvaluateKeywords": (EvaluateSettings, frozenset({"test_file"})),
    "PredictKeywords": (PredictSettings, frozenset()),
    "PlanKeywords": (
        PlanSettings,
        frozenset({"model", "method", "keep_model", "save_every", "eval_every", "report_to"}),
    ),
    "MemoryKeywords": (
        MemorySettings,
        frozenset({"model", "method", "optim", "adapter", "language_adapters", "layers", "steps"}),
    ),
}
"""A type -> the settings that it names, and those that are parameters of the function."""
_TRAININGS = ("RunKeywords", "CompareKeywords", "RecommendKeywords", "PlanKeywords", "MemoryKeywords")
_TYPES = {
    "MethodField": "str | Method",
    "AdapterField": "str | AdapterSetting | PeftConfig | None",
    "ArmsField": "str | Arm | Method | PeftConfig | Sequence[str | Arm | Method | PeftConfig]",
    "AdaptersField": "str | AdapterSetting | PeftConfig | Sequence[str | AdapterSetting | PeftConfig | None]",
    "LanguageField": "str | None",
    "CodesField": "str | Sequence[str] | None",
    "TrackersField": "str | Sequence[str] | None",
    "SplitField": "str | None",
    "TrackField": "str | None",
    "ForgettingField": "str | None",
    "LrScaleField": "Mapping[str, float] | Sequence[str] | None",
    "KindName": "str",
    "Head": 'Literal["auto", "causal-lm", "seq2seq", "sequence", "token"]',
    "Quantization": 'Literal["nf4", "int8", "fp8"]',
    "PathField": "str | PathLike[str] | None",
    "PlaceField": "str",
    "OptionalPlaceField": "str | None",
    "PlacesField": "str | Sequence[str]",
    "Texts": "str | Sequence[str]",
    "Columns": "str | Sequence[str]",
    "SeedsField": "int | str | Sequence[int]",
    "SizesField": "int | str | Sequence[int | str]",
    "SearchField": "str | Sequence[str] | Mapping[str, Sequence[object]]",
}
_HEAD = '''"""Name the settings of each request for type checkers; ``tools/write_keywords.py`` writes this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from peft import PeftConfig

    from gradgate.methods import Method
    from gradgate.settings.arms.adapter import AdapterSetting
    from gradgate.settings.arms.arm import Arm
'''


def written() -> str:
    """Return the text of the file, formatted and without imports that it does not need."""
    named = {name: _keywords(kind, left_out) for name, (kind, left_out) in REQUESTS.items()}
    shared = set.intersection(*(set(named[name].items()) for name in _TRAININGS))
    common = {each: kind for each, kind in named[_TRAININGS[0]].items() if (each, kind) in shared}
    classes = [_class("TrainingKeywords", "TypedDict", "The settings that every training has", common)]
    for name, keywords in named.items():
        doc = f"The settings of a ``{REQUESTS[name][0].__name__}``"
        if name in _TRAININGS:
            own = {each: kind for each, kind in keywords.items() if each not in common}
            classes.append(_class(name, "TrainingKeywords", doc, own))
        else:
            classes.append(_class(name, "TypedDict", doc, keywords))
    text = "\n\n".join([_HEAD, *classes])
    for command in (["check", "--fix", "--quiet"], ["format"]):
        form = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(FILE), "-"]
        text = subprocess.run(form, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _keywords(kind: type[CheckedSettings], left_out: frozenset[str]) -> dict[str, str]:
    """Return setting to type, in the order of the subjects."""
    return {each: _type(kind, each) for each in in_sections(kind) if each not in left_out}


def _class(name: str, base: str, doc: str, keywords: dict[str, str]) -> str:
    head = [f"class {name}({base}, total=False):", f'    """{doc}; None means not passed."""\n']
    return "\n".join([*head, *(f"    {each}: {kind}" for each, kind in keywords.items())]) + "\n"


def _type(kind: type[CheckedSettings], name: str) -> str:
    """Return what a type checker lets people pass for a setting."""
    declared = next(each.__annotations__[name] for each in kind.__mro__ if name in getattr(each, "__annotations__", {}))
    text = re.sub(r"\w+", lambda word: _TYPES.get(word[0], word[0]), str(declared))
    return text if text.endswith("| None") else f"{text} | None"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
