"""Scores by learning rate, where a study has several: in its search, or in adapters that differ in nothing else.

He et al. 2021, Sec. 5 and Fig. 4: https://aclanthology.org/2021.acl-long.172
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any

from gradgate.errors import AdapterError
from gradgate.report import formats
from gradgate.report.findings import Findings
from gradgate.report.formats import NONE
from gradgate.report.tables import Column, Entry, Table, spread_entry, spread_record
from gradgate.study.results import DEV, StudyResults
from gradgate.tasks.averages import average_label
from gradgate.training.adapter_choice import read_choice, titled
from gradgate.training.folder import RunFolder


@dataclass(frozen=True)
class RateScores:
    """The scores of one method, and adapter, at each learning rate, in ascending order of the rates."""

    label: str
    scores: dict[float, tuple[float, ...]]


@dataclass(frozen=True)
class Rates:
    """What is known of learning rates. ``searched``: on dev, by a search; else on the main split, by the study."""

    methods: tuple[RateScores, ...]
    split: str
    searched: bool

    @property
    def all(self) -> tuple[float, ...]:
        """Every rate in ascending order."""
        return tuple(sorted({rate for method in self.methods for rate in method.scores}))


def find_rates(findings: Findings) -> Rates | None:
    """Scores by learning rate; None unless some method has two rates or more."""
    for found, split, searched in (
        (_searched(findings), DEV, True),
        (_of_adapters(findings), findings.split, False),
    ):
        methods = tuple(
            RateScores(label, {rate: tuple(scores[rate]) for rate in sorted(scores)})
            for label, scores in found.items()
            if len(scores) > 1
        )
        if methods:
            return Rates(methods, split, searched)
    return None


@dataclass(frozen=True)
class SearchedRun:
    """One finished run of a search: its label, its configuration and its score on dev."""

    label: str
    config: dict[str, Any]
    score: float


def searched_runs(results: StudyResults, metric: str) -> list[SearchedRun]:
    """The runs of a search, each in a folder of its own below ``search``, that have a finite score."""
    found = []
    for path in sorted(results.folder.glob("search/*/*/seed-*/scores.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):  # what is damaged has no score
            config = json.loads(RunFolder(path.parent).run_file.read_bytes())["config"]
            run = SearchedRun(titled(config["method"], config.get("adapter")), config, _dev_score(path, metric))
            if isfinite(run.score) and float(config["lr"]) > 0:
                found.append(run)
    return found


def _searched(findings: Findings) -> dict[str, dict[float, list[float]]]:
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in searched_runs(findings.results, findings.format.metric):
        found[run.label][float(run.config["lr"])].append(run.score)
    return found


def _dev_score(path: Path, metric: str) -> float:
    return float(json.loads(path.read_bytes())["dev"][metric])


def _of_adapters(findings: Findings) -> dict[str, dict[float, list[float]]]:
    """Of methods on adapters that differ in their own learning rate alone."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    shared = findings.results.study.settings.get("lr")
    for cell in findings.results.cells:
        score = cell.score(findings.split)
        if cell.adapter is None or score is None:
            continue
        with suppress(AdapterError):
            choice = read_choice(cell.adapter)
            rate = choice.lr if choice.lr is not None else shared
            if isinstance(rate, int | float):
                found[titled(cell.method, choice.kind)][float(rate)].append(score)
    return found


def rate_table(findings: Findings, rates: Rates) -> Table:
    """One row a method, one column a learning rate."""
    metric = findings.format
    about = "mean ± standard deviation over the runs (the median, the number of runs)"
    return Table(
        "learning-rates",
        f"Learning rates: {metric.label}, {average_label(rates.split)}",
        (
            Column("method", "Method", numeric=False),
            *(Column(f"{rate:g}", formats.learning_rate(rate), about) for rate in rates.all),
        ),
        tuple(
            (
                Entry(method.label, method.label),
                *(_entry(findings, method.scores.get(rate, ())) for rate in rates.all),
            )
            for method in rates.methods
        ),
        tuple(
            {
                "method": method.label,
                "lr": rate,
                "split": rates.split,
                "metric": metric.metric,
                **spread_record(list(scores)),
                "median": median(scores),
                "lowest": min(scores),
                "highest": max(scores),
            }
            for method in rates.methods
            for rate, scores in method.scores.items()
        ),
    )


def _entry(findings: Findings, scores: tuple[float, ...]) -> Entry:
    if not scores:
        return Entry(NONE)
    shown = spread_entry(list(scores), findings.format)
    return Entry(shown.text, shown.value, f"({findings.format.value(median(scores))}, {len(scores)})")
