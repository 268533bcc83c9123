"""Define the claims of the AdapterEff paper (He et al. 2021): adapters against fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable

from gradgate.papers.claims.base import Claim, ClaimCheck, ClaimOutcome
from gradgate.papers.claims.numbers import (
    DEV_BEST,
    DEV_MEAN,
    FLATNESS,
    LOSS_RISE,
    RSA,
    RSA_DEPTH,
    SEED_SPREAD,
    Numbers,
    Place,
)
from gradgate.papers.claims.quantities import Quantity, mean_minus, minus, value
from gradgate.papers.claims.rules import all_of, all_parts, both, most_of
from gradgate.papers.claims.spreads import varies_more
from gradgate.papers.claims.thresholds import above, below, count_tasks, counted_tasks, level, over_tasks, tasks_in

TUNED, TAPT, MIXED = "Fine-tune", "Fine-tune+TAPT", "Fine-tune+mixout"
WIDE, WIDE_TAPT = "Adapter-256", "Adapter-256+TAPT"
NARROW, NARROW_MIXED, BEST_SIZE = "Adapter-64", "Adapter-64+mixout", "Adapter-64-256"
EN = "en"
LEVEL = 0.5
"""The points within which two methods count as level."""
_GLUE = ("cola", "mrpc", "qnli", "sst-2", "rte", "qqp", "mnli_m", "mnli_mm", "sts-b")
_LOW = ("chemprot", "acl_arc", "scierc", "hyperpartisan")
_STABLE = ("cola", "mrpc", "qnli", "sst-2")
"""Tasks on which the paper compares evaluations and losses while models are trained (Sec. 5)."""
_TRANSFER = ("POS", "NER", "XNLI")
"""Tasks on which adapters transfer better (Tables 3 and 4)."""
_HIGH = ("rct", "agnews", "helpful", "imdb")


def _minus(numbers: Numbers, place: Place, one: str, other: str, on: str = EN) -> ClaimCheck:
    return above(numbers, f"{place}{'' if on == EN else f', {on}'}: {one} - {other}", minus(place, one, other, on))


def _mean(numbers: Numbers, places: list[Place], one: str, other: str) -> ClaimCheck:
    what = f"{_where(places)}: {one} - {other}"
    return over_tasks(numbers, above(numbers, what, mean_minus(places, one, other, EN)), count_tasks(places))


def _where(places: list[Place]) -> str:
    size = "" if places[0].size == "full" else f", {places[0].size} examples"
    return f"{places[0].model}{size}, mean over {tasks_in(places)}"


def _a1(numbers: Numbers) -> ClaimOutcome:
    closer, deeper = [], []
    for adapter in (WIDE, NARROW):
        for place in numbers.places(TUNED, adapter):
            on = numbers.on(place, TUNED, adapter)
            for layer in sorted(int(name.removeprefix(RSA)) for name in on if name.removeprefix(RSA).isdecimal()):
                what = f"{place}: RSA with the pretrained model at layer {layer}, {adapter} - {TUNED}"
                closer.append(above(numbers, what, minus(place, adapter, TUNED, f"{RSA}{layer}")))
            if RSA_DEPTH in on:
                for name in (TUNED, adapter):
                    what = f"{place}: rank correlation of depth with RSA, {name}"
                    deeper.append(below(numbers, what, value(place, name, RSA_DEPTH), certain=True))
    lacking = f"needs the representations of {TUNED} and {WIDE} or {NARROW} (gradgate analyze representations STUDY)"
    return all_parts(numbers, {"each layer": closer, "depth": [*dict.fromkeys(deeper)]}, lacking)


def _a2(numbers: Numbers) -> ClaimOutcome:
    parts: dict[str, list[ClaimCheck]] = {}
    for other in (TUNED, TAPT):
        small = [place for place in numbers.places(WIDE, other, tasks=_LOW) if not _many(place)]
        parts[f"{other} on small tasks"] = [_mean(numbers, places, WIDE, other) for places in _alike(small)]
    large = (place for place in numbers.places(WIDE, TUNED, tasks=_HIGH) if place.size == "full" or _many(place))
    places = [] if numbers.stand_in else list(large)
    parts["large tasks"] = []
    if places:
        what = f"mean over {tasks_in(places)} of many examples: {WIDE} - {TUNED}"
        quantity = mean_minus(places, WIDE, TUNED, EN)
        finding = over_tasks(numbers, level(numbers, what, quantity, LEVEL), count_tasks(places))
        parts["large tasks"].append(finding)
    return all_parts(numbers, parts, f"needs {WIDE} and {TUNED}")


def _alike(places: Iterable[Place]) -> list[list[Place]]:
    """Group places by model and size, for means over their tasks."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        groups.setdefault((place.model, place.size), []).append(place)
    return list(groups.values())


def _a3(numbers: Numbers) -> ClaimOutcome:
    places = numbers.places(WIDE_TAPT, WIDE, tasks=_LOW)
    findings = [over_tasks(numbers, _minus(numbers, place, WIDE_TAPT, WIDE), count_tasks(places)) for place in places]
    return most_of(findings, f"needs {WIDE_TAPT} and {WIDE}")


def _a4(numbers: Numbers) -> ClaimOutcome:
    parts: dict[str, list[ClaimCheck]] = {"1000": [], "5000": []}
    for name in (BEST_SIZE, NARROW):
        for places in _alike(p for p in numbers.places(name, TUNED, tasks=_GLUE) if p.size in parts):
            parts[places[0].size].append(_mean(numbers, places, name, TUNED))
    named = {f"{size} examples": findings for size, findings in parts.items()}
    return all_parts(numbers, named, f"needs {NARROW} and {TUNED} with 1k and 5k examples")


def _a5(numbers: Numbers) -> ClaimOutcome:
    findings = []
    for model in dict.fromkeys(place.model for place in numbers.places(TUNED)):
        for name in (BEST_SIZE, NARROW, WIDE):
            there = numbers.places(name, TUNED, models=[model])
            sizes = sorted({place.size for place in there}, key=_examples)
            tasks = [{place.task for place in there if place.size == size} for size in (sizes[:1] + sizes[-1:])]
            common = sorted(set.intersection(*tasks)) if len(sizes) > 1 else []
            if common:
                small, large = ([Place(model, task, size) for task in common] for size in (sizes[0], sizes[-1]))
                where = f"{model}, mean over {counted_tasks(len(common))}"
                what = f"{where}: {name} - {TUNED} at {sizes[0]}, minus at {sizes[-1]}"
                finding = above(numbers, what, _shrinks(small, large, name))
                findings.append(over_tasks(numbers, finding, len(common)))
    return all_of(findings, f"needs {TUNED} and {NARROW} or {WIDE} with training sets of two sizes")


def _examples(size: str) -> tuple[int, float]:
    """Return a key that sorts sizes of training sets: numbers of examples, then shares, then all of them."""
    if size.isdigit():
        return 0, int(size)
    return (1, float(size.removesuffix("%"))) if size.endswith("%") else (2, 0)


def _many(place: Place) -> bool:
    """Return True for a number of training examples that makes no task of few: the paper's small ones have less."""
    kind, amount = _examples(place.size)
    return kind == 0 and amount >= 5000


def _few(place: Place) -> bool:
    """Return True for little data: 5 % of a task, or at most as many examples as 5 % of XNLI; of GLUE, 5,000."""
    kind, amount = _examples(place.size)
    return amount <= 5 if kind == 1 else kind == 0 and amount <= (5000 if place.task in _GLUE else 20_000)


def _shrinks(small: list[Place], large: list[Place], name: str) -> Quantity:
    first, second = mean_minus(small, name, TUNED, EN), mean_minus(large, name, TUNED, EN)
    return lambda score: first(score) - second(score)


def _a6(numbers: Numbers) -> ClaimOutcome:
    """Check each average over languages; a study may have no distant language, but none lacks the average over all."""
    tested = [
        (place, name)
        for name in (WIDE, NARROW)
        for place in numbers.places(name, TUNED, tasks=_TRANSFER)
        if numbers.exact or numbers.languages(place, name, TUNED) != [EN]
    ]
    tasks = count_tasks(place for place, _ in tested)
    findings = [
        over_tasks(numbers, _minus(numbers, place, name, TUNED, on), tasks)
        for place, name in tested
        for on in ("all", "target", "distant")
        if on in numbers.on(place, name, TUNED) or (on == "all" and not numbers.exact)
    ]
    return all_of(findings, f"needs an adapter and {TUNED} with test languages besides English")


def _a7(numbers: Numbers) -> ClaimOutcome:
    """Check the means over tasks, which Table 5 prints as one task each, and all or a part of XNLI."""
    parts: dict[str, list[ClaimCheck]] = {"special domains": [], "all of XNLI": [], "little data": []}
    for place in numbers.places(WIDE, NARROW, tasks=("TAE-low", "XNLI", "GLUE")):
        on = next((on for on in ("target", EN) if on in numbers.on(place, WIDE, NARROW)), None)
        if on is None:
            continue
        what, quantity = f"{place}: {WIDE} - {NARROW}", minus(place, WIDE, NARROW, on)
        if place.size == "full":
            part = "all of XNLI" if place.task == "XNLI" else "special domains"
            parts[part].append(above(numbers, what, quantity))
        elif _few(place) or numbers.exact:
            parts["little data"].append(level(numbers, what, quantity, LEVEL))
    if not numbers.stand_in:
        for places in _alike(numbers.places(WIDE, NARROW, tasks=_LOW)):
            parts["special domains"].append(_mean(numbers, places, WIDE, NARROW))
        for places in _alike(p for p in numbers.places(WIDE, NARROW, tasks=_GLUE) if _few(p)):
            what = f"{_where(places)}: {WIDE} - {NARROW}"
            finding = level(numbers, what, mean_minus(places, WIDE, NARROW, EN), LEVEL)
            parts["little data"].append(over_tasks(numbers, finding, count_tasks(places)))
    return all_parts(numbers, parts, f"needs {WIDE} and {NARROW}")


def _a9(numbers: Numbers) -> ClaimOutcome:
    means, gaps = [], []
    tested = [
        (place, name)
        for place in numbers.places(TUNED, tasks=_STABLE)
        for name in numbers.methods(place)
        if _is_plain(name) and DEV_MEAN in numbers.on(place, name, TUNED)
    ]
    tasks = count_tasks(place for place, _ in tested)
    for place, name in tested:
        means.append(over_tasks(numbers, _minus(numbers, place, name, TUNED, DEV_MEAN), tasks))
        what = f"{place}: best - mean of all evaluations, {TUNED} - {name}"
        gaps.append(over_tasks(numbers, above(numbers, what, _steadier(place, name)), tasks))
    return all_of([*means, *gaps], f"needs an adapter and {TUNED}, with several evaluations on dev")


def _is_plain(name: str) -> bool:
    """Return True for an adapter, of any size, that differs from fine-tuning in nothing else."""
    return name.startswith("Adapter") and "+" not in name and name != BEST_SIZE


def _steadier(place: Place, name: str) -> Quantity:
    best, mean = minus(place, TUNED, name, DEV_BEST), minus(place, TUNED, name, DEV_MEAN)
    return lambda score: best(score) - mean(score)


def _a8(numbers: Numbers) -> ClaimOutcome:
    pairs = [
        (place, TUNED, adapter)
        for adapter in (WIDE, NARROW)
        for place in numbers.places(TUNED, adapter)
        if SEED_SPREAD in numbers.on(place, TUNED, adapter)
    ]
    needs = "needs a search of learning rates with several seeds each (search='lr=...', search_seeds=5)"
    return all_of(varies_more(numbers, pairs), f"{needs} for {TUNED} and {WIDE} or {NARROW}")


def _a10(numbers: Numbers) -> ClaimOutcome:
    rises, widths = [], []
    for adapter in (WIDE, NARROW):
        for place in numbers.places(TUNED, adapter, tasks=(*_STABLE, "XNLI")):
            on = numbers.on(place, TUNED, adapter)
            if LOSS_RISE in on:
                rises.append(_minus(numbers, place, TUNED, adapter, LOSS_RISE))
            if FLATNESS in on:
                widths.append(_minus(numbers, place, adapter, TUNED, FLATNESS))
    names = f"{TUNED} and {WIDE} or {NARROW}"
    return both(
        all_of(rises, f"needs dev losses of {names}"),
        all_of(
            widths,
            f"needs loss landscapes of {names} on which each minimum ends (gradgate analyze landscape STUDY)",
        ),
    )


def _a11(numbers: Numbers) -> ClaimOutcome:
    places = numbers.places(MIXED, TUNED, tasks=_GLUE)
    tuned: dict[str, list[ClaimCheck]] = {"cola": [], "mrpc": [], "other tasks": []}
    for place in places:
        if place.task in tuned:
            tuned[place.task].append(_minus(numbers, place, MIXED, TUNED))
        else:
            what = f"{place}: {MIXED} - {TUNED}"
            tuned["other tasks"].append(below(numbers, what, minus(place, MIXED, TUNED, EN)))
    adapters = [
        below(numbers, f"{place}: {NARROW_MIXED} - {NARROW}", minus(place, NARROW_MIXED, NARROW, EN))
        for place in numbers.places(NARROW_MIXED, NARROW, tasks=_GLUE)
    ]
    alone = all_parts(numbers, tuned, f"needs {MIXED} and {TUNED}")
    return both(alone, most_of(adapters, f"needs {NARROW_MIXED} and {NARROW}"))


CLAIMS = (
    Claim(
        "A1",
        "adaptereff",
        "Adapters change representations less than fine-tuning at each layer, and upper layers change most.",
        (),
        _a1,
    ),
    Claim(
        "A2",
        "adaptereff",
        "Adapters are above fine-tuning on small tasks, even after pretraining on their texts; level on large ones.",
        (("adaptereff_table01",),),
        _a2,
        about=("special domains",),
    ),
    Claim(
        "A3",
        "adaptereff",
        "Pretraining on the task's texts helps adapters on most small tasks.",
        (("adaptereff_table01",),),
        _a3,
        about=("special domains",),
    ),
    Claim(
        "A4",
        "adaptereff",
        "Adapters are above fine-tuning on GLUE with 1k and 5k examples, on average.",
        (("adaptereff_table02",),),
        _a4,
        about=("GLUE",),
    ),
    Claim(
        "A5",
        "adaptereff",
        "What adapters gain shrinks as the training set grows.",
        (("adaptereff_table02",),),
        _a5,
    ),
    Claim(
        "A6",
        "adaptereff",
        "Adapters transfer better than fine-tuning to all, target and distant languages, on each task.",
        (("adaptereff_table03",), ("adaptereff_table04",)),
        _a6,
    ),
    Claim(
        "A7",
        "adaptereff",
        "Wider adapters help on the special domains and all of XNLI; with little data they make no difference.",
        (("adaptereff_table05",),),
        _a7,
        about=("special domains", "XNLI", "GLUE"),
    ),
    Claim(
        "A8",
        "adaptereff",
        "At each learning rate, fine-tuning varies more over seeds than adapters do.",
        (),
        _a8,
    ),
    Claim(
        "A9",
        "adaptereff",
        "Over all evaluations on dev, adapters have the higher mean and are nearer to their best, on each task.",
        (("adaptereff_table06",),),
        _a9,
    ),
    Claim(
        "A10",
        "adaptereff",
        "Late in training the dev loss of fine-tuning rises more, and its minima are sharper.",
        (),
        _a10,
    ),
    Claim(
        "A11",
        "adaptereff",
        "Mixout helps fine-tuning on CoLA and MRPC alone, and lowers adapters on most tasks.",
        (("adaptereff_table07",),),
        _a11,
        about=("GLUE",),
    ),
)
