"""Read the results that a tool is asked about: a study, files, or scores that the agent passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradgate.agents.tool import existing
from gradgate.errors import DataError, UsageError
from gradgate.settings.base import checked_settings
from gradgate.settings.imports import ImportSettings

if TYPE_CHECKING:
    from gradgate.study.importing.judgeable import Judgeable

ScoresByArm = dict[str, dict[str, float] | list[float]]
RESULTS = (
    "path of a study's folder; or of a file or folder of results: CSV, TSV, JSON Lines, Parquet with a row per score "
    "or a column per metric or seed, PEFT's method_comparison, trainer_state.json, lm-evaluation-harness, exports of "
    "Weights & Biases, Trackio and gradgate"
)
COLUMNS = (
    "columns of a file that are not found by their names, as the flags of 'gradgate study import': {'arm': 'system', "
    "'score': 'acc', 'seed': 'run', 'task': ..., 'model': ..., 'split': ..., 'step': ..., 'rows': ..., 'pair': 'none'}"
)

_COLUMN = re.compile(r"\b(arm|score|seed|task|model|split|step|rows|pair)=")  # metric= is a tool's own argument


def ask_columns(columns: Mapping[str, Any], **own: Any) -> ImportSettings:
    """Return the settings of an import; raise UsageError for a name that is not one, or that is passed twice.

    Args:
        columns: as the agent passed them.
        own: arguments of the tool that are settings of an import, too; None if they were not passed.
    """
    twice = [name for name, value in own.items() if value is not None and name in columns]
    if twice:
        raise UsageError(f"{twice[0]}= is also in columns=. Pass it once.")
    return checked_settings(
        ImportSettings, {**columns, **{name: each for name, each in own.items() if each is not None}}
    )


def read_results(place: str, asked: ImportSettings) -> Judgeable:
    """Read a study or files of results.

    Args:
        place: the argument ``results``.
        asked: the columns.

    Raises:
        UsageError: for a path that does not exist, and for columns that are not.
        DataError: for a file that cannot be read.
    """
    from gradgate.study.importing.judgeable import read_judgeable

    path = existing("results", place)
    try:
        return read_judgeable(path, asked)
    except (UsageError, DataError) as error:
        if _COLUMN.search(str(error)) is None:
            raise
        raise type(error)(f"{error} Columns go into columns=, as in columns={{'arm': ['method', 'rank']}}.") from None


def rows_of(scores: ScoresByArm, metric: str, paired: bool) -> list[dict[str, Any]]:
    """Return a row per score.

    Raises:
        UsageError: for lists of different lengths whose scores are to be paired, and for an arm without scores.
    """
    lengths = {arm: len(own) for arm, own in scores.items()}
    empty = [arm for arm, count in lengths.items() if not count]
    if empty:
        raise UsageError(f"scores= has none for {empty[0]!r}. Expected a score per seed; leave arms without runs out.")
    if paired and any(isinstance(own, list) for own in scores.values()) and len(set(lengths.values())) > 1:
        counts = ", ".join(f"{arm} has {count}" for arm, count in lengths.items())
        raise UsageError(
            f"scores= has lists of different lengths ({counts}), so the seeds of the scores are not known. Pass "
            f"{{arm: {{seed: score}}}}, or paired=False if nothing pairs them."
        )
    by_seed = {arm: own if isinstance(own, dict) else dict(enumerate(own)) for arm, own in scores.items()}
    return [
        {"arm": arm, "seed": str(seed), "metric": metric, "score": score}
        for arm, own in by_seed.items()
        for seed, score in own.items()
    ]
