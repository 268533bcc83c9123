"""Collect what every committed run says of an arm against full fine-tuning: one effect per model, task and arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import TypeVar

from evidence.arms import FULL, MeasuredArm, grid_arms, is_on_dev, is_too_short, scored_languages, study_arms
from evidence.authors import FILE as AUTHORS_FILE
from evidence.authors import MULTI, RATE_OF_FULL, UNTRAINED, arm_of, read_rates
from evidence.foreign import PEFT_RATES, SETFIT, ForeignScore, compared_arms, read_foreign
from evidence.grids import read_grids
from evidence.limits import AT_AN_END, limits_of, short_training_of_grid
from evidence.rates import ComparedRates, study_rates
from evidence.row_noise import RowNoiseOfArm, rows_of
from evidence.studies import Study, read_studies
from gradgate.errors import GradgateError
from gradgate.methods import Freeze, NamedGroups
from gradgate.papers.claims.elsa import BASELINE
from gradgate.papers.claims.numbers import Key
from gradgate.papers.frozen import read_frozen
from gradgate.papers.recorded import read_numbers
from gradgate.settings.arms.arm import split_arm
from gradgate.settings.arms.recorded import recorded_arm
from gradgate.statistics import Comparison, collapsed, compare_paired, compare_unpaired
from gradgate.study.replay.curve_rows import read_rows
from gradgate.tasks.find import find_task

K = TypeVar("K")
ENGLISH, MANY = "English", "many languages, trained in one"
CLASSIFY, ENTITIES, TAGS, GENERATE = "classification", "named entities", "parts of speech", "generation"
ANSWERS = "question answering"
SIMILARITY = "similarity of sentences"
PAIRS = "classification and similarity (GLUE)"
SMALL, BASE, LARGE = "sentence encoder of 22.7 M", "encoder of 110 to 125 M", "encoder of 335 to 355 M"
MULTILINGUAL = "multilingual sentence encoder of 25 to 33 M (weights rounded to 4 bits, vocabulary cut)"
MILLIONS, BILLIONS = "decoder of 268 M (weights rounded to 4 to 8 bits, vocabulary cut to 117 M)", "decoder of 3 B"
PROBED = "sentence encoder of 110 M"
EMBEDDED = "embedded encoder of 2.2 M"
FEW = "under 1,000 rows"
HUNDREDS, THOUSANDS, ALL = "375 to 1,600 rows", "1,000 or more rows", "2,500 to 393,000 rows"
MATH = "20,000 rows"
MISMATCHED = "MNLI-mm"
"""Scores of MNLI's runs on other genres."""
OTHER_MODEL, ONE_RATE, ONE_SEED = "full is another, larger model", "one rate each", "reruns of one seed"
ON_LANGUAGES = " on language adapters"
AFTER_TAPT = " after pretraining on the task's text"
_ROUNDING = 1e-3  # of the points in files of row noise
_SAME = {"sst2_sentences": "sst2"}
"""Tasks on other rows of one data set: they count once."""
_LAYERS = {"all-MiniLM-L6-v2": 6, "multilingual-e5-small": 12, "gemma-3-270m": 18, "sample": 4}
_SIZES = {"all-MiniLM-L6-v2": SMALL, "multilingual-e5-small": MULTILINGUAL, "gemma-3-270m": MILLIONS}


@dataclass(frozen=True)
class Where:
    """What a reader knows before training: the kind of task, rows to train on, size of the model, and languages."""

    kind: str
    rows: str
    model: str
    languages: str = ENGLISH

    def __str__(self) -> str:
        return f"{self.kind}, {self.rows}, {self.model}, {self.languages}"


@dataclass(frozen=True)
class ArmEffect:
    """One arm minus full fine-tuning, in points, on one task with one model.

    Attributes:
        arm: its family: without options, and with the share of the layers that ``freeze`` closes.
        example: what was run.
        variance: of the difference, over runs; None without spread or with one pair.
        runs: the fewest of the two arms.
        over_rows: the variance over runs and test rows with its degrees of freedom; None if the rows are not known.
        examples: the number of training examples; None if ``where`` says all that is known.
        source: the study, or whose runs they are.
        limits: of the runs.
        doubts: those that may change the verdict, by name.
        without_collapsed: the same without collapsed runs; None if none collapsed.
        compared: number of arms that its source compared with full fine-tuning; its own is one of them.
        memory, seconds: relative to full fine-tuning: the peak, and the time per step or run; None if not recorded.
        rates: at which both were compared; None if no committed file has them.
    """

    where: Where
    task: str
    arm: str
    example: str
    difference: float
    variance: float | None
    runs: int
    source: str
    limits: str = ""
    compared: int = 1
    memory: float | None = None
    seconds: float | None = None
    doubts: tuple[str, ...] = ()
    without_collapsed: ArmEffect | None = None
    rates: ComparedRates | None = None
    over_rows: tuple[float, float] | None = None
    examples: int | None = None

    @property
    def over_runs(self) -> tuple[float, float]:
        """The variance over runs with its degrees of freedom."""
        return self.variance or 0.0, max(1, self.runs - 1)


@cache
def effects() -> tuple[ArmEffect, ...]:
    """Return the effects of the committed runs with full fine-tuning: our studies and grids, and those of others."""
    return (*_of_studies(), *_of_grids(), *_of_authors(), *_of_others())


def family(arm: str, layers: int | None = None) -> str:
    """Return an arm without options: ``freeze:layers=3`` of 6 is ``freeze half of the layers``; ``groups`` is whole."""
    try:
        method = recorded_arm(arm).method
    except GradgateError:
        method = None
    if "order=bottom-up" in arm:
        return f"{family(arm.replace('order=bottom-up', ''), layers)} from the bottom up"
    if isinstance(method, Freeze) and layers and isinstance(method.layers, int):
        return "head" if method.layers == layers else frozen_family(method.layers / layers)
    if isinstance(method, NamedGroups):
        return arm  # what is open is all that there is to it
    parts = split_arm(arm)
    named = " + ".join(text.partition(":")[0].strip() for text in (parts.adapter, parts.method) if text)
    return f"{named}{AFTER_TAPT}" if "tapt_" in arm else named


def frozen_family(share: float) -> str:
    """Return the family of a share of frozen layers."""
    if share <= 0.55:
        return "freeze half of the layers" if share > 0.3 else "freeze a quarter of the layers"
    return "freeze two thirds or more of the layers"


def _of_studies() -> Iterator[ArmEffect]:
    for study in read_studies():
        if study.is_committed:
            by_size = study_arms(study)
            for size, arms in by_size.items():
                noise = rows_of(study) if len(by_size) == 1 else {}
                for effect in _against_full(_where(study), study, arms):
                    yield with_row_noise(
                        replace(effect, examples=_examples(study, size)), noise.get((effect.example, FULL))
                    )


def _where(study: Study) -> Where:
    kind, languages = _kind(study.compare["task"]), MANY if len(scored_languages(study)) > 1 else ENGLISH
    if study.data == "synthetic":
        return Where(kind, HUNDREDS, EMBEDDED, languages)
    rows = FEW if study.compare.get("train_size", 1000) < 1000 else THOUSANDS
    model = _SIZES[study.compare["model"].rpartition("/")[2]]
    return Where(kind, rows, model, languages)


def _examples(study: Study, size: str) -> int | None:
    """Return the number of training examples; None for generated tasks, whose situation has them."""
    return None if study.data == "synthetic" else int(size) if size else study.train_rows


def with_row_noise(effect: ArmEffect, noise: RowNoiseOfArm | None) -> ArmEffect:
    """Return an effect with its variance over runs and test rows as well, if the rows of its difference are known.

    Of seeds that were added later they are not: the variance that is due to rows alone is that of the first seeds.
    """
    if noise is None:
        return effect
    over_runs, freedom = effect.over_runs
    if noise.seeds < effect.runs:
        both = over_runs + noise.share_of_rows * noise.error**2
        return replace(effect, over_rows=(both, freedom * (both / over_runs) ** 2 if over_runs else noise.freedom))
    if abs(noise.difference - effect.difference) > _ROUNDING:
        return effect
    return replace(effect, over_rows=(max(noise.error**2, over_runs), noise.freedom))


def _kind(task: str) -> str:
    found = find_task(task)
    if found.kind != "token-classification":
        named = {"generation": GENERATE, "question-answering": ANSWERS, "regression": SIMILARITY}
        return named.get(found.kind, CLASSIFY)
    return TAGS if found.metric == "accuracy" else ENTITIES


def _against_full(where: Where, study: Study, arms: Iterable[MeasuredArm]) -> Iterator[ArmEffect]:
    named = {arm.name: arm for arm in arms}
    full = named.pop(FULL, None)
    if full is None:
        return
    layers = _LAYERS[study.compare["model"].rpartition("/")[2]]
    task = study.compare["task"]
    limits = limits_of(study)
    for name, arm in named.items():
        own = [limit for limit in limits if limit.is_about((name, FULL))]
        stacked = study.language_adapters is not None and split_arm(name).adapter
        arm_family = f"{family(name, layers)}{ON_LANGUAGES if stacked else ''}"
        yield _effect(
            where, _SAME.get(task, task), arm_family, name, *_with_and_without(compare_paired, arm.scores, full.scores),
            study.name, "; ".join(map(str, own)),
            memory=_ratio(arm.memory, full.memory),
            seconds=None if study.without_times else _ratio(arm.seconds, full.seconds),
            doubts=tuple(limit.name for limit in own),
            rates=study_rates(study, name, FULL),
        )  # fmt: skip


def _of_grids() -> Iterator[ArmEffect]:
    for grid in read_grids().values():
        if not grid.curves.exists() or is_too_short(grid):
            continue
        task, model, steps = grid.compare["task"], grid.compare["model"].rpartition("/")[2], grid.compare["steps"]
        named = {arm.name: arm for arm in grid_arms(grid)}
        full = named.pop(FULL)
        where = Where(_kind(task), THOUSANDS, SMALL) if grid.data else Where(_kind(task), HUNDREDS, EMBEDDED)
        short = short_training_of_grid(grid)
        on_dev = ("scores on dev",) * is_on_dev(read_rows(grid.curves))
        for name, arm in named.items():
            versus = _with_and_without(compare_paired, arm.scores, full.scores)
            arm_family = family(name, _LAYERS[model])
            edge = (AT_AN_END,) * (arm.at_an_end or full.at_an_end)
            own = (short,) if short is not None and short.is_about((name, FULL)) else ()
            limits = "; ".join((f"{steps} steps, {len(grid.rates)} rates", *map(str, own), *edge, *on_dev))
            yield _effect(
                where, _SAME.get(task, task), arm_family, name, *versus, f"grids/{grid.name}", limits,
                doubts=(*(limit.name for limit in own), *edge),
                rates=ComparedRates(tuple(sorted(grid.rates)), _taken(arm), _taken(full)),
            )  # fmt: skip


def _taken(arm: MeasuredArm) -> tuple[float, ...]:
    return () if arm.rate is None else (arm.rate,)


def _of_authors() -> Iterator[ArmEffect]:
    """Yield the Elsa authors' runs at half and three quarters of the layers, and of the head."""
    numbers = read_numbers(AUTHORS_FILE)["elsa"]
    rates = {(each.model, each.task): each for each in read_rates()}
    tried = tuple(sorted({each.used for each in rates.values()}))
    for place in numbers.places(BASELINE):
        if place.task == MISMATCHED or place.model.startswith(MULTI):
            continue  # scores of the same runs; models that were trained on these tasks before
        full = _shares(numbers.scores[Key(place, BASELINE, "en")])
        for label in numbers.methods(place):
            frozen = read_frozen(label)
            if frozen is not None and frozen.share in (0.5, 0.75, 1.0):
                scores = _shares(numbers.scores[Key(place, label, "en")])
                where = Where(PAIRS, ALL, BASE if frozen.layers == 12 else LARGE)
                rate = rates[place.model, place.task]
                doubts = (RATE_OF_FULL, UNTRAINED, *(AT_AN_END,) * rate.at_an_end)
                yield _effect(
                    where, place.task, "head" if frozen.share == 1 else frozen_family(frozen.share), arm_of(label),
                    *_with_and_without(_compare_values, scores, full),
                    f"the Elsa authors, {place.model}", "; ".join((*doubts, "scores on dev")),
                    runs=min(len(scores), len(full)), compared=len(set(numbers.methods(place)) - {BASELINE}),
                    doubts=doubts,
                    rates=ComparedRates(tried, (rate.used,), (rate.used,)),
                )  # fmt: skip


def _of_others() -> Iterator[ArmEffect]:
    cells: dict[tuple[str, str, str], dict[str, list[ForeignScore]]] = {}
    for score in read_foreign():
        cells.setdefault((score.source, score.task, score.rows), {}).setdefault(score.arm, []).append(score)
    for (source, task, rows), arms in cells.items():
        full = arms.pop(FULL, [])
        for name, scores in arms.items() if full else ():
            ours, theirs = ({each.pair: each.score for each in own} for own in (scores, full))
            few = source == SETFIT
            where = Where(CLASSIFY, rows, PROBED) if few else Where(GENERATE, MATH, BILLIONS)
            limits = "full is RoBERTa-large, the probe is on MPNet-base" if few else f"{ONE_SEED}; {ONE_RATE}"
            yield _effect(
                where, task, family(name), name, *_with_and_without(compare_paired, ours, theirs),
                source, limits, compared=compared_arms(source), doubts=(OTHER_MODEL,) if few else (ONE_RATE, ONE_SEED),
                rates=None if few else PEFT_RATES,
                memory=_ratio(_mean_of(scores, "memory"), _mean_of(full, "memory")),
                seconds=_ratio(_mean_of(scores, "seconds"), _mean_of(full, "seconds")),
            )  # fmt: skip


def _mean_of(scores: list[ForeignScore], name: str) -> float | None:
    values = [getattr(score, name) for score in scores]
    return None if None in values else fmean(values)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one and other else None


def _shares(points: Mapping[int, float]) -> dict[int, float]:
    return {run: score / 100 for run, score in points.items()}


def _compare_values(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Comparison:
    return compare_unpaired(list(ours.values()), list(theirs.values()))


def _with_and_without(
    compare: Callable[[Mapping[K, float], Mapping[K, float]], Comparison],
    ours: Mapping[K, float],
    theirs: Mapping[K, float],
) -> tuple[Comparison, Comparison | None]:
    """Compare scores, shares of 1, and again without collapsed runs; None in its place if none collapsed."""
    left = [{run: score for run, score in own.items() if run not in collapsed(own, True)} for own in (ours, theirs)]
    return compare(ours, theirs), None if left == [ours, theirs] else compare(*left)


def _effect(
    where: Where,
    task: str,
    arm: str,
    example: str,
    versus: Comparison,
    steady: Comparison | None,
    source: str,
    limits: str,
    *,
    runs: int | None = None,
    compared: int = 1,
    memory: float | None = None,
    seconds: float | None = None,
    doubts: tuple[str, ...] = (),
    rates: ComparedRates | None = None,
) -> ArmEffect:
    """Return an effect in points from comparisons of shares, the second without collapsed runs if there are any."""
    difference, variance = _in_points(versus)
    effect = ArmEffect(
        where, task, arm, example, difference, variance, versus.n if runs is None else runs, source,
        limits, compared, memory, seconds, doubts, rates=rates,
    )  # fmt: skip
    if steady is None:
        return effect
    difference, variance = _in_points(steady)
    return replace(
        effect,
        without_collapsed=replace(effect, difference=difference, variance=variance, runs=min(effect.runs, steady.n)),
    )


def _in_points(versus: Comparison) -> tuple[float, float | None]:
    assert versus.difference is not None, "the arm has no run in common with full"
    return 100 * versus.difference, (100 * versus.error) ** 2 if versus.error else None
