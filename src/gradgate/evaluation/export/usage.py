"""Write the lines of Python that load an export."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from gradgate.deltas.delta import DELTA_FILE
from gradgate.settings.finished import Form


@dataclass(frozen=True)
class Loading:
    """The way to load an export.

    Attributes:
        form: of the export.
        folder: its name.
        auto_model: name of the ``AutoModelFor...`` class.
        base: folder or hub name of the base model.
        has_own_base: whether the export has a base model of its own, in ``base``.
        language: of the language adapter below the task's adapter; None without one.
        generates: whether the model generates text, with the settings that are in the export.
    """

    form: Form
    folder: str
    auto_model: str
    base: str
    has_own_base: bool = False
    language: str | None = None
    generates: bool = False

    @property
    def code(self) -> str:
        """The lines of Python."""
        return "\n".join(_LINES[self.form](self)) + "\n"


def _quoted(text: str) -> str:
    """Return a text as Python has it, whatever signs a path has."""
    return json.dumps(text, ensure_ascii=False)


def _transformers(loading: Loading) -> list[str]:
    return [
        f"from transformers import {loading.auto_model}, AutoTokenizer",
        "",
        f"tokenizer = AutoTokenizer.from_pretrained({_quoted(loading.folder)})",
        f"model = {loading.auto_model}.from_pretrained({_quoted(loading.folder)})",
    ]


def _imports(loading: Loading, *names: str) -> str:
    """Return the line that imports from transformers."""
    every = sorted((*names, loading.auto_model, *(("GenerationConfig",) if loading.generates else ())), key=str.lower)
    return f"from transformers import {', '.join(every)}"


def _decoding_lines(loading: Loading, model: str) -> list[str]:
    """Return the line that gives a model the export's settings of generation, as those of its base are others."""
    return [
        f"{model}.generation_config = GenerationConfig.from_pretrained({_quoted(loading.folder)})"
    ] * loading.generates


def _base_lines(loading: Loading) -> list[str]:
    return [
        f"tokenizer = AutoTokenizer.from_pretrained({_quoted(loading.folder)})",
        f"config = AutoConfig.from_pretrained({_quoted(loading.folder)})  # labels, and the size of the head",
        f"base = {loading.auto_model}.from_pretrained(",
        f"    {_quoted(loading.base)}, config=config, ignore_mismatched_sizes=True",
        ")",
        *_decoding_lines(loading, "base"),
    ]


def _peft(loading: Loading) -> list[str]:
    return [
        "from peft import PeftModel",
        _imports(loading, "AutoConfig", "AutoTokenizer"),
        "",
        *_base_lines(loading),
        f"model = PeftModel.from_pretrained(base, {_quoted(loading.folder)}).eval()",
    ]


def _adapterhub(loading: Loading) -> list[str]:
    base = f"{loading.folder}/base" if loading.has_own_base else loading.base
    lines = [
        "import adapters",
        *(["from adapters.composition import Stack"] if loading.language else []),
        _imports(loading, "AutoConfig", "AutoTokenizer"),
        "",
        *_base_lines(replace(loading, base=base)),
        "adapters.init(base)",
        f"task = base.load_adapter({_quoted(loading.folder)}, use_safetensors=True)",
    ]
    if loading.language is None:
        return [*lines, "base.set_active_adapters(task)", "model = base.eval()"]
    place = f"{loading.folder}/languages/{loading.language}"
    return [
        *lines,
        f"language = base.load_adapter({_quoted(place)}, use_safetensors=True, with_head=False)",
        "base.set_active_adapters(Stack(language, task))",
        "model = base.eval()",
    ]


def _delta(loading: Loading) -> list[str]:
    file = f"{loading.folder}/{DELTA_FILE}"
    return [
        "import gradgate as gg",
        _imports(loading),
        "",
        f'gg.deltas.apply({_quoted(file)}, base={_quoted(loading.base)}, out="whole")',
        f'model = {loading.auto_model}.from_pretrained("whole")',
        *_decoding_lines(loading, "model"),
    ]


_LINES = {"transformers": _transformers, "peft": _peft, "adapterhub": _adapterhub, "delta": _delta}
