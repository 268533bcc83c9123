"""Translate the methods, models and tasks of any study into the labels of a paper."""

from __future__ import annotations

from dataclasses import replace

from gradgate.adapters.config import adapter_config
from gradgate.methods import AnnealGradDrop, AnnealLayerGradDrop, Freeze, Full, Head, Method
from gradgate.papers.frozen import FrozenLayers
from gradgate.papers.preset import TableEntry, presets
from gradgate.runs.records import ModelRecord
from gradgate.settings.arms.adapter import AdapterSetting
from gradgate.settings.arms.own_settings import TAPT_LENGTHS
from gradgate.study.arms import model_alone
from gradgate.study.study_file import StudyRecord

_GRADDROP = {
    "full": "SFT",
    "graddrop": "GradDrop",
    "anneal-graddrop": "Anneal-GradDrop",
    "anneal-layer-graddrop": "Anneal-Layer-GradDrop",
    "layer-graddrop": "Layer-GradDrop",
    "graddrop-epoch": "GradDrop-Epoch",
}
ANNEALED_FROM = 0.9
"""The initial rate of the paper's annealed forms (Sec. III-C); arms with other rates keep their own label."""
_FUN = {"full": "Ada", "random": "Ada+Rand", "fun": "Ada+FUN", "lpft": "Ada+LPFT"}


def arm_labels(paper: str, study: StudyRecord, layers: int | None) -> dict[str, str]:
    """Return a paper's label of each arm of a study, by the study's own label.

    Two arms may have one label, such as ``graddrop:p=0.2`` and ``graddrop:p=0.9``; an arm that the paper does not have
    keeps its own label. In a study without adapters, FUN's labels go to schedules of the whole model.

    Args:
        paper: its key.
        layers: of the model; None if unknown.
    """
    found = {}
    alone = model_alone(study.arms)
    on_model = paper == "fun" and whole_model(study)
    for arm in study.arms:
        shared = study.settings if arm.adapter is not None or alone else {}
        pretrained = any(arm.sets(name) or shared.get(name) for name in TAPT_LENGTHS)
        label = _label(paper, arm.method, arm.adapter, layers, pretrained, on_model)
        found[arm.name] = label or arm.name
    return found


def whole_model(study: StudyRecord) -> bool:
    """Return True if a study compares schedules of the whole model, without any adapter."""
    return model_alone(study.arms) and len(study.arm_names) > 1


def model_label(paper: str, model: ModelRecord) -> str:
    """Return a paper's label of a model on the hub; for other models their own label."""
    for preset in presets().values():
        if preset.paper == paper:
            for label, known in preset.models.items():
                if known.name is not None and known.name.split("/")[-1] == model.name.split("/")[-1]:
                    return label
    return model.label


def task_label(paper: str, task: str) -> str | None:
    """Return a paper's label of a task of the catalogue, or of one that has this label already; None if none."""
    entry = table_entry(paper, task)
    if entry is not None:
        return entry.paper_task.published or entry.task
    return task if any(task in preset.tasks for preset in presets().values() if preset.paper == paper) else None


def table_entry(paper: str, task: str) -> TableEntry | None:
    """Return the first cell of a paper's tables with a task of the catalogue; None if there is none."""
    of_paper = (preset for preset in presets().values() if preset.paper == paper)
    with_task = (preset for preset in of_paper if any(known.task == task for known in preset.tasks.values()))
    return next((cell for preset in with_task for cell in preset.cells() if cell.paper_task.task == task), None)


def _label(
    paper: str,
    method: Method,
    adapter: AdapterSetting | None,
    layers: int | None,
    pretrained: bool,
    on_model: bool,
) -> str | None:
    """Return the paper's label of a method; None if it has none."""
    if paper == "adaptereff":
        return _adaptereff(method, adapter, pretrained)
    if paper == "fun":
        return _fun(method) if adapter is not None or on_model else "Full-FT" if method == Full() else None
    if adapter is not None:
        return None
    return _elsa(method, layers) if paper == "elsa" else _graddrop(method)


def _graddrop(method: Method) -> str | None:
    if method.name == "gradfreeze":
        return "GradFreeze-TopDown" if _top_down(method) else "GradFreeze-BottomUp"
    if isinstance(method, AnnealGradDrop | AnnealLayerGradDrop) and method.p != ANNEALED_FROM:
        return None
    return _GRADDROP.get(method.name)


def _fun(method: Method) -> str | None:
    if method.name == "gradual":
        return "Ada+GU" if _top_down(method) else "Ada+GU-rev"
    return _FUN.get(method.name)


def _top_down(method: Method) -> bool:
    return getattr(method, "order", "top-down") == "top-down"


def _elsa(method: Method, layers: int | None) -> str | None:
    if method == Full():
        return "baseline"
    if layers is not None and isinstance(method, Freeze | Head):
        if isinstance(method, Freeze) and (method.tower or method.only):
            return None
        return str(FrozenLayers(method.closed_of(layers) if isinstance(method, Freeze) else layers, layers))
    return None


def _adaptereff(method: Method, adapter: AdapterSetting | None, pretrained: bool) -> str | None:
    """Label the Houlsby adapters of some width, which are the paper's; other adapters have no label."""
    mixed = {"full": "", "mixout": "+mixout"}.get(method.name)
    if mixed is None:
        return None
    more = f"{'+TAPT' if pretrained else ''}{mixed}"
    if adapter is None:
        return f"Fine-tune{more}"
    config = adapter.kind.bottleneck
    if config is None or config != replace(adapter_config("houlsby"), size=config.size):
        return None
    return f"Adapter-{config.size}{more}"
