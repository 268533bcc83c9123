"""Import the runs that the authors of a paper published: ``python -m evidence authors``.

The runs are those of Lee, Tang and Lin 2019 (What Would Elsa Do?), from github.com/ljj7975/transformers at e5903bae,
Apache-2.0, as tidy data: single scores with their seeds, on the dev sets of GLUE.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import gradgate as gg
from evidence.commands import SHARED, here
from evidence.studies import FOLDER, RESULTS
from gradgate.csv_rows import CsvRows
from gradgate.papers.check import numbers_in
from gradgate.papers.claims import find_claim
from gradgate.papers.claims.elsa import BASELINE
from gradgate.papers.claims.numbers import Key, Numbers, Place
from gradgate.papers.frozen import FrozenLayers, read_frozen
from gradgate.papers.published import read_table
from gradgate.papers.recorded import RecordedNumber

SOURCE = f"{SHARED}/results/elsa"
RATE_OF_FULL = "rate searched for full alone"
"""The limit of these runs that weighs most."""
UNTRAINED = "full may have left biases and LayerNorm weights untrained"
COPIED = "many scores of MT-RoBERTa are those of RoBERTa"
FILE = RESULTS / "authors" / "elsa.csv"
RATES = FOLDER / "authors" / "elsa-rates.csv"
MADE_BY = "python -m evidence authors"
MULTI = "MT-"
"""How the names of models begin that were trained on all tasks before each."""
DIGITS = 4
"""Of a score in points, as they are committed."""
NOTE = (
    "the authors' own runs of eight models on GLUE, all seeds; no XLM-R among them. By the scripts full fine-tuning "
    f"left biases and LayerNorm weights as they were, and the rate was searched for it alone; {COPIED}"
)
_METRICS = {
    **dict.fromkeys(("SST-2", "MNLI", "MNLI-MM", "QNLI", "RTE"), ("acc", "accuracy")),
    **dict.fromkeys(("MRPC", "QQP"), ("f1", "f1")),
    "CoLA": ("mcc", "matthews"),
    "STS-B": ("spearmanr", "spearman"),
}
"""The metric that the paper prints of each task, as the source and as gradgate call it."""
_ROUNDING = 0.0051
"""How far a printed score may be from the mean that it rounds."""


@dataclass(frozen=True, kw_only=True)
class SearchedRate:
    """The learning rate of one model and task, which all its arms trained with.

    Attributes:
        used: in every run.
        lowest, highest: of the rates of a search with full fine-tuning, five seeds a rate, on the dev set that the
            scores are of.
        best: of that search.
        lost: points that the rate used is below the best one in that search.
    """

    model: str
    task: str
    used: float
    lowest: float
    highest: float
    best: float
    lost: float

    @property
    def at_an_end(self) -> bool:
        """Whether the rate used is the lowest or the highest one searched: a better one may lie beyond."""
        return self.used in (self.lowest, self.highest)


_SCORES = CsvRows(RecordedNumber, MADE_BY)
_RATES = CsvRows(SearchedRate, MADE_BY)


def source() -> Path:
    """Return where the source is on this machine; it may be absent."""
    return Path(here(SOURCE))


def record(scores: Path = FILE, rates: Path = RATES) -> None:
    """Write the small form of the source: a row per run in the paper's main metric, and the searched rates."""
    for file in (scores, rates):
        file.parent.mkdir(parents=True, exist_ok=True)
    _SCORES.write(scores, imported())
    _RATES.write(rates, list(_searched()))


def imported() -> list[RecordedNumber]:
    """Import the source as a study of gradgate, and return its scores under the labels of the paper."""
    with TemporaryDirectory() as folder:
        study = Path(folder) / "elsa-authors"
        gg.import_results(
            list(_rows()), out=study, arm="arm", model="model", task="task", seed="seed", metric="metric",
            score="score", split="dev", pair="none", reference="full",
        )  # fmt: skip
        numbers = numbers_in(study, "elsa")["elsa"]
    notes = json.dumps([*numbers.notes, NOTE])
    rows = [
        RecordedNumber(
            paper="elsa",
            study="elsa-authors",
            model=key.place.model,
            task=key.place.task,
            size=key.place.size,
            label=key.method,
            arm=arm_of(key.method),
            on=key.on,
            seed=seed,
            value=round(value, DIGITS),
            stand_in=numbers.stand_in,
            notes="[]",
        )
        for key, by_seed in numbers.scores.items()
        if key.on == "en"  # the averages over languages are the same scores
        for seed, value in by_seed.items()
    ]
    return [replace(rows[0], notes=notes), *rows[1:]]  # read from a study's first row


def arm_of(label: str) -> str:
    """Return gradgate's arm for a label of the paper: ``frozen 9/12`` is ``freeze:layers=9``."""
    if label == BASELINE:
        return "full"
    frozen = read_frozen(label)
    if frozen is None:
        raise ValueError(f"{label!r} is not a label of the Elsa paper")
    return "head" if frozen.closed == frozen.layers else f"freeze:layers={frozen.closed}"


def printed_selection(numbers: Numbers) -> tuple[Numbers, dict[Key, tuple[int, int]]]:
    """Return the runs that the printed means are of, and where they are not all: how many of how many runs.

    A printed score that is no mean of all runs is the mean of the best of them, to rounding, in every such place.
    """
    scores, chosen = dict(numbers.scores), {}
    for key, printed in printed_scores().items():
        by_seed = numbers.scores.get(key, {})
        if by_seed and abs(fmean(by_seed.values()) - printed) > _ROUNDING:
            best = sorted(by_seed, key=lambda seed: -by_seed[seed])
            kept = next((n for n in range(len(best), 0, -1) if _mean_is(by_seed, best[:n], printed)), None)
            if kept is not None:
                scores[key] = {seed: by_seed[seed] for seed in best[:kept]}
                chosen[key] = kept, len(best)
    return replace(numbers, scores=scores), chosen


def read_rates(file: Path = RATES) -> list[SearchedRate]:
    """Read the committed rates."""
    return list(_RATES.read(file))


def _mean_is(by_seed: Mapping[int, float], seeds: list[int], printed: float) -> bool:
    return abs(fmean(by_seed[seed] for seed in seeds) - printed) <= _ROUNDING


def printed_scores() -> dict[Key, float]:
    """Return every score of Table A.3, in points."""
    rows = (row for table in find_claim("E6").sources[0] for row in read_table(table) if not row.task.startswith("Avg"))
    return {Key(Place(row.model, row.task), row.method, "en"): row.value for row in rows}


def _rows() -> Iterator[dict[str, str]]:
    """Yield the rows of the eight models of the paper in its metrics, under its names."""
    with (source() / "runs.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            theirs, ours = _METRICS.get(row["task"], ("", ""))
            if row["metric"] == theirs and not row["model"].startswith("xlnet"):
                closed = int(row["frozen_layers"])
                frozen = FrozenLayers(closed, closed + int(row["open_layers"]))
                yield {
                    "model": _model(row["family"], row["model"]),
                    "task": row["task"].replace("-MM", "-mm"),
                    "arm": "full" if row["arm"] == "full" else str(frozen),
                    "seed": row["seed"],
                    "metric": ours,
                    "score": row["score"],
                }


def _model(family: str, name: str) -> str:
    base, _, size = name.partition("-")
    return f"{MULTI if family == 'mt-dnn' else ''}{base.upper().replace('ROBERTA', 'RoBERTa')}-{size}"


def _searched() -> Iterator[SearchedRate]:
    tried = _tried()
    with (source() / "settings.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["task"] in _METRICS and not row["model"].startswith("xlnet"):
                yield SearchedRate(
                    model=_model("single", row["model"]),
                    task=row["task"].replace("-MM", "-mm"),
                    used=float(row["lr_used"]),
                    lowest=min(tried[row["model"], row["task"]]),
                    highest=max(tried[row["model"], row["task"]]),
                    best=float(row["lr_best_in_search"]),
                    lost=float(row["points_lost_by_lr_used"]),
                )


def _tried() -> dict[tuple[str, str], set[float]]:
    """Return the rates of the search for each model and task, by the names of the source."""
    tried: dict[tuple[str, str], set[float]] = {}
    with (source() / "rates.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            tried.setdefault((row["model"], row["task"]), set()).add(float(row["lr"]))
    return tried
