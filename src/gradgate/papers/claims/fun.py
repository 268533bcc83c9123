"""Define the claims of the FUN paper (Liu et al. 2023): adapters (Ada) with scheduled unfreezing, zero-shot."""

from __future__ import annotations

from gradgate.errors import listed
from gradgate.papers.claims.base import UNKNOWN, Claim, ClaimCheck, ClaimOutcome
from gradgate.papers.claims.numbers import (
    SCHEDULES,
    TOP_DOWN,
    TRACE_AREA,
    TRACE_EARLY,
    TRACE_HILL,
    TRACE_PEAK,
    Numbers,
    Place,
)
from gradgate.papers.claims.quantities import gap_difference, mean_minus, minus, place_minus, ratio, value
from gradgate.papers.claims.rules import all_of, all_parts, any_of, both, decided_by_none, most_of
from gradgate.papers.claims.thresholds import above, at_least_about, below, count_tasks, over_tasks, tasks_in
from gradgate.papers.published import read_table

ADA, RAND, GU, LPFT, FUN, REV = "Ada", "Ada+Rand", "Ada+GU", "Ada+LPFT", "Ada+FUN", "Ada+GU-rev"
FULL = "Full-FT"
_MBERT = "mBERT"
AVG, SOURCE = "avg", "en"
QA = ("MLQA", "XQuAD")
_SMALL = ("1000", "5000", "10000")
_MAIN = (("fun_table02",),)


def _minus(
    numbers: Numbers, place: Place, one: str, other: str, on: str = AVG, *, or_equal: bool = False
) -> ClaimCheck:
    what = f"{place}{', English' if on == SOURCE else ''}: {one} - {other}"
    return above(numbers, what, minus(place, one, other, on), or_equal=or_equal)


def _f1(numbers: Numbers) -> ClaimOutcome:
    """Check that the gap closes; LPFT, which has no printed numbers, must close it too if it was measured."""
    parts = [
        most_of([_minus(numbers, place, name, FULL, or_equal=True) for place in numbers.places(name, FULL)])
        for name in (GU, LPFT)
        if numbers.places(name, FULL)
    ]
    needs = f"needs {GU} and {FULL}, of one study or of several that are checked together"
    if parts and not numbers.places(GU, FULL):
        parts.append(all_of([ClaimCheck(UNKNOWN, f"{GU}: not compared")]))
    return both(*parts) if parts else all_of([], needs)


def _f2(numbers: Numbers) -> ClaimOutcome:
    parts: dict[str, list[ClaimCheck]] = {_MBERT: []}
    for model in dict.fromkeys(place.model for place in numbers.places(FUN, ADA)):
        places = numbers.places(FUN, ADA, models=[model])
        what = f"{model}, mean over {tasks_in(places)}: {FUN} - {ADA}"
        quantity = mean_minus(places, FUN, ADA, AVG)
        if model == _MBERT:
            finding = at_least_about(numbers, what, quantity, 2, digits=0)
        else:
            finding = above(numbers, what, quantity)
        part = parts.setdefault(_MBERT if model == _MBERT else "other models", [])
        part.append(over_tasks(numbers, finding, count_tasks(places)))
    return all_parts(numbers, parts, f"needs {FUN} and {ADA}")


def _f3(numbers: Numbers) -> ClaimOutcome:
    gradual, random = numbers.places(GU, FUN), numbers.places(FUN, RAND)
    near = [below(numbers, f"{p}: {GU} - {FUN}", minus(p, GU, FUN, AVG), 0.7, or_equal=True) for p in gradual]
    near = [over_tasks(numbers, finding, count_tasks(gradual)) for finding in near]
    better = [over_tasks(numbers, _minus(numbers, place, FUN, RAND), count_tasks(random)) for place in random]
    return both(all_of(near, f"needs {GU} and {FUN}"), all_of(better, f"needs {FUN} and {RAND}"))


def _f4(numbers: Numbers) -> ClaimOutcome:
    """Check the order of opening; Figure 5 gives no number: above 0.5 is nearer to top-down than to random."""
    places = [place for place in numbers.places(FUN) if TOP_DOWN in numbers.on(place, FUN)]
    close = [
        above(numbers, f"{place}: order of {FUN} with top-down", value(place, FUN, TOP_DOWN), 0.5, certain=True)
        for place in places
    ]
    closer = [
        above(
            numbers,
            f"{place.task}: the same of mBERT - that of XLM-R",
            place_minus(place, place._replace(model="XLM-R"), FUN, TOP_DOWN),
            certain=True,
        )
        for place in places
        if place.model == _MBERT and place._replace(model="XLM-R") in places
    ]
    parts = {"the order": close, "mBERT against XLM-R": closer}
    return all_parts(numbers, parts, f"needs plans of {FUN}, of a model with three layers or more below the top one")


def _f5(numbers: Numbers) -> ClaimOutcome:
    return most_of([_minus(numbers, place, FUN, GU, SOURCE) for place in numbers.places(FUN, GU)], "needs FUN and GU")


def _f6(numbers: Numbers) -> ClaimOutcome:
    findings = []
    for place in numbers.places(FUN, ADA):
        # For other tasks and models, the test scores that are compared would choose the lowest language.
        lowest = {
            row.language for row in read_table("fun_table02") if (row.model, row.task) == (place.model, place.task)
        }
        findings += [
            above(numbers, f"{place}, {language}: {FUN} - {ADA}", minus(place, FUN, ADA, language))
            for language in numbers.languages(place, FUN, ADA)
            if language != SOURCE and language in lowest
        ]
    return most_of(findings, f"needs {FUN} and {ADA} in the language that Table 2 shows as the lowest")


def _f7(numbers: Numbers) -> ClaimOutcome:
    """Check small training sets; the claim is about most cells of three sizes, so all of these decide it."""
    sizes = [place for place in numbers.places(GU, ADA) if place.size != "full"]
    small = [p for p in sizes if numbers.exact or (p.size.isdecimal() and int(p.size) <= int(_SMALL[-1]))]
    cells = [_minus(numbers, place, GU, ADA) for place in small]
    most = most_of(cells, f"needs {GU} and {ADA} on small training sets")
    absent = [size for size in _SMALL if size not in {place.size for place in small}]
    if numbers.exact or not small or not absent:
        return most
    return decided_by_none(most, f"{listed(absent)} examples: not compared")


def _f8(numbers: Numbers) -> ClaimOutcome:
    places = numbers.places(GU, REV)
    lower = [_minus(numbers, place, GU, REV) for place in places]
    more = [
        above(
            numbers,
            f"{place}: {GU} - {REV} in transfer, minus the same in English",
            gap_difference(place, GU, REV, AVG, SOURCE),
        )
        for place in places
    ]
    return all_of([*lower, *more], f"needs {GU} and {REV}")


def _f11(numbers: Numbers) -> ClaimOutcome:
    places = numbers.places(GU, ADA, models=["mDeBERTa"])
    parts = {
        "question answering": [_minus(numbers, place, GU, ADA) for place in places if place.task in QA],
        "XCOPA": [_minus(numbers, place, GU, ADA) for place in places if place.task == "XCOPA"],
        "XNLI": [
            below(numbers, f"{place}: {GU} - {ADA}", minus(place, GU, ADA, AVG), or_equal=True)
            for place in places
            if place.task == "XNLI"
        ],
    }
    return all_parts(numbers, parts, f"needs {GU} and {ADA} with mDeBERTa")


def _f9(numbers: Numbers) -> ClaimOutcome:
    """Check for a hill; Figure 3 gives no number: the peak must be a tenth of itself above both ends of the curve."""
    places = numbers.places(GU, ADA)
    higher = [
        above(numbers, f"{place}: early trace of {GU} / that of {ADA}", ratio(place, GU, ADA, TRACE_EARLY), 1.0)
        for place in places
        if TRACE_EARLY in numbers.on(place, GU, ADA)
    ]
    hills = [
        above(numbers, f"{place}: hill of {GU}", value(place, GU, TRACE_HILL), 0.1, or_equal=True)
        for place in places
        if TRACE_HILL in numbers.on(place, GU)
    ]
    return all_parts(numbers, {"early trace": higher, "hill": hills}, f"needs {GU} and {ADA}, both {_TRACKED}")


def _f10(numbers: Numbers) -> ClaimOutcome:
    """Check whether peak or area ranks with transfer, everywhere."""
    parts = [
        any_of(
            [
                above(numbers, f"{place}: {what} of the trace with the score", value(place, SCHEDULES, on))
                for what, on in (("peak", TRACE_PEAK), ("area", TRACE_AREA))
                if on in numbers.on(place, SCHEDULES)
            ]
        )
        for place in numbers.places(SCHEDULES)
    ]
    needs = f"needs at least four schedules that open layers on the way, all {_TRACKED}"
    return both(*parts) if parts else all_of([], needs)


_TRACKED = "trained with track='fisher:every=50,batches=8'"
CLAIMS = (
    Claim(
        "F1",
        "fun",
        "Gradual unfreezing brings adapters up to full fine-tuning in most pairs of model and task.",
        (("fun_table02", "fun_table07"),),
        _f1,
    ),
    Claim("F2", "fun", "FUN is above standard adapters on average, with mBERT by about 2 points or more.", _MAIN, _f2),
    Claim("F3", "fun", "FUN is at most 0.7 below gradual unfreezing and above a random order, everywhere.", _MAIN, _f3),
    Claim(
        "F4",
        "fun",
        "FUN's order of layers is close to top-down (Spearman correlation above 0.5), for mBERT closer than for XLM-R.",
        (),
        _f4,
    ),
    Claim("F5", "fun", "FUN is above gradual unfreezing in English in most pairs.", _MAIN, _f5),
    Claim("F6", "fun", "FUN raises the lowest language of the paper over standard adapters in most pairs.", _MAIN, _f6),
    Claim(
        "F7",
        "fun",
        "Gradual unfreezing is above standard adapters with 1k, 5k and 10k examples in most cells.",
        (("fun_table01",),),
        _f7,
    ),
    Claim(
        "F8",
        "fun",
        "Unfreezing from the bottom up transfers worse than from the top down, and the loss is smaller in English.",
        (("fun_table11",),),
        _f8,
    ),
    Claim("F9", "fun", "With gradual unfreezing the Fisher trace is higher early on and hill-shaped.", (), _f9),
    Claim("F10", "fun", "Schedules with a higher or wider peak of the Fisher trace transfer better.", (), _f10),
    Claim(
        "F11",
        "fun",
        "With mDeBERTa gradual unfreezing helps question answering and XCOPA, and not XNLI.",
        (("fun_table13", "fun_table14", "fun_table15"),),
        _f11,
    ),
)
