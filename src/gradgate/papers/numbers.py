"""Scores by where they were got, printed in a paper or measured in a study: what the claims are checked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gradgate.papers.preset import DERIVED
from gradgate.papers.published import read_table

PRINTED_SEED = 0
DEV_MEAN, DEV_BEST, DEV_DROP, SECONDS = "dev-mean", "dev-best", "dev-drop", "seconds"
"""What a score can be ``on`` besides a language or an average: the mean and the best of all evaluations on dev, how far
the last one is below the best one, and the median time of a step."""
LOSS_RISE, TOP_DOWN, RATE_SPREAD = "loss-rise", "top-down", "rate-spread"
"""How far the last loss on dev is above the lowest one; how close the order in which layers opened is to top-down, as a
rank correlation; the standard deviation of the dev score over the learning rates of a search."""
QUALITY = "quality"
"""A relative quality as the paper prints it, which its rounded scores would not give as well."""

_EVALUATIONS = {"mean over evaluation steps": DEV_MEAN, "best over evaluation steps": DEV_BEST}
_QUALITIES = {"relative_F1_pct", "relative_accuracy_pct"}
_SECOND_METRICS = {"EM"}
_IN_SHARES = ("elsa_table04", "elsa_table05", "elsa_tableB1")


class Place(NamedTuple):
    """Where methods are compared: by the labels of the paper. ``size`` is that of the training set."""

    model: str
    task: str
    size: str = "full"

    def __str__(self) -> str:
        size = f"{self.size} of the examples" if self.size.endswith("%") else f"{self.size} examples"
        return ", ".join([self.task, self.model, *([] if self.size == "full" else [size])])


class Key(NamedTuple):
    """One score: ``on`` is a language, an average over languages, or one of the names above."""

    place: Place
    method: str
    on: str


class Lookup:
    """The scores of one seed. Asking for one that is not there is a :class:`LackingError`."""

    def __init__(self, scores: Mapping[Key, Mapping[int, float]], seed: int | None, asked: set[Key]) -> None:
        self._scores, self._seed, self._asked = scores, seed, asked

    def __call__(self, place: Place, method: str, on: str) -> float:
        key = Key(place, method, on)
        by_seed = self._scores.get(key)
        if not by_seed or (self._seed is not None and self._seed not in by_seed):
            raise LackingError(key)
        self._asked.add(key)
        return by_seed[next(iter(by_seed)) if self._seed is None else self._seed]


class LackingError(LookupError):
    """A score that a claim needs and that is not there."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"no score of {key.method} on {key.place} ({key.on})")


@dataclass(frozen=True)
class Numbers:
    """Scores in points (shares times 100), by place, method, language and seed.

    Attributes:
        scores: seed to score; a printed number has the one seed 0.
        exact: whether they are printed numbers, taken as they stand; else each is one repeat of a measurement.
        stand_in: whether tasks of other names stand in for those of the paper.
    """

    scores: Mapping[Key, Mapping[int, float]]
    exact: bool
    stand_in: bool = False
    notes: tuple[str, ...] = field(default=())

    def places(self, *methods: str, tasks: Iterable[str] = (), models: Iterable[str] = ()) -> list[Place]:
        """Where all of these methods have been scored; on these tasks, or whatever stands in for them."""
        wanted, named = set(tasks), set(models)
        found = dict.fromkeys(
            key.place
            for key in self.scores
            if (not wanted or self.stand_in or key.place.task in wanted) and (not named or key.place.model in named)
        )
        return [place for place in found if set(methods) <= set(self.methods(place))]

    def methods(self, place: Place) -> list[str]:
        """Every method that has a score here."""
        return list(dict.fromkeys(key.method for key in self.scores if key.place == place))

    def on(self, place: Place, *methods: str) -> list[str]:
        """The languages and averages that all of these methods have a score on."""
        sets = [[key.on for key in self.scores if (key.place, key.method) == (place, name)] for name in methods]
        return [on for on in sets[0] if all(on in others for others in sets)] if sets else []

    def languages(self, place: Place, *methods: str) -> list[str]:
        """The single languages, codes of two letters, among them."""
        return [on for on in self.on(place, *methods) if len(on) == 2]

    def by_seed(self, quantity: Callable[[Lookup], float]) -> dict[int, float]:
        """A quantity for each seed that has all the scores that it is made of.

        Raises:
            LackingError: if a score is there for no seed.
            ZeroDivisionError: if the quantity divides by a score of 0.
        """
        asked: set[Key] = set()
        quantity(Lookup(self.scores, None, asked))
        seeds = [seed for seed in self.scores[min(asked)] if all(seed in self.scores[key] for key in asked)]
        return {seed: quantity(Lookup(self.scores, seed, set())) for seed in seeds}


def together(parts: Iterable[Numbers]) -> Numbers:
    """The numbers of several tasks or models; what only stands in for a paper's task counts where nothing else is."""
    found = list(parts)
    own = [numbers for numbers in found if not numbers.stand_in] or found
    scores: dict[Key, Mapping[int, float]] = {}
    notes = dict.fromkeys(note for numbers in own for note in numbers.notes)
    for numbers in own:
        twice = {key.place for key in numbers.scores} & {key.place for key in scores}
        notes |= dict.fromkeys(f"{place} is there more than once, and the first counts" for place in sorted(twice))
        scores |= {key: by_seed for key, by_seed in numbers.scores.items() if key.place not in twice}
    return Numbers(scores, all(numbers.exact for numbers in own), own is found and own[0].stand_in, tuple(notes))


def printed(tables: Iterable[str]) -> Numbers:
    """The main score of every row of these tables of published numbers."""
    scores: dict[Key, dict[int, float]] = {}
    for table in tables:
        factor = 100.0 if table.startswith(_IN_SHARES) else 1.0
        for row in read_table(table):
            if row.metric in _QUALITIES:
                scores[Key(Place(row.model, row.task), row.method, QUALITY)] = {PRINTED_SEED: row.value / 100}
            if row.metric in DERIVED | _SECOND_METRICS or row.task.startswith("Avg"):
                continue
            size = row.size if not row.size.isdigit() or table not in _SIZES_OF_TASKS else "full"
            on = _EVALUATIONS.get(row.metric, row.language)
            scores[Key(Place(row.model, row.task, size), row.method, on)] = {PRINTED_SEED: factor * row.value}
    return Numbers(scores, exact=True)


# Their column of sizes says how large each task is; all of it is used.
_SIZES_OF_TASKS = {"adaptereff_table01"}
