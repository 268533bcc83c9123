"""Read the studies that the evidence is made of: one YAML file each, with settings of ``gradgate compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import Self

from evidence.commands import here

FOLDER = Path(__file__).parent
STUDIES = FOLDER / "studies"
RESULTS = FOLDER / "results"
RUNS = FOLDER / "runs"
FIGURES = FOLDER / "figures"
DATA = "$DATA"
"""Stands for the folder of a study's data in the options of its analyses."""
COST = "cost"
"""The figure of scores over times and memory."""
Scale = Literal["full", "quick"]


class KeptFigure(BaseModel):
    """A figure of a study's report that is committed.

    Attributes:
        name: that of the figure in the report.
        part: the part of a study of several tasks, models or sizes whose report has it; None for the study's own
            report.
        paper: the numbers of the paper's figures that show the same.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    part: str | None = None
    paper: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """The name of its file among those of the study."""
        return f"{self.name}.svg" if self.part is None else f"{self.name}-{self.part}.svg"

    def drawn(self, folder: Path) -> Path:
        """Return where the report of the study in ``folder`` has it."""
        return (folder if self.part is None else folder / "parts" / self.part) / "figures" / f"{self.name}.svg"


class LanguageAdapterSettings(BaseModel):
    """How one adapter per language learns, from texts that the study's task does not have.

    Attributes:
        texts: folder with a folder per language.
        files: tables in each of these.
        columns: of the tables, with the texts.
        settings: of ``gradgate pretrain-adapter``; the model is the whole one, and the precision and threads are those
            of the study.
        quick: what replaces them at scale ``quick``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    texts: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    settings: dict[str, Any]
    quick: dict[str, Any] = Field(default_factory=dict)

    def at(self, scale: Scale) -> dict[str, Any]:
        """Return the settings at a scale."""
        return self.settings | (self.quick if scale == "quick" else {})


class NearGuessing(BaseModel):
    """Arms that are hardly better than always giving the most frequent answer.

    Attributes:
        how: what they reach, and what that answer does.
        arms: which; empty for all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    how: str
    arms: frozenset[str] = frozenset()


class Study(BaseModel):
    """One study.

    Attributes:
        name: that of its file.
        title: what is compared, in one line.
        paper: whose claims it is made for; it says nothing of those of others. None for a study of no paper's claims.
        data: ``real`` data and a real pretrained model, or the embedded ``synthetic`` ones.
        differs: what is different from the papers, and what that may explain.
        train_rows: of the training set, if ``compare`` takes all of it.
        short_training: how long runs are, if more steps may change the scores and no committed curve shows it; empty
            if not.
        after_test_scores: what was added to it, or done again, after scores on test were known; empty if nothing was.
        without_times: times of its arms are not compared; ``differs`` says why.
        without_early_traces: early Fisher traces of its arms are not compared; ``differs`` says why.
        edge_of_rates: which arms took the highest or lowest rate searched, of a study whose search is not committed;
            empty if none.
        near_guessing: arms that learned hardly more than the most frequent answer; None if none is known.
        compare: settings of ``gradgate compare``. Paths may begin with ``$GRADGATE_SHARED`` or
            ``$GRADGATE_MODELS``, where ``tools/`` writes models that are converted.
        first_rows: a file of the folder of data to how many of its rows are used, 0 to leave it out; others are
            used whole.
        prompts_of_words: make prompts and responses of the sentences of at most this number of words, with their
            entities as responses; None for data that is used as it is.
        cut_vocabulary: train a copy of the model without the pieces that the study's texts do not take. Scores of
            encoders are the same.
        language_adapters: those that the task adapters are stacked on; None for none.
        quick: what replaces ``compare`` at scale ``quick``; None removes a setting.
        quick_first_rows: what replaces ``first_rows`` there, as scoring takes longer than a few steps.
        analyses: commands of ``gradgate analyze`` that follow, with their options, where ``$DATA`` is the folder of the
            data.
        figures: those of the study's report that are committed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    paper: Literal["elsa", "graddrop", "fun", "adaptereff"] | None = None
    data: Literal["real", "synthetic"]
    differs: str
    train_rows: int | None = None
    short_training: str = ""
    after_test_scores: str = ""
    without_times: bool = False
    without_early_traces: bool = False
    edge_of_rates: str = ""
    near_guessing: NearGuessing | None = None
    compare: dict[str, Any]
    first_rows: dict[str, int] = Field(default_factory=dict)
    prompts_of_words: int | None = None
    cut_vocabulary: bool = False
    language_adapters: LanguageAdapterSettings | None = None
    quick: dict[str, Any] = Field(default_factory=dict)
    quick_first_rows: dict[str, int] = Field(default_factory=dict)
    analyses: dict[str, dict[str, Any]] = Field(default_factory=dict)
    figures: tuple[KeptFigure, ...] = (KeptFigure(name="scores"),)

    @model_validator(mode="after")
    def _shows_no_times_that_it_leaves_out(self) -> Self:
        if self.without_times and any(figure.name == COST for figure in self.figures):
            raise ValueError(f"{self.name} compares no times, and its figure {COST!r} shows them; leave one out")
        return self

    @property
    def file(self) -> Path:
        """Where its numbers are in a folder of results, those of each kind of data apart."""
        return Path(self.data, f"{self.name}.csv")

    @property
    def results(self) -> Path:
        """The committed numbers that claims are checked on; a study of no paper's claims has none."""
        return RESULTS / self.file

    @property
    def runs(self) -> Path:
        """The committed scores and costs of every run."""
        return RUNS / f"{self.name}.csv"

    @property
    def forgetting(self) -> Path:
        """The committed rows of ``analyze forgetting``; absent for a study without it."""
        return RUNS / f"{self.name}-forgetting.csv"

    @property
    def search(self) -> Path:
        """The committed runs of its search; absent for studies that were recorded without them."""
        return RUNS / f"{self.name}-search.csv"

    @property
    def languages(self) -> Path:
        """The committed rows of its language adapters; absent for a study without them."""
        return RUNS / f"{self.name}-languages.csv"

    @property
    def row_noise(self) -> Path:
        """The committed noise of its test rows; absent for studies that were recorded without their predictions."""
        return RUNS / f"{self.name}-row-noise.csv"

    @property
    def curves(self) -> Path:
        """The committed scores on dev while its runs trained; absent for studies that were recorded without them."""
        return RUNS / f"{self.name}-curves.csv"

    @property
    def is_committed(self) -> bool:
        """Whether the study has been run, and its runs are committed."""
        return self.runs.exists()

    def settings(self, scale: Scale) -> dict[str, Any]:
        """Return the settings of ``gradgate compare`` at a scale, with paths of this machine."""
        chosen = self.compare | (self.quick if scale == "quick" else {})
        return {name: here(value) for name, value in chosen.items() if value is not None}

    def rows(self, scale: Scale) -> dict[str, int]:
        """Map files of its data to how many of their first rows are used at a scale."""
        return self.first_rows | (self.quick_first_rows if scale == "quick" else {})

    @property
    def missing(self) -> str | None:
        """The model or data that this machine lacks; None if nothing is missing."""
        given = [value for value in self.settings("full").values() if isinstance(value, str)]
        given += [here(self.language_adapters.texts)] if self.language_adapters else []
        paths = [value.partition(":")[0] for value in given if value.startswith("/")]
        return next((path for path in paths if not Path(path).exists()), None)


def read_studies(names: list[str] | None = None) -> list[Study]:
    """Read the studies with these names, or all of them, in the order of their names.

    Raises:
        KeyError: if there is no study of a name.
    """
    found = {
        file.stem: Study(name=file.stem, **yaml.safe_load(file.read_text(encoding="utf-8")))
        for file in sorted(STUDIES.glob("*.yaml"))
    }
    unknown = [name for name in names or () if name not in found]
    if unknown:
        raise KeyError(f"There is no study {unknown[0]!r}. There are {', '.join(found)}.")
    return [study for name, study in found.items() if not names or name in names]
