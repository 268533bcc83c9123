"""Define presets: tables or figures of a paper as grids of runs, with the numbers that the paper prints for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gradgate.errors import UsageError, fault_with_place, nearest
from gradgate.papers.published import TABLES, Published, papers, read_table
from gradgate.plain_yaml import parse_yaml

DERIVED = frozenset(
    {"relative_quality", "relative_quality_pct", "relative_F1_pct", "relative_accuracy_pct", "params_saved_fraction"}
)
"""Published metrics that follow from scores of several runs."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PaperModel(_Strict):
    """A model of a paper. ``name`` is the hub's; None for one that was never published."""

    name: str | None = None
    layers: int = Field(ge=1)
    hidden: int = 768


class PaperTask(_Strict):
    """A task of a paper.

    Args:
        task: our name for it.
        rows: training examples in the paper, from which intervals in steps are translated.
        languages: that the table prints scores in, the source first; empty for a task in one language. A source
            without test data is left out.
        published, language: the task and language that the table has it under, if they differ from its key.
        split: that the table prints scores on, if it is not the test split; ``original_dev`` is the task's own dev if
            runs hold out dev rows of train (``dev_size``), whatever its name is among their test splits.
        set: settings of its runs.
        sample: the embedded task that stands in for it.
        metrics: the table's metric to ours; by default the table's first one is the task's own.
    """

    task: str
    rows: int = Field(ge=1)
    languages: tuple[str, ...] = ()
    published: str | None = None
    language: str | None = None
    split: str | None = None
    sample: str = "sample"
    set: dict[str, Any] = {}
    metrics: dict[str, str] = {}


class PaperMethod(_Strict):
    """A row of a table: our method and adapter, in which ``{names}`` stand for values of the cases."""

    method: str
    adapter: str | None = None
    set: dict[str, Any] = {}


class Match(_Strict):
    """Some cells of a grid; what is empty matches all."""

    models: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()

    def fits(self, model: str, task: str, size: str, method: str) -> bool:
        """Return True if a cell is one of them."""
        pairs = ((self.models, model), (self.tasks, task), (self.sizes, size), (self.methods, method))
        return all(not names or name in names for names, name in pairs)


class Case(Match):
    """Settings, and values for the ``{names}``, of some cells; later cases win."""

    set: dict[str, Any] = {}
    values: dict[str, int | str] = {}


def _as_method(value: object) -> object:
    return {"method": value} if isinstance(value, str) else value


class Preset(_Strict):
    """A table or figure of a paper.

    Args:
        name, paper: keys of the preset and of its paper.
        title: what it shows.
        table: its number in the paper, or ``Fig. 4``.
        data: the files of published numbers; none for a figure.
        models, tasks, methods: by the label that the table gives them; the first method is the reference.
        sizes: label to training examples; None for all of them.
        leave_out: cells that the table does not have.
        settings: of every run; ``cases`` change them.
        search: learning rates that every method tries first, as ``lr=2e-5,4e-5``, with as many seeds as its runs have.
        adapter_options: of every adapter, besides those of its row.
        seeds: repeats.
        summary: the language or average that stands for a task in short.
        unit: what 1.0 is in the table: 100 for points, 1 for shares.
        metrics: as of a task, for all of them.
        notes: what the paper leaves open, and what was chosen.
    """

    name: str
    paper: str
    title: str
    table: str
    data: tuple[str, ...] = ()
    models: dict[str, PaperModel]
    tasks: dict[str, PaperTask]
    methods: dict[str, Annotated[PaperMethod, BeforeValidator(_as_method)]]
    sizes: dict[str, int | None] = {"full": None}
    leave_out: tuple[Match, ...] = ()
    settings: dict[str, Any] = {}
    search: Annotated[str, Field(pattern=r"^lr=[\d.e-]+(,[\d.e-]+)*$")] | None = None
    adapter_options: dict[str, str] = {}
    cases: tuple[Case, ...] = ()
    seeds: int = Field(ge=1)
    summary: str = "en"
    unit: int = 100
    metrics: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """The method that the others are compared to."""
        return next(iter(self.methods))

    @property
    def is_figure(self) -> bool:
        """Whether this is a figure of the paper, which prints no numbers."""
        return not self.data

    @property
    def published(self) -> tuple[Published, ...]:
        """Every number of the preset's tables, those of methods that are not run included."""
        return tuple(number for name in self.data for number in read_table(name))

    def cells(self) -> list[TableEntry]:
        """Return every run of the paper, without its repeats, in the table's order."""
        grid = product(self.models, self.tasks, self.sizes, self.methods)
        return [self._cell(*labels) for labels in grid if not any(match.fits(*labels) for match in self.leave_out)]

    def _cell(self, model: str, task: str, size: str, method: str) -> TableEntry:
        row = self.methods[method]
        settings = self.settings | self.tasks[task].set
        if self.tasks[task].languages:
            settings["languages"] = ",".join(self.tasks[task].languages)
        values: dict[str, int | str] = {}
        for case in self.cases:
            if case.fits(model, task, size, method):
                settings |= case.set
                values |= case.values
        settings |= row.set
        if self.sizes[size] is not None:
            settings["train_size"] = self.sizes[size]
        return TableEntry(
            self,
            model,
            task,
            size,
            method,
            filled(row.method, values),
            None if row.adapter is None else filled(row.adapter, values),
            settings,
        )


@dataclass(frozen=True)
class TableEntry:
    """One run of a paper, its repeats aside: labels of the table, and our method, adapter and settings."""

    preset: Preset
    model: str
    task: str
    size: str
    label: str
    method: str
    adapter: str | None
    settings: dict[str, Any]

    @property
    def paper_task(self) -> PaperTask:
        """The task with its names."""
        return self.preset.tasks[self.task]

    @property
    def paper_model(self) -> PaperModel:
        """The model with its names."""
        return self.preset.models[self.model]

    def published(self) -> list[Published]:
        """Return what the paper prints for this run: one number per language, average and metric."""
        task = self.paper_task
        names = {task.published or self.task}
        return [
            number
            for number in self.preset.published
            if (number.model, number.method) == (self.model, self.label)
            and number.task in names
            and (task.language is None or number.language == task.language)
            and (len(self.preset.sizes) == 1 or number.size == self.size)
            and number.metric not in DERIVED
        ]

    def metric_of(self, number: Published) -> str | None:
        """Return our name for a published metric: None for the task's own, ``""`` if we have none."""
        named = {**self.preset.metrics, **self.paper_task.metrics}
        if named:
            return named.get(number.metric, "")
        return None

    @property
    def metric(self) -> str | None:
        """Our name for the metric that the table gives first; None for the task's own."""
        named = next((self.metric_of(number) for number in self.published()), None)
        return None if self.preset.metrics else named or None

    def steps(self) -> int:
        """Compute the optimizer steps of the paper's training."""
        if "steps" in self.settings:
            return int(self.settings["steps"])
        rows = int(self.settings.get("train_size", self.paper_task.rows))
        batches = -(-rows // int(self.settings["batch_size"]))
        return max(1, round(float(self.settings["epochs"]) * batches))


def filled(text: str, values: dict[str, int | str]) -> str:
    """Fill the ``{names}`` of a text with values; raise KeyError for one without a value."""
    return re.sub(r"\{(\w+)\}", lambda name: str(values[name[1]]), text)


def matching(presets: dict[str, Preset]) -> Iterator[tuple[str, str]]:
    """Yield names in the cases of presets that no preset of the same file has: label of the preset, and the name."""
    known = {name for preset in presets.values() for name in _labels(preset)}
    for preset in presets.values():
        for match in (*preset.cases, *preset.leave_out):
            for name in (*match.models, *match.tasks, *match.sizes, *match.methods):
                if name not in known:
                    yield preset.name, name


def _labels(preset: Preset) -> set[str]:
    return {*preset.models, *preset.tasks, *preset.sizes, *preset.methods}


FOLDER = Path(__file__).parent / "presets"


@cache
def presets() -> dict[str, Preset]:
    """Return every preset by name, paper by paper in the order of their tables, then of their figures."""
    all_presets: dict[str, Preset] = {}
    for paper in papers():
        all_presets |= read_presets(FOLDER / f"{paper}.yaml")
    return all_presets


def find_preset(name: str) -> Preset:
    """Return the preset of this name.

    Raises:
        UsageError: naming the nearest.
    """
    known = presets()
    if name not in known:
        near = nearest(name, known)
        listed = "" if near else f" Known: {', '.join(known)}."
        raise UsageError(f"There is no preset {name!r}.{near}{listed} `gradgate papers` describes each of them.")
    return known[name]


def read_presets(file: Path) -> dict[str, Preset]:
    """Read the presets in a file that is named after its paper; what stands under ``shared`` is only referred to.

    Raises:
        UsageError: naming the preset and the fault.
    """
    entries: dict[str, dict[str, Any]] = parse_yaml(file.read_bytes())["presets"]
    presets_by_name = {name: _build(name, file.stem, entry) for name, entry in entries.items()}
    for name, unknown in matching(presets_by_name):
        raise UsageError(f"{file.name}, {name}: a case names {unknown!r}, which no preset of this paper has.")
    return presets_by_name


def _build(name: str, paper: str, entry: dict[str, Any]) -> Preset:
    try:
        preset = Preset(name=name, paper=paper, **entry)
    except ValidationError as error:
        faults = [fault_with_place(fault) for fault in error.errors()]
        raise UsageError(f"The preset {name} has faults: {'; '.join(faults)}.") from None
    missing = [table for table in preset.data if not (TABLES / f"{table}.csv").is_file()]
    if missing:
        raise UsageError(f"The preset {name} names tables that do not exist: {', '.join(missing)}.")
    return preset
