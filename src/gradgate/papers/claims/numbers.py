"""Hold scores under the labels of a paper, printed or measured: the numbers that claims are checked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from gradgate.papers.preset import DERIVED
from gradgate.papers.published import read_table
from gradgate.tasks.find import find_task, task_names
from gradgate.tasks.metrics import ENTITIES

PRINTED_SEED = 0
DEV_MEAN, DEV_BEST, DEV_DROP, SECONDS = "dev-mean", "dev-best", "dev-drop", "seconds"
"""Values of ``on`` other than a language or an average: the mean and the best of all evaluations on dev,
how far the last one is below the best one, and the median time of a step."""
LOSS_RISE, TOP_DOWN, FLATNESS = "loss-rise", "top-down", "flatness"
"""The last loss on dev minus the lowest one; the rank correlation of the order in which layers opened with top-down;
the width of the interval around the minimum in which the loss rises by at most 0.5."""
SEED_SPREAD, SEARCH_SEEDS = "seed-spread", "search-seeds"
"""The standard deviation of the dev score over the seeds of a search, and their number: one value per learning rate."""
RSA, RSA_DEPTH = "rsa-", "rsa-by-depth"
"""Followed by the number of a layer: how similar its output is before and after training. And the rank correlation of
similarity with depth over the layers."""
TRACE_EARLY, TRACE_HILL = "trace-early", "trace-hill"
"""The mean height of the normalised Fisher trace in the first third of a training; and how far its peak is above both
of its ends, as a share of the peak."""
SCHEDULES, TRACE_PEAK, TRACE_AREA = "schedules", "trace-peak", "trace-area"
"""All schedules of a study that open layers on the way, and how the peak and the area of their normalised Fisher trace
rank with their scores (Spearman's correlation, one value per seed)."""
QUALITY, SAVED = "quality", "saved"
"""A relative quality as the paper prints it, which its rounded scores give less exactly; and the share of the
parameters that sharing the frozen layers saves."""

ON_THE_SAMPLE = "measured on the embedded sample"
"""The note of a reproduction with the sample's tasks in place of the paper's."""
NOT_PAIRED = "nothing pairs the runs: every run counts, and each arm of a task is a sample of its own"
"""The note of imported runs whose seeds connect no two of them."""
SAMPLE_TASKS = "sample-"
"""What the names of the tasks of the embedded sample begin with; their texts are generated."""

_EVALUATIONS = {"mean over evaluation steps": DEV_MEAN, "best over evaluation steps": DEV_BEST}
_QUALITIES = {"relative_F1_pct", "relative_accuracy_pct"}
_SAVED = "params_saved_fraction"
_SECOND_METRICS = {"EM"}
_IN_SHARES = ("elsa_table04", "elsa_table05", "elsa_tableB1")
# In this table the column of sizes says how large each task is; all of it is used.
_SIZES_OF_TASKS = {"adaptereff_table01"}
_COUNTS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Place(NamedTuple):
    """A model, a task and a training size that methods are compared on, by the labels of the paper."""

    model: str
    task: str
    size: str = "full"

    def __str__(self) -> str:
        size = f"{self.size} of the examples" if self.size.endswith("%") else f"{self.size} examples"
        return ", ".join([self.task, self.model, *([] if self.size == "full" else [size])])


@cache
def kind_of(task: str) -> str | None:
    """Return the kind of a task (``NER``, ``POS`` or ``texts``) that may stand in for it; None if unknown."""
    if task in ("NER", "POS"):
        return task
    if task not in task_names():
        return None
    found = find_task(task)
    if found.kind != "token-classification":
        return "texts"
    return "NER" if found.metric in ENTITIES else "POS"


def is_of(task: str, data: Iterable[str]) -> bool:
    """Return True if a task that stands in for those of a paper has one of these kinds of data.

    The task's kind tells named entities and parts of speech; nothing tells whether texts are like those of GLUE, of
    XNLI or of a special domain. The generated tasks of the sample belong to none of them.
    """
    return not task.startswith(SAMPLE_TASKS) and kind_of(task) in {"NER", "POS"} & set(data)


class Key(NamedTuple):
    """One score: ``on`` is a language, an average over languages, or one of the names above."""

    place: Place
    method: str
    on: str


class UnknownError(LookupError):
    """A quantity that these numbers do not have."""


class LackingError(UnknownError):
    """A score that a claim needs is absent.

    Args:
        there: the languages and averages on which the method has a score.
    """

    def __init__(self, key: Key, there: Sequence[str] = ()) -> None:
        average = key.on in ("all", "avg") and "target" in there
        why = ", as the source language has no score on test; --languages must name it too" if average else ""
        super().__init__(f"no score of {key.method} on {key.place} ({key.on}){why}")


class SeveralArmsError(UnknownError):
    """A label of the paper fits several arms of a study, so that its score is not one number."""

    def __init__(self, key: Key, arms: tuple[str, ...]) -> None:
        count = _COUNTS[len(arms)] if len(arms) < len(_COUNTS) else str(len(arms))
        super().__init__(f"{count} arms fit {key.method}: {', '.join(arms)}")


class Lookup:
    """The scores of one seed; asking for one that is absent or ambiguous raises an :class:`UnknownError`."""

    def __init__(self, numbers: Numbers, seed: int | None, asked: set[Key]) -> None:
        self._numbers, self._seed, self._asked = numbers, seed, asked

    def __call__(self, place: Place, method: str, on: str) -> float:
        key = Key(place, method, on)
        arms = self._numbers.arms.get(key, ())
        if len(arms) > 1:
            raise SeveralArmsError(key, arms)
        by_seed = self._numbers.scores.get(key)
        if not by_seed or (self._seed is not None and self._seed not in by_seed):
            raise LackingError(key, self._numbers.on(place, method))
        self._asked.add(key)
        return by_seed[next(iter(by_seed)) if self._seed is None else self._seed]


@dataclass(frozen=True)
class Numbers:
    """Scores in points (shares times 100), by place, method, language and seed.

    Attributes:
        scores: seed to score; a printed number has the one seed 0.
        exact: whether they are printed numbers, used as they are; else each is one repeat of a measurement.
        stand_in: whether tasks of other names stand in for those of the paper.
        arms: what was run for each score: one arm, or all that the label fits.
        source: where they were measured.
        sources: the sources of each score, of numbers that were merged.
    """

    scores: Mapping[Key, Mapping[int, float]]
    exact: bool
    stand_in: bool = False
    notes: tuple[str, ...] = field(default=())
    arms: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""
    sources: Mapping[Key, frozenset[str]] = field(default_factory=dict)

    @property
    def generated(self) -> bool:
        """Whether they were measured on the embedded sample, under the names of the paper's tasks."""
        return ON_THE_SAMPLE in self.notes

    @property
    def paired(self) -> bool:
        """Whether scores of one seed are a pair."""
        return NOT_PAIRED not in self.notes

    def on_tasks(self, wanted: Callable[[str], bool]) -> Numbers:
        """Return the scores on the tasks that are wanted."""
        return replace(self, scores={key: found for key, found in self.scores.items() if wanted(key.place.task)})

    def places(self, *methods: str, tasks: Iterable[str] = (), models: Iterable[str] = ()) -> list[Place]:
        """Return where all of these methods have been scored, on these tasks or their stand-ins."""
        wanted, named = set(tasks), set(models)
        found = dict.fromkeys(key.place for key in self.scores if not named or key.place.model in named)
        if wanted:
            kinds = {None, *(kind_of(task) or "texts" for task in wanted)}
            like = (lambda task: kind_of(task) in kinds) if self.stand_in else wanted.__contains__
            found = {place: None for place in found if like(place.task)}
        return [place for place in found if set(methods) <= set(self.methods(place))]

    def methods(self, place: Place) -> list[str]:
        """Return every method that has a score here."""
        return list(dict.fromkeys(key.method for key in self.scores if key.place == place))

    def on(self, place: Place, *methods: str) -> list[str]:
        """Return the languages and averages on which all of these methods have a score."""
        sets = [[key.on for key in self.scores if (key.place, key.method) == (place, name)] for name in methods]
        return [on for on in sets[0] if all(on in others for others in sets)] if sets else []

    def languages(self, place: Place, *methods: str) -> list[str]:
        """Return the single languages among them, codes of two letters."""
        return [on for on in self.on(place, *methods) if len(on) == 2]

    def by_seed(self, quantity: Callable[[Lookup], float]) -> dict[int, float]:
        """Compute a quantity for each seed that has all the scores it needs.

        Raises:
            LackingError: if a score is missing for every seed.
            SeveralArmsError: if several arms fit a label that it uses.
            ZeroDivisionError: if the quantity divides by a score of 0.
        """
        asked = self.asked(quantity)
        seeds = [seed for seed in self.scores[min(asked)] if all(seed in self.scores[key] for key in asked)]
        return {seed: quantity(Lookup(self, seed, set())) for seed in seeds}

    def arms_of(self, quantity: Callable[[Lookup], float]) -> tuple[tuple[str, str], ...]:
        """Return the labels that a quantity uses, each with the arm that was run for it."""
        found = ((key.method, arm) for key in sorted(self.asked(quantity)) for arm in self.arms.get(key, ()))
        return tuple(dict.fromkeys(found))

    def asked(self, quantity: Callable[[Lookup], float]) -> set[Key]:
        """Return the scores that a quantity uses.

        Raises:
            UnknownError: if one of them is absent or ambiguous.
        """
        asked: set[Key] = set()
        quantity(Lookup(self, None, asked))
        return asked


def together(parts: Iterable[Numbers]) -> Numbers:
    """Merge the numbers of several tasks, models or studies.

    A task that stands in for one of the paper is left out if the paper's task is present, and so are generated tasks if
    there are others. A score that several parts have fits the arms of all of them.
    """
    found = list(parts)
    own = [numbers for numbers in found if not numbers.stand_in] or found
    own = [numbers for numbers in own if not numbers.generated] or own
    scores: dict[Key, Mapping[int, float]] = {}
    arms: dict[Key, list[tuple[str, str]]] = {}
    for numbers in own:
        scores = {**numbers.scores, **scores}
        for key, names in numbers.arms.items():
            arms.setdefault(key, []).extend((name, numbers.source) for name in names)
    notes = dict.fromkeys(note for numbers in own for note in numbers.notes)
    stand_in = bool(own) and all(numbers.stand_in for numbers in own)
    exact = all(numbers.exact for numbers in own)
    sources = {key: frozenset(numbers.source for numbers in own if key in numbers.scores) for key in scores}
    named = {key: _disambiguated(names) for key, names in arms.items()}
    return Numbers(scores, exact, stand_in, tuple(notes), named, sources=sources)


def _disambiguated(arms: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of arms, each followed by where it was run if names are equal."""
    names = [name for name, _ in arms]
    return tuple(name if names.count(name) == 1 else f"{name} in {source}" for name, source in arms)


def printed(tables: Iterable[str]) -> Numbers:
    """Return the main score of every row of these tables of published numbers."""
    scores: dict[Key, dict[int, float]] = {}
    for table in tables:
        factor = 100.0 if table.startswith(_IN_SHARES) else 1.0
        for row in read_table(table):
            if row.metric in _QUALITIES:
                scores[Key(Place(row.model, row.task), row.method, QUALITY)] = {PRINTED_SEED: row.value / 100}
            if row.metric == _SAVED:
                scores[Key(Place(row.model, row.task), row.method, SAVED)] = {PRINTED_SEED: row.value}
            if row.metric in DERIVED | _SECOND_METRICS or row.task.startswith("Avg"):
                continue
            size = row.size if not row.size.isdigit() or table not in _SIZES_OF_TASKS else "full"
            on = _EVALUATIONS.get(row.metric, row.language)
            scores[Key(Place(row.model, row.task, size), row.method, on)] = {PRINTED_SEED: factor * row.value}
    return Numbers(scores, exact=True)
