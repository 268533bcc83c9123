"""Write the model card of a finished run: what it was trained on, what learned, and what it scored."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradgate import sample
from gradgate.places import short_name
from gradgate.runs.folder import RunFolder
from gradgate.runs.records import RunRecord, TaskRecord, read_record
from gradgate.runs.scores import Cost, Metrics, Scores, SplitScores, read_scores
from gradgate.settings.command_line import places_note, train_command, without_places
from gradgate.settings.forgetting import shown_value
from gradgate.settings.run import RunConfig, make_config
from gradgate.tasks.types import KIND_INFO

CARD_FILE = "README.md"
TAG = "gradgate"
"""The hub's tag of models that gradgate exported."""
PIPELINES: Mapping[str, str] = {
    "classification": "text-classification",
    "multi-label": "text-classification",
    "regression": "text-classification",
    "ranking": "text-classification",
    "token-classification": "token-classification",
    "question-answering": "question-answering",
    "multiple-choice": "multiple-choice",
    "generation": "text-generation",
}
"""Kind of task to the hub's name of the pipeline that runs it."""
_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_MOST_LABELS = 100
_WIDEST = 80
_SAME = {"accuracy": "micro_f1", "micro_f1": "accuracy"}
"""Metrics that are equal wherever a task has both: its rows have one label each."""
_OF_FILES = ("plan", "axolotl")
"""The methods whose only option is the path of a file."""
_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>|#$"} | {"\n": " ", "\r": " "})


@dataclass(frozen=True)
class CardSource:
    """The content of a run's card, read from its folder.

    Attributes:
        config: the settings of the run.
        record: the content of ``run.json``.
        task: the record of the task, or of the one of several tasks that the card is about.
        metric, dev, tests: the scores on that task.
        scores: the content of ``scores.json``.
        path: of the run.
    """

    config: RunConfig
    record: RunRecord
    task: TaskRecord
    metric: str
    dev: Metrics
    tests: Mapping[str, Metrics]
    scores: Scores
    path: Path

    @classmethod
    def of(cls, folder: RunFolder, task: str | None = None, config: RunConfig | None = None) -> CardSource:
        """Read a run.

        Args:
            folder: of the run.
            task: one of several that it trained together; None for a run of one task.
            config: its settings, if they were read already.

        Raises:
            RunError: if the folder has no finished run, or damaged files.
        """
        folder.require_scores()
        record, scores = read_record(folder.run_file, RunRecord), read_scores(folder.scores_file)
        own: Scores | SplitScores = scores
        found = record.task
        assert found is not None, "a finished run has recorded its task"
        if task is not None:
            own = (scores.tasks or {})[task]
            found = next(each for each in found.tasks or () if each.name == task)
        settings = config or make_config(**record.config)
        return cls(settings, record, found, own.metric, own.dev, own.tests, scores, folder.path)

    @property
    def splits(self) -> dict[str, Metrics]:
        """The scores by split: dev, then the test splits."""
        return {"dev": self.dev, **self.tests}

    @property
    def base(self) -> str:
        """The name of the base model; the last part of the path of a folder."""
        return short_name(self.config.model)

    @property
    def hub_base(self) -> str | None:
        """The base model's name on the hub; None for an embedded model or a folder, also one that has moved."""
        name = self.config.model
        if name in sample.MODELS or short_name(name) != name or not _HUB_NAME.fullmatch(name):
            return None
        starts = (Path(), *self.path.absolute().parents)  # the folder may be named from where the run was started
        return None if any((start / name).is_dir() for start in starts) else name


@dataclass(frozen=True)
class CardFindings:
    """The content of a run's card that is not in its folder.

    Attributes:
        intervals: split to the 95 % interval of the metric that selects, over the rows of the split.
        study: the name of the study that the run is one of; None for a run of its own.
        verdicts: a sentence per verdict of the study on the arm of the run.
    """

    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    study: str | None = None
    verdicts: tuple[str, ...] = ()


def model_card(
    source: CardSource,
    *,
    library: str,
    usage: str,
    notes: tuple[str, ...] = (),
    findings: CardFindings | None = None,
) -> str:
    """Return the card as Markdown with the metadata block that the hub reads.

    Args:
        source: the run.
        library: the library that loads the weights, by the hub's name: ``transformers``, ``peft``,
            ``adapter-transformers`` or ``gradgate``.
        usage: Python code that loads the model.
        notes: sentences on how to load it, below the code.
        findings: intervals of the scores, and the verdicts of the run's study.
    """
    task, findings = source.task, findings or CardFindings()
    lines = [
        f"# {_plain(source.base)} on {_plain(task.name)}\n",
        f"A {task.kind} model, trained with gradgate.\n",
        "## Use\n",
        "```python",
        usage.rstrip(),
        "```",
        "",
        *(f"{note}\n" for note in notes),
        "## Scores",
        "",
        *_score_table(source, findings.intervals),
        "",
        *_study(findings),
        "## Training",
        "",
        *_facts(source),
        "",
        "```console",
        f"$ {_wrapped(train_command(_portable(source.config), 'RUN', _portable_method(source.record)))}",
        "```",
        "",
        *([f"{note}\n"] if (note := places_note(source.config)) else []),
    ]
    return f"---\n{_metadata(source, library)}\n---\n\n" + "\n".join(lines)


def _score_table(source: CardSource, intervals: Mapping[str, tuple[float, float]]) -> Iterator[str]:
    splits = source.splits
    others = {name for values in splits.values() for name in values} - {source.metric, _SAME.get(source.metric), "loss"}
    names = [source.metric, *sorted(others)]
    titles = [names[0], *(["95 % interval"] if intervals else []), *names[1:]]
    yield f"| split | rows | {' | '.join(map(_plain, titles))} |"
    yield f"| --- | ---: |{' ---: |' * len(titles)}"
    for split, values in splits.items():
        rows = source.task.rows.get(split)
        cells = ["" if (value := values.get(name)) is None else f"{value:.4f}" for name in names]
        if intervals:
            cells.insert(1, "\u00a0to\u00a0".join(f"{end:.4f}" for end in intervals.get(split, ())))
        yield f"| {_plain(split)} | {'' if rows is None else f'{rows:,}'} | {' | '.join(cells)} |"
    yield ""
    direction = "highest" if source.task.metric_higher_is_better else "lowest"
    yield f"The weights are those with the {direction} {_plain(source.scores.metric)} on dev; one seed."
    yield ""
    if intervals:
        yield (
            f"The intervals are percentiles of {_plain(source.metric)} over resampled rows of the split. They say "
            f"nothing about other seeds; those of dev come from the rows that selected the weights."
        )
    else:
        yield (
            "There is no interval: it needs a metric that is computed from sums over rows, and stored predictions that "
            "give the score."
        )


def _study(findings: CardFindings) -> Iterator[str]:
    if findings.study is None:
        return
    yield f"The run is one of the study {_plain(findings.study)}, which compares methods over seeds."
    yield ""
    if findings.verdicts:
        yield from (f"- {_plain(verdict)}" for verdict in findings.verdicts)
    else:
        yield "The study has no verdict on its method."
    yield ""


def _facts(source: CardSource) -> Iterator[str]:
    task, cost, record = source.task, source.scores.cost, source.record
    yield f"- Base model: {_plain(source.base)}"
    yield f"- Method: `{_method(record)}`"
    if cost.parameters_trained is not None and cost.parameters and cost.trainable_share is not None:
        yield (
            f"- What learned: {cost.parameters_trained:,} of {cost.parameters:,} parameters; "
            f"{cost.trainable_share:.2%} per step on average"
        )
    yield f"- Cost: {', '.join(_spent(cost))}"
    where = "" if source.scores.best_step is None else f", best at step {source.scores.best_step}"
    yield f"- Steps: {cost.steps}{where}; seed {record.seed}"
    if record.train_examples is not None:
        yield f"- Rows of training: {record.train_examples:,}"
    if source.config.max_length is not None:
        how = "read in windows of" if task.kind in KIND_INFO and KIND_INFO[task.kind].in_windows else "cut to"
        yield f"- Length: rows are {how} {source.config.max_length} tokens"
    if task.labels:
        more = f" and {len(task.labels) - _MOST_LABELS} more" if len(task.labels) > _MOST_LABELS else ""
        yield f"- Labels, in the order of the outputs: {', '.join(map(_plain, task.labels[:_MOST_LABELS]))}{more}"
    if task.fingerprint is not None:
        yield f"- Data: {_plain(task.name)}, SHA-256 `{task.fingerprint}`"
    if source.scores.forgetting is not None:
        forgotten = source.scores.forgetting
        yield (
            f"- Forgetting: {forgotten.metric} on {_plain(short_name(str(forgotten.file)))} "
            f"{shown_value(forgotten.metric, forgotten.before)} before, "
            f"{shown_value(forgotten.metric, forgotten.after)} after"
        )
    yield f"- Versions: {', '.join(f'{name} {number}' for name, number in record.versions.items())}"
    yield ""
    yield "The command that trains it:"


def _wrapped(command: str) -> str:
    """Return a command in lines that a page shows whole, which a shell reads as one."""
    parts: list[list[str]] = [[]]
    for word in shlex.split(command):
        if word.startswith("-"):
            parts.append([])
        parts[-1].append(word)
    lines = [shlex.join(parts[0])]
    for part in map(shlex.join, parts[1:]):
        if len(lines[-1]) + len(part) < _WIDEST:
            lines[-1] += f" {part}"
        else:
            lines.append(f"    {part}")
    return " \\\n".join(lines)


def _spent(cost: Cost) -> Iterator[str]:
    if cost.seconds_total is not None:
        yield f"{cost.seconds_total:,.0f} s of training"
    if cost.seconds_per_step is not None:
        yield f"{cost.seconds_per_step * 1e3:,.1f} ms per step"
    if cost.peak_memory_bytes is not None:
        yield f"{cost.peak_memory_bytes / 2**20:,.0f} MiB of memory at the peak"
    yield f"on {_plain(cost.device)}"


def _method(record: RunRecord) -> str:
    """Return what learns, as it was typed."""
    method = _portable_method(record)
    return method if record.adapter is None else f"{record.adapter} + {method}"


def _portable_method(record: RunRecord) -> str:
    """Return the method as it was typed, which this process need not know; of a file, its name without its folder."""
    kind, colon, place = record.method.partition(":")
    return f"{kind}{colon}{short_name(place)}" if kind in _OF_FILES else record.method


def _metadata(source: CardSource, library: str) -> str:
    from huggingface_hub import EvalResult, ModelCardData

    pipeline = PIPELINES[source.task.kind]
    results = [
        EvalResult(
            task_type=pipeline,
            dataset_type=source.task.name,
            dataset_name=source.task.name,
            dataset_split=split,
            metric_type=source.metric,
            metric_value=values[source.metric],
        )
        for split, values in source.splits.items()
        if values.get(source.metric) is not None
    ]
    given: dict[str, Any] = {} if source.hub_base is None else {"base_model": source.hub_base}
    data = ModelCardData(
        library_name=library,
        tags=[TAG],
        pipeline_tag=pipeline,
        metrics=[source.metric],
        model_name=f"{source.base} on {source.task.name}",
        eval_results=results,
        **given,
    )
    return str(data.to_yaml()).rstrip()


def _portable(config: RunConfig) -> RunConfig:
    """Return settings without what belongs to one machine, or to the person who trained."""
    return without_places(config).model_copy(update={"report_to": None})


def _plain(text: str) -> str:
    """Return a text without the signs that Markdown or HTML would read as their own."""
    return text.translate(_ESCAPED)
