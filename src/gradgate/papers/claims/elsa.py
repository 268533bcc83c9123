"""Define the claims of the Elsa paper (Lee et al. 2019): how much quality remains as more layers are frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isclose
from statistics import fmean

from gradgate.analysis.sharing import model_sizes, saved_share
from gradgate.papers.claims.base import FAILS, HOLDS, UNKNOWN, Claim, ClaimCheck, ClaimOutcome
from gradgate.papers.claims.numbers import (
    PRINTED_SEED,
    QUALITY,
    SAVED,
    SECONDS,
    Lookup,
    Numbers,
    Place,
    UnknownError,
    kind_of,
)
from gradgate.papers.claims.quantities import Quantity, minus, quality, ratio
from gradgate.papers.claims.rules import all_of, all_parts, any_of, both
from gradgate.papers.claims.thresholds import FEWEST_TASKS, above, below, counted_tasks, of_model, over_tasks
from gradgate.papers.frozen import FrozenLayers, frozen_share, read_frozen

BASELINE = "baseline"
SHARED_BY = {"MT-RoBERTa-base": 8, "MT-RoBERTa-large": 5, "XLM-R-base": 4, "XLM-R-large": 4}
"""Number of tasks that share the frozen layers of each model in Tables 2 to 5."""
ENOUGH = 0.95
MULTITASK, CROSS_LINGUAL = "MT-RoBERTa", "XLM-R"
"""How the names of the models begin that E2 and E3 are about."""
_MULTITASK_LARGE = f"{MULTITASK}-large"
_MODELS = ("BERT-", "RoBERTa-", "MT-BERT-", "MT-RoBERTa-", "XLM-R-")
_GLUE = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "MNLI-mm", "QNLI", "RTE")
_STAND_INS = "for GLUE"
"""The group of tasks that stand in for GLUE, whose mean is claimed."""
_A3 = tuple(
    f"elsa_tableA3_{name}{kind}-{size}"
    for name in ("", "mt-")
    for kind in ("bert", "roberta")
    for size in ("base", "large")
)
_B = tuple(f"elsa_table{table}_xlm-r-{size}" for table in ("B1", "B2") for size in ("base", "large"))
_NER = ("elsa_table04", "elsa_table05")

Pairs = list[tuple[Place, str]]


def _is_glue(numbers: Numbers, task: str) -> bool:
    """Return True if a task is GLUE or stands in for it: users' tasks may, tasks that tag tokens may not."""
    return task in ("GLUE", _STAND_INS, *_GLUE) or (numbers.stand_in and kind_of(task) in ("texts", None))


def _is_model(numbers: Numbers, model: str, name: str) -> bool:
    """Return True if a model is the one that a claim names, or none of the paper's, which may stand in for it."""
    return model.startswith(name) or not (numbers.exact or model.startswith(_MODELS))


def _tasks(pairs: Pairs) -> int:
    """Count the tasks of a mean; a task in several languages is one in each."""
    return len({(place.task, on) for place, on in pairs})


def _groups(numbers: Numbers) -> dict[tuple[str, str], Pairs]:
    """Group the scores whose ratios are averaged: of one model, on GLUE or its stand-ins, or in a task's languages."""
    groups: dict[tuple[str, str], Pairs] = {}
    for place in numbers.places(BASELINE):
        name = "GLUE" if place.task in _GLUE else _STAND_INS if _is_glue(numbers, place.task) else place.task
        groups.setdefault((place.model, name), []).extend((place, on) for on in numbers.languages(place, BASELINE))
    return {name: pairs for name, pairs in groups.items() if pairs}


def _labels(numbers: Numbers, place: Place) -> dict[float, str]:
    """Return the label of each share of frozen layers that was measured here."""
    shares = ((frozen_share(name), name) for name in numbers.methods(place))
    return dict(sorted((share, name) for share, name in shares if share is not None))


def _at(numbers: Numbers, pairs: Pairs, *wanted: float) -> str | None:
    """Return the label nearest to the first of these shares, less than one layer of 12 away."""
    labels = _labels(numbers, pairs[0][0])
    for share in wanted:
        near = [(abs(share - there), name) for there, name in labels.items() if abs(share - there) < 1 / 12 - 1e-9]
        if near:
            return min(near)[1]
    return None


def _quality(numbers: Numbers, pairs: Pairs, method: str) -> Quantity:
    """Return the relative quality as the paper prints it, if it does, as its scores are rounded."""
    place = pairs[0][0]
    if QUALITY in numbers.on(place, method):
        return lambda score: score(place, method, QUALITY)
    return quality(pairs, method, BASELINE)


def measured_quality(numbers: Numbers, model: str, method: str) -> float | None:
    """Return the relative quality of a method, the mean over seeds, as the claims compare it; None if undefined."""
    places = numbers.places(BASELINE, method, models=[model])
    pairs = [(place, on) for place in places for on in numbers.languages(place, BASELINE, method)]
    try:
        by_seed = numbers.by_seed(quality(pairs, method, BASELINE)) if pairs else {}
    except (UnknownError, ZeroDivisionError):
        return None
    return fmean(by_seed.values()) if by_seed else None


def _said(model: str, task: str, what: str, pairs: Pairs) -> str:
    tasks = " and ".join(dict.fromkeys(place.task for place, _ in pairs)) if task == _STAND_INS else task
    return f"{tasks}, {model}: {what}"


def _mean_quality(numbers: Numbers, points: Sequence[tuple[Pairs, str]]) -> Quantity:
    qualities = [_quality(numbers, pairs, method) for pairs, method in points]

    def mean(score: Lookup) -> float:
        return sum(quality(score) for quality in qualities) / len(qualities)

    return mean


def _e1(numbers: Numbers) -> ClaimOutcome:
    points = [(pairs, name) for pairs in _groups(numbers).values() if (name := _at(numbers, pairs, 0.75))]
    if not points:
        return all_of([], f"needs {BASELINE} and 9 of 12 or 18 of 24 frozen layers")
    what = f"mean relative quality of {len(points)} group{'s' * (len(points) > 1)} at three quarters frozen"
    finding = above(numbers, what, _mean_quality(numbers, points), ENOUGH, or_equal=True)
    return all_of([over_tasks(numbers, finding, _tasks([pair for pairs, _ in points for pair in pairs]))])


def _e2(numbers: Numbers) -> ClaimOutcome:
    glue, entities = [], []
    for (model, task), pairs in _groups(numbers).items():
        head = _labels(numbers, pairs[0][0]).get(1.0)
        if head and kind_of(task) == "NER":
            entities += [_f1_of_head(numbers, place, on, head) for place, on in pairs]
        elif head and _is_glue(numbers, task) and _is_model(numbers, model, MULTITASK):
            what = _said(model, task, f"relative quality of {head}", pairs)
            finding = below(numbers, what, _quality(numbers, pairs, head), 0.7)
            glue.append(of_model(numbers, over_tasks(numbers, finding, _tasks(pairs)), model, MULTITASK))
    halves = {"GLUE": glue, "named entities": entities}
    return all_parts(numbers, halves, f"needs {BASELINE} and all layers frozen, on GLUE or NER")


def _f1_of_head(numbers: Numbers, place: Place, on: str, head: str) -> ClaimCheck:
    finding = below(numbers, f"{place}, {on}: F1 of {head}", _score(place, head, on), 10.0)
    return of_model(numbers, finding, place.model, CROSS_LINGUAL)


def _score(place: Place, method: str, on: str) -> Quantity:
    return lambda score: score(place, method, on)


def _e3(numbers: Numbers) -> ClaimOutcome:
    glue: list[ClaimCheck] = []
    entities: list[ClaimCheck] = []
    for (model, task), pairs in _groups(numbers).items():
        if kind_of(task) == "NER":
            wanted, named, half = _wanted_of_entities(numbers, model, pairs), CROSS_LINGUAL, entities
        elif _is_glue(numbers, task) and _is_model(numbers, model, MULTITASK):
            wanted, named, half = (9 / 12, 17 / 24) if "base" in model else (17 / 24, 9 / 12), MULTITASK, glue
        else:
            continue
        if name := _at(numbers, pairs, *wanted):
            finding = _keeps(numbers, model, task, pairs, name, ENOUGH)
            half.append(of_model(numbers, finding, model, named))
    lacking = "needs 9 of 12 or 17 of 24 layers frozen on GLUE, or 8 of 12 or 19 of 24 on NER"
    return all_parts(numbers, {"GLUE": glue, "named entities": entities}, lacking)


def _wanted_of_entities(numbers: Numbers, model: str, pairs: Pairs) -> tuple[float, ...]:
    """Return the shares that the claim has on entities; a model with the paper's number of layers has only its own."""
    base, large = 8 / 12, 19 / 24
    layers = {frozen.layers for name in numbers.methods(pairs[0][0]) if (frozen := read_frozen(name))}
    if layers in ({12}, {24}):
        return (base,) if layers == {12} else (large,)
    return (large, base) if "large" in model else (base, large)


def _e4(numbers: Numbers) -> ClaimOutcome:
    half, shrinking = [], []
    for (model, task), pairs in _groups(numbers).items():
        if name := _at(numbers, pairs, 0.5):
            half.append(_keeps(numbers, model, task, pairs, name, 0.975))
        if names := _evenly(numbers, pairs):
            first, second, last = (_quality(numbers, pairs, name) for name in names)
            gained = f"quality gained from {names[2]} to {names[1]}, minus from there to {names[0]}"
            what = _said(model, task, gained, pairs)
            shrinking.append(over_tasks(numbers, above(numbers, what, _bend(first, second, last)), _tasks(pairs)))
    return both(
        all_of(half, f"needs {BASELINE} and half of the layers frozen"),
        all_of(shrinking, f"needs {BASELINE} and three numbers of frozen layers that are evenly apart"),
    )


def _keeps(numbers: Numbers, model: str, task: str, pairs: Pairs, name: str, share: float) -> ClaimCheck:
    finding = above(
        numbers,
        _said(model, task, f"relative quality of {name}", pairs),
        _quality(numbers, pairs, name),
        share,
        or_equal=True,
    )
    return over_tasks(numbers, finding, _tasks(pairs))


def _evenly(numbers: Numbers, pairs: Pairs) -> tuple[str, ...]:
    """Return three evenly spaced labels: half, three quarters and all layers frozen, else the last three; or none."""
    labels = _labels(numbers, pairs[0][0])
    shares = {name: share for share, name in labels.items()}
    wanted = [name for share in (0.5, 0.75, 1.0) if (name := _at(numbers, pairs, share))]
    for names in (tuple(dict.fromkeys(wanted)), tuple(labels.values())[-3:]):
        if len(names) == 3 and isclose(shares[names[1]] - shares[names[0]], shares[names[2]] - shares[names[1]]):
            return names
    return ()


def _bend(first: Quantity, second: Quantity, last: Quantity) -> Quantity:
    return lambda score: second(score) - last(score) - (first(score) - second(score))


def _e5(numbers: Numbers) -> ClaimOutcome:
    findings = []
    for place in numbers.places(BASELINE, tasks=["SST-2"]):
        for on in numbers.languages(place, BASELINE):
            name = _at(numbers, [(place, on)], 17 / 24)
            if name and _is_model(numbers, place.model, _MULTITASK_LARGE):
                finding = above(numbers, f"{place}: {name} - {BASELINE}", minus(place, name, BASELINE, on))
                findings.append(of_model(numbers, finding, place.model, _MULTITASK_LARGE))
    return all_of(findings, "needs MT-RoBERTa-large on SST-2 with 0 and 17 of 24 layers frozen")


def _e6(numbers: Numbers) -> ClaimOutcome:
    """Check whether some frozen layers help; that none helps anywhere takes as many tasks as any statement on all."""
    every = [pair for pairs in _groups(numbers).values() for pair in pairs]
    tests = [(pair, name) for pair in every for name in _labels(numbers, pair[0]).values()]
    findings = [_helps(numbers, *pair, name) for pair, name in tests]
    outcome = any_of(findings, f"needs {BASELINE} and frozen layers")
    tasks = _tasks([pair for pair, _ in tests])
    if outcome.state == FAILS and not numbers.exact and tasks < FEWEST_TASKS:
        limit = f"{counted_tasks(tasks)} of the {FEWEST_TASKS} needed to say that none helps"
        return replace(outcome, state=UNKNOWN, rule="; ".join(filter(None, (outcome.rule, limit))))
    held = tuple(finding for finding in outcome.findings if finding.state == HOLDS)
    return replace(outcome, findings=held or outcome.findings)


def _helps(numbers: Numbers, place: Place, on: str, name: str) -> ClaimCheck:
    what = f"{place}{'' if on == 'en' else f' {on}'}: {name} - {BASELINE}"
    return above(numbers, what, minus(place, name, BASELINE, on))


def _e7(numbers: Numbers) -> ClaimOutcome:
    """Compare the printed savings with those that follow from the printed model sizes (Sec. 3, Table 1)."""
    if not numbers.exact:
        return all_of([], "follows from the sizes of models, not from scores; see the saved parameters of the tables")
    findings = []
    for key, by_seed in numbers.scores.items():
        frozen, tasks = read_frozen(key.method), SHARED_BY.get(key.place.model)
        if key.on == SAVED and frozen is not None and tasks is not None:
            findings.append(_saving(frozen, tasks, by_seed[PRINTED_SEED]))
    return all_of(findings, "needs printed shares of saved parameters")


def _saving(frozen: FrozenLayers, tasks: int, claimed: float) -> ClaimCheck:
    groups = dict.fromkeys(["embeddings", *(f"layers.{index}" for index in range(frozen.layers)), "head"], 0)
    saved = saved_share(model_sizes(groups, "paper"), frozen.closed, tasks)
    found = f"{frozen.closed} of {frozen.layers} layers shared by {tasks} tasks save {saved:.4f}"
    return ClaimCheck(HOLDS if round(saved, 2) == claimed else FAILS, found, f"{claimed:.2f}", compared=True)


def _e8(numbers: Numbers) -> ClaimOutcome:
    findings = [
        below(
            numbers,
            f"{place}: seconds a step, {name} / {BASELINE}",
            ratio(place, name, BASELINE, SECONDS),
            1.0,
        )
        for place in numbers.places(BASELINE)
        for share, name in _labels(numbers, place).items()
        if SECONDS in numbers.on(place, name, BASELINE)
    ]
    return all_of(findings, "needs times, which the paper does not print")


CLAIMS = (
    Claim(
        "E1",
        "elsa",
        "With three quarters of the layers frozen 0.95 of the quality is kept on average.",
        ((*_A3, *_B),),
        _e1,
    ),
    Claim(
        "E2",
        "elsa",
        "The head alone keeps less than 0.7 of MT-RoBERTa's quality on GLUE; with XLM-R its F1 on NER is below 0.1.",
        (("elsa_table02", "elsa_table03"), _NER),
        _e2,
        about=("GLUE", "NER"),
    ),
    Claim(
        "E3",
        "elsa",
        "Tuning 3 of 12 or 7 of 24 layers keeps 0.95 of MT-RoBERTa's quality on GLUE; XLM-R on NER takes 4 or 5.",
        (("elsa_tableA3_mt-roberta-base", "elsa_tableA3_mt-roberta-large"), _B[:2]),
        _e3,
        about=("GLUE", "NER"),
    ),
    Claim(
        "E4",
        "elsa",
        "Returns diminish, and tuning half of the layers keeps at least 0.975 of the quality.",
        ((*_A3, *_B),),
        _e4,
    ),
    Claim(
        "E5",
        "elsa",
        "MT-RoBERTa-large gets better on SST-2 with 17 frozen layers.",
        (("elsa_table03",), ("elsa_tableA3_mt-roberta-large",)),
        _e5,
        about=("SST-2",),
    ),
    Claim("E6", "elsa", "Tuning everything is not always best: some frozen layers help somewhere.", (_A3,), _e6),
    Claim(
        "E7",
        "elsa",
        "Sharing the frozen layers saves 0.72 of the parameters of 8 base models, about 0.60 of 5 large ones.",
        (("elsa_table02", "elsa_table03", *_NER),),
        _e7,
    ),
    Claim(
        "E8", "elsa", "Frozen layers make a step faster, as the backward pass stops at the lowest tuned one.", (), _e8
    ),
)
