"""A paper's labels for our methods, models and tasks, for studies that were not made from a preset."""

from __future__ import annotations

import re

from gradgate.errors import MethodError
from gradgate.methods import Freeze, Full, Head
from gradgate.methods import method as read_method
from gradgate.papers.catalog import presets

_GRADDROP = {
    "full": "SFT",
    "graddrop": "GradDrop",
    "anneal-graddrop": "Anneal-GradDrop",
    "anneal-layer-graddrop": "Anneal-Layer-GradDrop",
    "layer-graddrop": "Layer-GradDrop",
    "graddrop-epoch": "GradDrop-Epoch",
}
_FUN = {"full": "Ada", "random": "Ada+Rand", "fun": "Ada+FUN", "lpft": "Ada+LPFT"}


def method_label(paper: str, method: str, adapter: str | None, layers: int | None) -> str:
    """What a paper calls a method; the method's own text where the paper has none such.

    Args:
        paper: its key.
        layers: of the model; None where that is not known.
    """
    try:
        parsed = read_method(method)
    except MethodError:
        return method
    order = getattr(parsed, "order", "top-down")
    if paper == "elsa" and adapter is None:
        return _elsa(parsed, layers) or method
    if paper == "graddrop" and adapter is None:
        if parsed.name == "gradfreeze":
            return "GradFreeze-TopDown" if order == "top-down" else "GradFreeze-BottomUp"
        return _GRADDROP.get(parsed.name, method)
    if paper == "fun":
        if parsed.name == "gradual":
            return "Ada+GU" if order == "top-down" else "Ada+GU-rev"
        return "Full-FT" if adapter is None and parsed == Full() else _FUN.get(parsed.name, method)
    if paper == "adaptereff":
        return _adaptereff(parsed.name, adapter) or method
    return method


def model_label(paper: str, model: str) -> str:
    """What a paper calls a model of the hub; else its own name."""
    for preset in presets().values():
        if preset.paper == paper:
            for label, known in preset.models.items():
                if known.name is not None and known.name.split("/")[-1] == model.split("/")[-1]:
                    return label
    return model


def task_label(paper: str, task: str) -> str | None:
    """What a paper calls a task of the catalogue; None where it has none such."""
    for preset in presets().values():
        if preset.paper == paper:
            for label, known in preset.tasks.items():
                if known.task == task:
                    return known.published or label
    return None


def _elsa(method: object, layers: int | None) -> str | None:
    if method == Full():
        return "baseline"
    if layers is not None and isinstance(method, Freeze | Head):
        return f"frozen {method.layers if isinstance(method, Freeze) else layers}/{layers}"
    return None


def _adaptereff(method: str, adapter: str | None) -> str | None:
    size = re.search(r"\bsize=(\d+)", adapter or "")
    base = "Fine-tune" if adapter is None else f"Adapter-{size[1] if size else 64}"
    return {"full": base, "mixout": f"{base}+mixout"}.get(method)
