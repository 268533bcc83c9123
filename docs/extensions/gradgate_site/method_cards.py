"""A page for every method, made from the catalogue: ``docs/methods/NAME.md``, and the list that index.md includes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from gradgate import method, methods
from gradgate.methods import MethodInfo
from gradgate_site.arguments import body_of, options_of
from gradgate_site.evidence_found import about
from gradgate_site.files import tell, write_pages
from gradgate_site.plan_pictures import EPOCHS, STEPS, picture_of, timeline_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

WORDS = Path(__file__).parent / "when.yaml"
_LINK = re.compile(r"(?<![<\w])(https://[^\s;,)]+)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the pages before Sphinx reads any."""
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def make(app: Sphinx) -> None:
    """Write a page for each method of the catalogue."""
    families = yaml.safe_load(WORDS.read_text(encoding="utf-8"))["families"]
    words = {name: entry for family in families for name, entry in family["methods"].items()}
    catalogue = {info.name: info for info in methods()}
    if words.keys() != catalogue.keys():
        faults = sorted(words.keys() ^ catalogue.keys())
        raise ValueError(f"{WORDS.name} and the catalogue of methods differ in {', '.join(faults)}.")
    pages = {}
    for name, info in catalogue.items():
        tell("method", name)
        pages[f"{name}.md"] = card(info, words[name], Path(app.outdir).parent / "plans")
    pages["catalogue.inc"] = catalogue_list(families, catalogue)
    write_pages(Path(app.srcdir) / "methods", pages)


def card(info: MethodInfo, words: dict[str, Any], folder: Path) -> str:
    """The page of one method."""
    spec = words.get("example", info.name)
    timeline = timeline_of(spec, words.get("steps", 60), folder)
    foreseen = not method(spec).traits.decides_by_measuring
    parts = [
        f"# {info.name}",
        f"{_sentence(info.summary)}",
        f'<figure class="drawing">\n{picture_of(timeline, spec)}\n<figcaption>{_caption(foreseen, timeline.steps)} '
        f"{timeline.mean_share:.1%} of the weights learn, on average over the steps.</figcaption>\n</figure>",
        _tabs(info, spec, timeline.steps, foreseen),
        "## What learns when",
        _rst(body_of(info.cls)),
        "## When to use it",
        _rst(words["when"]),
        "## Options",
        _options(info),
        "## Source",
        _linked(info.paper),
    ]
    if info.deviates:
        parts += ["### Where it differs", _linked(info.deviates)]
    if said := about(info):
        parts += ["## What the evidence says", said]
    return "\n\n".join(parts) + "\n"


def catalogue_list(families: list[dict[str, Any]], catalogue: dict[str, MethodInfo]) -> str:
    """The list of all methods by family, and the table of contents."""
    parts = []
    for family in families:
        rows = "\n".join(f"| [`{name}`]({name}.md) | {catalogue[name].summary} |" for name in family["methods"])
        parts.append(f"## {family['title']}\n\n{family['text']}\n\n| method | what learns |\n| --- | --- |\n{rows}")
        parts.append("```{toctree}\n:hidden:\n\n" + "\n".join(family["methods"]) + "\n```")
    return "\n\n".join(parts) + "\n"


def _caption(foreseen: bool, steps: int) -> str:
    if foreseen:
        return f"The plan on the embedded model: {STEPS} steps in {EPOCHS} epochs."
    return f"What opened in a training of {steps} steps on the embedded task; the method decides by its measurements."


def _tabs(info: MethodInfo, spec: str, steps: int, foreseen: bool) -> str:
    """The method on the command line, in Python, and how to draw its plan."""
    plan = f"$ gradgate plan -m {spec} --steps {STEPS} --epochs {EPOCHS}" if foreseen else ""
    lines = [plan, f"$ gradgate train -m {spec} --out runs/{info.name}"]
    chosen = method(spec)
    options = ", ".join(f"{name}={getattr(chosen, name)!r}" for name in info.defaults if _given(name, spec))
    return "\n".join(
        (
            "::::{tab-set}\n:::{tab-item} Command line\n```console",
            *filter(None, lines),
            "```\n:::\n:::{tab-item} Python\n```python",
            "import gradgate as gg\n",
            f'tuner = gg.Tuner(model, optimizer, "{spec}")  # or gg.{info.cls.__name__}({options})',
            "```\n:::\n:::{tab-item} Trainer\n```python",
            f'trainer = Trainer(..., callbacks=[gg.GateCallback("{spec}")])',
            "```\n:::\n::::",
        )
    )


def _given(option: str, spec: str) -> bool:
    return re.search(rf"[:,]{option}=", spec) is not None


def _options(info: MethodInfo) -> str:
    """A list of the options, or a sentence where there are none."""
    options = options_of(info)
    if not options:
        return "None."
    listed = "\n\n".join(
        f"``{option.name}`` : {option.default if option.default == 'required' else f'default {option.default}'}\n"
        f"    {_sentence(option.text)}"
        for option in options
    )
    return f"{_rst(listed)}\n\nIn Python: {{py:class}}`gradgate.{info.cls.__name__}`, with the same names."


def _rst(text: str) -> str:
    """Text of docstrings, whose names are those of the package."""
    return f"```{{eval-rst}}\n.. currentmodule:: gradgate\n\n{text.strip()}\n```"


def _linked(text: str) -> str:
    return _sentence(_LINK.sub(r"<\1>", text))


def _sentence(text: str) -> str:
    """With a capital and a full stop, but as it is where it begins with code."""
    text = text.strip()
    if not text:
        return ""
    start = text[0].upper() + text[1:] if text[0].isalpha() else text
    return start if start.endswith((".", ">")) else f"{start}."
