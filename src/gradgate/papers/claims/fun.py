"""What the FUN paper claims (Liu et al. 2023): adapters (Ada) with and without scheduled unfreezing, zero-shot."""

from __future__ import annotations

from gradgate.papers.claims.base import Claim, Finding, Outcome, above, all_of, below, both, most_of
from gradgate.papers.claims.quantities import gap_difference, lowest_minus, mean_minus, minus, value
from gradgate.papers.numbers import TOP_DOWN, Numbers, Place
from gradgate.report.formats import counted

ADA, RAND, GU, FUN, REV, FULL = "Ada", "Ada+Rand", "Ada+GU", "Ada+FUN", "Ada+GU-rev", "Full-FT"
AVG, SOURCE = "avg", "en"
QA = ("MLQA", "XQuAD")
_MAIN = (("fun_table02",),)


def _minus(numbers: Numbers, place: Place, one: str, other: str, on: str = AVG, *, or_equal: bool = False) -> Finding:
    what = f"{place}{', English' if on == SOURCE else ''}: {one} - {other}"
    return above(numbers, what, minus(place, one, other, on), or_equal=or_equal)


def _f1(numbers: Numbers) -> Outcome:
    findings = [_minus(numbers, place, GU, FULL, or_equal=True) for place in numbers.places(GU, FULL)]
    return most_of(findings, f"needs {GU} and {FULL}")


def _f2(numbers: Numbers) -> Outcome:
    findings = []
    for model in dict.fromkeys(place.model for place in numbers.places(FUN, ADA)):
        places = numbers.places(FUN, ADA, models=[model])
        what = f"{model}, mean over {counted(len(places), 'task')}: {FUN} - {ADA}"
        findings.append(above(numbers, what, mean_minus(places, FUN, ADA, AVG)))
    return all_of(findings, f"needs {FUN} and {ADA}")


def _f3(numbers: Numbers) -> Outcome:
    near = [
        below(numbers, f"{place}: {GU} - {FUN}", minus(place, GU, FUN, AVG), 0.7, or_equal=True)
        for place in numbers.places(GU, FUN)
    ]
    better = [_minus(numbers, place, FUN, RAND) for place in numbers.places(FUN, RAND)]
    return both(all_of(near, f"needs {GU} and {FUN}"), all_of(better, f"needs {FUN} and {RAND}"))


def _f4(numbers: Numbers) -> Outcome:
    """Figure 5 gives no number; above 0.5, more pairs of layers are in order by three to one."""
    findings = [
        above(numbers, f"{place}: order of {FUN} with top-down", value(place, FUN, TOP_DOWN), 0.5, certain=True)
        for place in numbers.places(FUN)
        if TOP_DOWN in numbers.on(place, FUN)
    ]
    return all_of(findings, f"needs plans of {FUN}")


def _f5(numbers: Numbers) -> Outcome:
    return most_of([_minus(numbers, place, FUN, GU, SOURCE) for place in numbers.places(FUN, GU)], "needs FUN and GU")


def _f6(numbers: Numbers) -> Outcome:
    findings = []
    for place in numbers.places(FUN, ADA):
        targets = [language for language in numbers.languages(place, FUN, ADA) if language != SOURCE]
        if targets:
            what = f"{place}, lowest language: {FUN} - {ADA}"
            findings.append(above(numbers, what, lowest_minus(place, FUN, ADA, targets)))
    return most_of(findings, f"needs {FUN} and {ADA} with test languages besides English")


def _f7(numbers: Numbers) -> Outcome:
    small = [place for place in numbers.places(GU, ADA) if place.size != "full"]
    return most_of([_minus(numbers, place, GU, ADA) for place in small], f"needs {GU} and {ADA} on small training sets")


def _f8(numbers: Numbers) -> Outcome:
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


def _f11(numbers: Numbers) -> Outcome:
    places = numbers.places(GU, ADA, models=["mDeBERTa"])
    helped = [_minus(numbers, place, GU, ADA) for place in places if place.task in (*QA, "XCOPA")]
    not_helped = [
        below(numbers, f"{place}: {GU} - {ADA}", minus(place, GU, ADA, AVG), or_equal=True)
        for place in places
        if place.task == "XNLI"
    ]
    return all_of([*helped, *not_helped], f"needs {GU} and {ADA} with mDeBERTa")


_ANALYSIS = "traces of the Fisher information through training, which scores do not have"
CLAIMS = (
    Claim(
        "F1",
        "fun",
        "Gradual unfreezing brings adapters up to full fine-tuning in most pairs of model and task.",
        (("fun_table02", "fun_table07"),),
        _f1,
    ),
    Claim("F2", "fun", "FUN is above standard adapters on average (by about 2 points with mBERT).", _MAIN, _f2),
    Claim("F3", "fun", "FUN is at most 0.7 below gradual unfreezing and above a random order, everywhere.", _MAIN, _f3),
    Claim(
        "F4",
        "fun",
        "FUN's order of layers is close to top-down (Kendall's rank correlation above 0.5).",
        (),
        _f4,
    ),
    Claim("F5", "fun", "FUN is above gradual unfreezing in English in most pairs.", _MAIN, _f5),
    Claim("F6", "fun", "FUN raises the lowest language over standard adapters in most pairs.", _MAIN, _f6),
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
        "Unfreezing from the bottom up transfers worse than from the top down, and loses less of it in English.",
        (("fun_table11",),),
        _f8,
    ),
    Claim("F9", "fun", "With gradual unfreezing the Fisher trace is higher early on and hill-shaped.", needs=_ANALYSIS),
    Claim("F10", "fun", "Schedules with a higher and wider peak of the Fisher trace transfer better.", needs=_ANALYSIS),
    Claim(
        "F11",
        "fun",
        "With mDeBERTa gradual unfreezing helps question answering and XCOPA, and not XNLI.",
        (("fun_table13", "fun_table14", "fun_table15"),),
        _f11,
    ),
)
