"""Plan the runs of a preset on the paper's models or on others: layers, intervals and sizes in proportion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

from gradgate.errors import RunError, UsageError, nearest
from gradgate.papers.preset import Preset, TableEntry, find_preset
from gradgate.papers.proportion import TAPT_EPOCHS, at_rate, on_layers, on_rate, on_steps, on_width, with_options
from gradgate.papers.resources import (
    OurModel,
    OurTask,
    Resources,
    count_rows,
    describe_model,
    find_resources,
    given_models,
    stand_in,
)
from gradgate.settings.run import RunConfig, make_config
from gradgate.study.search import Space, read_space

Scale = Literal["full", "sample"]
_SCALES = ("full", "sample")
SAMPLE_SEEDS = 2
ADAPTER_RATE = 5
"""An adapter's learning rate on the sample over that of the whole model."""
# Measured on the embedded sample, on two server cores.
_SECONDS_A_RUN = 4.0
_SECONDS_A_STEP = 0.06


@dataclass(frozen=True)
class _ConfiguredEntry:
    """A cell with the settings, method and adapter of its run."""

    cell: TableEntry
    settings: dict[str, Any]
    method: str
    adapter: str | None
    steps: int = 0


@dataclass(frozen=True)
class PlannedCell:
    """A cell of the paper and what we run for it; ``study`` is the folder of its study. The seed does not count."""

    cell: TableEntry
    config: RunConfig
    study: str
    steps: int = 0

    @property
    def seconds(self) -> float:
        """The approximate seconds that one repeat takes on the sample."""
        return _SECONDS_A_RUN + _SECONDS_A_STEP * self.steps


@dataclass(frozen=True)
class ReproductionPlan:
    """Everything that a reproduction will do.

    Attributes:
        left_out: a cell that is not run, in words, to the reason.
        notes: what a reader must know of the translation.
        search: what each study searches first; None for nothing.
    """

    preset: Preset
    scale: Scale
    seeds: tuple[int, ...]
    runs: tuple[PlannedCell, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...]
    search: Space | None = None

    def studies(self) -> dict[str, list[PlannedCell]]:
        """Map each study's folder to its runs, each once."""
        by_study: dict[str, dict[str, PlannedCell]] = {}
        for run in self.runs:
            by_study.setdefault(run.study, {}).setdefault(run.config.fingerprint(), run)
        return {name: list(runs.values()) for name, runs in by_study.items()}

    @property
    def count(self) -> int:
        """The number of runs with all repeats, without those of the search."""
        return len(self.seeds) * self._arms

    @property
    def searches(self) -> int:
        """The number of runs in the search."""
        return 0 if self.search is None else len(self.search.settings) * len(self.search.seeds) * self._arms

    def record(self) -> dict[str, Any]:
        """Return what will be done, for scripts."""
        return {
            "preset": self.preset.name,
            "title": self.preset.title,
            "scale": self.scale,
            "runs": self.count,
            "studies": list(self.studies()),
            "seeds": list(self.seeds),
            "search_runs": self.searches,
            "minutes": self.minutes,
            "notes": list(self.notes),
            "left_out": self.left_out,
        }

    @property
    def _arms(self) -> int:
        return sum(len(runs) for runs in self.studies().values())

    @property
    def minutes(self) -> float | None:
        """The approximate minutes that it takes on two cores; known for the sample alone."""
        if self.scale != "sample":
            return None
        seconds = sum(run.seconds for runs in self.studies().values() for run in runs)
        return (self.count + self.searches) / self._arms * seconds / 60


@dataclass(frozen=True)
class ReproduceRequest:
    """The values of a request. ``seeds``: None for as many as the paper has; ``settings`` replace the preset's."""

    preset: str
    scale: str
    seeds: list[int] | None
    models: list[str]
    data: Path | None
    partial: bool
    settings: dict[str, Any]

    def plan(self) -> ReproductionPlan:
        """Plan the requested runs.

        Raises:
            UsageError: for a preset, scale or model that is not known.
            RunError: if models or data are unavailable.
        """
        preset = find_preset(self.preset)
        if preset.search is not None and "lr" in self.settings:
            raise UsageError(f"{preset.name} searches the learning rate ({preset.search}); leave lr= out.")
        if self.scale not in _SCALES:
            raise UsageError(f"scale={self.scale!r}: expected full or sample.{nearest(self.scale, _SCALES)}")
        if self.scale == "sample":
            if self.models or self.data:
                raise UsageError("scale='sample' has its own model and data; leave model= and data= out.")
            return plan_sample(preset, self.seeds or range(SAMPLE_SEEDS), self.settings)
        resources = find_resources(preset, given_models(preset, self.models), self.data, self.partial)
        return plan_full(preset, resources, self.seeds or range(preset.seeds), self.settings, self.partial)


def plan_full(
    preset: Preset, resources: Resources, seeds: Sequence[int], extra: dict[str, Any], partial: bool
) -> ReproductionPlan:
    """Plan the paper's runs on the resources that were found.

    Args:
        extra: settings that replace those of the preset.
        partial: leave out what is unavailable, instead of refusing.

    Raises:
        RunError: if something is unavailable, naming all of it.
    """
    if resources.lacking and not partial:
        listed = "".join(f"\n  {what}: {why}" for what, why in resources.lacking.items())
        raise RunError(
            f"{preset.name} cannot be run as it stands; nothing has been started. What is lacking:{listed}\n"
            f"Pass model=FOLDER (or LABEL=FOLDER) and data=DIR, partial=True to run the rest, or scale='sample' to run"
            f" the grid on the embedded model and data."
        )
    chosen: list[_ConfiguredEntry] = []
    left_out: dict[str, str] = {}
    for cell in preset.cells():
        model, task = resources.models.get(cell.model), resources.tasks.get(cell.task)
        if model is None or task is None:
            what = f"task {cell.task}" if task is None else f"model {cell.model}"
            left_out[_words(cell)] = resources.lacking.get(what, "another model was given by model=")
            continue
        method = on_layers(cell.method, cell.paper_model.layers, model.layers)
        settings = _with(cell.settings | task.settings | {"model": model.name}, extra)
        chosen.append(_ConfiguredEntry(cell, settings, method, cell.adapter))
    notes = [
        f"{label} has {cell_layers} layers in the paper and {ours.layers} here: frozen layers are in proportion."
        for label, ours in resources.models.items()
        if (cell_layers := preset.models[label].layers) != ours.layers
    ]
    notes += [
        f"{label} has no test data in {', '.join(ours.absent)} here: averages leave these languages out."
        for label, ours in resources.tasks.items()
        if ours.absent
    ]
    return _plan(preset, "full", seeds, chosen, left_out, notes)


def plan_sample(preset: Preset, seeds: Sequence[int], extra: dict[str, Any]) -> ReproductionPlan:
    """Plan the paper's methods on the embedded model; one task and model of each kind represents all similar ones."""
    from gradgate.sample import QUICKSTART_SETTINGS

    model = describe_model("sample")
    usual = {**QUICKSTART_SETTINGS, "model": "sample", "keep_model": False}
    first_model = next(iter(preset.models))
    tasks: dict[str, str] = {}
    for label, task in preset.tasks.items():
        tasks.setdefault(stand_in(task), label)
    standing = {label: OurTask({"task": name}, count_rows({"task": name})) for name, label in tasks.items()}
    cells = [cell for cell in preset.cells() if cell.model == first_model and cell.task in standing]
    chosen = [_on_sample(cell, model, standing[cell.task], usual, extra) for cell in cells]
    return _plan(preset, "sample", seeds, chosen, {}, _sample_notes(preset, tasks, model))


def _on_sample(
    cell: TableEntry, model: OurModel, task: OurTask, usual: dict[str, Any], extra: dict[str, Any]
) -> _ConfiguredEntry:
    settings = {
        name: value for name, value in cell.settings.items() if name not in ("steps", "languages", "tapt_batch")
    }
    if "tapt_epochs" in settings:
        settings["tapt_epochs"] = TAPT_EPOCHS
    settings = _with(settings | usual | task.settings, extra)
    sizes = _sizes_on_sample(cell, task.rows, int(settings["batch_size"]))
    settings |= {name: size for name, size in sizes.items() if name not in extra}
    rows = settings.get("train_size") or task.rows - (settings.get("dev_size") or 0)
    steps = settings.get("steps") or round(settings["epochs"] * -(-rows // settings["batch_size"]))
    layers = cell.paper_model.layers
    method = on_steps(on_layers(cell.method, layers, model.layers), layers, cell.steps(), model.layers, steps)
    adapter = cell.adapter
    if adapter is not None:
        adapter = on_width(adapter, cell.paper_model.hidden, model.hidden)
        if cell.preset.search is None:
            adapter = at_rate(adapter, ADAPTER_RATE * settings["lr"])
    return _ConfiguredEntry(cell, settings, method, adapter, steps)


def _sizes_on_sample(cell: TableEntry, rows: int, batch_size: int) -> dict[str, int]:
    """Return the rows of train and dev on the sample, in proportion to the table's largest training set."""
    most = max(size or cell.paper_task.rows for size in cell.preset.sizes.values()) + cell.settings.get("dev_size", 0)
    sizes = {}
    if "train_size" in cell.settings:
        sizes["train_size"] = max(batch_size, round(rows * cell.settings["train_size"] / most))
    if "dev_size" in cell.settings:
        sizes["dev_size"] = max(1, rows * cell.settings["dev_size"] // most)  # with the others no more than there are
    return sizes


def _with(settings: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """Merge settings with others that replace them; a length in steps replaces one in epochs, and the reverse."""
    lengths = {"epochs", "steps"}
    kept = {name: value for name, value in settings.items() if not (name in lengths and lengths & set(extra))}
    return kept | extra


def _sample_notes(preset: Preset, tasks: dict[str, str], model: OurModel) -> list[str]:
    notes = ["The sample is a small model with made-up texts: its scores say nothing about those of the paper."]
    if len(preset.models) > 1:
        notes.append(f"It stands in for {next(iter(preset.models))}; the paper's other models are left out.")
    for name, label in tasks.items():
        alike = [other for other, task in preset.tasks.items() if stand_in(task) == name and other != label]
        also = f", and would for {', '.join(alike)}" if alike else ""
        notes.append(f"The task {name} stands in for {label}{also}.")
    if preset.search is None and any(method.adapter for method in preset.methods.values()):
        notes.append(f"Adapters learn at {ADAPTER_RATE} times the rate, as in He et al. 2021, Table 10.")
    layers = next(iter(preset.models.values())).layers
    parts = "Frozen layers, intervals, and the sizes of adapters and training sets"
    notes.append(f"{parts} are in proportion: {model.layers} layers here, {layers} in the paper.")
    return notes


def _plan(
    preset: Preset,
    scale: Scale,
    seeds: Sequence[int],
    chosen: list[_ConfiguredEntry],
    left_out: dict[str, str],
    notes: list[str],
) -> ReproductionPlan:
    configs: list[tuple[_ConfiguredEntry, RunConfig]] = []
    for each in chosen:
        whole = each.settings | {"method": each.method}
        if each.adapter is not None:
            whole["adapter"] = with_options(each.adapter, preset.adapter_options)
        unknown = [name for name in whole if name not in RunConfig.model_fields]
        if unknown:
            left_out[_words(each.cell)] = f"this version has no setting {unknown[0]!r}"
            continue
        configs.append((each, make_config(**whole)))
    names = _study_names([(each.cell, config) for each, config in configs])
    runs = [PlannedCell(each.cell, config, names[config.fingerprint()], each.steps) for each, config in configs]
    if not runs:
        reasons = dict.fromkeys(left_out.values())
        raise RunError(
            f"Nothing of {preset.name} can be run: {'; '.join(reasons)}. Pass what is missing with model= and "
            "data=, or take scale='sample'."
        )
    rates = _searched(preset, scale)
    search = None if rates is None else read_space([rates], seeds=len(seeds))
    return ReproductionPlan(preset, scale, tuple(seeds), tuple(runs), left_out, (*preset.notes, *notes), search)


def _searched(preset: Preset, scale: Scale) -> str | None:
    """Return the rates that the preset searches, scaled to the sample's own rate on the sample."""
    if preset.search is None or scale == "full":
        return preset.search
    from gradgate.sample import QUICKSTART_SETTINGS

    return on_rate(preset.search, preset.settings["lr"], QUICKSTART_SETTINGS["lr"])


def _study_names(configs: list[tuple[TableEntry, RunConfig]]) -> dict[str, str]:
    """Return the study name of each run: equal settings share a study unless it would get runs that the paper lacks."""
    groups: dict[str, list[tuple[TableEntry, RunConfig]]] = {}
    for cell, config in configs:
        shared = config.model_copy(update={"method": "full", "adapter": None, "seed": 0}).fingerprint()
        groups.setdefault(shared, []).append((cell, config))
    names: dict[str, str] = {}
    taken: set[str] = set()
    for group in groups.values():
        arms = {(config.adapter, config.method) for _, config in group}
        whole = len(arms) == len({adapter for adapter, _ in arms}) * len({method for _, method in arms})
        for adapter in [None] if whole else dict.fromkeys(config.adapter for _, config in group):
            members = [(cell, config) for cell, config in group if whole or config.adapter == adapter]
            name = _folder(members[0][0], taken)
            taken.add(name)
            names |= {config.fingerprint(): name for _, config in members}
    return names


def _folder(cell: TableEntry, taken: set[str]) -> str:
    words = [cell.model, cell.task, *([cell.size] if len(cell.preset.sizes) > 1 else [])]
    name = re.sub(r"[^\w.-]+", "-", "-".join(words)).strip("-").lower()
    others = (f"{name}-{number}" for number in count(2))
    return next(free for free in chain([name], others) if free not in taken)


def _words(cell: TableEntry) -> str:
    size = [] if len(cell.preset.sizes) == 1 else [cell.size]
    return ", ".join([cell.model, cell.task, *size, cell.label])
